package lookup

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// parts is a dimension by day with indexes on nation, on tag and nation, and on
// the day and the tag; d0 is older than the retention.
func parts(tb testing.TB) Dimension {
	tb.Helper()
	d := dimension(tb, "part", []string{"dt string", "id int", "nation int", "tag", "name string"}, []string{"dt", "id"}, []string{"dt"})
	d = aging(tb, indexed(tb, d, []string{"nation"}, []string{"tag", "nation"}, []string{"dt", "tag"}), `"d0"`)
	return fill(tb, d,
		`{"dt":"d2","id":-1,"nation":7,"tag":"x","name":"e"}`,
		`{"dt":"d1","id":10,"nation":7,"tag":"x","name":"c"}`,
		`{"dt":"d1","id":-1,"nation":7,"tag":1,"name":"a"}`,
		`{"dt":"d1","id":2,"nation":7,"tag":"x","name":"b"}`,
		`{"dt":"d1","id":3,"nation":70,"tag":"x","name":"z"}`,
		`{"dt":"d1","id":4,"nation":null,"tag":"x","name":"null"}`,
		`{"dt":"d2","id":5,"tag":"x","name":"absent"}`,
		`{"dt":"d2","id":6,"nation":8,"tag":null,"name":"no tag"}`,
		`{"dt":"d2","id":7,"nation":8,"tag":["x"],"name":"list"}`)
}

func TestIndex(t *testing.T) {
	step := Step{Dimension: "part", On: on("nation", "n"), Select: pick("name", "name")}
	with := func(change func(*Step)) []Step {
		s := step
		change(&s)
		return []Step{s}
	}
	only := []Projection{{"r", "name"}}
	for _, test := range []semantics{
		{
			name: "each, over all partitions, in order of partition and key", steps: []Step{step}, output: only,
			facts: []string{
				`{"n":7}`, `{"r":"a"}` + "\n" + `{"r":"b"}` + "\n" + `{"r":"c"}` + "\n" + `{"r":"e"}`,
				`{"n":"70"}`, `{"r":"z"}`, `{"n":8.0}`, `{"r":"no tag"}` + "\n" + `{"r":"list"}`,
				`{"n":9}`, `{"r":null}`, `{"n":null}`, `{"r":null}`, `{}`, `{"r":null}`, `{"n":"x"}`, `{"r":null}`,
			},
			misses: []map[string]int{{"no_row": 1, "null_key": 2, "type_mismatch": 1}},
		},
		{
			name: "two columns, the undeclared one by meaning", steps: with(func(s *Step) { s.On = on("nation", "n", "tag", "t") }), output: only,
			facts: []string{
				`{"n":7,"t":"x"}`, `{"r":"b"}` + "\n" + `{"r":"c"}` + "\n" + `{"r":"e"}`, `{"n":7,"t":1.0}`, `{"r":"a"}`, `{"n":7,"t":"1"}`, `{"r":null}`,
				`{"n":7,"t":null}`, `{"r":null}`, `{"n":7,"t":["x"]}`, `{"r":null}`, `{"n":8,"t":"x"}`, `{"r":null}`,
			},
			misses: []map[string]int{{"no_row": 2, "null_key": 1, "type_mismatch": 1}},
		},
		{
			name: "further conditions", steps: with(func(s *Step) {
				s.On, s.Where = on("name", "m", "nation", "n"), []Where{{"tag", []byte(`"x"`)}}
			}), output: only,
			facts: []string{
				`{"n":7,"m":"b"}`, `{"r":"b"}`, `{"n":7,"m":"a"}`, `{"r":null}`, `{"n":9,"m":"a"}`, `{"r":null}`, `{"n":8,"m":"list"}`, `{"r":null}`,
			},
			misses: []map[string]int{{"condition": 2, "no_row": 1}},
		},
		{
			name: "first", steps: with(func(s *Step) { s.Rows = "first"; s.On = on("nation", "n", "tag", "t") }), output: only,
			facts: []string{`{"n":7,"t":"x"}`, `{"r":"b"}`, `{"n":7,"t":true}`, `{"r":null}`},
		},
		{
			name: "array", steps: with(func(s *Step) { s.Rows, s.Into = "array", "all" }),
			facts: []string{`{"n":7}`, `{"n":7,"all":[{"name":"a"},{"name":"b"},{"name":"c"},{"name":"e"}]}`, `{"n":1}`, `{"n":1,"all":[]}`},
		},
		{
			name: "inner, constant", steps: with(func(s *Step) {
				s.Join, s.On = "inner", []Condition{{"nation", constant(`70`)}, {"tag", path("t")}}
			}),
			facts: []string{`{"t":"x"}`, `{"t":"x","name":"z"}`, `{"t":"y"}`, "dropped"},
		},
		{
			name: "the index names the partition", steps: with(func(s *Step) { s.On = on("dt", "d", "tag", "t") }), output: only,
			facts: []string{
				`{"d":"d2","t":"x"}`, `{"r":"e"}` + "\n" + `{"r":"absent"}`, `{"d":"d1","t":"y"}`, `{"r":null}`, `{"d":"d9","t":"x"}`, `{"r":null}`, `{"d":"d0","t":"x"}`, `{"r":null}`,
			},
			misses: []map[string]int{{"no_row": 1, "no_partition": 1, "expired_partition": 1}},
		},
		{
			name: "the partition is a condition beside the index", steps: with(func(s *Step) { s.On = on("dt", "d", "nation", "n") }), output: only,
			facts: []string{
				`{"d":"d2","n":7}`, `{"r":"e"}`, `{"d":"d2","n":70}`, `{"r":null}`, `{"d":"d9","n":7}`, `{"r":null}`, `{"d":"d0","n":7}`, `{"r":null}`,
				`{"d":"d1","n":99}`, `{"r":null}`, `{"d":null,"n":7}`, `{"r":null}`,
			},
			misses: []map[string]int{{"condition": 1, "no_partition": 1, "expired_partition": 1, "no_row": 1, "null_key": 1}},
		},
	} {
		test.run(t, parts(t))
	}
}

