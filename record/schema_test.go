package record

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseType(t *testing.T) {
	for _, typ := range allTypes[1:] {
		got, err := ParseType(typ.String())
		require.NoError(t, err)
		assert.Equal(t, typ, got)
	}
	for _, name := range []string{"", "any", "Int", "int64", "float"} {
		_, err := ParseType(name)
		require.ErrorContains(t, err, "one of string, int, int32, decimal, double, bool, date, timestamp, bytes", "%q", name)
	}
	assert.Equal(t, "any", Any.String())
	assert.Equal(t, "Type(99)", Type(99).String())
}

func TestNewSchema(t *testing.T) {
	s, err := NewSchema([]Column{{"c_name", String}, {"dt", String}, {"c_custkey", Int}}, []string{"c_phone", "dt", "c_phone", "region"}, []string{"c_custkey", "region", "dt", "seq"}, []string{"dt", "region"})
	require.NoError(t, err)
	assert.Equal(t, &Schema{
		Columns:     []Column{{"c_name", String}, {"dt", String}, {"c_custkey", Int}, {"c_phone", Any}, {"region", Any}, {"seq", Any}},
		Declared:    3,
		PrimaryKey:  []int{2, 4, 1, 5},
		PartitionBy: []int{1, 4},
		Key:         []int{2, 5},
	}, s)
	assert.Equal(t, 2, s.Index("c_custkey"))
	assert.Equal(t, -1, s.Index("C_CUSTKEY"))

	s, err = NewSchema(nil, nil, []string{"dt"}, []string{"dt"})
	require.NoError(t, err)
	assert.Empty(t, s.Key, "one row per partition")
	assert.Zero(t, s.Declared)
}

func TestNewSchemaRefuses(t *testing.T) {
	_, err := NewSchema([]Column{{"a", Int}, {"a", String}, {"", Int}}, []string{""}, []string{"b", "b"}, []string{"c"})
	for _, problem := range []string{
		`new schema`, `column "a" is declared twice`, `a declared column has no name`, `a column that is used has no name`,
		`column "b" comes twice in the primary key`, `the partition column "c" is not in the primary key`,
	} {
		require.ErrorContains(t, err, problem)
	}
	_, err = NewSchema([]Column{{"a", Int}}, nil, nil, nil)
	require.ErrorContains(t, err, "the primary key has no column")
	_, err = NewSchema(nil, nil, []string{"a", "b"}, []string{"a", "a"})
	require.ErrorContains(t, err, `column "a" comes twice in the partition columns`)
}

func TestFingerprint(t *testing.T) {
	of := func(declared []Column, extra, primaryKey, partitionBy []string) string {
		s, err := NewSchema(declared, extra, primaryKey, partitionBy)
		require.NoError(t, err)
		return s.Fingerprint()
	}
	columns := []Column{{"a", Int}, {"b", String}}
	base := of(columns, nil, []string{"a", "b"}, []string{"b"})
	assert.Equal(t, base, of(columns, []string{"a"}, []string{"a", "b"}, []string{"b"}), "the same definition")
	assert.Equal(t, "dda64de243532516ac5b70d786d0be39", base, "stable from release to release, as long as the layout is")
	seen := map[string]string{base: "the base"}
	for what, f := range map[string]string{
		"a name":             of([]Column{{"a", Int}, {"c", String}}, nil, []string{"a", "c"}, []string{"c"}),
		"a type":             of([]Column{{"a", Int32}, {"b", String}}, nil, []string{"a", "b"}, []string{"b"}),
		"the order":          of([]Column{{"b", String}, {"a", Int}}, nil, []string{"a", "b"}, []string{"b"}),
		"the order of keys":  of(columns, nil, []string{"b", "a"}, []string{"b"}),
		"partitions":         of(columns, nil, []string{"a", "b"}, nil),
		"partition columns":  of(columns, nil, []string{"a", "b"}, []string{"a"}),
		"order of those":     of(columns, nil, []string{"a", "b"}, []string{"a", "b"}),
		"order of those, 2":  of(columns, nil, []string{"a", "b"}, []string{"b", "a"}),
		"a shorter key":      of(columns, nil, []string{"b"}, []string{"b"}),
		"one more":           of(columns, []string{"c"}, []string{"a", "b"}, []string{"b"}),
		"one more, declared": of(append(columns[:2:2], Column{"c", Any}), nil, []string{"a", "b"}, []string{"b"}),
		"names that run on":  of([]Column{{`a"`, Int}, {"b", String}}, nil, []string{`a"`, "b"}, []string{"b"}),
	} {
		assert.NotContains(t, seen, f, "%s is seen", what)
		seen[f] = what
	}
}

func TestParsePath(t *testing.T) {
	for _, c := range []struct {
		text, first string
		names       []string
		indexes     []int
	}{
		{"o_custkey", "o_custkey", []string{"o_custkey"}, []int{-1}},
		{"customer.id", "customer", []string{"customer", "id"}, []int{-1, -1}},
		{"a.0", "a", []string{"a", "0"}, []int{-1, -1}},
		{"a~1b/c", "a~1b/c", []string{"a~1b/c"}, []int{-1}},
		{"/", "", []string{""}, []int{-1}},
		{"/a//b", "a", []string{"a", "", "b"}, []int{-1, -1, -1}},
		{"/a.b/~0~1/~01", "a.b", []string{"a.b", "~/", "~1"}, []int{-1, -1, -1}},
		{"/a/0/10/01/-/1x/999999999999999999/9999999999999999999", "a", []string{"a", "0", "10", "01", "-", "1x", "999999999999999999", "9999999999999999999"}, []int{-1, 0, 10, -1, -1, -1, 999999999999999999, -1}},
	} {
		p := path(t, c.text)
		assert.Equal(t, c.text, p.String())
		assert.Equal(t, c.first, p.First())
		var names []string
		var indexes []int
		for _, s := range p.segments {
			names, indexes = append(names, s.name), append(indexes, s.index)
		}
		assert.Equal(t, c.names, names, c.text)
		assert.Equal(t, c.indexes, indexes, c.text)
	}
	for text, problem := range map[string]string{"": "empty", ".": "/a.b", "a.": "/a.b", ".a": "/a.b", "a..b": "/a.b", "/~": "'~'", "/a~2": "'~'", "/a~/b": "'~'", "a\xff": "UTF-8"} {
		_, err := ParsePath(text)
		require.ErrorContains(t, err, problem, "%q", text)
	}
	assert.Empty(t, Path{}.First())
}

// TestFieldPath: a column's name is one field, whatever is in it, and is written as a path that says so.
func TestFieldPath(t *testing.T) {
	for _, name := range []string{"a", "a.b", "/a", "", "a/b", "~", "/", "a~1.b", "0"} {
		p := FieldPath(name)
		assert.Equal(t, name, p.First())
		var d Doc
		require.NoError(t, Compile([]Path{p, path(t, p.String())}, nil).Scan(&d, append(AppendQuoted([]byte(`{"z":{},`), name), ":1}"...)))
		assert.Equal(t, "1", string(d.Value(0)), "%q", name)
		assert.Equal(t, "1", string(d.Value(1)), "%q as %s", name, p)
	}
}
