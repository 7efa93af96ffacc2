package changelog

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"enricher/dimstore"
)

// The same on the store that is used: load, restart without a record read again, a topic created again.
func TestOnDisk(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		path := t.TempDir()
		open := func() (store *dimstore.Store, end func()) {
			dir, err := dimstore.OpenDir(path)
			require.NoError(t, err)
			store, err = dir.OpenStore(dimstore.Options{Name: "customer", Fingerprint: w.o.Schema.Fingerprint(), Memory: 64 << 20, DeleteMarkTTL: 24 * time.Hour})
			require.NoError(t, err)
			w.o.Sink = store
			return store, func() {
				require.NoError(t, store.Close())
				require.NoError(t, dir.Close())
			}
		}
		w.many(2, 3_000)
		w.put("1", "-")
		store, end := open()
		r := w.startWarm()
		assert.EqualValues(t, 5_999, store.Rows())
		assert.True(t, store.Complete())
		r.end()
		end()

		store, end = open()
		assert.Empty(t, store.Discarded())
		r = w.startWarm()
		assert.EqualValues(t, 0, r.Status().RecordsRead)
		assert.EqualValues(t, 5_999, store.Rows())
		w.putTo(1, "9999", row(9999, "later"))
		w.eventually("applied", func() bool { return store.Rows() == 6_000 })
		r.end()
		end()

		require.NoError(t, deleteTopic(w))
		require.NoError(t, w.cluster.CreateTopic(topic, 1, nil))
		w.put("7", row(7, "new"))
		store, end = open()
		r = w.startWarm()
		assert.Equal(t, reasonRecreated, r.Status().LoadReason)
		assert.EqualValues(t, 1, store.Rows())
		r.end()
		require.NoError(t, r.state.current.spoil(w.t.Context(), 0))
		end()

		store, end = open()
		r = w.startWarm()
		assert.Equal(t, reasonOutOfRange, r.Status().LoadReason)
		assert.EqualValues(t, 1, store.Rows())
		r.end()
		end()
	})
}