// TestIndexReadsOnce shows that equal keys of a batch are read once, and that a
// plain view is enough for a step that needs no more.
func TestIndexReadsOnce(t *testing.T) {
	d := parts(t)
	p := compile(t, Options{Dimensions: []Dimension{d}, Steps: []Step{{Dimension: "part", On: on("nation", "n"), Select: pick(), Rows: "first"}}})
	outcomes, stats := run(t, p, `{"n":7}`, `{"n":7.0}`, `{"n":"7"}`, `{"n":1}`)
	assert.Len(t, outcomes, 4)
	assert.Equal(t, 3, stats[0].Matches)
	assert.Equal(t, 2, int(fake(d).scans.Load()))
	assert.Zero(t, fake(d).latests.Load())
}

func TestViewsWithoutTheCapability(t *testing.T) {
	d := parts(t)
	fake(d).indexes, fake(d).expired = nil, nil
	index := Step{Dimension: "part", On: on("nation", "n"), Select: pick()}
	latest := Step{Dimension: "part", On: on("id", "n"), Select: pick(), Partitions: "latest"}
	plain := Step{Dimension: "part", On: on("id", "n", "dt", "d"), Select: pick()}
	for name, test := range map[string]struct {
		steps []Step
		want  string
	}{
		"index":            {[]Step{index}, "BUG: a lookup joins by an index, and the view is no IndexView"},
		"index of a step":  {[]Step{index, plain}, "BUG: a lookup joins by an index, and the view is no IndexView"},
		"latest":           {[]Step{latest}, "BUG: a lookup joins in the latest partition, and the view is no PartitionView"},
		"latest of a step": {[]Step{plain, latest}, "BUG: a lookup joins in the latest partition, and the view is no PartitionView"},
		"plain":            {[]Step{plain}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := compile(t, Options{Dimensions: []Dimension{d}, Steps: test.steps}).NewBatch()
			outcomes, err := b.Run([]Fact{{Value: []byte(`{"n":7,"d":"d0"}`)}})
			assert.Zero(t, fake(d).open.Load(), "views are closed")
			if test.want != "" {
				require.ErrorContains(t, err, test.want)
				return
			}
			require.NoError(t, err)
			assert.Len(t, outcomes, 1)
			assert.Equal(t, map[string]int{"no_partition": 1}, misses(b.Stats()[0]), "nothing expires where the view knows no age")
		})
	}
}
