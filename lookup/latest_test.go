package lookup

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// prices is a dimension by day (a number: 10 comes after 9), with positions; the
// days before 5 are older than the retention.
func prices(tb testing.TB, rows ...string) Dimension {
	tb.Helper()
	d := dimension(tb, "price", []string{"day int", "id int", "line int", "v string"}, []string{"id", "day", "line"}, []string{"day"})
	return fill(tb, aging(tb, d, `1`, `2`, `4`), rows...)
}

func TestLatestPartition(t *testing.T) {
	rows := []string{
		`{"day":9,"id":1,"line":-1,"v":"9a"}`, `{"day":9,"id":1,"line":10,"v":"9c"}`, `{"day":9,"id":1,"line":2,"v":"9b"}`, `{"day":9,"id":2,"line":1,"v":"9d"}`,
		`{"day":10,"id":1,"line":2,"v":"10b"}`, `{"day":10,"id":1,"line":-1,"v":"10a"}`,
		`{"day":8,"id":1,"line":2,"v":"8a"}`, `{"day":8,"id":3,"line":1,"v":"8b"}`,
	}
	step := func(partitions string, change func(*Step)) []Step {
		s := Step{Dimension: "price", On: on("id", "i"), Select: pick("v", "v"), Partitions: partitions}
		if change != nil {
			change(&s)
		}
		return []Step{s}
	}
	fullKey := func(s *Step) { s.On = on("line", "l", "id", "i") }
	only := []Projection{{"r", "v"}}
	for _, test := range []semantics{
		{
			name: "prefix in the latest", steps: step("latest", nil), output: only,
			facts: []string{
				`{"i":1}`, `{"r":"10a"}` + "\n" + `{"r":"10b"}`, `{"i":2}`, `{"r":null}`, `{"i":3}`, `{"r":null}`, `{"i":null}`, `{"r":null}`, `{"i":"x"}`, `{"r":null}`,
			},
			misses: []map[string]int{{"no_row": 2, "null_key": 1, "type_mismatch": 1}},
		},
		{
			name: "prefix in the latest two", steps: step("latest_two", nil), output: only,
			facts: []string{
				`{"i":1}`, `{"r":"10a"}` + "\n" + `{"r":"10b"}` + "\n" + `{"r":"9a"}` + "\n" + `{"r":"9b"}` + "\n" + `{"r":"9c"}`, `{"i":2}`, `{"r":"9d"}`, `{"i":3}`, `{"r":null}`,
			},
			misses: []map[string]int{{"no_row": 1}},
		},
		{
			name: "full key in the latest", steps: step("latest", fullKey), output: only,
			facts:  []string{`{"i":1,"l":2}`, `{"r":"10b"}`, `{"i":1,"l":10}`, `{"r":null}`},
			misses: []map[string]int{{"no_row": 1}},
		},
		{
			name: "full key in the latest two", steps: step("latest_two", fullKey), output: only,
			facts: []string{`{"i":1,"l":2}`, `{"r":"10b"}` + "\n" + `{"r":"9b"}`, `{"i":1,"l":10}`, `{"r":"9c"}`, `{"i":3,"l":1}`, `{"r":null}`},
		},
		{
			name: "first goes on to the second", steps: step("latest_two", func(s *Step) { s.Rows = "first" }), output: only,
			facts: []string{`{"i":1}`, `{"r":"10a"}`, `{"i":2}`, `{"r":"9d"}`, `{"i":3}`, `{"r":null}`},
		},
		{
			name: "first that meets the conditions", output: only, steps: step("latest_two", func(s *Step) {
				s.Rows, s.Where = "first", []Where{{"line", []byte(`10`)}}
			}),
			facts:  []string{`{"i":1}`, `{"r":"9c"}`, `{"i":2}`, `{"r":null}`, `{"i":9}`, `{"r":null}`},
			misses: []map[string]int{{"condition": 1, "no_row": 1}},
		},
		{
			name: "array", steps: step("latest_two", func(s *Step) { fullKey(s); s.Rows, s.Into = "array", "all" }),
			facts: []string{`{"i":1,"l":2}`, `{"i":1,"l":2,"all":[{"v":"10b"},{"v":"9b"}]}`, `{"i":2,"l":1}`, `{"i":2,"l":1,"all":[{"v":"9d"}]}`, `{"i":7,"l":2}`, `{"i":7,"l":2,"all":[]}`},
		},
		{
			name: "inner, the partition as a condition", steps: step("latest_two", func(s *Step) {
				s.Join, s.Where, s.Rows = "inner", []Where{{"day", []byte(`9`)}}, "first"
			}), output: only,
			facts: []string{`{"i":1}`, `{"r":"9a"}`, `{"i":3}`, "dropped"},
		},
	} {
		test.run(t, prices(t, rows...))
	}
	semantics{
		name: "one partition", steps: step("latest_two", nil), output: only,
		facts: []string{`{"i":1}`, `{"r":"8a"}`, `{"i":2}`, `{"r":null}`}, misses: []map[string]int{{"no_row": 1}},
	}.run(t, prices(t, rows[6:]...))
	semantics{
		name: "no partition", steps: step("latest", nil), output: only,
		facts: []string{`{"i":1}`, `{"r":null}`, `{}`, `{"r":null}`}, misses: []map[string]int{{"no_partition": 1, "null_key": 1}},
	}.run(t, prices(t))
}

