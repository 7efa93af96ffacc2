package lookup

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"enricher/record"
)

// planErrors are the problems of an error of Compile, path: message.
func planErrors(tb testing.TB, err error) (problems []string) {
	tb.Helper()
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	require.True(tb, ok, "joined: %v", err)
	for _, e := range joined.Unwrap() {
		p, ok := errors.AsType[*PlanError](e)
		require.True(tb, ok, "a PlanError: %v", e)
		assert.NotEmpty(tb, p.Path)
		problems = append(problems, p.Error())
	}
	return problems
}

func TestCompileProblems(t *testing.T) {
	dims := []Dimension{
		customers(t), positions(t),
		dimension(t, "loose", []string{"id", "name"}, []string{"id"}, nil),
		dimension(t, "dates", []string{"d date", "v double"}, []string{"d"}, nil),
	}
	byID := on("id", "cust")
	good := Step{Dimension: "customer", On: byID, Select: pick("name", "name")}
	tests := map[string]struct {
		steps  []Step
		output []Projection
		want   []string
	}{
		"good": {steps: []Step{good}},
		"unknown dimension": {
			steps: []Step{{Dimension: "custmer", On: byID, Select: pick("n", "nam")}},
			want:  []string{`lookups[0].dimension: unknown dimension "custmer" (did you mean "customer"?); there is customer, position, loose, dates`},
		},
		"words": {
			steps: []Step{{Dimension: "customer", On: byID, Select: pick(), Join: "rigth", Rows: "all", OnConflict: "kepe"}},
			want: []string{
				`lookups[0].join: unknown value "rigth"; one of left, inner`,
				`lookups[0].rows: unknown value "all"; one of each, array, first`,
				`lookups[0].on_conflict: unknown value "kepe" (did you mean "keep"?); one of fail, overwrite, keep`,
			},
		},
		"unknown columns": {
			steps: []Step{{
				Dimension: "customer", On: on("id", "cust", "sement", "s"), Select: pick("n", "nname"),
				Where: []Where{{Column: "Segment", Const: []byte(`"X"`)}},
			}},
			want: []string{
				`lookups[0].select.n: unknown column "nname" (did you mean "name"?); there is id, name, segment`,
				`lookups[0].on.sement: unknown column "sement" (did you mean "segment"?); there is id, name, segment`,
				`lookups[0].where.Segment: unknown column "Segment" (did you mean "segment"?); there is id, name, segment`,
			},
		},
		"unknown column in a list": {
			steps: []Step{{Dimension: "customer", On: byID, Select: Select{List: true, Fields: []SelectField{{"name", "name"}, {"zzzzzz", "zzzzzz"}}}}},
			want:  []string{`lookups[0].select[1]: unknown column "zzzzzz"; there is id, name, segment`},
		},
		"no key": {
			steps: []Step{{Dimension: "customer", On: on("name", "n"), Select: pick()}},
			want: []string{`lookups[0].on: no way to find rows with these columns: of the primary key id is missing; accepted: all of id (full key); ` +
				`further columns may stand beside`},
		},
		"nothing": {
			steps: []Step{{Dimension: "customer", Select: pick()}},
			want: []string{`lookups[0].on: no way to find rows with these columns: of the primary key id is missing; accepted: all of id (full key); ` +
				`further columns may stand beside`},
		},
		"prefix without the partition": {
			steps: []Step{{Dimension: "position", On: on("order", "o"), Select: pick()}},
			want: []string{`lookups[0].on: no way to find rows with these columns: of the primary key dt, line is missing; accepted: all of dt, order, line (full key), ` +
				`or at least dt, order (prefix: all partition columns and the first of the key columns order, line, in this order), ` +
				`or at least order with partitions: latest or latest_two instead of dt; further columns may stand beside; a prefix of the key needs the partition columns too, here dt`},
		},
		"partition without a prefix": {
			steps: []Step{{Dimension: "position", On: on("dt", "d", "line", "l"), Select: pick()}},
			want: []string{`lookups[0].on: no way to find rows with these columns: of the primary key order is missing; accepted: all of dt, order, line (full key), ` +
				`or at least dt, order (prefix: all partition columns and the first of the key columns order, line, in this order), ` +
				`or at least order with partitions: latest or latest_two instead of dt; further columns may stand beside`},
		},
		"column twice": {
			steps: []Step{{Dimension: "customer", On: on("id", "a", "id", "b"), Select: pick()}},
			want:  []string{`lookups[0].on.id: column "id" stands twice in on`},
		},
		"constants": {
			steps: []Step{{
				Dimension: "position", Select: pick(),
				On:    []Condition{{"dt", constant(`null`)}, {"order", constant(`"x"`)}, {"line", constant(`[1]`)}, {"part", constant(`{`)}},
				Where: []Where{{"line", []byte(`7.5`)}, {"part", []byte(`true`)}, {"dt", []byte(`null`)}},
			}},
			want: []string{
				`lookups[0].on.dt: null never equals a value; leave the condition out`,
				`lookups[0].on.order: the constant "x" is a string and does not convert to the type int of column "order"`,
				`lookups[0].on.line: the constant [1] is an array and does not convert to the type int of column "line"`,
				`lookups[0].on.part: the constant is not valid JSON: `,
				`lookups[0].where.line: the constant 7.5 is a number and does not convert to the type int of column "line"`,
				`lookups[0].where.part: the constant true is a bool and does not convert to the type string of column "part"`,
				`lookups[0].where.dt: null never equals a value; leave the condition out`,
			},
		},
		"constant of an undeclared column": {
			steps: []Step{{Dimension: "loose", Select: pick(), On: []Condition{{"id", constant(`{"a":1}`)}}}},
			want:  []string{`lookups[0].on.id: the constant {"a":1} is an object and does not convert to the type any (not declared) of column "id"`},
		},
		"metadata": {
			steps: []Step{
				{Dimension: "customer", On: on("id", "$ofset"), Select: pick()},
				{Dimension: "customer", On: on("id", "$headers."), Select: pick()},
				{Dimension: "dates", On: on("d", "$offset"), Select: pick()},
			},
			want: []string{
				`lookups[0].on.id: unknown metadata "$ofset" (did you mean "$offset"?); there is $key, $topic, $partition, $offset, $timestamp, $headers.NAME; ` +
					`a field whose name begins with $ is written /$ofset`,
				`lookups[1].on.id: unknown metadata "$headers."`,
				`lookups[2].on.d: $offset is a number and never converts to the type date of column "d"`,
			},
		},
		"paths": {
			steps: []Step{
				{Dimension: "customer", On: on("id", ""), Select: pick()},
				{Dimension: "customer", On: on("id", "a..b"), Select: pick()},
				{Dimension: "customer", On: on("id", "/a~2"), Select: pick()},
			},
			output: []Projection{{"x", "a."}, {"y", "$key"}, {"z", "a"}, {"z", "b"}, {"", "b"}},
			want: []string{
				`lookups[0].on.id: parse path`,
				`lookups[1].on.id: parse path "a..b"`,
				`lookups[2].on.id: parse path "/a~2"`,
				`output.select.x: parse path "a."`,
				`output.select.y: $key is metadata and stands only in lookups.on; the field of that name is written /$key`,
				`output.select.z: the field "z" is selected twice`,
				`output.select.: a field needs a name`,
			},
		},
		"select": {
			steps: []Step{
				{Dimension: "customer", On: byID},
				{Dimension: "loose", On: on("id", "c"), Select: Select{All: true}},
				{Dimension: "customer", On: byID, Select: pick("a", "name", "a", "segment", "", "id")},
			},
			want: []string{
				`lookups[0].select: required: field: column, a list of columns, "*" for all declared columns, or [] for none`,
				`lookups[1].select: "*" means the declared columns, and dimension "loose" declares none; name the columns here or declare them there`,
				`lookups[2].select.a: the field "a" is selected twice`,
				`lookups[2].select.: a field needs a name`,
			},
		},
		"array without into": {
			steps: []Step{{Dimension: "customer", On: byID, Select: pick("a", "name"), Rows: "array"}},
			want:  []string{`lookups[0].into: rows: array needs into, the name of the field that holds the array`},
		},
		"fields of two lookups": {
			steps: []Step{
				good,
				{Dimension: "customer", On: byID, Select: Select{All: true}},
				{Dimension: "customer", On: byID, Select: pick("x", "id"), Into: "segment"},
				{Dimension: "customer", On: byID, Select: Select{List: true, Fields: []SelectField{{"q", "id"}, {"id", "id"}}}, OnConflict: "keep"},
			},
			want: []string{
				`lookups[1].select: lookups[0] adds the field "name" already; give it another name or put it into an object (into)`,
				`lookups[2].into: lookups[1] adds the field "segment" already; give it another name or put it into an object (into)`,
				`lookups[3].select[1]: lookups[1] adds the field "id" already; give it another name or put it into an object (into)`,
			},
		},
		"same names inside objects": {
			steps: []Step{
				{Dimension: "customer", On: byID, Select: pick("name", "name"), Into: "a"},
				{Dimension: "customer", On: byID, Select: pick("name", "name", "b", "id"), Into: "b"},
			},
		},
		"path into an added object": {
			steps: []Step{
				{Dimension: "customer", On: byID, Select: pick("name", "name"), Into: "c"},
				{Dimension: "customer", On: on("id", "c.nname"), Select: pick()},
			},
			output: []Projection{{"n", "/c/x"}, {"m", "c.name"}},
			want: []string{
				`lookups[1].on.id: lookups[0] puts no "nname" into c (did you mean "name"?); there is name`,
				`output.select.n: lookups[0] puts no "x" into c; there is name`,
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			p, err := Compile(Options{Steps: test.steps, Dimensions: dims, Select: test.output})
			got := planErrors(t, err)
			require.Len(t, got, len(test.want), "%q", got)
			assert.Equal(t, err == nil, p != nil)
			for i, want := range test.want {
				assert.Contains(t, got[i], want)
				assert.Equal(t, want, got[i][:min(len(want), len(got[i]))])
			}
		})
	}
}

