package lookup

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"enricher/record"
)

// columnIndexes are the places of the columns of a text such as `a b`.
func columnIndexes(tb testing.TB, s *record.Schema, text string) (indexes []int) {
	tb.Helper()
	for name := range strings.FieldsSeq(text) {
		i := s.Index(name)
		require.GreaterOrEqual(tb, i, 0, name)
		indexes = append(indexes, i)
	}
	return indexes
}

func TestPlanJoin(t *testing.T) {
	schema := func(key, partition string) *record.Schema {
		s, err := record.NewSchema(nil, []string{"x", "y", "z"}, strings.Fields(key), strings.Fields(partition))
		require.NoError(t, err)
		return s
	}
	plain, split, only := schema("a b c", ""), schema("a p b q", "q p"), schema("p", "p")
	tests := []struct {
		name    string
		schema  *record.Schema
		indexes []string
		latest  int
		on      string
		kind    string // empty: refused
		key     string
		part    string
		index   int
		why     string
	}{
		{name: "full key in any order", schema: plain, on: "c a b", kind: "full key", key: "a b c"},
		{name: "full key and more", schema: plain, on: "x c a b", kind: "full key", key: "a b c"},
		{name: "prefix of one", schema: plain, on: "a", kind: "prefix", key: "a"},
		{name: "prefix of two in any order", schema: plain, on: "b a", kind: "prefix", key: "a b"},
		{name: "prefix and a key column behind a gap", schema: plain, on: "c a", kind: "prefix", key: "a"},
		{name: "no first column", schema: plain, on: "b c"},
		{name: "other columns only", schema: plain, on: "x"},
		{name: "partitioned full key", schema: split, on: "q p b a", kind: "full key", key: "a b", part: "q p"},
		{name: "partitioned prefix", schema: split, on: "q a p", kind: "prefix", key: "a", part: "q p"},
		{name: "one partition column lacks", schema: split, on: "q a b"},
		{name: "partition columns only", schema: split, on: "q p"},
		{name: "key of partition columns only", schema: only, on: "p", kind: "full key", part: "p"},
		{name: "key of partition columns only, lacking", schema: only, on: "x"},

		{
			name: "index in any order", schema: plain, indexes: []string{"y", "x z"}, on: "z x", kind: "index", key: "x z", index: 1,
			why: "on has all columns of the index (x, z): 0..n rows in key order",
		},
		{name: "part of an index", schema: plain, indexes: []string{"x z"}, on: "z"},
		{name: "index and more", schema: plain, indexes: []string{"x"}, on: "z b x", kind: "index", key: "x"},
		{name: "the index with most columns", schema: plain, indexes: []string{"x", "y x", "z"}, on: "z x y", kind: "index", key: "y x", index: 1},
		{name: "of equal indexes the first", schema: plain, indexes: []string{"z y x", "x", "z"}, on: "z x", kind: "index", key: "x", index: 1},
		{name: "a prefix goes before an index", schema: plain, indexes: []string{"x y z"}, on: "x y z a", kind: "prefix", key: "a"},
		{name: "the full key goes before an index", schema: plain, indexes: []string{"x y z c"}, on: "x y z a b c", kind: "full key", key: "a b c"},
		{name: "an index on key columns", schema: plain, indexes: []string{"c b"}, on: "b c", kind: "index", key: "c b"},
		{
			name: "index over all partitions", schema: split, indexes: []string{"x"}, on: "x a", kind: "index", key: "x",
			why: "on has all columns of the index (x): 0..n rows of all partitions, in order of partition and key",
		},
		{name: "index with one partition column", schema: split, indexes: []string{"x p"}, on: "x a p", kind: "index", key: "x p"},
		{name: "index with the partition", schema: split, indexes: []string{"x p"}, on: "q x p", kind: "index", key: "x p", part: "q p"},

		{
			name: "full key in the latest partition", schema: split, latest: 1, on: "b a x", kind: "latest partition", key: "a b",
			why: "on has all key columns but those of the partition (a, b): 0 or 1 row in the greatest partition (q, p)",
		},
		{
			name: "prefix in the latest two partitions", schema: split, latest: 2, on: "a", kind: "latest partition", key: "a",
			why: "on has the first 1 of the key columns (a, b), without b: 0..n rows in each of the 2 greatest partitions (q, p), in key order",
		},
		{name: "latest goes before an index", schema: split, latest: 1, indexes: []string{"x y"}, on: "x y a", kind: "latest partition", key: "a"},
		{name: "latest without a prefix", schema: split, latest: 1, on: "b"},
		{name: "latest is not for an index", schema: split, latest: 1, indexes: []string{"x"}, on: "x"},
		{
			name: "the row of the latest partition", schema: only, latest: 1, kind: "latest partition",
			why: "the primary key is the partition columns: the row of the greatest partition (p)",
		},
		{name: "the rows of the latest two partitions", schema: only, latest: 2, on: "x", kind: "latest partition"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var indexes [][]int
			for _, index := range test.indexes {
				indexes = append(indexes, columnIndexes(t, test.schema, index))
			}
			got := planJoin(test.schema, indexes, test.latest, columnIndexes(t, test.schema, test.on))
			if test.kind == "" {
				assert.NotEmpty(t, got.problem)
				assert.Empty(t, got.why)
				return
			}
			assert.Empty(t, got.problem)
			assert.NotEmpty(t, got.why)
			if test.why != "" {
				assert.Equal(t, test.why, got.why)
			}
			assert.Equal(t, test.kind, got.name())
			assert.Equal(t, test.latest, got.latest)
			assert.Equal(t, test.index, got.index)
			assert.Equal(t, columnIndexes(t, test.schema, test.key), got.key)
			assert.Equal(t, columnIndexes(t, test.schema, test.part), got.partition)
		})
	}
}