func TestLatestRowOfKeylessPartitions(t *testing.T) {
	d := aging(t, dimension(t, "rate", []string{"day int", "v string"}, []string{"day"}, []string{"day"}, `{"day":9,"v":"a"}`, `{"day":10,"v":"b"}`))
	both := Step{Dimension: "rate", Select: pick("rate", "v"), Partitions: "latest_two"}
	semantics{
		name: "rows of the latest two", steps: []Step{both},
		facts: []string{`{}`, `{"rate":"b"}` + "\n" + `{"rate":"a"}`, `{"x":1}`, `{"x":1,"rate":"b"}` + "\n" + `{"x":1,"rate":"a"}`},
	}.run(t, d)
	both.On = on("v", "x")
	semantics{
		name: "with a condition", steps: []Step{both},
		facts: []string{`{"x":"a"}`, `{"x":"a","rate":"a"}`, `{"x":"c"}`, `{"x":"c","rate":null}`}, misses: []map[string]int{{"condition": 1}},
	}.run(t, d)
}

func TestExpiredPartition(t *testing.T) {
	d := prices(t, `{"day":4,"id":1,"line":1,"v":"late"}`, `{"day":9,"id":1,"line":1,"v":"a"}`)
	for _, test := range []semantics{
		{
			name: "full key", steps: []Step{{Dimension: "price", On: on("id", "i", "day", "d", "line", "l"), Select: pick("v", "v")}}, output: []Projection{{"r", "v"}},
			facts: []string{
				`{"i":1,"d":9,"l":1}`, `{"r":"a"}`, `{"i":1,"d":2,"l":1}`, `{"r":null}`, `{"i":1,"d":7,"l":1}`, `{"r":null}`,
				`{"i":1,"d":4,"l":1}`, `{"r":"late"}`, `{"i":2,"d":4,"l":1}`, `{"r":null}`,
			},
			misses: []map[string]int{{"expired_partition": 1, "no_partition": 1, "no_row": 1}},
		},
		{
			name: "prefix", steps: []Step{{Dimension: "price", On: on("id", "i", "day", "d"), Select: pick("v", "v")}}, output: []Projection{{"r", "v"}},
			facts:  []string{`{"i":1,"d":1}`, `{"r":null}`, `{"i":1,"d":2}`, `{"r":null}`, `{"i":1,"d":3}`, `{"r":null}`, `{"i":3,"d":9}`, `{"r":null}`},
			misses: []map[string]int{{"expired_partition": 2, "no_partition": 1, "no_row": 1}},
		},
	} {
		test.run(t, d)
	}
}

// TestLatestIsAskedOncePerRun also shows that steps with different numbers of
// partitions see the same ones.
func TestLatestIsAskedOncePerRun(t *testing.T) {
	d := prices(t, `{"day":9,"id":1,"line":1,"v":"9"}`, `{"day":10,"id":1,"line":1,"v":"10"}`)
	step := func(partitions, field string) Step {
		return Step{Dimension: "price", On: on("id", "i"), Partitions: partitions, Select: pick(field, "v")}
	}
	p := compile(t, Options{Dimensions: []Dimension{d}, Steps: []Step{step("latest", "a"), step("latest_two", "b"), step("latest", "c")}})
	b := p.NewBatch()
	for range 2 {
		outcomes, err := b.Run([]Fact{{Value: []byte(`{"i":1}`)}, {Value: []byte(`{"i":1.0}`)}})
		require.NoError(t, err)
		assert.Equal(t, []string{`{"i":1,"a":"10","b":"10","c":"10"}`, `{"i":1,"a":"10","b":"9","c":"10"}`}, texts(outcomes[0]))
	}
	assert.Equal(t, 2, int(fake(d).latests.Load()))
	assert.Equal(t, 2*4, int(fake(d).scans.Load()), "one key, in one, two and one partitions, twice")

	first := step("latest_two", "a")
	first.Rows = "first"
	fake(d).scans.Store(0)
	_, stats := run(t, compile(t, Options{Dimensions: []Dimension{d}, Steps: []Step{first}}), `{"i":1}`)
	assert.Equal(t, 1, stats[0].Matches)
	assert.Equal(t, 1, int(fake(d).scans.Load()), "the first row was in the first partition")

	fake(d).failing = errors.New("broken")
	_, err := b.Run([]Fact{{Value: []byte(`{"i":1}`)}})
	require.ErrorIs(t, err, fake(d).failing)
	assert.Zero(t, fake(d).open.Load())
}

func TestLimitsOverTwoPartitions(t *testing.T) {
	d := prices(t)
	for line := range 4 {
		for day := 9; day <= 10; day++ {
			fake(d).put(t, fmt.Sprintf(`{"day":%d,"id":1,"line":%d,"v":"0123456789"}`, day, line))
		}
	}
	each := Step{Dimension: "price", On: on("id", "i"), Partitions: "latest_two", Select: pick("v", "v")}
	array := each
	array.Rows, array.Into = "array", "all"
	key := each
	key.On = on("id", "i", "line", "i")
	for _, test := range []struct {
		name        string
		step        Step
		rows, bytes int
		want        string
		scans       int
	}{
		{"as many rows as may be", each, 8, 0, "", 2},
		{"too many in the second", each, 7, 0, ClassTooManyRows, 2},
		{"too many in the first", each, 3, 0, ClassTooManyRows, 1},
		{"two rows of one key", key, 1, 0, ClassTooManyRows, 0},
		{"bytes of an array", array, 0, 130, ClassTooLarge, 2},
		{"an array that fits", array, 0, 400, "", 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := compile(t, Options{Dimensions: []Dimension{d}, Steps: []Step{test.step}, MaxRows: test.rows, MaxBytes: test.bytes})
			fake(d).scans.Store(0)
			outcomes, stats := run(t, p, `{"i":1}`)
			assert.Equal(t, test.scans, int(fake(d).scans.Load()))
			assert.Equal(t, test.want, outcomes[0].Class)
			if test.want != "" {
				assert.Equal(t, []StepStats{{Errors: 1}}, stats)
			}
		})
	}
}