func TestCompileWarnings(t *testing.T) {
	schema, err := record.NewSchema([]record.Column{{Name: "id", Type: record.Int}, {Name: "name", Type: record.String}}, []string{"nname", "other"}, []string{"id"}, nil)
	require.NoError(t, err)
	p := compile(t, Options{
		Dimensions: []Dimension{{Name: "customer", Schema: schema}},
		Steps: []Step{
			{Dimension: "customer", On: on("id", "late"), Select: pick("a", "nname", "b", "other")},
			{Dimension: "customer", On: on("id", "x"), Select: pick("late", "name")},
			{Dimension: "customer", On: on("id", "fine"), Select: pick("fine", "name"), OnConflict: "overwrite"},
		},
	})
	var got []string
	for _, w := range p.Warnings() {
		got = append(got, w.Error())
	}
	assert.Equal(t, []string{
		`lookups[0].select.a: column "nname" is not among the declared columns (did you mean "name"?); a row that lacks it reads as null`,
		`lookups[0].on.id: late is a field that lookups[1] adds, which does not run before; with on_conflict: fail no fact may have it, so the key is always null`,
	}, got)
}

func TestDescribe(t *testing.T) {
	p := compile(t, Options{
		Dimensions: []Dimension{customers(t), positions(t)},
		Steps: []Step{
			{Dimension: "customer", On: on("id", "$headers.c"), Select: Select{All: true}, Into: "c", Where: []Where{{"segment", []byte(` "X" `)}}},
			{
				Dimension: "position", Join: "inner", Select: pick("p", "part"), OnConflict: "keep",
				On: []Condition{{"order", path("o")}, {"part", path("c.name")}, {"line", path("l")}, {"dt", constant(`"d1"`)}},
			},
			{Dimension: "position", On: on("order", "o", "dt", "d"), Select: pick(), Rows: "array", Into: "all"},
		},
	})
	assert.True(t, p.NeedsHeaders())
	assert.Equal(t, []string{"c", "p", "all"}, p.Fields())
	infos := p.Describe()
	require.Len(t, infos, 3)
	assert.Equal(t, StepInfo{
		Dimension: "customer", Kind: "full key", Why: "on has all primary key columns (id): 0 or 1 row",
		On:    []ColumnInfo{{"id", "int", "key", "$headers.c", "metadata"}},
		Where: []ColumnInfo{{"segment", "string", "condition", `"X"`, "constant"}},
		Join:  "left", Rows: "each", OnConflict: "fail", Into: "c",
		Fields: []FieldInfo{{"id", "id", "int"}, {"name", "name", "string"}, {"segment", "segment", "string"}},
	}, infos[0])
	assert.Equal(t, StepInfo{
		Dimension: "position", Kind: "full key", Why: "on has all primary key columns (dt, order, line): 0 or 1 row",
		On: []ColumnInfo{
			{"dt", "string", "partition", `"d1"`, "constant"},
			{"order", "int", "key", "o", "fact"},
			{"line", "int", "key", "l", "fact"},
			{"part", "string", "condition", "c.name", "lookups[0]"},
		},
		Join: "inner", Rows: "each", OnConflict: "keep", Fields: []FieldInfo{{"p", "part", "string"}},
	}, infos[1])
	assert.Equal(t, "prefix", infos[2].Kind)
	assert.Equal(t, "on has all partition columns (dt) and the first 1 of the key columns (order, line), without line: 0..n rows in key order", infos[2].Why)
	assert.Empty(t, infos[2].Fields)

	projected := compile(t, Options{Select: []Projection{{"x", "a"}, {"y", "b"}}})
	assert.Equal(t, []string{"x", "y"}, projected.Fields())
	assert.False(t, projected.NeedsHeaders())
}

func TestUsedColumns(t *testing.T) {
	steps := []Step{
		{Dimension: "a", On: on("k", "x"), Select: pick("f", "c", "g", "k"), Where: []Where{{Column: "w"}}},
		{Dimension: "b", On: on("z", "x")},
		{Dimension: "a", On: on("l", "x"), Select: Select{All: true}},
	}
	assert.Equal(t, []string{"k", "c", "w", "l"}, UsedColumns(steps, "a"))
	assert.Equal(t, []string{"k", "c", "w", "l", "i"}, UsedColumns(steps, "a", []string{"c", "i"}, []string{"i", "k"}))
	assert.Empty(t, UsedColumns(steps, "c"))
}
