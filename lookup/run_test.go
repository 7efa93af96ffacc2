package lookup

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// misses are the counts of all reasons, by name, without the zeros.
func misses(s StepStats) map[string]int {
	counts := map[string]int{}
	for reason, n := range s.Misses {
		if n > 0 {
			counts[MissReason(reason).String()] = n
		}
	}
	return counts
}

// outcome is the kind and the records, or the class, of an outcome in short.
func outcome(o Outcome) string {
	if o.Kind == Written {
		return strings.Join(texts(o), "\n")
	}
	return strings.TrimSpace(o.Kind.String() + " " + o.Class)
}

// semantics is one configuration and what becomes of facts under it.
type semantics struct {
	name   string
	steps  []Step
	output []Projection
	facts  []string // fact, what becomes of it
	misses []map[string]int
}

func (s semantics) run(t *testing.T, dims ...Dimension) {
	t.Helper()
	t.Run(s.name, func(t *testing.T) {
		p := compile(t, Options{Steps: s.steps, Dimensions: dims, Select: s.output})
		var values []string
		for i := 0; i < len(s.facts); i += 2 {
			values = append(values, s.facts[i])
		}
		outcomes, stats := run(t, p, values...)
		for i, o := range outcomes {
			assert.Equal(t, s.facts[2*i+1], outcome(o), "fact %s", values[i])
		}
		for i, want := range s.misses {
			assert.Equal(t, want, misses(stats[i]), "misses of lookups[%d]", i)
		}
	})
}

