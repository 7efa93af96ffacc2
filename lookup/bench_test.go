package lookup

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// load is a batch of 500 facts of about 300 bytes over kind tables: customers
// with distinct keys, nations with few, positions with three rows each, the same
// on three days.
func load(tb testing.TB) ([]Dimension, []Fact) {
	tb.Helper()
	customer := dimension(tb, "customer", []string{"id int", "name string", "address string", "phone string", "nation int"}, []string{"id"}, nil)
	nation := dimension(tb, "nation", []string{"id int", "name string"}, []string{"id"}, nil)
	position := dimension(tb, "position", []string{"order int", "line int", "part string"}, []string{"order", "line"}, nil)
	daily := dimension(tb, "daily", []string{"day int", "order int", "line int", "part string", "code int"}, []string{"day", "order", "line"}, []string{"day"})
	daily = aging(tb, indexed(tb, daily, []string{"code"}))
	for i := range 500 {
		fake(customer).put(tb, fmt.Sprintf(`{"id":%d,"name":"Customer#%09d","address":"some street %d, some town","phone":"25-989-741-2988","nation":%d}`, i, i, i, i%25))
		for line := range 3 {
			fake(position).put(tb, fmt.Sprintf(`{"order":%d,"line":%d,"part":"part %d"}`, i, line, line))
			for day := range 3 {
				fake(daily).put(tb, fmt.Sprintf(`{"day":%d,"order":%d,"line":%d,"part":"part %d","code":%d}`, day, i, line, line, i+1000*day))
			}
		}
	}
	for i := range 25 {
		fake(nation).put(tb, fmt.Sprintf(`{"id":%d,"name":"NATION %d"}`, i, i))
	}
	dims := []Dimension{customer, nation, position, daily}
	for _, d := range dims {
		fake(d).kind = true
	}
	facts := make([]Fact, 500)
	for i := range facts {
		facts[i] = Fact{Value: fmt.Appendf(nil, `{"o_orderkey":%d,"o_custkey":%d,"o_orderstatus":"O","o_totalprice":173665.47,"o_orderdate":"1996-01-02",`+
			`"o_orderpriority":"5-LOW","o_clerk":"Clerk#000000951","o_shippriority":0,"o_comment":"nstructions sleep furiously among the blithely final requests. `+
			`carefully ironic packages nag","o_more":{"channel":"web","ids":[1,2,3]}}`, i, (i*7)%500)}
	}
	return dims, facts
}

func oneLookup(dims []Dimension) Options {
	return Options{Dimensions: dims, Steps: []Step{{
		Dimension: "customer", On: on("id", "o_custkey"), Select: pick("customer_name", "name", "customer_address", "address", "customer_phone", "phone"),
	}}}
}

func threeLookups(dims []Dimension) Options {
	o := oneLookup(dims)
	o.Steps[0].Select = pick("customer_name", "name", "customer_address", "address", "nation", "nation")
	o.Steps = append(o.Steps,
		Step{Dimension: "nation", On: on("id", "nation"), Select: pick("nation_name", "name")},
		Step{Dimension: "customer", On: on("id", "o_orderkey"), Select: pick("name", "name", "phone", "phone"), Into: "sender"})
	return o
}

func prefixLookup(dims []Dimension) Options {
	return Options{Dimensions: dims, Steps: []Step{{Dimension: "position", On: on("order", "o_orderkey"), Select: pick("line", "line", "part", "part")}}}
}

func indexLookup(dims []Dimension) Options {
	return Options{Dimensions: dims, Steps: []Step{{Dimension: "daily", On: on("code", "o_orderkey"), Select: pick("line", "line", "part", "part")}}}
}

func latestLookup(dims []Dimension) Options {
	return Options{Dimensions: dims, Steps: []Step{{
		Dimension: "daily", On: on("order", "o_orderkey"), Select: pick("line", "line", "part", "part"), Partitions: "latest",
	}}}
}

func latestTwoLookup(dims []Dimension) Options {
	return Options{Dimensions: dims, Steps: []Step{{
		Dimension: "daily", On: []Condition{{"order", path("o_orderkey")}, {"line", constant(`1`)}}, Select: pick("line", "line", "part", "part"), Partitions: "latest_two",
	}}}
}

func projectedLookup(dims []Dimension) Options {
	o := oneLookup(dims)
	o.Select = []Projection{{"key", "o_orderkey"}, {"name", "customer_name"}, {"price", "o_totalprice"}, {"channel", "o_more.channel"}}
	return o
}

func overwriting(dims []Dimension) Options {
	o := oneLookup(dims)
	o.Steps[0].OnConflict, o.Steps[0].Select = "overwrite", pick("o_clerk", "name", "customer_address", "address")
	return o
}

var loads = []struct {
	name    string
	options func([]Dimension) Options
}{
	{"one full key", oneLookup},
	{"three lookups", threeLookups},
	{"prefix, three rows each", prefixLookup},
	{"index, three rows each", indexLookup},
	{"prefix in the latest partition", latestLookup},
	{"full key in the latest two partitions", latestTwoLookup},
	{"one full key, projected", projectedLookup},
	{"one full key, overwriting", overwriting},
	{"no lookup", func(dims []Dimension) Options { return Options{Dimensions: dims} }},
}

func BenchmarkRun(b *testing.B) {
	dims, facts := load(b)
	for _, l := range loads {
		b.Run(l.name, func(b *testing.B) {
			p, err := Compile(l.options(dims))
			require.NoError(b, err)
			batch := p.NewBatch()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := batch.Run(facts); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(facts))/1000, "µs/fact")
		})
	}
}

func TestAllocations(t *testing.T) {
	dims, facts := load(t)
	for _, l := range loads {
		t.Run(l.name, func(t *testing.T) {
			p := compile(t, l.options(dims))
			batch := p.NewBatch()
			run := func() {
				outcomes, err := batch.Run(facts)
				if err != nil || outcomes[0].Kind != Written {
					panic("no such run")
				}
			}
			run()
			perFact := testing.AllocsPerRun(20, run) / float64(len(facts))
			assert.Less(t, perFact, 0.05)
		})
	}
}