func TestRefusals(t *testing.T) {
	plain := indexed(t, dimension(t, "plain", []string{"id int", "nation int", "name"}, []string{"id"}, nil), []string{"nation"}, []string{"name", "nation"})
	split := indexed(t, dimension(t, "split", []string{"dt string", "order int", "line int", "part string"}, []string{"dt", "order", "line"}, []string{"dt"}), []string{"part"})
	days := dimension(t, "days", []string{"dt string", "v string"}, []string{"dt"}, []string{"dt"})
	broken := plain
	broken.Name, broken.Indexes = "broken", [][]int{{0, 1}, {}, {2, 2}, {3}}
	step := func(dimension, partitions string, on []Condition) Step {
		return Step{Dimension: dimension, Partitions: partitions, On: on, Select: pick()}
	}
	for name, test := range map[string]struct {
		step Step
		want []string
	}{
		"part of an index": {step("plain", "", on("name", "n")), []string{
			`lookups[0].on: no way to find rows with these columns: of the primary key id is missing; accepted: all of id (full key), ` +
				`or all of nation (index), or all of name, nation (index); further columns may stand beside`,
		}},
		"everything there is": {step("split", "", on("order", "o")), []string{
			`lookups[0].on: no way to find rows with these columns: of the primary key dt, line is missing; accepted: all of dt, order, line (full key), ` +
				`or at least dt, order (prefix: all partition columns and the first of the key columns order, line, in this order), ` +
				`or at least order with partitions: latest or latest_two instead of dt, or all of part (index); further columns may stand beside; ` +
				`a prefix of the key needs the partition columns too, here dt`,
		}},
		"only partitions": {step("days", "", on("v", "v")), []string{
			`lookups[0].on: no way to find rows with these columns: of the primary key dt is missing; accepted: all of dt (full key), ` +
				`or partitions: latest or latest_two instead of dt; further columns may stand beside`,
		}},
		"latest without the key": {step("split", "latest", on("line", "l")), []string{
			`lookups[0].on: no way to find rows with these columns: of the primary key order is missing; accepted with partitions: latest or latest_two: ` +
				`all of order, line (full key), or at least order (prefix: the first of the key columns order, line, in this order); further columns may stand beside`,
		}},
		"latest and an index": {step("split", "latest_two", on("part", "p")), []string{
			`lookups[0].on: no way to find rows with these columns: of the primary key order, line is missing; accepted with partitions: latest or latest_two: ` +
				`all of order, line (full key), or at least order (prefix: the first of the key columns order, line, in this order); further columns may stand beside; ` +
				`the index (part) finds rows over all partitions: leave partitions out to join on it`,
		}},
		"latest with the partition": {step("split", "latest", on("order", "o", "dt", "d")), []string{
			`lookups[0].partitions: the greatest partitions take the place of the partition columns (dt), and on has dt; leave out either`,
		}},
		"latest with the partition and nothing else": {step("split", "latest", on("dt", "d")), []string{
			`lookups[0].partitions: the greatest partitions take the place of the partition columns (dt), and on has dt; leave out either`,
		}},
		"latest without partitions": {step("plain", "latest", on("id", "i")), []string{
			`lookups[0].partitions: dimension "plain" has no partitions (partition_by); leave partitions out`,
		}},
		"latest without partitions and without a key": {step("plain", "latest", on("name", "i")), []string{
			`lookups[0].partitions: dimension "plain" has no partitions (partition_by); leave partitions out`,
			`lookups[0].on: no way to find rows with these columns: of the primary key id is missing; accepted: all of id (full key), ` +
				`or all of nation (index), or all of name, nation (index); further columns may stand beside`,
		}},
		"unknown word": {step("split", "latests", on("order", "o")), []string{
			`lookups[0].partitions: unknown value "latests" (did you mean "latest"?); one of latest, latest_two`,
		}},
		"indexes that are none": {step("broken", "", on("id", "i")), []string{
			`lookups[0].dimension: BUG: index 1 of dimension "broken" has no columns`,
			`lookups[0].dimension: BUG: index 2 of dimension "broken" has the columns [2 2] of 3`,
			`lookups[0].dimension: BUG: index 3 of dimension "broken" has the columns [3] of 3`,
		}},
		"constant of an index": {step("plain", "", []Condition{{"nation", constant(`"x"`)}}), []string{
			`lookups[0].on.nation: the constant "x" is a string and does not convert to the type int of column "nation"`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Compile(Options{Steps: []Step{test.step}, Dimensions: []Dimension{plain, split, days, broken}})
			assert.Equal(t, test.want, planErrors(t, err))
		})
	}
}

