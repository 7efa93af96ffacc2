package config

import (
	"iter"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// spot is a place in the tree: the path for people, with indexes, and the path
// of the schema, `dimensions[].refresh.mode`.
type spot struct{ path, schema string }

func (s spot) key(name string) spot {
	return spot{path: join(s.path, name), schema: join(s.schema, name)}
}

func (s spot) index(i int) spot {
	return spot{path: indexed(s.path, i), schema: s.schema + "[]"}
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func indexed(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// field is one key of a section.
type field struct {
	name string
	typ  reflect.Type
	tags reflect.StructTag
}

func (f field) tag(name string) string            { return f.tags.Get(name) }
func (f field) lookup(name string) (string, bool) { return f.tags.Lookup(name) }

// fields are the keys of a section in the order of the tree.
func fields(t reflect.Type) iter.Seq[field] {
	return func(yield func(field) bool) {
		for sf := range t.Fields() {
			name, ok := sf.Tag.Lookup("koanf")
			if ok && !yield(field{name: name, typ: sf.Type, tags: sf.Tag}) {
				return
			}
		}
	}
}

func findField(t reflect.Type, name string) (field, bool) {
	for f := range fields(t) {
		if f.name == name {
			return f, true
		}
	}
	return field{}, false
}

func fieldNames(t reflect.Type) []string {
	var names []string
	for f := range fields(t) {
		names = append(names, f.name)
	}
	return names
}

// isSection tells whether the key holds further keys.
func (f field) isSection() bool { return f.typ.Kind() == reflect.Struct && !isValue(f.typ) }

// isList tells whether the key holds a list of sections.
func (f field) isList() bool {
	return f.typ.Kind() == reflect.Slice && f.typ.Elem().Kind() == reflect.Struct && !isMapping(f.typ)
}

// isValue tells apart the structs that are one value.
func isValue(t reflect.Type) bool {
	switch t {
	case reflect.TypeFor[Start](), reflect.TypeFor[CacheKeys](), reflect.TypeFor[Select]():
		return true
	}
	return false
}

// isMapping tells apart the lists that are mappings in the file, whose keys are
// names that the user chose.
func isMapping(t reflect.Type) bool {
	switch t {
	case reflect.TypeFor[Columns](), reflect.TypeFor[Conditions](), reflect.TypeFor[Constants](), reflect.TypeFor[Projections]():
		return true
	}
	return false
}

// form says what kind of value the key takes, for messages.
func (f field) form() string {
	switch {
	case f.isSection():
		return "a mapping"
	case f.isList():
		return "a list of mappings"
	case isMapping(f.typ):
		return "a mapping"
	}
	switch f.typ {
	case reflect.TypeFor[time.Duration]():
		return "a duration"
	case reflect.TypeFor[Size]():
		return "a size"
	case reflect.TypeFor[[]string]():
		return "a list"
	case reflect.TypeFor[[][]string]():
		return "a list of lists"
	case reflect.TypeFor[Select]():
		return "a mapping, a list or \"*\""
	case reflect.TypeFor[bool]():
		return "true or false"
	case reflect.TypeFor[int](), reflect.TypeFor[float64]():
		return "a number"
	}
	return "a string"
}

// schemaKeys are the paths of all keys below the type, sections included.
func schemaKeys(t reflect.Type, at spot) []string {
	var out []string
	for f := range fields(t) {
		here := at.key(f.name)
		out = append(out, here.schema)
		switch {
		case f.isSection():
			out = append(out, schemaKeys(f.typ, here)...)
		case f.isList():
			out = append(out, schemaKeys(f.typ.Elem(), spot{schema: here.schema + "[]"})...)
		}
	}
	return out
}

// elsewhere finds the key of the tree that has this name, for one that was written
// in the wrong section; "" when there is none or more than one.
func elsewhere(name string, keys []string) string {
	var found string
	for _, path := range keys {
		if path[strings.LastIndexByte(path, '.')+1:] != name {
			continue
		}
		if found != "" {
			return ""
		}
		found = path
	}
	return found
}
