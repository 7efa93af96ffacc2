package dimstore_test

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"enricher/dimstore"
	"enricher/record"
)

// cachedStore has a key of two numbers, an index and a cache.
func cachedStore(t *testing.T, bytes, keys int64) closing {
	t.Helper()
	s := openStore(t, t.TempDir(), dimstore.Options{
		Memory: 1 << 20, CacheBytes: bytes, CacheKeys: keys, Indexes: testIndexes, KeyTypes: []record.Type{record.Int, record.Int},
	})
	require.NoError(t, s.MarkComplete())
	return s
}

// pair is the key of a cachedStore.
func pair(t *testing.T, a, b int) string {
	t.Helper()
	key, err := record.AppendKey(nil, record.Int, []byte(strconv.Itoa(a)))
	require.NoError(t, err)
	key, err = record.AppendKey(key, record.Int, []byte(strconv.Itoa(b)))
	require.NoError(t, err)
	return string(key)
}

// Every kind of lookup is found the second time, and whatever changes its answer takes it out.
func TestCacheKinds(t *testing.T) {
	s := cachedStore(t, 1<<20, 0)
	first := pair(t, 1, 0)[:len(pair(t, 1, 0))/2]
	offset := int64(0)
	put := func(a, b int, n string) {
		offset++
		apply(t, s, upsert(bucket0, offset, 1, "p", pair(t, a, b), row(n, `"x"`, "7")))
	}
	prefix := func() int { return len(scan(t, s, "p", first)) }
	index := func() int { return len(byIndex(t, s, 0, "5")) }
	hits := func(want uint64, what string) {
		t.Helper()
		before := s.CacheStats().Hits
		assert.Equal(t, 2, prefix(), what)
		assert.Equal(t, 2, index(), what)
		assert.NotEqual(t, "-", get(t, s, "p", pair(t, 1, 1)), what)
		assert.Equal(t, "-", get(t, s, "p", pair(t, 9, 9)), what)
		assert.Equal(t, want, s.CacheStats().Hits-before, what)
	}
	put(1, 1, "5")
	put(1, 2, "5")
	put(2, 1, "6")
	hits(0, "the first time")
	hits(4, "the second time")
	put(2, 2, "6")
	hits(4, "after a change of other rows")
	put(1, 1, "6")
	assert.Equal(t, 1, index(), "the old value of the index")
	put(1, 1, "5")
	assert.Equal(t, 2, index(), "the new value of the index")
	hits(1+1, "index and missing row") // the prefix and the row are read anew
	put(9, 9, "6")
	assert.NotEqual(t, "-", get(t, s, "p", pair(t, 9, 9)), "a row that was missing")
	remove := dimstore.Change{Bucket: bucket0, Offset: 100, Partition: []byte("p"), Key: []byte(pair(t, 9, 9)), Delete: true}
	apply(t, s, remove)
	hits(3, "the deleted row is looked up again")
	require.NoError(t, s.DropPartition([]byte("p")))
	assert.Zero(t, prefix()+index())
	require.NoError(t, s.Close())
}

// A view sees what its snapshot has, whatever later views filled in.
func TestCacheSnapshots(t *testing.T) {
	s := cachedStore(t, 1<<20, 0)
	apply(t, s, upsert(bucket0, 1, 1, "p", pair(t, 1, 1), row("1", `"x"`, "7")))
	old := s.Read()
	apply(t, s, upsert(bucket0, 2, 1, "p", pair(t, 1, 1), row("2", `"x"`, "7")))
	assert.Contains(t, get(t, s, "p", pair(t, 1, 1)), "2", "filled in by a later view")
	assert.Contains(t, getIn(t, old, "p", pair(t, 1, 1)), "1", "not for the earlier one")
	assert.Contains(t, get(t, s, "p", pair(t, 1, 1)), "2", "nor does the earlier one fill in")
	old.Close()
	require.NoError(t, s.Close())
}

// The bounds hold, and a cache that is too small for what is looked up is left alone after a while.
func TestCacheBounds(t *testing.T) {
	for name, c := range map[string]struct{ bytes, keys, most int64 }{
		"bytes": {64 << 10, 0, 64 << 10 / 24},
		"keys":  {1 << 20, 100, 112}, // of each shard at least one
	} {
		t.Run(name, func(t *testing.T) {
			s := cachedStore(t, c.bytes, c.keys)
			var changes []dimstore.Change
			for i := range 4000 {
				changes = append(changes, upsert(bucket0, int64(i), 1, "p", pair(t, i, 1), row(strconv.Itoa(i), `"x"`, "7")))
			}
			apply(t, s, changes...)
			for range 14 { // more than a window of the pace
				v := s.Read()
				for i := range 3 * 4000 {
					_, ok, err := v.Get([]byte("p"), []byte(pair(t, i%4000, 1)))
					require.NoError(t, err)
					require.True(t, ok)
				}
				v.Close()
				stats := s.CacheStats()
				require.LessOrEqual(t, stats.Bytes, c.bytes)
				require.LessOrEqual(t, stats.Keys, c.most)
				require.Positive(t, stats.Keys)
			}
			assert.True(t, s.CacheStats().Aside, "all keys in turn, and no room for them")
			require.NoError(t, s.Close())
		})
	}
}
