package config

import (
	"maps"
	"reflect"
	"slices"
	"strings"
)

// envPrefix begins every variable that is ours.
const envPrefix = "ENRICHER_"

// envVariable is the variable of a key: its path in upper case with two underscores
// between the levels.
func envVariable(path string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(path, ".", "__"))
}

// environment reads the layer of the environment. Names without two underscores
// after the prefix are not ours: a Kubernetes Service named enricher injects
// ENRICHER_PORT and the like.
func (l *loader) environment(environ []string) map[string]any {
	values := map[string]string{}
	for _, entry := range environ {
		name, value, ok := strings.Cut(entry, "=")
		if rest, ours := strings.CutPrefix(name, envPrefix); ok && ours && strings.Contains(rest, "__") {
			values[name] = value
		}
	}
	known := variables(reflect.TypeFor[Config](), spot{})
	out := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		v, ok := known[name]
		if !ok {
			l.unknownVariable(name, known)
			continue
		}
		l.at[v.at.path] = place{env: name}
		// Positions of the elements that the variable replaces.
		maps.DeleteFunc(l.at, func(path string, _ place) bool { return strings.HasPrefix(path, v.at.path+"[") })
		if l.refuseUnbuilt(v.at) {
			continue
		}
		if value, ok := l.variable(v, values[name]); ok && l.refuseUnbuiltValue(v.at, value) {
			put(out, v.at.path, value)
		}
	}
	return out
}

// variable is a key that a variable may set.
type variable struct {
	field
	at spot
}

// variables are the names that are understood: every key outside of lists of
// sections, sections too so that they are refused with a reason.
func variables(t reflect.Type, at spot) map[string]variable {
	out := map[string]variable{}
	for f := range fields(t) {
		here := at.key(f.name)
		out[envVariable(here.path)] = variable{field: f, at: here}
		if f.isSection() {
			maps.Copy(out, variables(f.typ, here))
		}
	}
	return out
}

func (l *loader) variable(v variable, text string) (any, bool) {
	switch {
	case v.isSection():
		names := fieldNames(v.typ)
		l.fail(v.at.path, "is a section, which a variable can't set", envVariable(join(v.at.path, names[0]))+" and so on, one variable for each key")
	case isMapping(v.typ):
		l.fail(v.at.path, "is a mapping, which a variable can't set", "write it into the file")
	case v.typ == reflect.TypeFor[[]string]():
		var items []item
		for part := range strings.SplitSeq(text, ",") {
			items = append(items, item{text: strings.TrimSpace(part)})
		}
		if text == "" {
			items = nil
		}
		return l.items(v.field, items, v.at)
	default:
		return l.scalar(v.field, scalar{text: text}, v.at)
	}
	return nil, false
}

// unknownVariable refuses a name with the one that was probably meant.
func (l *loader) unknownVariable(name string, known map[string]variable) {
	path := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(name, envPrefix), "__", "."))
	first, _, _ := strings.Cut(path, ".")
	if f, ok := findField(reflect.TypeFor[Config](), first); ok && f.isList() {
		l.problems = append(l.problems, Problem{Place: name, Path: path, What: "elements of a list of objects can't be set by a variable", Right: "write " + first + " into the file"})
		return
	}
	names := slices.Sorted(maps.Keys(known))
	right := "a name made of a key's path, such as " + envVariable("kafka.brokers")
	if near := nearestVariable(name, names); near != "" {
		right = "did you mean " + near + "?"
		l.broken[known[near].at.path] = true
	}
	l.problems = append(l.problems, Problem{Place: name, Path: path, What: "unknown key", Right: right})
}

// nearestVariable compares without the prefix, which all of them share.
func nearestVariable(name string, names []string) string {
	var short []string
	for _, n := range names {
		short = append(short, strings.TrimPrefix(n, envPrefix))
	}
	if near := nearest(strings.TrimPrefix(name, envPrefix), short); near != "" {
		return envPrefix + near
	}
	return ""
}

// put sets a value at a path of our own keys, which hold no dots.
func put(tree map[string]any, path string, value any) {
	for {
		section, rest, deeper := strings.Cut(path, ".")
		if !deeper {
			tree[path] = value
			return
		}
		next, ok := tree[section].(map[string]any)
		if !ok {
			next = map[string]any{}
			tree[section] = next
		}
		tree, path = next, rest
	}
}