func TestFullKey(t *testing.T) {
	byCust := on("id", "cust")
	left := Step{Dimension: "customer", On: byCust, Select: pick("name", "name")}
	inner := left
	inner.Join = "inner"
	where := left
	where.Where = []Where{{"segment", []byte(`"X"`)}}
	tests := []semantics{
		{
			name: "bytes stay", steps: []Step{left},
			facts: []string{
				`{"cust":1,"x":9007199254740993,"y":327267367867168100000,"z":1.10,"e":1e400,"n":-0}`,
				`{"cust":1,"x":9007199254740993,"y":327267367867168100000,"z":1.10,"e":1e400,"n":-0,"name":"Ann"}`,
				`{"cust":1,"url":"a?b=1&c=<d>"}`, `{"cust":1,"url":"a?b=1&c=<d>","name":"Ann"}`,
				` { "cust" : 42 , "s" : "\ud800\/" } ` + "\n", ` { "cust" : 42 , "s" : "\ud800\/" ,"name":"D\u00e9"} ` + "\n",
				`{"a":1,"cust":1,"a":2}`, `{"a":1,"cust":1,"a":2,"name":"Ann"}`,
				`{"cust":1,"cust":2}`, `{"cust":1,"cust":2,"name":"Bob"}`,
				`{"CUST":1}`, `{"CUST":1,"name":null}`,
				`{"cu\u0073t":1}`, `{"cu\u0073t":1,"name":"Ann"}`,
			},
		},
		{
			name: "no JSON object", steps: []Step{left},
			facts: []string{
				``, "failed decode", `{`, "failed decode", "\xff", "failed decode", `{"cust":1} x`, "failed decode", `[1]`, "failed decode",
				`"s"`, "failed decode", `{"a":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}`, "failed decode",
				"{\"cust\":\"\xff\"}", "failed decode", `{"cust":1}`, `{"cust":1,"name":"Ann"}`,
			},
			misses: []map[string]int{{}},
		},
		{
			name: "left", steps: []Step{left},
			facts: []string{
				`{"cust":null}`, `{"cust":null,"name":null}`, `{}`, `{"name":null}`, `{"cust":"abc"}`, `{"cust":"abc","name":null}`,
				`{"cust":7.5}`, `{"cust":7.5,"name":null}`, `{"cust":9}`, `{"cust":9,"name":null}`, `{"cust":9.0}`, `{"cust":9.0,"name":null}`,
				`{"cust":{"id":1}}`, `{"cust":{"id":1},"name":null}`, `{"cust":3}`, `{"cust":3,"name":null}`,
			},
			misses: []map[string]int{{"null_key": 2, "type_mismatch": 3, "no_row": 2}},
		},
		{
			name: "inner", steps: []Step{inner},
			facts:  []string{`{"cust":null}`, "dropped", `{}`, "dropped", `{"cust":"abc"}`, "dropped", `{"cust":9}`, "dropped", `{"cust":2}`, `{"cust":2,"name":"Bob"}`},
			misses: []map[string]int{{"null_key": 2, "type_mismatch": 1, "no_row": 1}},
		},
		{
			name: "by meaning", steps: []Step{left},
			facts: []string{
				`{"cust":"42"}`, `{"cust":"42","name":"D\u00e9"}`, `{"cust":42.0}`, `{"cust":42.0,"name":"D\u00e9"}`, `{"cust":4.2e1}`, `{"cust":4.2e1,"name":"D\u00e9"}`,
			},
		},
		{
			name: "where", steps: []Step{where},
			facts: []string{
				`{"cust":1}`, `{"cust":1,"name":"Ann"}`, `{"cust":2}`, `{"cust":2,"name":null}`, `{"cust":3}`, `{"cust":3,"name":null}`, `{"cust":8}`, `{"cust":8,"name":null}`,
			},
			misses: []map[string]int{{"condition": 2, "no_row": 1}},
		},
		{
			name: "further conditions", steps: []Step{{Dimension: "customer", On: on("segment", "seg", "id", "cust"), Select: pick("name", "name")}},
			facts: []string{
				`{"cust":1,"seg":"X"}`, `{"cust":1,"seg":"X","name":"Ann"}`, `{"cust":1,"seg":"Y"}`, `{"cust":1,"seg":"Y","name":null}`,
				`{"cust":1}`, `{"cust":1,"name":null}`, `{"cust":3,"seg":"X"}`, `{"cust":3,"seg":"X","name":null}`,
				`{"cust":"x","seg":null}`, `{"cust":"x","seg":null,"name":null}`, `{"cust":1,"seg":[]}`, `{"cust":1,"seg":[],"name":null}`,
				`{"cust":9,"seg":"X"}`, `{"cust":9,"seg":"X","name":null}`,
			},
			misses: []map[string]int{{"condition": 2, "null_key": 2, "type_mismatch": 1, "no_row": 1}},
		},
		{
			name: "constant condition", steps: []Step{{
				Dimension: "customer", Select: pick("name", "name"), On: []Condition{{"segment", constant(`"X"`)}, {"id", path("cust")}},
			}},
			facts: []string{`{"cust":1}`, `{"cust":1,"name":"Ann"}`, `{"cust":2}`, `{"cust":2,"name":null}`},
		},
		{
			name: "constant key", steps: []Step{{Dimension: "customer", Select: pick("name", "name"), On: []Condition{{"id", constant(`1`)}}}},
			facts: []string{`{}`, `{"name":"Ann"}`, `{"x":[]}`, `{"x":[],"name":"Ann"}`},
		},
		{
			name: "all columns", steps: []Step{{Dimension: "customer", On: byCust, Select: Select{All: true}}},
			facts: []string{
				`{"cust":1}`, `{"cust":1,"id":1,"name":"Ann","segment":"X"}`, `{"cust":3}`, `{"cust":3,"id":3,"name":null,"segment":null}`,
				`{"cust":9}`, `{"cust":9,"id":null,"name":null,"segment":null}`,
			},
		},
		{
			name: "no columns", steps: []Step{{Dimension: "customer", On: byCust, Select: pick(), Join: "inner"}},
			facts: []string{`{"cust":1}`, `{"cust":1}`, `{"cust":9}`, "dropped", ` { "cust" : 2 } `, ` { "cust" : 2 } `},
		},
		{
			name: "into", steps: []Step{{Dimension: "customer", On: byCust, Select: pick("n\"", "name", "s", "segment"), Into: "c\u00fc\n"}},
			facts: []string{
				`{"cust":1}`, `{"cust":1,"cü\n":{"n\"":"Ann","s":"X"}}`, `{"cust":3}`, `{"cust":3,"cü\n":{"n\"":null,"s":null}}`, `{"cust":9}`, `{"cust":9,"cü\n":null}`,
			},
		},
		{
			name: "into array", steps: []Step{{Dimension: "customer", On: byCust, Select: pick("n", "name"), Into: "c", Rows: "array"}},
			facts: []string{`{"cust":1}`, `{"cust":1,"c":[{"n":"Ann"}]}`, `{"cust":9}`, `{"cust":9,"c":[]}`, `{"cust":null}`, `{"cust":null,"c":[]}`},
		},
		{
			name: "nothing selected into", steps: []Step{{Dimension: "customer", On: byCust, Select: pick(), Into: "c"}},
			facts: []string{`{"cust":1}`, `{"cust":1,"c":{}}`, `{"cust":9}`, `{"cust":9,"c":null}`},
		},
	}
	for _, test := range tests {
		test.run(t, customers(t))
	}
}

func TestUndeclaredKey(t *testing.T) {
	dim := dimension(t, "d", []string{"k", "v"}, []string{"k"}, nil, `{"k":1,"v":"number"}`, `{"k":"1","v":"string"}`, `{"k":true,"v":"bool"}`)
	semantics{
		name: "kinds", steps: []Step{{Dimension: "d", On: on("k", "k"), Select: pick("v", "v")}},
		facts: []string{
			`{"k":1}`, `{"k":1,"v":"number"}`, `{"k":1.0}`, `{"k":1.0,"v":"number"}`, `{"k":"1"}`, `{"k":"1","v":"string"}`, `{"k":"1.0"}`, `{"k":"1.0","v":null}`,
			`{"k":true}`, `{"k":true,"v":"bool"}`, `{"k":"true"}`, `{"k":"true","v":null}`, `{"k":[]}`, `{"k":[],"v":null}`, `{"k":{}}`, `{"k":{},"v":null}`,
		},
		misses: []map[string]int{{"no_row": 2, "type_mismatch": 2}},
	}.run(t, dim)
}

