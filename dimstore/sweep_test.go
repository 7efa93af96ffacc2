package dimstore_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"enricher/dimstore"
)

// fillPartition writes rows of 1 KiB.
func fillPartition(t *testing.T, s closing, p string, rows int) {
	t.Helper()
	var changes []dimstore.Change
	for i := range rows {
		changes = append(changes, upsert(bucket0, int64(i), 1, p, fmt.Sprintf("%06d", i), row("1", `"x"`, `"`+strings.Repeat("r", 1000)+`"`)))
		if len(changes) == 1000 {
			apply(t, s, changes...)
			changes = changes[:0]
		}
	}
	apply(t, s, changes...)
}

// TestDropGivesSpaceBack drops one of two partitions: half of the disk is free again, without anything else being written.
func TestDropGivesSpaceBack(t *testing.T) {
	for name, o := range map[string]dimstore.Options{"plain": tight, "indexed": indexed} {
		t.Run(name, func(t *testing.T) {
			path := t.TempDir()
			s := openStore(t, path, o)
			fillPartition(t, s, "a", 20_000)
			fillPartition(t, s, "b", 20_000)
			require.NoError(t, s.MarkComplete())
			before := diskUse(t, s)
			require.Greater(t, before, int64(30<<20))
			require.NoError(t, s.DropPartition([]byte("a")))
			s.AwaitSweep()
			after := diskUse(t, s)
			t.Logf("%d MiB, then %d MiB", before>>20, after>>20)
			assert.Less(t, after, before*2/3)
			require.NoError(t, s.Audit(true))
			require.NoError(t, s.Close())
			s = openStore(t, path, o)
			assert.EqualValues(t, 20_000, s.Rows())
			assert.Equal(t, []string{"b"}, partitionList(s))
			require.NoError(t, s.Audit(true))
			require.NoError(t, s.Close())
		})
	}
}

// diskUse is what the tables take: the logs of the memtables are as long as they may become.
func diskUse(t *testing.T, s closing) (size int64) {
	t.Helper()
	for _, f := range files(t, s.Path(), ".sst") {
		size += fileSize(t, f)
	}
	return size
}

// TestDropGoesOnAfterRestart closes a store while the rows of a dropped partition are removed.
func TestDropGoesOnAfterRestart(t *testing.T) {
	path := t.TempDir()
	for _, restarts := range []int{1, 5} {
		s := openSweeping(t, path, 3)
		fillPartition(t, s, "a", 3_000)
		fillPartition(t, s, "b", 10)
		require.NoError(t, s.DropPartition([]byte("a")))
		for range restarts {
			require.NoError(t, s.Close())
			s = openSweeping(t, path, 3)
			require.NoError(t, s.Audit(false))
			assert.Equal(t, []string{"b"}, partitionList(s))
		}
		fillPartition(t, s, "a", 7)
		s.AwaitSweep()
		require.NoError(t, s.Audit(true))
		assert.Len(t, scan(t, s, "a", ""), 7)
		require.NoError(t, s.Close())
	}
}

func openSweeping(t *testing.T, path string, rows int) closing {
	t.Helper()
	d, err := dimstore.OpenDir(path)
	require.NoError(t, err)
	d.SetSweepRows(rows)
	o := indexed
	o.Name, o.Fingerprint, o.DeleteMarkTTL = "customer", "1", time.Hour
	s, err := d.OpenStore(o)
	require.NoError(t, err)
	require.Empty(t, s.Discarded())
	return closing{s, d}
}

// TestDropNeedsLessSpace: a drop makes room, so it goes on below the limit, down to half of it; below that the removal waits.
func TestDropNeedsLessSpace(t *testing.T) {
	path := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var space disk
		space.free.Store(10 * gib)
		d, err := dimstore.OpenDir(path)
		require.NoError(t, err)
		d.SetSpace(space.statfs)
		d.SetSweepRows(5)
		o := indexed
		o.Name, o.MinFreeDisk = "customer", gib
		store, err := d.OpenStore(o)
		require.NoError(t, err)
		s := closing{store, d}
		for _, p := range []string{"a", "b", "c"} {
			fillPartition(t, s, p, 100)
		}
		space.free.Store(gib * 3 / 4)
		time.Sleep(time.Second) // an answer of the file system is used for a moment
		_, err = s.Apply([]dimstore.Change{upsert(bucket0, 0, 1, "d", "k", row("1"))}, nil)
		require.ErrorIs(t, err, dimstore.ErrNoSpace)
		require.NoError(t, s.DropPartition([]byte("a")))
		s.AwaitSweep()
		require.NoError(t, s.Audit(true))

		space.free.Store(gib / 4)
		time.Sleep(time.Second)
		require.ErrorIs(t, s.DropPartition([]byte("b")), dimstore.ErrNoSpace)
		assert.Equal(t, []string{"b", "c"}, partitionList(s), "nothing has changed")

		// Enough for the drop, but not for the removal of the rows.
		const margin = 12 << 20 // of four memtables
		space.free.Store(gib/2 + margin + 50)
		time.Sleep(time.Second)
		require.NoError(t, s.DropPartition([]byte("b")))
		time.Sleep(time.Minute)
		require.ErrorContains(t, s.Audit(true), "still being removed")
		require.NoError(t, s.Audit(false))
		space.free.Store(10 * gib)
		time.Sleep(time.Minute)
		s.AwaitSweep()
		require.NoError(t, s.Audit(true))
		assert.Equal(t, []string{"c"}, partitionList(s))

		// A stop does not wait for space.
		space.free.Store(gib/2 + margin + 50)
		time.Sleep(time.Second)
		require.NoError(t, s.DropPartition([]byte("c")))
		time.Sleep(time.Second)
		begin := time.Now()
		require.NoError(t, s.Close())
		assert.Less(t, time.Since(begin), time.Second)
	})
}

