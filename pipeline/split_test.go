package pipeline

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"enricher/lookup"
	"enricher/record"
)

// A plan that bounds the bytes of a run takes a batch in several runs: nothing is lost, nothing changes its order.
func TestRunsAreBounded(t *testing.T) {
	inWorld(t, func(w *world) {
		schema, err := record.NewSchema([]record.Column{{Name: "id", Type: record.Int}, {Name: "name", Type: record.String}}, nil, []string{"id"}, nil)
		require.NoError(t, err)
		plan, err := lookup.Compile(lookup.Options{
			BatchBytes: 500, // some ten facts
			Dimensions: []lookup.Dimension{{Name: "customer", Schema: schema, Table: customers{}}},
			Steps: []lookup.Step{{
				Dimension: "customer", On: []lookup.Condition{{Column: "id", Value: lookup.Operand{Text: "cust"}}},
				Select: lookup.Select{Fields: []lookup.SelectField{{Name: "name", Column: "name"}}},
			}},
		})
		require.NoError(t, err)
		w.produce(3000)
		in := w.start(func(o *Options) { o.Plan, o.Capacity = plan, 1000 })
		w.expect()
		st := in.Status()
		assert.Zero(t, st.InFlight)
		assert.Equal(t, int64(3000), st.Facts["written"])
		assert.Equal(t, int64(3000), st.Lookups[0].Matches)
		for _, lane := range st.Inputs {
			assert.Equal(t, int64(750), lane.Committed)
		}
		require.NoError(t, in.end())
	})
}