func TestPrefix(t *testing.T) {
	step := Step{Dimension: "position", On: on("order", "o", "dt", "d"), Select: pick("line", "line", "part", "part")}
	with := func(change func(*Step)) []Step {
		s := step
		change(&s)
		return []Step{s}
	}
	for _, test := range []semantics{
		{
			name: "each", steps: []Step{step},
			facts: []string{
				`{"o":7,"d":"d1"}`, `{"o":7,"d":"d1","line":-1,"part":"a"}` + "\n" + `{"o":7,"d":"d1","line":2,"part":"b"}` + "\n" + `{"o":7,"d":"d1","line":10,"part":"c"}`,
				`{"o":8,"d":"d1"}`, `{"o":8,"d":"d1","line":null,"part":null}`,
				`{"o":7,"d":"d3"}`, `{"o":7,"d":"d3","line":null,"part":null}`,
				`{"o":"7","d":"d2"}`, `{"o":"7","d":"d2","line":1,"part":"q"}`,
				`{"o":7,"d":"d"}`, `{"o":7,"d":"d","line":null,"part":null}`,
				`{"o":7}`, `{"o":7,"line":null,"part":null}`,
			},
			misses: []map[string]int{{"no_row": 1, "no_partition": 2, "null_key": 1}},
		},
		{
			name: "first", steps: with(func(s *Step) { s.Rows = "first" }),
			facts: []string{`{"o":7,"d":"d1"}`, `{"o":7,"d":"d1","line":-1,"part":"a"}`, `{"o":9,"d":"d1"}`, `{"o":9,"d":"d1","line":null,"part":null}`},
		},
		{
			name: "first that meets the conditions",
			steps: with(func(s *Step) {
				s.Rows, s.Select = "first", pick("line", "line")
				s.On = append(s.On[:2:2], Condition{"part", path("p")})
			}),
			facts: []string{`{"o":7,"d":"d1","p":"b"}`, `{"o":7,"d":"d1","p":"b","line":2}`, `{"o":7,"d":"d1","p":"y"}`, `{"o":7,"d":"d1","p":"y","line":null}`},
		},
		{
			name: "first that meets the conditions, into",
			steps: with(func(s *Step) {
				s.Rows, s.Into = "first", "x"
				s.On = append(s.On[:2:2], Condition{"part", path("p")})
			}),
			facts: []string{
				`{"o":7,"d":"d1","p":"b"}`, `{"o":7,"d":"d1","p":"b","x":{"line":2,"part":"b"}}`, `{"o":7,"d":"d1","p":"y"}`, `{"o":7,"d":"d1","p":"y","x":null}`,
			},
			misses: []map[string]int{{"condition": 1}},
		},
		{
			name: "array", steps: with(func(s *Step) { s.Rows, s.Into = "array", "p" }),
			facts: []string{
				`{"o":7,"d":"d1"}`, `{"o":7,"d":"d1","p":[{"line":-1,"part":"a"},{"line":2,"part":"b"},{"line":10,"part":"c"}]}`, `{"o":9,"d":"d1"}`, `{"o":9,"d":"d1","p":[]}`,
			},
		},
		{
			name: "full key of a partition", steps: with(func(s *Step) { s.On = on("dt", "d", "line", "l", "order", "o"); s.Select = pick("part", "part") }),
			facts: []string{
				`{"o":7,"d":"d1","l":2}`, `{"o":7,"d":"d1","l":2,"part":"b"}`, `{"o":7,"d":"d1","l":3}`, `{"o":7,"d":"d1","l":3,"part":null}`,
				`{"o":7,"d":"d9","l":2}`, `{"o":7,"d":"d9","l":2,"part":null}`,
			},
			misses: []map[string]int{{"no_row": 1, "no_partition": 1}},
		},
		{
			name: "each with where", steps: with(func(s *Step) { s.Where = []Where{{"part", []byte(`"b"`)}} }),
			facts: []string{`{"o":7,"d":"d1"}`, `{"o":7,"d":"d1","line":2,"part":"b"}`, `{"o":70,"d":"d1"}`, `{"o":70,"d":"d1","line":null,"part":null}`},
		},
	} {
		test.run(t, positions(t))
	}
	regions := dimension(t, "r", []string{"region string", "id string"}, []string{"region", "id"}, nil, `{"region":"a","id":"bc"}`, `{"region":"ab","id":"c"}`)
	semantics{
		name: "whole values only", steps: []Step{{Dimension: "r", On: on("region", "r"), Select: pick("id", "id")}},
		facts: []string{`{"r":"a"}`, `{"r":"a","id":"bc"}`, `{"r":"ab"}`, `{"r":"ab","id":"c"}`, `{"r":""}`, `{"r":"","id":null}`},
	}.run(t, regions)
}

