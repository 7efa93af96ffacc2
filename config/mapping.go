package config

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// columnTypes are the types that a column may be declared with.
func columnTypes() []string {
	return []string{"string", "int", "int32", "decimal", "double", "bool", "date", "timestamp", "bytes"}
}

// metadata are the values of a record beside its fields.
func metadata() []string {
	return []string{"$key", "$topic", "$partition", "$offset", "$timestamp", "$headers.NAME"}
}

// mapping reads one of the mappings whose keys are names that the user chose. Its
// order is that of the file.
func (l *loader) mapping(f field, n *yaml.Node, at spot) (any, bool) {
	pairs := l.pairs(n, at.path)
	for _, p := range pairs {
		path := join(at.path, p.key)
		l.at[path] = place{line: p.line}
		if p.key == "" {
			l.fail(path, "a name is empty", "name: value")
		}
	}
	if len(pairs) == 0 && f.tag("need") == "yes" && l.ok(at.path) {
		l.fail(at.path, "is an empty mapping", f.name+": "+f.tag("example"))
	}
	var v any
	switch f.typ {
	case reflect.TypeFor[Columns]():
		v = collect(pairs, at.path, func(p pair, path string) (Column, bool) {
			typ, ok := l.columnType(p.value, path)
			return Column{Name: p.key, Type: typ}, ok
		})
	case reflect.TypeFor[Conditions]():
		v = collect(pairs, at.path, func(p pair, path string) (Condition, bool) {
			operand, ok := l.operand(p.value, path)
			return Condition{Column: p.key, Value: operand}, ok
		})
	case reflect.TypeFor[Constants]():
		v = collect(pairs, at.path, func(p pair, path string) (Constant, bool) {
			c, ok := l.constant(p.value, path, "a constant: a string, a number, true or false")
			return Constant{Column: p.key, Const: c}, ok
		})
	case reflect.TypeFor[Projections]():
		v = collect(pairs, at.path, func(p pair, path string) (Projection, bool) {
			field, ok := l.projection(p.value, path)
			return Projection{Name: p.key, Path: field}, ok
		})
	}
	return v, l.ok(at.path)
}

// collect reads the entries that are right.
func collect[T any](pairs []pair, path string, read func(pair, string) (T, bool)) []T {
	out := make([]T, 0, len(pairs))
	for _, p := range pairs {
		if v, ok := read(p, join(path, p.key)); ok {
			out = append(out, v)
		}
	}
	return out
}

func (l *loader) columnType(n *yaml.Node, path string) (string, bool) {
	if n.Kind == yaml.ScalarNode && slices.Contains(columnTypes(), n.Value) {
		return n.Value, true
	}
	right := strings.Join(columnTypes(), " | ")
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" {
		l.fail(path, "is "+kindOf(n)+", not a type", right)
		return "", false
	}
	if near := nearest(n.Value, columnTypes()); near != "" {
		right = "did you mean " + near + "? " + right
	}
	l.fail(path, quote(n.Value)+" is not a type", right)
	return "", false
}

// operand reads the fact's side of a condition.
func (l *loader) operand(n *yaml.Node, path string) (Operand, bool) {
	switch {
	case isMap(n):
		return l.constOperand(n, path)
	case n.Kind == yaml.ScalarNode && n.ShortTag() == "!!str":
		if what, right := checkOperand(n.Value); what != "" {
			l.fail(path, what, right)
			return Operand{}, false
		}
		return Operand{Text: n.Value}, true
	}
	right := "a field path such as customer_id, $key, or {const: EU}"
	if n.Kind == yaml.ScalarNode && n.ShortTag() != "!!null" {
		right = "{const: " + n.Value + "} for a constant"
	}
	l.fail(path, "is "+kindOf(n)+", not a value of the fact", right)
	return Operand{}, false
}

func (l *loader) constOperand(n *yaml.Node, path string) (Operand, bool) {
	pairs := l.pairs(n, path)
	if len(pairs) != 1 || pairs[0].key != "const" {
		l.fail(path, "is a mapping other than {const: VALUE}", "a field path such as customer_id, $key, or {const: EU}")
		return Operand{}, false
	}
	l.at[join(path, "const")] = place{line: pairs[0].line}
	c, ok := l.constant(pairs[0].value, join(path, "const"), "a string, a number, true or false")
	return Operand{Const: c}, ok
}

// checkOperand says what is wrong with the text of an operand.
func checkOperand(text string) (what, right string) {
	name, header := strings.CutPrefix(text, "$headers.")
	switch {
	case header && name == "", text == "$headers":
		return "names no header", "$headers.NAME"
	case header, slices.Contains(metadata()[:5], text):
		return "", ""
	case strings.HasPrefix(text, "$"):
		right = strings.Join(metadata(), ", ") + "; for a field of that name /" + text
		head, rest, dotted := strings.Cut(text, ".")
		if near := nearest(text, metadata()[:5]); near != "" {
			right = "did you mean " + near + "?"
		} else if dotted && rest != "" && nearest(head, []string{"$headers"}) != "" {
			right = "did you mean $headers." + rest + "?"
		}
		return quote(text) + " is no metadata of a record", right
	}
	return checkPath(text)
}

