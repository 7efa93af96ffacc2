package lookup

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"enricher/record"
)

// metadata is a piece of a fact that is not in its value.
type metadata uint8

const (
	noMetadata metadata = iota
	metaKey
	metaTopic
	metaPartition
	metaOffset
	metaTimestamp
	metaHeader
)

// metadataNames are the operands that begin with $; the last one takes a name.
func metadataNames() []string {
	return []string{"$key", "$topic", "$partition", "$offset", "$timestamp", headerPrefix + "NAME"}
}

const headerPrefix = "$headers."

// operand is one compiled value of a join condition.
type operand struct {
	text     string      // as written in the configuration, or JSON
	typ      record.Type // of the dimension's column
	meta     metadata    // noMetadata: constant, else value
	header   string
	constant []byte // the constant's code; nil when it is none
	value    ref
}

// ref is a path into the record as it stands after some steps.
type ref struct {
	path  int // of the fact's own value in the shape; -1: not wanted
	field int // index into Plan.fields; -1: no step adds the first name of the path

	// value is the place among the values of a row of the field's step; -1 when
	// the step never has it. sub leads from there to a value inside it; its only
	// path begins with wrapName. whole says that the ref is the field itself.
	value int
	sub   *record.Shape
	whole bool
}

// wrapName is the name under which a value is wrapped into an object of its own
// so that a shape can look into it.
const wrapName = "v"

// tokens are the names of a path as text.
type tokens struct {
	pointer bool
	text    []string // as written
	names   []string // unescaped
}

// splitPath splits a path that record.ParsePath has taken.
func splitPath(path string) tokens {
	if !strings.HasPrefix(path, "/") {
		names := strings.Split(path, ".")
		return tokens{text: names, names: names}
	}
	t := tokens{pointer: true, text: strings.Split(path[1:], "/")}
	unescape := strings.NewReplacer("~1", "/", "~0", "~")
	for _, s := range t.text {
		t.names = append(t.names, unescape.Replace(s))
	}
	return t
}

// below compiles what follows the first n names, as a path into a wrapped
// value; nil when nothing follows.
func (t tokens) below(n int) (*record.Shape, error) {
	if len(t.text) <= n {
		return nil, nil
	}
	text := wrapName + "." + strings.Join(t.text[n:], ".")
	if t.pointer {
		text = "/" + wrapName + "/" + strings.Join(t.text[n:], "/")
	}
	path, err := record.ParsePath(text)
	if err != nil {
		return nil, err
	}
	return record.Compile([]record.Path{path}, nil), nil
}

// operand compiles the value of a condition on a column.
func (c *compiler) operand(at string, step int, col record.Column, o Operand) (operand, bool) {
	op := operand{typ: col.Type}
	if o.Const != nil {
		code, ok := c.constant(at, col, o.Const)
		op.constant = code
		return op, ok
	}
	if strings.HasPrefix(o.Text, "$") {
		return c.metadata(at, op, col, o.Text)
	}
	r, ok := c.ref(at, step, o.Text)
	op.value = r
	return op, ok
}

func (c *compiler) metadata(at string, op operand, col record.Column, text string) (operand, bool) {
	number := false
	switch text {
	case "$key":
		op.meta = metaKey
	case "$topic":
		op.meta = metaTopic
	case "$partition":
		op.meta, number = metaPartition, true
	case "$offset":
		op.meta, number = metaOffset, true
	case "$timestamp":
		op.meta, number = metaTimestamp, true
	default:
		if name, ok := strings.CutPrefix(text, headerPrefix); ok && name != "" {
			op.meta, op.header = metaHeader, name
			c.plan.headers = true
			return op, true
		}
		c.problem(at, "unknown metadata %q%s; there is %s; a field whose name begins with $ is written /%s",
			text, didYouMean(text, metadataNames()), strings.Join(metadataNames(), ", "), text)
		return op, false
	}
	if number {
		if _, err := record.AppendKeyInt(nil, col.Type, 0); err != nil {
			c.problem(at, "%s is a number and never converts to the type %s of column %q", text, typeName(col.Type), col.Name)
			return op, false
		}
	}
	return op, true
}