func TestConflicts(t *testing.T) {
	step := func(policy string) Step {
		return Step{Dimension: "customer", On: on("id", "cust"), Select: pick("name", "name", "seg", "segment"), OnConflict: policy}
	}
	into := func(policy, rows string) Step {
		s := step(policy)
		s.Into, s.Rows = "c", rows
		return s
	}
	inner := step("fail")
	inner.Join = "inner"
	for _, test := range []semantics{
		{name: "fail", steps: []Step{step("")}, facts: []string{
			`{"cust":1,"name":null}`, "failed conflict", `{"cust":9,"seg":1}`, "failed conflict", `{"cust":1,"x":{"name":1}}`, `{"cust":1,"x":{"name":1},"name":"Ann","seg":"X"}`,
		}},
		{name: "fail comes before inner", steps: []Step{inner}, facts: []string{`{"cust":9,"seg":1}`, "failed conflict", `{"cust":9}`, "dropped"}},
		{name: "keep", steps: []Step{step("keep")}, facts: []string{
			`{"cust":1,"name":0}`, `{"cust":1,"name":0,"seg":"X"}`, `{"cust":9,"name":0}`, `{"cust":9,"name":0,"seg":null}`,
			`{"name":1,"cust":1,"seg":2}`, `{"name":1,"cust":1,"seg":2}`, `{"cust":1,"name":null}`, `{"cust":1,"name":null,"seg":"X"}`,
		}},
		{name: "overwrite", steps: []Step{step("overwrite")}, facts: []string{
			`{"cust":1,"name":0}`, `{"cust":1,"name":"Ann","seg":"X"}`,
			`{ "seg" : [1,2] , "name":1,"cust":1, "na\u006de" : {"name":5} }`, `{ "seg" : "X" , "name":"Ann","cust":1, "na\u006de" : "Ann" }`,
			`{"cust":9,"name":0,"name":1}`, `{"cust":9,"name":0,"name":1,"seg":null}`, `{"cust":3,"name":0}`, `{"cust":3,"name":null,"seg":null}`,
			`{"cust":1}`, `{"cust":1,"name":"Ann","seg":"X"}`,
		}},
		{name: "into fails", steps: []Step{into("fail", "each")}, facts: []string{
			`{"cust":1,"c":1}`, "failed conflict", `{"cust":1,"name":1}`, `{"cust":1,"name":1,"c":{"name":"Ann","seg":"X"}}`,
		}},
		{name: "into keeps", steps: []Step{into("keep", "array")}, facts: []string{`{"c":1,"cust":1}`, `{"c":1,"cust":1}`, `{"c":1}`, `{"c":1}`}},
		{name: "into overwrites", steps: []Step{into("overwrite", "each")}, facts: []string{
			`{"c":1,"cust":1,"c":2}`, `{"c":{"name":"Ann","seg":"X"},"cust":1,"c":{"name":"Ann","seg":"X"}}`, `{"c":1,"cust":9,"c":2}`, `{"c":1,"cust":9,"c":2}`,
		}},
		{name: "array overwrites", steps: []Step{into("overwrite", "array")}, facts: []string{
			`{"c":1,"cust":1}`, `{"c":[{"name":"Ann","seg":"X"}],"cust":1}`, `{"c":1,"cust":9}`, `{"c":1,"cust":9}`, `{"cust":9}`, `{"cust":9,"c":[]}`,
		}},
	} {
		test.run(t, customers(t))
	}
	p := compile(t, Options{Dimensions: []Dimension{customers(t)}, Steps: []Step{step("fail")}})
	outcomes, stats := run(t, p, `{"name":1,"cust":1}`)
	assert.Equal(t, Outcome{
		Kind: Failed, Class: "conflict", Dimension: "customer",
		Message: `the fact has the field "name" already, which lookups[0] adds (on_conflict: fail)`,
	}, outcomes[0])
	assert.Equal(t, []StepStats{{Errors: 1}}, stats)
}

