package lookup

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"enricher/record"
)

// Compile checks the options and compiles them. The error joins all problems,
// each a *PlanError with its place in the configuration.
func Compile(o Options) (*Plan, error) {
	c := &compiler{plan: &Plan{maxRows: o.MaxRows, maxBytes: o.MaxBytes, batchBytes: o.BatchBytes, steps: make([]step, len(o.Steps))}}
	if c.plan.maxRows <= 0 {
		c.plan.maxRows = DefaultMaxRows
	}
	if c.plan.maxBytes <= 0 {
		c.plan.maxBytes = DefaultMaxBytes
	}
	// What the steps add first: a path may name a field of any step.
	for i, s := range o.Steps {
		c.begin(i, s, o.Dimensions)
		c.adds(i, s)
	}
	c.plan.needs = make([]needs, len(c.plan.dimensions))
	for i, s := range o.Steps {
		if c.schema(i) != nil {
			c.reads(i, s)
		}
	}
	c.project(o.Select)
	if len(c.problems) > 0 {
		return nil, errors.Join(c.problems...)
	}
	names := make([]string, len(c.plan.fields))
	for i, f := range c.plan.fields {
		names[i] = f.name
	}
	c.plan.shape = record.Compile(c.paths, names)
	return c.plan, nil
}

// UsedColumns are the columns of a dimension that the steps name and those of
// its indexes, in order and once each: what a schema needs beside the declared
// columns and the keys.
func UsedColumns(steps []Step, dimension string, indexes ...[]string) []string {
	var names []string
	use := func(name string) {
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, s := range steps {
		if s.Dimension != dimension {
			continue
		}
		for _, on := range s.On {
			use(on.Column)
		}
		for _, f := range s.Select.Fields {
			use(f.Column)
		}
		for _, w := range s.Where {
			use(w.Column)
		}
	}
	for _, index := range indexes {
		for _, column := range index {
			use(column)
		}
	}
	return names
}

// compiler collects a plan and the problems on the way to it.
type compiler struct {
	plan     *Plan
	paths    []record.Path
	problems []error
}

func (c *compiler) problem(at, format string, args ...any) {
	c.problems = append(c.problems, &PlanError{Path: at, Message: fmt.Sprintf(format, args...)})
}

func (c *compiler) warn(at, format string, args ...any) {
	c.plan.warnings = append(c.plan.warnings, PlanError{Path: at, Message: fmt.Sprintf(format, args...)})
}

// at is a place inside a lookup.
func at(step int, parts ...string) string {
	return fmt.Sprintf("lookups[%d].%s", step, strings.Join(parts, "."))
}

// schema is the schema of a step's dimension, nil when the dimension is unknown.
func (c *compiler) schema(i int) *record.Schema {
	if d := c.plan.steps[i].dimension; d >= 0 {
		return c.plan.dimensions[d].Schema
	}
	return nil
}

// begin resolves the dimension and the words of a step.
func (c *compiler) begin(i int, s Step, dimensions []Dimension) {
	st := &c.plan.steps[i]
	st.name, st.dimension = s.Dimension, -1
	for k, d := range c.plan.dimensions {
		if d.Name == s.Dimension {
			st.dimension = k
		}
	}
	if st.dimension < 0 {
		st.dimension = c.dimension(i, s.Dimension, dimensions)
	}
	join := choose(c, at(i, "join"), s.Join, "left", "inner")
	rows := choose(c, at(i, "rows"), s.Rows, "each", "array", "first")
	onConflict := choose(c, at(i, "on_conflict"), s.OnConflict, "fail", "overwrite", "keep")
	st.inner, st.rows, st.conflict = join == 1, rowsMode(rows), conflict(onConflict)
	if st.rows == rowsArray && s.Into == "" {
		c.problem(at(i, "into"), "rows: array needs into, the name of the field that holds the array")
	}
	st.info = StepInfo{
		Dimension: s.Dimension, Into: s.Into, Fields: []FieldInfo{},
		Join: orDefault(s.Join, "left"), Rows: orDefault(s.Rows, "each"), OnConflict: orDefault(s.OnConflict, "fail"),
	}
}

// dimension adds the dimension of a step to those of the plan; -1 when there is none.
func (c *compiler) dimension(i int, name string, dimensions []Dimension) int {
	var names []string
	for _, d := range dimensions {
		if d.Name == name && d.Schema != nil {
			c.indexes(i, d)
			c.plan.dimensions = append(c.plan.dimensions, d)
			return len(c.plan.dimensions) - 1
		}
		names = append(names, d.Name)
	}
	c.problem(at(i, "dimension"), "unknown dimension %q%s; there is %s", name, didYouMean(name, names), orNothing(names))
	return -1
}

func orDefault(s, def string) string {
	if s == "" {
		return def
	}
	return s
}

// choose gives the index of a word among those allowed; the first is the default.
func choose(c *compiler, at, word string, allowed ...string) int {
	if word == "" {
		return 0
	}
	i := slices.Index(allowed, word)
	if i < 0 {
		c.problem(at, "unknown value %q%s; one of %s", word, didYouMean(word, allowed), strings.Join(allowed, ", "))
		return 0
	}
	return i
}

// column finds a column that the configuration names; -1 with a problem when
// there is none. Without a schema (the dimension is unknown) it is -1 in silence.
func (c *compiler) column(at string, s *record.Schema, name string) int {
	if s == nil {
		return -1
	}
	i := s.Index(name)
	var names []string
	for _, col := range s.Columns {
		names = append(names, col.Name)
	}
	if i < 0 {
		c.problem(at, "unknown column %q%s; there is %s", name, didYouMean(name, names), strings.Join(names, ", "))
		return -1
	}
	if s.Declared > 0 && i >= s.Declared {
		if hint := didYouMean(name, names[:s.Declared]); hint != "" {
			c.warn(at, "column %q is not among the declared columns%s; a row that lacks it reads as null", name, hint)
		}
	}
	return i
}

// indexes checks the indexes of a dimension, which come from the caller.
func (c *compiler) indexes(i int, d Dimension) {
	for k, index := range d.Indexes {
		for n, col := range index {
			if col < 0 || col >= len(d.Schema.Columns) || slices.Contains(index[:n], col) {
				c.problem(at(i, "dimension"), "BUG: index %d of dimension %q has the columns %v of %d", k, d.Name, index, len(d.Schema.Columns))
				break
			}
		}
		if len(index) == 0 {
			c.problem(at(i, "dimension"), "BUG: index %d of dimension %q has no columns", k, d.Name)
		}
	}
}

// operands compiles the values of a join condition. It gives the columns in the
// order of the file; whole is false when something in `on` is wrong.
func (c *compiler) operands(i int, s Step, schema *record.Schema) (on []int, operands map[int]operand, whole bool) {
	operands, whole = make(map[int]operand, len(s.On)), true
	for _, cond := range s.On {
		place := at(i, "on", cond.Column)
		col := c.column(place, schema, cond.Column)
		if col >= 0 && slices.Contains(on, col) {
			c.problem(place, "column %q stands twice in on", cond.Column)
			col = -1
		}
		if col < 0 {
			whole = false
			continue
		}
		on = append(on, col)
		op, ok := c.operand(place, i, schema.Columns[col], cond.Value)
		op.text = orDefault(cond.Value.Text, string(cond.Value.Const))
		operands[col] = op
		whole = whole && ok
	}
	return on, operands, whole
}

// reads compiles the join condition and where of a step.
func (c *compiler) reads(i int, s Step) {
	st, schema := &c.plan.steps[i], c.schema(i)
	on, operands, whole := c.operands(i, s, schema)
	latest, ok := c.latest(i, s, schema, on)
	var join joinPlan
	if ok {
		join = planJoin(schema, c.plan.dimensions[st.dimension].Indexes, latest, on)
	}
	if join.problem != "" {
		c.problem(at(i, "on"), "%s", join.problem)
	}
	c.where(i, s, schema)
	if !whole || !ok || join.problem != "" {
		return
	}
	st.kind, st.index, st.latest = join.kind, join.index, join.latest
	st.info.Why, st.info.Kind, st.info.Partitions = join.why, join.name(), s.Partitions
	need := &c.plan.needs[st.dimension]
	need.index = need.index || join.kind == joinIndex
	need.latest = max(need.latest, join.latest)

	for _, col := range join.partition {
		st.operands = append(st.operands, operands[col])
		if join.kind != joinIndex {
			c.describe(st, schema.Columns[col], operands[col], "partition")
		}
	}
	st.partitionOps = len(st.operands)
	role := "key"
	if join.kind == joinIndex {
		role = "index"
	}
	for _, col := range join.key {
		st.operands = append(st.operands, operands[col])
		c.describe(st, schema.Columns[col], operands[col], role)
	}
	st.keyOps = len(st.operands)
	for _, col := range on {
		if slices.Contains(join.key, col) || join.kind != joinIndex && slices.Contains(join.partition, col) {
			continue
		}
		op := operands[col]
		c.describe(st, schema.Columns[col], op, "condition")
		if op.constant != nil {
			st.where = append(st.where, columnRef{col, op.typ})
			st.wanted = append(st.wanted, op.constant...)
			continue
		}
		st.operands = append(st.operands, op)
		st.conditions = append(st.conditions, columnRef{col, op.typ})
	}
}

// describe adds a column of the join condition to what Describe tells.
func (c *compiler) describe(st *step, col record.Column, op operand, role string) {
	st.info.On = append(st.info.On, ColumnInfo{Column: col.Name, Type: col.Type.String(), Role: role, Value: op.text, Source: c.source(op)})
}

// latest is how many of the greatest partitions a step looks into; 0 without
// `partitions`. It is false when that does not go with the rest.
func (c *compiler) latest(i int, s Step, schema *record.Schema, on []int) (n int, ok bool) {
	if s.Partitions == "" {
		return 0, true
	}
	place := at(i, "partitions")
	n = 1 + choose(c, place, s.Partitions, "latest", "latest_two")
	if len(schema.PartitionBy) == 0 {
		c.problem(place, "dimension %q has no partitions (partition_by); leave partitions out", s.Dimension)
		return 0, true // so that the join condition is judged as it will be then
	}
	if both := slices.DeleteFunc(slices.Clone(schema.PartitionBy), func(col int) bool { return !slices.Contains(on, col) }); len(both) > 0 {
		c.problem(place, "the greatest partitions take the place of the partition columns (%s), and on has %s; leave out either",
			columnNames(schema, schema.PartitionBy), columnNames(schema, both))
		return 0, false
	}
	return n, true
}

func (c *compiler) where(i int, s Step, schema *record.Schema) {
	st := &c.plan.steps[i]
	for _, w := range s.Where {
		place := at(i, "where", w.Column)
		col := c.column(place, schema, w.Column)
		if col < 0 {
			continue
		}
		code, ok := c.constant(place, schema.Columns[col], w.Const)
		if !ok {
			continue
		}
		st.where = append(st.where, columnRef{col, schema.Columns[col].Type})
		st.wanted = append(st.wanted, code...)
		st.info.Where = append(st.info.Where, ColumnInfo{
			Column: w.Column, Type: schema.Columns[col].Type.String(), Role: "condition", Value: string(bytes.TrimSpace(w.Const)), Source: "constant",
		})
	}
}
