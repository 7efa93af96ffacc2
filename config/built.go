package config

import (
	"slices"
	"strings"
)

// unbuiltKey is a key of the specification that this version does not implement,
// or of which it implements only some values.
type unbuiltKey struct {
	// key is a path of the schema; what lies below a section belongs to it.
	key string
	// built are the values that may be written; none: the key may not be written at all.
	built []string
}

// notBuilt is the list of what is refused by name. To build something, take its
// line out (or add the value to it).
func notBuilt() []unbuiltKey {
	json := []string{"json"}
	return []unbuiltKey{
		{key: "kafka.sasl.mechanism", built: []string{"", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"}},
		{key: "kafka.sasl.token_file"},
		{key: "input.format", built: json},
		{key: "dimensions[].format", built: json},
		{key: "dimensions[].auto_increment"},
		{key: "lookups[].async"},
		{key: "lookups[].retry"},
		{key: "lookups[].insert_if_not_exists"},
		{key: "output.format", built: json},
		{key: "dead_letter.max_rate"},
		{key: "processing.ordering", built: []string{"ordered"}},
		{key: "admin.tls"},
	}
}

// refuseUnbuilt refuses a key that is not built at all, whatever its value.
func (l *loader) refuseUnbuilt(at spot) bool {
	for _, u := range l.unbuilt {
		if len(u.built) == 0 && (at.schema == u.key || strings.HasPrefix(at.schema, u.key+".")) {
			l.fail(at.path, "not built yet", "leave it out")
			return true
		}
	}
	return false
}

// refuseUnbuiltValue refuses a value that is not built and tells whether the value
// may stay.
func (l *loader) refuseUnbuiltValue(at spot, value any) bool {
	text, isText := value.(string)
	for _, u := range l.unbuilt {
		if isText && len(u.built) > 0 && at.schema == u.key && !slices.Contains(u.built, text) {
			l.fail(at.path, quote(text)+" is not built yet", choices(strings.Join(u.built, "|")))
			return false
		}
	}
	return true
}