func TestLaterLookups(t *testing.T) {
	orders := dimension(t, "orders", []string{"o int", "cust int", "doc"}, []string{"o"}, nil,
		`{"o":1,"cust":1,"doc":{"id":2,"list":[1,42]}}`, `{"o":2,"cust":null,"doc":[{"id":1}]}`, `{"o":3,"cust":77}`, `{"o":4,"cust":42,"doc":"text"}`)
	dims := []Dimension{orders, customers(t), positions(t)}
	first := func(change func(*Step)) Step {
		s := Step{Dimension: "orders", On: on("o", "o"), Select: pick("cust", "cust", "doc", "doc")}
		if change != nil {
			change(&s)
		}
		return s
	}
	name := func(operand string) Step {
		return Step{Dimension: "customer", On: on("id", operand), Select: pick("name", "name")}
	}
	only := []Projection{{"n", "name"}}
	for _, test := range []semantics{
		{
			name: "column", steps: []Step{first(nil), name("cust")}, output: only,
			facts: []string{
				`{"o":1}`, `{"n":"Ann"}`, `{"o":2}`, `{"n":null}`, `{"o":3}`, `{"n":null}`, `{"o":9}`, `{"n":null}`, `{"o":4}`, `{"n":"D\u00e9"}`,
				`{"o":4,"cust":1}`, "failed conflict",
			},
			misses: []map[string]int{{"no_row": 1}, {"null_key": 2, "no_row": 1}},
		},
		{
			name: "whole record", steps: []Step{first(func(s *Step) { s.Select = pick("c", "cust") }), name("c")},
			facts: []string{`{"o":1}`, `{"o":1,"c":1,"name":"Ann"}`, `{"o":2}`, `{"o":2,"c":null,"name":null}`, `{}`, `{"c":null,"name":null}`},
		},
		{
			name: "inside a column", steps: []Step{first(nil), name("doc.id")}, output: only,
			facts: []string{`{"o":1}`, `{"n":"Bob"}`, `{"o":2}`, `{"n":null}`, `{"o":4}`, `{"n":null}`},
		},
		{
			name: "inside a column by pointer", steps: []Step{first(nil), name("/doc/list/1")}, output: []Projection{{"n", "name"}, {"l", "/doc/list/0"}, {"d", "doc"}},
			facts: []string{`{"o":1}`, `{"n":"D\u00e9","l":1,"d":{"id":2,"list":[1,42]}}`, `{"o":2}`, `{"n":null,"l":null,"d":[{"id":1}]}`},
		},
		{
			name: "into", steps: []Step{first(func(s *Step) { s.Into = "order" }), name("order.cust")}, output: only,
			facts: []string{`{"o":1}`, `{"n":"Ann"}`, `{"o":2}`, `{"n":null}`, `{"o":9}`, `{"n":null}`},
		},
		{
			name: "into, inside a column", steps: []Step{first(func(s *Step) { s.Into = "order" }), name("/order/doc/list/1")},
			output: []Projection{{"n", "name"}, {"c", "order.cust"}, {"o", "order"}, {"i", "order.doc.id"}},
			facts: []string{
				`{"o":1}`, `{"n":"D\u00e9","c":1,"o":{"cust":1,"doc":{"id":2,"list":[1,42]}},"i":2}`, `{"o":9}`, `{"n":null,"c":null,"o":null,"i":null}`,
			},
		},
		{
			name: "into an array", steps: []Step{first(func(s *Step) { s.Into, s.Rows = "all", "array" }), name("/all/0/cust")},
			output: []Projection{{"n", "name"}, {"all", "all"}},
			facts:  []string{`{"o":4}`, `{"n":"D\u00e9","all":[{"cust":42,"doc":"text"}]}`, `{"o":9}`, `{"n":null,"all":[]}`},
		},
		{
			name: "the object itself is no key", steps: []Step{first(func(s *Step) { s.Into = "order" }), name("order")}, output: only,
			facts:  []string{`{"o":1}`, `{"n":null}`, `{"o":9}`, `{"n":null}`},
			misses: []map[string]int{{"no_row": 1}, {"type_mismatch": 1, "null_key": 1}},
		},
		{
			name: "keep: the fact's value", steps: []Step{first(func(s *Step) { s.OnConflict = "keep" }), name("cust")}, output: []Projection{{"n", "name"}, {"c", "cust"}},
			facts: []string{`{"o":1,"cust":2}`, `{"n":"Bob","c":2}`, `{"o":1,"cust":null}`, `{"n":null,"c":null}`, `{"o":1}`, `{"n":"Ann","c":1}`},
		},
		{
			name: "overwrite: the row's value, after a miss the fact's", steps: []Step{first(func(s *Step) { s.OnConflict = "overwrite" }), name("cust")},
			output: []Projection{{"n", "name"}, {"c", "cust"}, {"d", "doc.id"}},
			facts: []string{
				`{"o":1,"cust":2}`, `{"n":"Ann","c":1,"d":2}`, `{"o":9,"cust":2,"doc":{"id":0}}`, `{"n":"Bob","c":2,"d":0}`, `{"o":9}`, `{"n":null,"c":null,"d":null}`,
				`{"o":2,"cust":2}`, `{"n":null,"c":null,"d":null}`,
			},
		},
		{
			name: "overwrite into", steps: []Step{first(func(s *Step) { s.OnConflict, s.Into = "overwrite", "x" }), name("x.id")},
			output: []Projection{{"n", "name"}, {"x", "x"}},
			facts: []string{
				`{"o":1,"x":{"id":1}}`, `{"n":null,"x":{"cust":1,"doc":{"id":2,"list":[1,42]}}}`, `{"o":9,"x":{"id":1}}`, `{"n":"Ann","x":{"id":1}}`,
			},
		},
		{
			name:  "a field of a later lookup is the fact's",
			steps: []Step{name("cust"), first(func(s *Step) { s.OnConflict = "overwrite" })}, output: []Projection{{"n", "name"}, {"c", "cust"}},
			facts: []string{`{"o":1,"cust":2}`, `{"n":"Bob","c":1}`},
		},
		{
			name: "an inner lookup ends some branches",
			steps: []Step{
				{Dimension: "position", On: on("order", "o", "dt", "d"), Select: pick("line", "line")},
				{Dimension: "customer", On: on("id", "line"), Select: pick("name", "name"), Join: "inner"},
			},
			facts: []string{
				`{"o":7,"d":"d1"}`, `{"o":7,"d":"d1","line":2,"name":"Bob"}`, `{"o":7,"d":"d2"}`, `{"o":7,"d":"d2","line":1,"name":"Ann"}`, `{"o":8,"d":"d1"}`, `dropped`,
				`{"o":70,"d":"d1"}`, `{"o":70,"d":"d1","line":1,"name":"Ann"}`,
			},
			misses: []map[string]int{{"no_row": 1}, {"no_row": 2, "null_key": 1}},
		},
		{
			name: "several matches multiply in order",
			steps: []Step{
				{Dimension: "position", On: on("order", "o", "dt", "d"), Select: pick("a", "line")},
				{Dimension: "position", On: on("order", "o", "dt", "e"), Select: pick("b", "line"), Into: ""},
			},
			output: []Projection{{"a", "a"}, {"b", "b"}},
			facts: []string{
				`{"o":7,"d":"d1","e":"d1"}`, `{"a":-1,"b":-1}` + "\n" + `{"a":-1,"b":2}` + "\n" + `{"a":-1,"b":10}` + "\n" + `{"a":2,"b":-1}` + "\n" + `{"a":2,"b":2}` + "\n" +
					`{"a":2,"b":10}` + "\n" + `{"a":10,"b":-1}` + "\n" + `{"a":10,"b":2}` + "\n" + `{"a":10,"b":10}`,
				`{"o":7,"d":"d2","e":"d1"}`, `{"a":1,"b":-1}` + "\n" + `{"a":1,"b":2}` + "\n" + `{"a":1,"b":10}`,
				`{"o":7,"d":"d1","e":"d3"}`, `{"a":-1,"b":null}` + "\n" + `{"a":2,"b":null}` + "\n" + `{"a":10,"b":null}`,
			},
		},
	} {
		test.run(t, dims...)
	}
}