// constant is the code of a constant that is compared with a column.
func (c *compiler) constant(at string, col record.Column, json []byte) ([]byte, bool) {
	if err := record.Valid(json); err != nil {
		c.problem(at, "the constant is not valid JSON: %v", err)
		return nil, false
	}
	json = bytes.TrimSpace(json)
	code, err := record.AppendKey([]byte{}, col.Type, json)
	switch {
	case errors.Is(err, record.ErrNull):
		c.problem(at, "null never equals a value; leave the condition out")
	case err != nil:
		c.problem(at, "the constant %s is %s and does not convert to the type %s of column %q",
			abbreviate(json), jsonKind(json), typeName(col.Type), col.Name)
	}
	return code, err == nil
}

// ref compiles a path of a step, or of output.select when step is the number of
// steps: fields of earlier steps come before those of the fact.
func (c *compiler) ref(at string, step int, text string) (ref, bool) {
	r := ref{path: -1, field: -1}
	path, err := record.ParsePath(text)
	if err != nil {
		c.problem(at, "%v", err)
		return r, false
	}
	names := splitPath(text)
	f := c.field(path.First())
	if f < 0 || c.plan.fields[f].step >= step {
		if f >= 0 && c.plan.fields[f].conflict == conflictFail {
			c.warn(at, "%s is a field that lookups[%d] adds, which does not run before; with on_conflict: fail no fact may have it, so the key is always null",
				path.First(), c.plan.fields[f].step)
		}
		r.path = c.path(path)
		return r, true
	}
	added := c.plan.fields[f]
	r.field = f
	if added.conflict != conflictFail {
		r.path = c.path(path)
	}
	return r, c.into(at, &r, names, added)
}

// into finds the value of a ref among the values of the step that adds it.
func (c *compiler) into(at string, r *ref, names tokens, added field) bool {
	st := &c.plan.steps[added.step]
	r.value, r.whole = added.value, len(names.names) == 1
	used := 1
	if st.into != nil && st.rows != rowsArray && !r.whole {
		used = 2
		r.value = -1
		var inside []string
		for i, s := range st.selected {
			inside = append(inside, s.name)
			if s.name == names.names[1] {
				r.value = 1 + i
			}
		}
		if r.value < 0 && added.conflict == conflictFail {
			c.problem(at, "lookups[%d] puts no %q into %s%s; there is %s", added.step, names.names[1], added.name,
				didYouMean(names.names[1], inside), orNothing(inside))
			return false
		}
	}
	sub, err := names.below(used)
	if err != nil {
		c.problem(at, "%v", err)
		return false
	}
	r.sub = sub
	return true
}

// source says where an operand's value comes from, for people.
func (c *compiler) source(op operand) string {
	switch {
	case op.constant != nil:
		return "constant"
	case op.meta != noMetadata:
		return "metadata"
	case op.value.field >= 0:
		return fmt.Sprintf("lookups[%d]", c.plan.fields[op.value.field].step)
	default:
		return "fact"
	}
}

// path gives the index of a path in the shape.
func (c *compiler) path(p record.Path) int {
	for i, known := range c.paths {
		if known.String() == p.String() {
			return i
		}
	}
	c.paths = append(c.paths, p)
	return len(c.paths) - 1
}

// field gives the index of the added field of this name, -1 when there is none.
func (c *compiler) field(name string) int {
	for i := range c.plan.fields {
		if c.plan.fields[i].name == name {
			return i
		}
	}
	return -1
}

// isMetadata tells whether a text names a piece of metadata.
func isMetadata(text string) bool {
	names := metadataNames()
	return len(text) > len(headerPrefix) && strings.HasPrefix(text, headerPrefix) || slices.Contains(names[:len(names)-1], text)
}
