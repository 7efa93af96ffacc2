// Package config reads the configuration of the service: one YAML file,
// overridden by the environment, into a typed tree with the defaults filled in.
//
// # Layers
//
// [Load] works in three steps:
//
//  1. The YAML nodes are walked along the types of the tree ([Config] and what it
//     contains; the struct tags are the schema). This is where unknown keys,
//     wrong kinds, units, enums and required keys are decided, because only the
//     nodes know lines and the order of a mapping. The environment is read with
//     the same parsers. What comes out is a tree of typed values that holds known
//     keys only.
//  2. koanf lays the layers over each other (defaults, file, environment) and
//     binds them to [Config], strictly. Names that a user chose (columns, fields)
//     are values by then, never keys, and the delimiter is a control character:
//     nothing is split at a dot.
//  3. What several keys have to agree on is checked on the typed tree.
//
// # Problems
//
// A configuration is either right or refused with all its problems at once, in
// the order of the file ([InvalidError]). A key with a problem is left out of the
// later steps, so one mistake gives one problem. Each is written as
//
//	FILE:LINE: path.to.key: what is wrong (what would be right)
//
// with the variable in place of FILE:LINE for what comes from the environment.
// Packages that find problems later (a lookup that no key fits) say the path;
// [Config.Problem] gives it its place.
//
// # Schema tags
//
//   - koanf: the key
//   - default: the value when the key is left out, as text
//   - need: "yes" for a key that must be written
//   - enum: the values, separated by |
//   - check: the name of a rule for the text (rules.go)
//   - min, max: bounds of a number, duration or size; min is 0 when absent
//   - example: a value to show when the key is missing or of the wrong kind
//
// # What is not built
//
// The tree has every key of the product. A key, or a value, that this version
// does not implement is refused by name when it is written; the one list of these
// is in built.go.
//
// # Secrets
//
// A [Secret] prints as stars, and no problem repeats its value.
//
// The package holds no state, starts nothing and writes nothing. It reads the
// configuration file and the files that the configuration names (password, TLS)
// and nothing else. Paths are relative to the working directory.
package config