func TestProjection(t *testing.T) {
	steps := []Step{{Dimension: "customer", On: on("id", "cust"), Select: pick("name", "name")}}
	for _, test := range []semantics{
		{
			name: "order, nesting, absence", steps: steps,
			output: []Projection{{"z", "name"}, {"a\"", "a.b"}, {"none", "x.y"}, {"list", "/l/1"}, {"cust", "cust"}, {"again", "cust"}},
			facts: []string{
				`{"cust":1.0,"a":{"b": [ 1 , 2 ]},"l":[0,"\u00e9"]}`, `{"z":"Ann","a\"":[ 1 , 2 ],"none":null,"list":"\u00e9","cust":1.0,"again":1.0}`,
				`{}`, `{"z":null,"a\"":null,"none":null,"list":null,"cust":null,"again":null}`,
				`{"cust":1,"a":1,"a":{"b":7}}`, `{"z":"Ann","a\"":7,"none":null,"list":null,"cust":1,"again":1}`,
			},
		},
		{name: "without lookups", output: []Projection{{"b", "a"}}, facts: []string{`{"a":1e400,"c":1}`, `{"b":1e400}`, `x`, "failed decode"}},
	} {
		test.run(t, customers(t))
	}
}

func TestWithoutLookups(t *testing.T) {
	p := compile(t, Options{})
	outcomes, stats := run(t, p, `{"a":1}`, ` {} `, `[]`)
	assert.Equal(t, []string{`{"a":1}`}, texts(outcomes[0]))
	assert.Equal(t, []string{` {} `}, texts(outcomes[1]))
	assert.Equal(t, Failed, outcomes[2].Kind)
	assert.Empty(t, stats)
}

func TestMetadata(t *testing.T) {
	text := dimension(t, "text", []string{"k string", "v string"}, []string{"k"}, nil, `{"k":"abc","v":"abc"}`, `{"k":"","v":"empty"}`, `{"k":"7","v":"seven"}`)
	number := dimension(t, "number", []string{"k int", "v string"}, []string{"k"}, nil, `{"k":7,"v":"seven"}`)
	loose := dimension(t, "loose", []string{"k", "v"}, []string{"k"}, nil, `{"k":7,"v":"number"}`, `{"k":"7","v":"string"}`)
	fact := Fact{
		Value: []byte(`{}`), Key: []byte("7"), Topic: "abc", Partition: 7, Offset: 7, Timestamp: 7,
		Headers: []Header{{"h", []byte("x")}, {"h", []byte("7")}, {"null", []byte("7")}, {"null", nil}, {"empty", []byte{}}},
	}
	nullKey, emptyKey := fact, fact
	nullKey.Key, emptyKey.Key = nil, []byte{}
	for _, test := range []struct {
		dimension, operand string
		fact               Fact
		want               string
		miss               string
	}{
		{"text", "$key", fact, `"seven"`, ""},
		{"text", "$key", nullKey, `null`, "null_key"},
		{"text", "$key", emptyKey, `"empty"`, ""},
		{"number", "$key", fact, `"seven"`, ""},
		{"number", "$key", emptyKey, `null`, "type_mismatch"},
		{"loose", "$key", fact, `"string"`, ""},
		{"text", "$topic", fact, `"abc"`, ""},
		{"number", "$topic", fact, `null`, "type_mismatch"},
		{"number", "$partition", fact, `"seven"`, ""},
		{"loose", "$partition", fact, `"number"`, ""},
		{"text", "$partition", fact, `"seven"`, ""},
		{"number", "$offset", fact, `"seven"`, ""},
		{"number", "$timestamp", fact, `"seven"`, ""},
		{"text", "$headers.h", fact, `"seven"`, ""},
		{"number", "$headers.h", fact, `"seven"`, ""},
		{"text", "$headers.null", fact, `null`, "null_key"},
		{"text", "$headers.none", fact, `null`, "null_key"},
		{"text", "$headers.empty", fact, `"empty"`, ""},
	} {
		t.Run(test.dimension+" "+test.operand, func(t *testing.T) {
			p := compile(t, Options{
				Dimensions: []Dimension{text, number, loose},
				Steps:      []Step{{Dimension: test.dimension, On: on("k", test.operand), Select: pick("v", "v")}},
			})
			assert.Equal(t, strings.HasPrefix(test.operand, "$headers."), p.NeedsHeaders())
			b := p.NewBatch()
			outcomes, err := b.Run([]Fact{test.fact})
			require.NoError(t, err)
			assert.Equal(t, []string{`{"v":` + test.want + `}`}, texts(outcomes[0]))
			if test.miss != "" {
				assert.Equal(t, map[string]int{test.miss: 1}, misses(b.Stats()[0]))
			}
		})
	}
}

