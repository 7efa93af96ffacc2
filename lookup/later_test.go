package lookup

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