func TestDescribeIndexAndLatest(t *testing.T) {
	split := indexed(t, dimension(t, "split", []string{"dt string", "order int", "line int", "part string"}, []string{"dt", "order", "line"}, []string{"dt"}),
		[]string{"part"}, []string{"part", "line"})
	p := compile(t, Options{
		Dimensions: []Dimension{split},
		Steps: []Step{
			{Dimension: "split", On: on("dt", "d", "line", "l", "part", "p"), Select: pick("a", "order")},
			{Dimension: "split", On: []Condition{{"part", path("p")}, {"line", constant(`1`)}, {"order", path("o")}}, Partitions: "latest_two", Select: pick("b", "dt")},
		},
	})
	assert.Equal(t, []StepInfo{
		{
			Dimension: "split", Kind: "index", Why: "on has all columns of the index (part, line): 0..n rows of all partitions, in order of partition and key",
			On:   []ColumnInfo{{"part", "string", "index", "p", "fact"}, {"line", "int", "index", "l", "fact"}, {"dt", "string", "condition", "d", "fact"}},
			Join: "left", Rows: "each", OnConflict: "fail", Fields: []FieldInfo{{"a", "order", "int"}},
		},
		{
			Dimension: "split", Kind: "latest partition", Partitions: "latest_two",
			Why:  "on has all key columns but those of the partition (order, line): 0 or 1 row in each of the 2 greatest partitions (dt)",
			On:   []ColumnInfo{{"order", "int", "key", "o", "fact"}, {"line", "int", "key", "1", "constant"}, {"part", "string", "condition", "p", "fact"}},
			Join: "left", Rows: "each", OnConflict: "fail", Fields: []FieldInfo{{"b", "dt", "string"}},
		},
	}, p.Describe())
}