func TestPassed(t *testing.T) {
	p := compile(t, Options{Dimensions: []Dimension{customers(t)}, Steps: []Step{{Dimension: "customer", On: on("id", "$offset"), Select: pick(), Join: "inner"}}})
	b := p.NewBatch()
	outcomes, err := b.Run([]Fact{{Value: nil}, {Value: []byte{}}, {Value: []byte(`{}`), Offset: 1}})
	require.NoError(t, err)
	assert.Equal(t, Outcome{Kind: Passed}, outcomes[0])
	assert.Equal(t, Failed, outcomes[1].Kind)
	assert.Equal(t, "decode", outcomes[1].Class)
	assert.Equal(t, Written, outcomes[2].Kind)
}

func TestLimits(t *testing.T) {
	dim := dimension(t, "d", []string{"a int", "b int", "v string"}, []string{"a", "b"}, nil)
	for a := range 3 {
		for n := range 4 + a {
			fake(dim).put(t, fmt.Sprintf(`{"a":%d,"b":%d,"v":"0123456789"}`, a, n))
		}
	}
	step := func(operand, field string) Step {
		return Step{Dimension: "d", On: on("a", operand), Select: pick(field, "v")}
	}
	array, first := step("x", "v"), step("x", "v")
	array.Into, array.Rows, first.Rows = "all", "array", "first"
	inner := Step{Dimension: "d", On: on("a", "b", "b", "b"), Select: pick(), Join: "inner"}
	tests := []struct {
		name     string
		steps    []Step
		rows     int
		bytes    int
		want     []string // of x = 0, 1, 2
		errs     int
		describe string
	}{
		{name: "one lookup", steps: []Step{step("x", "v")}, rows: 5, want: []string{"4", "5", "failed too_many_rows"}, errs: 1},
		{name: "two lookups", steps: []Step{step("x", "v"), step("x", "w")}, rows: 25, want: []string{"16", "25", "failed too_many_rows"}, errs: 1},
		{
			name: "a moment is enough", steps: []Step{step("x", "v"), step("x", "w"), inner}, rows: 25,
			want: []string{"dropped", "dropped", "failed too_many_rows"}, errs: 1,
		},
		{name: "no matter for arrays", steps: []Step{array}, rows: 1, want: []string{"1", "1", "1"}},
		{name: "no matter for the first", steps: []Step{first}, rows: 1, want: []string{"1", "1", "1"}},
		{name: "bytes of records", steps: []Step{step("x", "v")}, bytes: 130, want: []string{"4", "5", "failed too_large"}},
		{name: "bytes of an array", steps: []Step{array}, bytes: 100, want: []string{"1", "failed too_large", "failed too_large"}, errs: 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := compile(t, Options{Dimensions: []Dimension{dim}, Steps: test.steps, MaxRows: test.rows, MaxBytes: test.bytes})
			outcomes, stats := run(t, p, `{"x":0}`, `{"x":1}`, `{"x":2}`)
			errs := 0
			for _, s := range stats {
				errs += s.Errors
			}
			for i, o := range outcomes {
				got := outcome(o)
				if o.Kind == Written {
					got = strconv.Itoa(len(o.Records))
				}
				assert.Equal(t, test.want[i], got, "fact %d", i)
				if o.Kind == Failed {
					assert.NotEmpty(t, o.Message)
					assert.Nil(t, o.Records)
				}
			}
			if test.bytes == 0 {
				assert.Equal(t, test.errs, errs)
			}
		})
	}
}

func TestReadsOncePerKeyAndRun(t *testing.T) {
	dims := []Dimension{customers(t), positions(t)}
	p := compile(t, Options{
		Dimensions: dims,
		Steps: []Step{
			{Dimension: "customer", On: on("id", "c"), Select: pick("name", "name")},
			{Dimension: "position", On: on("order", "o", "dt", "d"), Select: pick(), Rows: "array", Into: "p"},
			{Dimension: "customer", On: on("id", "e"), Select: pick("other", "name")},
		},
	})
	b := p.NewBatch()
	var facts []Fact
	for i := range 300 {
		facts = append(facts, Fact{Value: fmt.Appendf(nil, `{"c":%d,"o":%d,"d":"d1"}`, i%3+2, i%2+7)})
	}
	for range 2 {
		_, err := b.Run(facts)
		require.NoError(t, err)
	}
	customer, position := fake(dims[0]), fake(dims[1])
	assert.Equal(t, 6, int(customer.gets.Load()), "three keys, one of them a miss, in two runs")
	assert.Equal(t, 4, int(position.scans.Load()))
	assert.Equal(t, 2, int(customer.reads.Load()), "one view for two lookups")
	assert.Equal(t, 2, int(position.reads.Load()))
	assert.Zero(t, customer.open.Load())
	assert.Zero(t, position.open.Load())
}