// TestPartitionsWithoutRows are forgotten once their marks have expired, at the next open.
func TestPartitionsWithoutRows(t *testing.T) {
	path := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := openStore(t, path, tight)
		long := strings.Repeat("p", 40_000)
		for _, p := range []string{"a", "b", long} {
			apply(t, s, upsert(bucket0, 0, 1, p, "k", "row"), remove(bucket0, 1, 1, p, "k"))
		}
		apply(t, s, upsert(bucket0, 0, 1, "c", "k", "row"))
		require.NoError(t, s.Close())
		s = openStore(t, path, tight)
		assert.Equal(t, stale, apply(t, s, upsert(bucket0, 0, 1, "b", "k", "row")), "the mark is there")
		assert.Equal(t, stale, apply(t, s, upsert(bucket0, 0, 1, long, "k", "row")))
		assert.Equal(t, 4, s.Known())
		require.NoError(t, s.Close())
		time.Sleep(2 * time.Hour)
		s = openStore(t, path, tight)
		assert.Equal(t, 1, s.Known())
		require.NoError(t, s.Audit(true))
		assert.Equal(t, upserted, apply(t, s, upsert(bucket0, 0, 1, "b", "k", "row")))
		assert.Equal(t, upserted, apply(t, s, upsert(bucket0, 0, 1, long, "k", "row")))
		assert.Equal(t, []string{"b", "c", long}, partitionList(s))
		require.NoError(t, s.Close())
	})
}

// TestMarkTTL changes how long marks stay while the store is open.
func TestMarkTTL(t *testing.T) {
	path := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := openStore(t, path, tight)
		older := func(key string) dimstore.Change { return upsert(bucket3, 0, 50, "", key, "old") }
		apply(t, s, remove(bucket0, 0, 100, "", "an hour"))
		s.SetDeleteMarkTTL(3 * time.Hour)
		apply(t, s, remove(bucket0, 1, 100, "", "three hours"))
		s.SetDeleteMarkTTL(0)
		apply(t, s, remove(bucket0, 2, 100, "", "none"))
		assert.Equal(t, upserted, apply(t, s, older("none")))
		time.Sleep(2 * time.Hour)
		assert.Equal(t, upserted, apply(t, s, older("an hour")))
		assert.Equal(t, stale, apply(t, s, older("three hours")))
		time.Sleep(2 * time.Hour)
		assert.Equal(t, upserted, apply(t, s, older("three hours")))
		require.NoError(t, s.Close())
	})
}

// TestFormat drops what an older version of this package wrote.
func TestFormat(t *testing.T) {
	path := t.TempDir()
	s := openStore(t, path, tight)
	apply(t, s, upsert(bucket0, 0, 1, "", "k", "row"))
	require.NoError(t, s.SetFormat(1))
	require.NoError(t, s.Close())
	d, err := dimstore.OpenDir(path)
	require.NoError(t, err)
	o := tight
	o.Name, o.Fingerprint = "customer", "1"
	later, err := d.OpenStore(o)
	require.NoError(t, err)
	assert.Equal(t, "format", later.Discarded())
	assert.EqualValues(t, 0, later.Rows())
	require.NoError(t, later.Close())
	require.NoError(t, d.Close())
}

// TestBeginNeedsSpace: there must be room for both generations.
func TestBeginNeedsSpace(t *testing.T) {
	var space disk
	space.free.Store(10 * gib)
	d, err := dimstore.OpenDir(t.TempDir())
	require.NoError(t, err)
	d.SetSpace(space.statfs)
	o := tight
	o.Name, o.MinFreeDisk = "customer", gib
	store, err := d.OpenStore(o)
	require.NoError(t, err)
	s := closing{store, d}
	fillPartition(t, s, "a", 20_000)
	// How much the rows take depends on what is compacted; between these two there is always room to apply and none for a second generation.
	time.Sleep(30 * time.Millisecond) // an answer of the file system is used for a moment
	space.free.Store(gib + 10<<20)
	before := list(t, s.Path()+"/..")
	_, err = s.Begin("test")
	require.ErrorIs(t, err, dimstore.ErrNoSpace)
	assert.Equal(t, before, list(t, s.Path()+"/.."), "nothing is begun")
	apply(t, s, upsert(bucket0, 1<<40, 1, "a", "k", "goes on"))
	space.free.Store(gib + 300<<20)
	time.Sleep(30 * time.Millisecond)
	l, err := s.Begin("test")
	require.NoError(t, err)
	space.free.Store(gib)
	time.Sleep(30 * time.Millisecond)
	_, err = l.Apply([]dimstore.Change{upsert(bucket0, 1, 1, "a", "k", "new")}, nil)
	require.ErrorIs(t, err, dimstore.ErrNoSpace)
	require.ErrorIs(t, l.Publish(), dimstore.ErrNoSpace)
	assert.Equal(t, "goes on", get(t, s, "a", "k"))
	space.free.Store(10 * gib)
	_, err = l.Apply([]dimstore.Change{upsert(bucket0, 1, 1, "a", "k", "new")}, nil)
	require.NoError(t, err)
	require.NoError(t, l.Publish(), "may be called again")
	assert.Equal(t, "new", get(t, s, "a", "k"))
	require.NoError(t, s.Close())
}
