package changelog

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"enricher/dimstore"
	"enricher/record"
)

// hourly is a world with a store on disk, partitioned by hour with an index on the name.
func hourly(t *testing.T, fn func(w *world, store *dimstore.Store, view func(*running) *View)) {
	t.Helper()
	inWorld(t, 1, func(w *world) { // at the first of January 2000, 00:00
		w.o.Schema = newSchema(t, "id:int name:string dt:string", "id dt", "dt")
		w.o.AutoPartition = &AutoPartition{Column: "dt", TimeUnit: "hour", Retention: 2}
		dir, err := dimstore.OpenDir(t.TempDir())
		require.NoError(t, err)
		store, err := dir.OpenStore(dimstore.Options{
			Name: "customer", Fingerprint: "x", Memory: 64 << 20, DeleteMarkTTL: time.Hour,
			Indexes: []dimstore.Index{{Columns: []int{1}, Types: []record.Type{record.String}}},
		})
		require.NoError(t, err)
		w.o.Sink = store
		fn(w, store, func(r *running) *View { return r.View(func() dimstore.View { return store.Read() }) })
		require.NoError(t, store.Close())
		require.NoError(t, dir.Close())
	})
}

func TestRetentionInTheStore(t *testing.T) {
	hourly(t, func(w *world, store *dimstore.Store, view func(*running) *View) {
		reg := prometheus.NewRegistry()
		w.o.Metrics = NewMetrics(reg)
		hour := func(y string) []byte { return partitionOf(t, record.String, `"`+y+`"`) }
		id := partitionOf(t, record.Int, "1")
		name := partitionOf(t, record.String, `"A"`)
		for _, y := range []string{"1999123121", "1999123122", "2000010100", "2000010101", "2000010102", "2000010200"} {
			w.put("-", dated(1, "A", y))
		}
		r := w.startWarm()
		assert.EqualValues(t, 5, store.Rows())
		n, _ := metricValue(t, reg, "enricher_dimension_changes_total", map[string]string{"op": "expired"})
		assert.InDelta(t, 1, n, 0)

		in := func(v *View, y string) (has, got, scanned bool) {
			_, got, err := v.Get(hour(y), id)
			require.NoError(t, err)
			require.NoError(t, v.Scan(hour(y), nil, func(record.Row) bool { scanned = true; return true }))
			return v.HasPartition(hour(y)), got, scanned
		}
		names := func(v *View) (out []string) {
			require.NoError(t, v.ScanIndex(0, name, func(row record.Row) bool { out = append(out, string(row.Column(2))); return true }))
			return out
		}
		check := func(y string, want bool) {
			t.Helper()
			v := view(r)
			defer v.Close()
			has, got, scanned := in(v, y)
			assert.Equal(t, []bool{want, want, want}, []bool{has, got, scanned}, y)
		}
		check("1999123121", false)
		check("1999123122", true)
		check("2000010200", true)
		v := view(r)
		assert.True(t, v.Expired(hour("1999123121")))
		assert.False(t, v.Expired(hour("1999123122")))
		assert.Equal(t, [][]byte{hour("2000010101"), hour("2000010100")}, v.Latest(2), "those later than the next hour never are")
		assert.Equal(t, [][]byte{hour("2000010101"), hour("2000010100"), hour("1999123122")}, v.Latest(9))
		assert.Equal(t, []string{`"1999123122"`, `"2000010100"`, `"2000010101"`, `"2000010102"`, `"2000010200"`}, names(v))
		v.Close()

		// The hour ends: at once for those who look, and soon after on disk.
		time.Sleep(time.Until(time.Date(2000, 1, 1, 1, 0, 0, 0, time.UTC)))
		check("1999123122", false)
		v = view(r)
		assert.Equal(t, []string{`"2000010100"`, `"2000010101"`, `"2000010102"`, `"2000010200"`}, names(v))
		assert.Equal(t, [][]byte{hour("2000010102")}, v.Latest(1))
		assert.True(t, v.Expired(hour("1999123122")))
		v.Close()
		time.Sleep(2 * sweepEvery)
		assert.EqualValues(t, 4, store.Rows())
		assert.NotContains(t, store.PartitionList(), hour("1999123122"))
		w.put("-", dated(2, "late", "1999123122"), "-", dated(2, "in time", "1999123123"))
		w.eventually("read", func() bool { return store.Rows() == 5 })
		n, _ = metricValue(t, reg, "enricher_dimension_changes_total", map[string]string{"op": "expired"})
		assert.InDelta(t, 2, n, 0)
		r.end()
	})
}

func TestViewHidesPartitionsThatAreNotThereYet(t *testing.T) {
	hourly(t, func(w *world, _ *dimstore.Store, view func(*running) *View) {
		w.o.AutoPartition = nil
		hour := func(y string) []byte { return partitionOf(t, record.String, `"`+y+`"`) }
		w.put("-", dated(1, "A", "2000010100"), "-", dated(1, "A", "2000010101"))
		r := w.startWarm()
		v := view(r)
		assert.Equal(t, [][]byte{hour("2000010101")}, v.Latest(1))
		v.Close()
		hide := &hiddenPartitions{map[string]bool{string(hour("2000010101")): true}}
		for _, c := range []struct{ before, after *hiddenPartitions }{{hide, hide}, {hide, &hiddenPartitions{}}, {&hiddenPartitions{}, hide}} {
			v := view(r)
			v.before, v.after = c.before, c.after
			assert.Equal(t, [][]byte{hour("2000010100")}, v.Latest(1))
			assert.False(t, v.HasPartition(hour("2000010101")))
			_, ok, err := v.Get(hour("2000010101"), partitionOf(t, record.Int, "1"))
			require.NoError(t, err)
			assert.False(t, ok)
			n := 0
			require.NoError(t, v.ScanIndex(0, partitionOf(t, record.String, `"A"`), func(record.Row) bool { n++; return true }))
			assert.Equal(t, 1, n)
			assert.False(t, v.Expired(hour("2000010101")))
			v.Close()
		}
		r.end()
	})
}

func TestVersionColumn(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		w.o.Schema = newSchema(t, "id:int name:string v:int", "id", "")
		w.o.Version = "column:v"
		dir, err := dimstore.OpenDir(t.TempDir())
		require.NoError(t, err)
		store, err := dir.OpenStore(dimstore.Options{
			Name: "customer", Fingerprint: "x", Memory: 64 << 20, DeleteMarkTTL: time.Hour, Version: dimstore.VersionColumn,
		})
		require.NoError(t, err)
		w.o.Sink = store
		r := w.startWarm()
		get := func() string {
			v := store.Read()
			defer v.Close()
			row, ok, err := v.Get(nil, partitionOf(t, record.Int, "1"))
			require.NoError(t, err)
			if !ok {
				return ""
			}
			return string(row.Column(1))
		}
		for i, step := range []struct{ value, want string }{
			{`{"id":1,"name":"A","v":10}`, `"A"`},
			{`{"id":1,"name":"B","v":5}`, `"A"`},
			{`{"id":1,"name":"C"}`, `"A"`},
			{`{"id":1,"name":"D","v":"10"}`, `"D"`},
			{"-", ""},
			{`{"id":1,"name":"E","v":9}`, ""},
			{`{"id":1,"name":"F","v":11}`, `"F"`},
		} {
			w.put("1", step.value)
			w.eventually("applied", func() bool { return r.Status().Buckets[0].Position == int64(i+1) })
			assert.Equal(t, step.want, get(), step.value)
		}
		r.end()
		require.NoError(t, store.Close())
		require.NoError(t, dir.Close())
	})
}
