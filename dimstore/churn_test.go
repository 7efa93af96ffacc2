package dimstore_test

import (
	"bytes"
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"enricher/dimstore"
	"enricher/record"
)

// TestChurn overwrites 1,000 keys 1,000 times each: the disk stays bounded, and a deleted key stays deleted.
func TestChurn(t *testing.T) {
	path := t.TempDir()
	o := tight
	s := openStore(t, path, o)
	const keys = 1000
	times := rounds(1000, 200)
	offset, most := int64(0), int64(0)
	round := func(n int, change func(key int, c *dimstore.Change)) {
		changes := make([]dimstore.Change, 0, keys)
		for k := range keys {
			c := dimstore.Change{Bucket: historyBucket, Offset: offset, Key: fmt.Appendf(nil, "%04d", k)}
			c.Row = bytes.Repeat(fmt.Appendf(nil, "%04d", n), 25)
			change(k, &c)
			changes = append(changes, c)
			offset++
		}
		_, err := s.Apply(changes, historyPosition(offset))
		require.NoError(t, err)
		most = max(most, s.Bytes())
	}
	for n := range times {
		round(n, func(key int, c *dimstore.Change) {
			c.Delete = n == times/2 && key%2 == 0 || n > times/2 && key%2 == 0 && key%4 == 0
		})
	}
	// Keys 2 modulo 4 came back; keys 0 modulo 4 are deleted over and over.
	check := func() {
		v := s.Read()
		defer v.Close()
		for k := range keys {
			row, ok, err := v.Get(nil, fmt.Appendf(nil, "%04d", k))
			require.NoError(t, err)
			require.Equal(t, k%4 != 0, ok, "key %d", k)
			require.True(t, !ok || bytes.HasPrefix(row, fmt.Appendf(nil, "%04d", times-1)))
		}
		require.EqualValues(t, keys*3/4, s.Rows())
	}
	check()
	require.NoError(t, s.MarkComplete())
	check()
	require.NoError(t, s.Close())
	s = openStore(t, path, o)
	check()
	assert.Less(t, s.Bytes(), int64(16<<20), "of 150 MB written")
	assert.Less(t, most, int64(64<<20), "at any time")
	t.Logf("at most %d MiB, in the end %d MiB", most>>20, s.Bytes()>>20)
	require.NoError(t, s.Close())
}

// TestChurnOfLargeRows overwrites one row of 3 MiB 100 times.
func TestChurnOfLargeRows(t *testing.T) {
	s := openStore(t, t.TempDir(), tight)
	most := int64(0)
	for i := range int64(100) {
		c := dimstore.Change{Bucket: historyBucket, Offset: i, Key: []byte("k"), Row: bytes.Repeat([]byte{byte(i)}, 3<<20)}
		_, err := s.Apply([]dimstore.Change{c}, historyPosition(i+1))
		require.NoError(t, err)
		most = max(most, s.Bytes())
	}
	v := s.Read()
	row, ok, err := v.Get(nil, []byte("k"))
	require.NoError(t, err)
	require.True(t, ok)
	assert.True(t, bytes.Equal(row, bytes.Repeat([]byte{99}, 3<<20)))
	v.Close()
	require.NoError(t, s.MarkComplete())
	t.Logf("at most %d MiB, in the end %d MiB", most>>20, s.Bytes()>>20)
	assert.Less(t, most, int64(128<<20), "of 300 MB written")
	require.NoError(t, s.Close())
}

// TestMarksExpire: the mark of a deleted row stays for its time, and no longer.
func TestMarksExpire(t *testing.T) {
	path := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := openStore(t, path, tight) // marks stay for an hour
		other := dimstore.BucketID{Topic: "customer", Partition: 2}
		older := []dimstore.Change{{Bucket: other, Timestamp: 50, Key: []byte("k"), Row: record.Row("old")}}
		apply := func(changes []dimstore.Change) dimstore.Applied {
			a, err := s.Apply(changes, nil)
			require.NoError(t, err)
			return a
		}
		apply([]dimstore.Change{{Bucket: historyBucket, Timestamp: 100, Key: []byte("k"), Delete: true}})
		time.Sleep(59 * time.Minute)
		assert.Equal(t, dimstore.Applied{Stale: 1}, apply(older))
		require.NoError(t, s.Close())
		s = openStore(t, path, tight)
		time.Sleep(59 * time.Second)
		assert.Equal(t, dimstore.Applied{Stale: 1}, apply(older))
		time.Sleep(4 * time.Second)
		assert.Equal(t, dimstore.Applied{Upserts: 1}, apply(older))
		assert.EqualValues(t, 1, s.Rows())
		require.NoError(t, s.Close())
	})
}

// TestWithoutMarks deletes for good.
func TestWithoutMarks(t *testing.T) {
	d, err := dimstore.OpenDir(t.TempDir())
	require.NoError(t, err)
	s, err := d.OpenStore(dimstore.Options{Name: "customer"})
	require.NoError(t, err)
	c := dimstore.Change{Bucket: historyBucket, Offset: 5, Key: []byte("k"), Row: record.Row("row")}
	gone := dimstore.Change{Bucket: historyBucket, Offset: 6, Key: []byte("k"), Delete: true}
	a, err := s.Apply([]dimstore.Change{c, gone, gone, c}, nil)
	require.NoError(t, err)
	assert.Equal(t, dimstore.Applied{Upserts: 2, Deletes: 2}, a)
	assert.EqualValues(t, 1, s.Rows())
	require.NoError(t, s.Close())
	require.NoError(t, d.Close())
}

// TestMemoryChanges opens a store with less memory than it was written with, and a log that does not fit into the smaller memtable.
func TestMemoryChanges(t *testing.T) {
	whole := t.TempDir()
	roomy := dimstore.Options{Memory: 512 << 20}
	s := openStore(t, whole, roomy)
	for i := range int64(60) {
		require.NoError(t, applyHistory(s, i*1000, 1000))
	}
	path := t.TempDir()
	require.NoError(t, os.CopyFS(path, os.DirFS(whole)))
	require.NoError(t, s.Close())
	require.NotEmpty(t, files(t, path, ".mem"))
	for _, o := range []dimstore.Options{tight, {Memory: 64 << 20, Compression: "snappy"}, {Compression: "zstd"}, tight} {
		s = openStore(t, path, o)
		new(models).at(60_000).check(t, s)
		require.NoError(t, s.MarkComplete())
		require.NoError(t, s.Close())
	}
}
