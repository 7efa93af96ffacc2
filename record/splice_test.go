package record

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAppendSpliced(t *testing.T) {
	for _, c := range []struct{ name, src, members, want string }{
		{"numbers stay", `{"cust":1,"x":9007199254740993,"y":327267367867168100000,"z":1.10,"e":1e400,"n":-0}`, `"name":"A"`, `{"cust":1,"x":9007199254740993,"y":327267367867168100000,"z":1.10,"e":1e400,"n":-0,"name":"A"}`},
		{"characters stay", `{"url":"a?b=1&c=<d>","e":"\u00e9é\/\ud800"}`, `"name":null`, `{"url":"a?b=1&c=<d>","e":"\u00e9é\/\ud800","name":null}`},
		{"repeated names stay", `{"a":1,"cust":1,"a":2}`, `"name":"A"`, `{"a":1,"cust":1,"a":2,"name":"A"}`},
		{"an empty object", `{}`, `"a":1,"b":null`, `{"a":1,"b":null}`},
		{"an empty object with space", " { \n} ", `"a":1`, " { \n\"a\":1} "},
		{"space before the brace", "{\"a\":1 \r\n\t}\n", `"b":2`, "{\"a\":1 \r\n\t,\"b\":2}\n"},
		{"no members", `{"a":1 } `, ``, `{"a":1 } `},
		{"no members, empty", `{}`, ``, `{}`},
		{"nested braces", `{"a":{"b":"}"}}`, `"c":{}`, `{"a":{"b":"}"},"c":{}}`},
		{"a brace in the last string", `{"a":"}"}`, `"b":1`, `{"a":"}","b":1}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var d Doc
			require.NoError(t, shape(t, "cust").Scan(&d, []byte(c.src)))
			got := d.AppendSpliced([]byte("kept"), []byte(c.members), nil)
			assert.Equal(t, "kept"+c.want, string(got))
			require.NoError(t, Valid(got[len("kept"):]))
		})
	}
}

func TestAppendSplicedEdits(t *testing.T) {
	var d Doc
	s := Compile(nil, []string{"name", "other"})
	src := `{ "name" : "x" ,"a":{"name":1},"n\u0061me":[ 1 ],"other":2,"name":null}`
	require.NoError(t, s.Scan(&d, []byte(src)))
	var found []string
	var edits []Edit
	for _, at := range d.Occurrences(0) {
		found = append(found, src[at.Start:at.End])
		edits = append(edits, Edit{Span: at, Value: []byte(`"new"`)})
	}
	assert.Equal(t, []string{`"x"`, `[ 1 ]`, `null`}, found, "every occurrence at the top, none below, by meaning")
	want := `{ "name" : "new" ,"a":{"name":1},"n\u0061me":"new","other":2,"name":"new"`
	assert.Equal(t, want+`}`, string(d.AppendSpliced(nil, nil, edits)))
	assert.Equal(t, want+`,"b":1}`, string(d.AppendSpliced(nil, []byte(`"b":1`), edits)))
	//nolint:testifylint // the exact bytes are the point
	assert.Equal(t, `{ "name" :  ,"a":{"name":1},"n\u0061me":[ 1 ],"other":2,"name":null}`, string(d.AppendSpliced(nil, nil, []Edit{{Span: d.Occurrences(0)[0]}})))
}

// TestNoAllocations: once the Doc and the destinations have grown, a record costs no allocation, whatever it looks like.
func TestNoAllocations(t *testing.T) {
	s := Compile([]Path{path(t, "o_custkey"), path(t, "o_dt"), path(t, "a.b"), path(t, "/l/2/x")}, []string{"customer_name", "o_clerk"})
	for _, src := range []string{
		benchFact,
		`{"a":{"b":1},"a":{"b":2},"l":[1,2,{"x":3}],"o_clerk":1,"o_clerk":2}`,
		`{"\u006f_custkey":"\u0037","o_dt":"2025","long":"` + strings.Repeat("é\\n", 1000) + `"}`,
		`{"deep":` + strings.Repeat("[", 9_000) + strings.Repeat("]", 9_000) + `}`,
	} {
		var d Doc
		fact, members := []byte(src), []byte(benchMembers)
		dst, k, edits := make([]byte, 0, 2*len(src)+1024), make([]byte, 0, 1024), make([]Edit, 0, 8)
		work := func() {
			if err := s.Scan(&d, fact); err != nil {
				t.Fatal(err)
			}
			k, edits = k[:0], edits[:0]
			for i := range 4 {
				for _, typ := range allTypes {
					k, _ = AppendKey(k, typ, d.Value(i))
					k, _ = AppendKeyText(k, typ, d.Value(i))
				}
			}
			for _, typ := range allTypes {
				k, _ = AppendKeyInt(k, typ, 1234567)
			}
			for _, at := range d.Occurrences(1) {
				edits = append(edits, Edit{Span: at, Value: members[:1]})
			}
			dst = d.AppendSpliced(dst[:0], members, edits)
		}
		work()
		assert.Zero(t, testing.AllocsPerRun(100, work), "%.40s", src)
	}
}

// TestNoAllocationsOfKeys: conversions cost none, those that fail included.
func TestNoAllocationsOfKeys(t *testing.T) {
	k := make([]byte, 0, 4096)
	for _, text := range []string{
		`1.5`, `1e400`, `-1e309`, `1e99999999999999999999`, `"2025-01-01T00:00:00.123+09:00"`, `"2025-02-28"`, `"AAE="`, `"a\u0000\ud83d\ude00"`, `null`, `{}`, `[1]`,
		`"` + strings.Repeat("x", 500) + `"`, strings.Repeat("9", 300) + ".5", `true`, `"1e309"`, `"0.1"`,
	} {
		raw := []byte(text)
		for _, typ := range allTypes {
			assert.Zero(t, testing.AllocsPerRun(20, func() { k, _ = AppendKey(k[:0], typ, raw) }), "%s of %.40s", typ, text)
		}
	}
}