func TestStoreErrors(t *testing.T) {
	dims := []Dimension{customers(t), positions(t)}
	p := compile(t, Options{
		Dimensions: dims,
		Steps: []Step{
			{Dimension: "customer", On: on("id", "c"), Select: pick("name", "name")},
			{Dimension: "position", On: on("order", "c", "dt", "d"), Select: pick("part", "part")},
		},
	})
	facts := []Fact{{Value: []byte(`{"c":1,"d":"d1"}`)}}
	b := p.NewBatch()
	broken := errors.New("broken")
	for i, d := range dims {
		fake(d).failing = broken
		_, err := b.Run(facts)
		require.ErrorIs(t, err, broken)
		require.ErrorContains(t, err, fmt.Sprintf("look up in dimension %q", d.Name))
		fake(d).failing = nil
		for _, d := range dims[:i+1] {
			assert.Zero(t, fake(d).open.Load(), "views are closed")
		}
	}
	outcomes, err := b.Run(facts)
	require.NoError(t, err, "the batch can be used again")
	assert.Equal(t, []string{`{"c":1,"d":"d1","name":"Ann","part":null}`}, texts(outcomes[0]))

	dims[0].Table = nil
	_, err = compile(t, Options{Dimensions: dims, Steps: []Step{{Dimension: "customer", On: on("id", "c"), Select: pick()}}}).NewBatch().Run(facts)
	require.ErrorContains(t, err, "without a table")
}

func TestDroppedNamesTheDimension(t *testing.T) {
	inner := func(dimension string, conditions []Condition) Step {
		return Step{Dimension: dimension, On: conditions, Select: pick(), Join: "inner"}
	}
	p := compile(t, Options{
		Dimensions: []Dimension{customers(t), positions(t)},
		Steps:      []Step{inner("customer", on("id", "c")), inner("position", on("dt", "d", "order", "o"))},
	})
	outcomes, stats := run(t, p, `{"c":9,"d":"d1","o":7}`, `{"c":1,"d":"d1","o":9}`, `{"c":1,"d":"d2","o":7}`)
	assert.Equal(t, Outcome{Kind: Dropped, Dimension: "customer"}, outcomes[0])
	assert.Equal(t, Outcome{Kind: Dropped, Dimension: "position"}, outcomes[1])
	assert.Equal(t, []string{`{"c":1,"d":"d2","o":7}`}, texts(outcomes[2]))
	assert.Equal(t, []int{2, 1}, []int{stats[0].Matches, stats[1].Matches})
}

func TestBatchBytes(t *testing.T) {
	p := compile(t, Options{
		Dimensions: []Dimension{positions(t)}, BatchBytes: 190,
		Steps: []Step{{Dimension: "position", On: on("dt", "d", "order", "o"), Select: pick("part", "part")}},
	})
	var facts []Fact
	for i := range 20 {
		facts = append(facts, Fact{Value: fmt.Appendf(nil, `{"n":%d,"d":"d1","o":7}`, i)})
	}
	b, taken, runs := p.NewBatch(), 0, 0
	for ; taken < len(facts); runs++ {
		outcomes, err := b.Run(facts[taken:])
		require.NoError(t, err)
		require.NotEmpty(t, outcomes)
		for _, o := range outcomes {
			assert.Equal(t, fmt.Appendf(nil, `{"n":%d,"d":"d1","o":7,"part":"a"}`, taken), o.Records[0])
			assert.Len(t, o.Records, 3)
			taken++
		}
	}
	assert.Equal(t, 10, runs, "two facts of three records with 33 or 34 bytes exceed 190 bytes")
}

func TestOnePlanManyBatches(t *testing.T) {
	dims, facts := load(t)
	p := compile(t, threeLookups(dims))
	expected, err := p.NewBatch().Run(facts)
	require.NoError(t, err)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			b := p.NewBatch()
			for range 5 {
				if outcomes, err := b.Run(facts); assert.NoError(t, err) {
					assert.Equal(t, expected, outcomes)
				}
			}
		})
	}
	wg.Wait()
}

func TestRecordsOutliveTheBatch(t *testing.T) {
	p := compile(t, Options{Dimensions: []Dimension{customers(t)}, Steps: []Step{{Dimension: "customer", On: on("id", "c"), Select: pick("name", "name")}}})
	b := p.NewBatch()
	var kept [][]byte
	for range 5 {
		for n := range 40 {
			var facts []Fact
			for range n {
				facts = append(facts, Fact{Value: fmt.Appendf(nil, `{"c":1,"n":%d}`, n)})
			}
			outcomes, err := b.Run(facts)
			require.NoError(t, err)
			for i, o := range outcomes {
				require.Equal(t, Written, o.Kind)
				kept = append(kept, o.Records...)
				scramble(facts[i].Value)
			}
		}
	}
	i := 0
	for range 5 {
		for n := range 40 {
			for range n {
				require.Equal(t, fmt.Appendf(nil, `{"c":1,"n":%d,"name":"Ann"}`, n), kept[i])
				require.Equal(t, len(kept[i]), cap(kept[i]), "an append must not run into the next record")
				i++
			}
		}
	}
}
