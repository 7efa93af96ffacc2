package lookup

import (
	"fmt"
	"slices"

	"enricher/record"
)

// adds compiles what a step selects and the fields that it adds.
func (c *compiler) adds(i int, s Step) {
	st, schema := &c.plan.steps[i], c.schema(i)
	fields := c.selection(i, s.Select, schema)
	var names []string
	for k, f := range fields {
		place := s.Select.place(i, k, f)
		switch {
		case f.Name == "":
			c.problem(place, "a field needs a name")
		case slices.Contains(names, f.Name):
			c.problem(place, "the field %q is selected twice", f.Name)
		}
		names = append(names, f.Name)
		col := c.column(place, schema, f.Column)
		st.selected = append(st.selected, selected{name: f.Name, column: col, prefix: member(k, f.Name)})
		if col >= 0 {
			st.info.Fields = append(st.info.Fields, FieldInfo{Field: f.Name, Column: f.Column, Type: schema.Columns[col].Type.String()})
		}
	}
	if s.Into != "" {
		st.into = member(0, s.Into)
		miss := "null"
		if st.rows == rowsArray {
			miss = "[]"
		}
		st.miss = append(slices.Clone(st.into), miss...)
		c.add(at(i, "into"), field{name: s.Into, step: i, prefix: st.into, miss: []byte(miss)})
		return
	}
	for k, sel := range st.selected {
		st.miss = append(append(st.miss, sel.prefix...), "null"...)
		c.add(s.Select.place(i, k, fields[k]), field{name: sel.name, step: i, value: k, prefix: member(0, sel.name), miss: []byte("null")})
	}
}

// selection is the selected fields in order, "*" resolved.
func (c *compiler) selection(i int, s Select, schema *record.Schema) []SelectField {
	switch {
	case !s.All && s.Fields == nil:
		c.problem(at(i, "select"), "required: field: column, a list of columns, \"*\" for all declared columns, or [] for none")
	case s.All && schema != nil && schema.Declared == 0:
		c.problem(at(i, "select"), "\"*\" means the declared columns, and dimension %q declares none; name the columns here or declare them there", c.plan.steps[i].name)
	case s.All && schema != nil:
		fields := make([]SelectField, schema.Declared)
		for k, col := range schema.Columns[:schema.Declared] {
			fields[k] = SelectField{Name: col.Name, Column: col.Name}
		}
		return fields
	case !s.All:
		return s.Fields
	}
	return nil
}

// place is where a selected field stands in the configuration.
func (s Select) place(step, k int, f SelectField) string {
	switch {
	case s.All:
		return at(step, "select")
	case s.List:
		return fmt.Sprintf("lookups[%d].select[%d]", step, k)
	default:
		return at(step, "select", f.Name)
	}
}

// add adds a field to the plan, unless another lookup adds it already.
func (c *compiler) add(place string, f field) {
	if known := c.field(f.name); known >= 0 {
		if other := c.plan.fields[known].step; other != f.step {
			c.problem(place, "lookups[%d] adds the field %q already; give it another name or put it into an object (into)", other, f.name)
		}
		return
	}
	st := &c.plan.steps[f.step]
	f.conflict = st.conflict
	st.fields = append(st.fields, len(c.plan.fields))
	c.plan.fields = append(c.plan.fields, f)
}

// member is `"name":`, with a comma before it unless it is the first.
func member(k int, name string) []byte {
	var b []byte
	if k > 0 {
		b = append(b, ',')
	}
	return append(record.AppendQuoted(b, name), ':')
}

// project compiles output.select.
func (c *compiler) project(outputs []Projection) {
	var names []string
	for k, o := range outputs {
		place := "output.select." + o.Name
		switch {
		case o.Name == "":
			c.problem(place, "a field needs a name")
		case slices.Contains(names, o.Name):
			c.problem(place, "the field %q is selected twice", o.Name)
		}
		names = append(names, o.Name)
		if isMetadata(o.Path) {
			c.problem(place, "%s is metadata and stands only in lookups.on; the field of that name is written /%s", o.Path, o.Path)
			continue
		}
		r, ok := c.ref(place, len(c.plan.steps), o.Path)
		if ok {
			c.plan.outputs = append(c.plan.outputs, output{name: o.Name, prefix: member(k, o.Name), value: r})
		}
	}
}
