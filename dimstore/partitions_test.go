package dimstore

import (
	"testing"

	"github.com/dgraph-io/badger/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestSnapshotOfPartitions takes a snapshot at every step of a commit that makes a partition come or go.
func TestSnapshotOfPartitions(t *testing.T) {
	d, err := OpenDir(t.TempDir())
	require.NoError(t, err)
	s, err := d.OpenStore(Options{Name: "customer"})
	require.NoError(t, err)
	_, err = s.Apply([]Change{{Partition: []byte("a")}}, nil)
	require.NoError(t, err)
	g := s.current.Load()
	has := func() bool {
		txn, live, err := g.snapshot()
		defer txn.Discard()
		require.NoError(t, err)
		_, a := live.find([]byte("a"))
		require.True(t, a)
		_, b := live.find([]byte("b"))
		return b
	}
	record := func(rows int64) func(*badger.Txn) error {
		return func(txn *badger.Txn) error {
			key := partitionKey([]byte("b"))
			if rows < 0 {
				return txn.Delete(key)
			}
			return txn.Set(key, appendChecksum(partitionRecord{number: 7, rows: rows}.append(nil), key))
		}
	}
	b := &partition{number: 7, tuple: []byte("b")}
	for _, c := range []struct {
		name string
		rows int64
		out  bool
	}{
		{"the first row", 1, false},
		{"the last row goes", 0, true},
		{"a row beside marks", 1, false},
		{"dropped", -1, true},
		{"back", 1, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			assert.Equal(t, c.out, has())
			g.announce([]edit[*partition]{{item: b, out: c.out}})
			assert.Equal(t, c.out, has(), "announced")
			require.NoError(t, g.transaction(record(c.rows)))
			assert.Equal(t, !c.out, has(), "committed")
			g.settle()
			assert.Equal(t, !c.out, has(), "settled")
		})
	}
	require.NoError(t, s.Close())
	require.NoError(t, d.Close())
}