// checkPath says what is wrong with a field path.
func checkPath(text string) (what, right string) {
	if pointer, ok := strings.CutPrefix(text, "/"); ok {
		for i, c := range []byte(pointer) {
			if c == '~' && (i+1 == len(pointer) || pointer[i+1] != '0' && pointer[i+1] != '1') {
				return quote(text) + " is not a JSON Pointer", "~0 for ~ and ~1 for /"
			}
		}
		return "", ""
	}
	if slices.Contains(strings.Split(text, "."), "") {
		return quote(text) + " is not a field path", "names separated by single dots, or a JSON Pointer that begins with /"
	}
	return "", ""
}

// projection reads one path of output.select.
func (l *loader) projection(n *yaml.Node, path string) (string, bool) {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" {
		l.fail(path, "is "+kindOf(n)+", not a field path", "a field path such as customer.id")
		return "", false
	}
	what, right := checkPath(n.Value)
	if strings.HasPrefix(n.Value, "$") {
		what, right = "metadata can't be selected", "a field path; for a field of that name /"+n.Value
	}
	if what != "" {
		l.fail(path, what, right)
		return "", false
	}
	return n.Value, true
}

// constant reads a scalar as JSON. Its literal text is kept, so that a number
// beyond the precision of a float stays what it is.
func (l *loader) constant(n *yaml.Node, path, right string) ([]byte, bool) {
	if n.Kind == yaml.ScalarNode {
		switch tag := n.ShortTag(); {
		case tag == "!!bool" && (n.Value == "true" || n.Value == "false"):
			return []byte(n.Value), true
		case isJSONNumber(n.Value) && (tag == "!!int" || tag == "!!float" || tag == "!!str" && n.Style == 0):
			// YAML gives up on numbers such as 1e400 and calls them strings.
			return []byte(n.Value), true
		case tag == "!!int", tag == "!!float", tag == "!!bool":
			right = quote(n.Value) + " in quotes for the string"
			if tag == "!!bool" {
				right = strings.ToLower(n.Value) + ", or " + right
			}
			l.fail(path, quote(n.Value)+" is "+kindOf(n)+" in YAML and not in JSON", right)
			return nil, false
		case tag == "!!str", tag == "!!timestamp":
			return jsonString(n.Value), true
		}
	}
	l.fail(path, "is "+kindOf(n), right)
	return nil, false
}

func isJSONNumber(text string) bool {
	return text != "" && strings.IndexByte("-0123456789", text[0]) >= 0 && json.Valid([]byte(text)) && !strings.ContainsAny(text, " \n\r\t")
}

// jsonString encodes without the escapes for HTML.
func jsonString(text string) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(text) // a string always encodes, into memory
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// selection reads a lookup's select: a mapping, a list or "*".
func (l *loader) selection(f field, n *yaml.Node, at spot) (any, bool) {
	sel := Select{Fields: []SelectField{}}
	switch {
	case isMap(n):
		for _, p := range l.pairs(n, at.path) {
			path := join(at.path, p.key)
			l.at[path] = place{line: p.line}
			if column, ok := l.selected(p.key, p.value, path); ok {
				sel.Fields = append(sel.Fields, SelectField{Name: p.key, Column: column})
			}
		}
		return sel, l.ok(at.path)
	case isSeq(n):
		sel.List = true
		// An empty list selects nothing, which is meant: the lookup only filters.
		names, ok := l.strings(field{name: f.name, typ: f.typ}, n, at)
		list, _ := names.([]string)
		for _, name := range list {
			sel.Fields = append(sel.Fields, SelectField{Name: name, Column: name})
		}
		return sel, ok
	case n.Kind == yaml.ScalarNode && n.ShortTag() == "!!str" && n.Value == "*":
		return Select{All: true}, true
	case n.Kind == yaml.ScalarNode && n.ShortTag() == "!!str" && isPlain(n.Value) && n.Value != "":
		l.fail(at.path, "is a string, not "+f.form(), "select: ["+n.Value+"]")
		return nil, false
	}
	return l.wrongKind(f, n, at)
}

// selected reads the column of one output field.
func (l *loader) selected(name string, n *yaml.Node, path string) (string, bool) {
	switch {
	case name == "":
		l.fail(path, "a name is empty", "output field: column")
	case n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str":
		right := "the name of a column"
		if n.Kind == yaml.ScalarNode && n.ShortTag() != "!!null" {
			right = quote(n.Value) + " in quotes"
		}
		l.fail(path, "is "+kindOf(n)+", not a column", right)
	case n.Value == "":
		l.fail(path, "is empty", "the name of a column")
	default:
		return n.Value, true
	}
	return "", false
}
