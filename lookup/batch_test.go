package lookup

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
