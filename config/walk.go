package config

import (
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
)

// object walks a mapping along the type of its section and gives the values that
// are right.
func (l *loader) object(t reflect.Type, n *yaml.Node, at spot) map[string]any {
	out := map[string]any{}
	for _, p := range l.pairs(n, at.path) {
		here := at.key(p.key)
		l.at[here.path] = place{line: p.line}
		f, known := findField(t, p.key)
		if !known {
			l.unknownKey(t, p.key, at)
			continue
		}
		if l.refuseUnbuilt(here) {
			continue
		}
		if v, ok := l.value(f, p.value, here); ok && l.refuseUnbuiltValue(here, v) {
			out[p.key] = v
		}
	}
	return out
}

// value reads what stands under a key. A section that is left empty, because all
// its keys are commented out, is a section without keys.
func (l *loader) value(f field, n *yaml.Node, at spot) (any, bool) {
	empty := n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null"
	switch {
	case f.isSection():
		if empty {
			return map[string]any{}, true
		}
		if !isMap(n) {
			return l.wrongKind(f, n, at)
		}
		return l.object(f.typ, n, at), true
	case f.isList():
		return l.objects(f, n, at, empty)
	case isMapping(f.typ):
		if !isMap(n) {
			return l.wrongKind(f, n, at)
		}
		return l.mapping(f, n, at)
	case f.typ == reflect.TypeFor[Select]():
		return l.selection(f, n, at)
	case f.typ == reflect.TypeFor[[]string]():
		if !isSeq(n) {
			return l.wrongKind(f, n, at)
		}
		return l.strings(f, n, at)
	case f.typ == reflect.TypeFor[[][]string]():
		return l.lists(f, n, at)
	}
	if n.Kind != yaml.ScalarNode || empty {
		return l.wrongKind(f, n, at)
	}
	return l.scalar(f, nodeScalar(n), at)
}

// objects reads a list of sections.
func (l *loader) objects(f field, n *yaml.Node, at spot, empty bool) (any, bool) {
	out := []any{}
	if empty {
		return out, true
	}
	if !isSeq(n) {
		return l.wrongKind(f, n, at)
	}
	elem := field{name: f.name, typ: f.typ.Elem(), tags: f.tags}
	for i, item := range n.Content {
		if !l.visit() {
			return nil, false
		}
		here := at.index(i)
		l.at[here.path] = place{line: item.Line}
		item = follow(item)
		if !isMap(item) {
			l.wrongKind(elem, item, here)
			item = &yaml.Node{Kind: yaml.MappingNode}
		}
		out = append(out, l.withDefaults(elem.typ, l.object(elem.typ, item, here)))
		l.required(elem.typ, here)
	}
	return out, true
}

// strings reads a list of strings, each of them checked, none twice.
func (l *loader) strings(f field, n *yaml.Node, at spot) (any, bool) {
	items := make([]item, len(n.Content))
	for i, c := range n.Content {
		if !l.visit() {
			return nil, false
		}
		l.at[indexed(at.path, i)] = place{line: c.Line}
		items[i] = item{node: follow(c)}
	}
	return l.items(f, items, at)
}

// item is an element of a list of strings, from the file or the environment.
type item struct {
	node *yaml.Node
	text string
}

func (l *loader) items(f field, items []item, at spot) (any, bool) {
	elem := field{name: f.name, typ: reflect.TypeFor[string](), tags: f.tags}
	out := make([]string, 0, len(items))
	seen := map[string]int{}
	for i, it := range items {
		here := at.index(i)
		v, ok := any(nil), false
		switch {
		case it.node == nil:
			v, ok = l.scalar(elem, scalar{text: it.text}, here)
		case it.node.Kind != yaml.ScalarNode || it.node.ShortTag() == "!!null":
			l.wrongKind(elem, it.node, here)
		default:
			v, ok = l.scalar(elem, nodeScalar(it.node), here)
		}
		if !ok {
			l.broken[at.path] = true
			continue
		}
		s, _ := v.(string)
		if first, twice := seen[s]; twice {
			l.fail(here.path, quote(s)+" is in the list twice", "once; it is "+indexed(at.path, first)+" already")
			l.broken[at.path] = true
			continue
		}
		seen[s] = i
		out = append(out, s)
	}
	if len(items) == 0 && f.tag("need") == "yes" {
		l.fail(at.path, "is an empty list", f.name+": "+f.tag("example"))
	}
	return out, l.ok(at.path)
}

