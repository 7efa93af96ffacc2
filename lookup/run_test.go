package lookup

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
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
