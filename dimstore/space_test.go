package dimstore_test

import (
	"bytes"
	"log/slog"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"enricher/dimstore"
)

// disk is a file system of 100 GiB with as much free as a test says.
type disk struct{ free atomic.Uint64 }

func (d *disk) statfs(string) (free, total uint64, err error) { return d.free.Load(), 100 << 30, nil }

const gib = 1 << 30

func TestNoSpace(t *testing.T) {
	var space disk
	space.free.Store(10 * gib)
	path := t.TempDir()
	d, err := dimstore.OpenDir(path)
	require.NoError(t, err)
	d.SetSpace(space.statfs)
	o := tight
	o.Name, o.Fingerprint, o.MinFreeDisk = "customer", "1", gib
	s, err := d.OpenStore(o)
	require.NoError(t, err)
	require.NoError(t, applyHistory(s, 0, 100))
	free, err := d.Free()
	require.NoError(t, err)
	assert.EqualValues(t, 10*gib, free)

	// An answer of the file system is used for a moment, less what is written since.
	space.free.Store(gib + 1<<20)
	next := int64(100)
	for err = nil; err == nil; next += 100 {
		err = applyHistory(s, next, 100)
	}
	next -= 100
	require.ErrorIs(t, err, dimstore.ErrNoSpace)
	require.ErrorContains(t, err, "store.min_free_disk")
	require.ErrorIs(t, s.MarkComplete(), dimstore.ErrNoSpace)
	require.False(t, s.Complete())
	h := new(models)
	h.at(next).check(t, closing{s, d})
	require.NoError(t, s.Close())

	s, err = d.OpenStore(o)
	require.NoError(t, err, "a restart below the limit serves what there is")
	h.at(next).check(t, closing{s, d})
	require.ErrorIs(t, applyHistory(s, next, 100), dimstore.ErrNoSpace)
	space.free.Store(10 * gib)
	require.NoError(t, applyHistory(s, next, 100), "goes on when there is space again")
	require.NoError(t, s.Close())

	space.free.Store(gib / 2)
	before := list(t, path)
	_, err = d.OpenStore(o)
	require.ErrorIs(t, err, dimstore.ErrNoSpace)
	assert.Equal(t, before, list(t, path), "nothing is set aside, nothing written")
	o.Fingerprint = "2"
	_, err = d.OpenStore(o)
	require.ErrorIs(t, err, dimstore.ErrNoSpace)
	assert.Equal(t, before, list(t, path), "nor dropped")
	o.Fingerprint = "1"
	space.free.Store(10 * gib)
	s, err = d.OpenStore(o)
	require.NoError(t, err)
	require.Empty(t, s.Discarded())
	h.at(next+100).check(t, closing{s, d})
	require.NoError(t, s.Close())
	require.NoError(t, d.Close())
}

// TestFlattenNeedsRoom completes a load without the room for merging its tables.
func TestFlattenNeedsRoom(t *testing.T) {
	for room, merged := range map[uint64]bool{2 << 20: false, gib: true} {
		t.Run(strconv.FormatBool(merged), func(t *testing.T) {
			var space disk
			space.free.Store(gib + 8<<20 + room) // the limit, four memtables, and some
			d, err := dimstore.OpenDir(t.TempDir())
			require.NoError(t, err)
			d.SetSpace(space.statfs)
			var log bytes.Buffer
			o := tight
			o.Name, o.MinFreeDisk, o.Logger = "customer", gib, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
			s, err := d.OpenStore(o)
			require.NoError(t, err)
			for i := range int64(20) {
				require.NoError(t, applyHistory(s, i*1000, 1000))
			}
			require.NoError(t, s.MarkComplete())
			require.True(t, s.Complete())
			require.NoError(t, s.Close())
			require.NoError(t, d.Close())
			assert.Equal(t, merged, strings.Contains(log.String(), `msg="tables merged"`), log.String())
			assert.Equal(t, !merged, strings.Contains(log.String(), "tables are not merged"), log.String())
		})
	}
}

// TestMaxDisk fills a directory up to its limit: nothing is applied beyond it, what there is is served, and dropping rows makes room.
func TestMaxDisk(t *testing.T) {
	const limit = 24 << 20
	path := t.TempDir()
	o := tight
	o.MaxDisk = limit
	s := openStore(t, path, o)
	require.NoError(t, s.MarkComplete())
	var err error
	offset, batch := int64(0), int64(0)
	for ; err == nil && batch < 1000; batch++ {
		changes := make([]dimstore.Change, 100)
		for i := range changes {
			row := bytes.Repeat([]byte{byte(offset), byte(offset >> 8), byte(i * 7)}, 300)
			changes[i] = dimstore.Change{Bucket: historyBucket, Offset: offset, Partition: []byte("p"), Key: strconv.AppendInt(nil, offset, 10), Row: row}
			offset++
		}
		_, err = s.Apply(changes, historyPosition(offset))
	}
	require.ErrorIs(t, err, dimstore.ErrNoSpace)
	require.ErrorContains(t, err, "store.max_disk")
	assert.LessOrEqual(t, s.Bytes(), int64(limit))
	assert.Equal(t, offset-100, s.Rows())
	require.NoError(t, s.Close())

	s = openStore(t, path, o)
	assert.Equal(t, offset-100, s.Rows(), "it is opened and answers all the same")
	require.NoError(t, s.DropPartition([]byte("p")))
	s.AwaitSweep()
	require.Eventually(t, func() bool { return applyHistory(s, offset, 100) == nil }, time.Minute, 100*time.Millisecond, "goes on when there is room again")
	require.NoError(t, s.Close())
}