// lists reads a list of lists of strings.
func (l *loader) lists(f field, n *yaml.Node, at spot) (any, bool) {
	if !isSeq(n) {
		return l.wrongKind(f, n, at)
	}
	elem := field{name: f.name, typ: reflect.TypeFor[[]string](), tags: f.tags}
	out := [][]string{}
	for i, item := range n.Content {
		if !l.visit() {
			return nil, false
		}
		here := at.index(i)
		l.at[here.path] = place{line: item.Line}
		item = follow(item)
		if !isSeq(item) {
			right := f.name + ": " + f.tag("example")
			if item.ShortTag() == "!!str" && isPlain(item.Value) {
				right = f.name + ": [[" + item.Value + "]]"
			}
			l.fail(here.path, "is "+kindOf(item)+", not a list", right)
			l.broken[at.path] = true
			continue
		}
		v, _ := l.strings(elem, item, here)
		list, _ := v.([]string)
		if len(list) == 0 && l.ok(here.path) {
			l.fail(here.path, "is an empty list", f.tag("example"))
		}
		if !l.ok(here.path) {
			l.broken[at.path] = true
		}
		out = append(out, list)
	}
	return out, l.ok(at.path)
}

// unknownKey refuses a key with the name that was probably meant. That one is then
// not reported as missing too.
func (l *loader) unknownKey(t reflect.Type, name string, at spot) {
	path := join(at.path, name)
	if near := nearest(name, fieldNames(t)); near != "" {
		l.broken[join(at.path, near)] = true
		l.fail(path, "unknown key", "did you mean "+near+"?")
		return
	}
	if l.keys == nil {
		l.keys = schemaKeys(reflect.TypeFor[Config](), spot{})
	}
	right := "one of " + strings.Join(fieldNames(t), ", ")
	if far := elsewhere(name, l.keys); far != "" {
		right = "did you mean " + far + "?"
	}
	l.fail(path, "unknown key", right)
}

// wrongKind refuses a node that can't be the value of the key, with the key as it
// should be written.
func (l *loader) wrongKind(f field, n *yaml.Node, at spot) (any, bool) {
	what := "is " + kindOf(n) + ", not " + f.form()
	if kindOf(n) == "empty" {
		what = "has no value"
	}
	l.fail(at.path, what, rightForm(f, n))
	return nil, false
}

// rightForm shows the value that was probably meant, else an example.
func rightForm(f field, n *yaml.Node) string {
	text := n.Value
	usable := n.Kind == yaml.ScalarNode && text != "" && len(text) < 60 && n.ShortTag() == "!!str" && isPlain(text)
	switch {
	case f.typ == reflect.TypeFor[[]string]() && usable:
		return f.name + ": [" + text + "]"
	case f.isSection():
		names := fieldNames(f.typ)
		return "a mapping of " + strings.Join(names, ", ")
	case f.tag("example") != "" && !strings.HasPrefix(f.tag("example"), "-"):
		return f.name + ": " + f.tag("example")
	case f.tag("example") != "":
		return f.tag("example")
	case f.tag("enum") != "":
		return choices(f.tag("enum"))
	case f.tag("default") != "":
		return "such as " + f.name + ": " + f.tag("default")
	}
	return f.form()
}

// isPlain tells whether the text can stand in a flow list without quotes.
func isPlain(text string) bool {
	return !strings.ContainsAny(text, "[]{}&*#!|>'\"%@`\n\r\t:")
}
