package dimstore_test

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"enricher/dimstore"
)

// TestHeapOnDisk: nothing is there but the lock and the instance id, and a dimension is open once, whatever keeps it.
func TestHeapOnDisk(t *testing.T) {
	path := t.TempDir()
	s := openHeap(t, path, dimstore.Options{})
	apply(t, s, upsert(bucket0, 0, 1, "p", "k", "row"))
	require.NoError(t, s.MarkComplete())
	_, err := s.dir.OpenHeap(dimstore.Options{Name: "customer"})
	require.ErrorContains(t, err, "open already")
	_, err = s.dir.OpenStore(dimstore.Options{Name: "customer"})
	require.ErrorContains(t, err, "open already")
	_, err = dimstore.OpenDir(path)
	require.ErrorIs(t, err, dimstore.ErrLocked)
	for _, o := range []dimstore.Options{{}, {Name: "other", Version: "column:v"}} {
		_, err = s.dir.OpenHeap(o)
		require.Error(t, err)
	}
	require.NoError(t, s.Close())
	entries, err := os.ReadDir(path)
	require.NoError(t, err)
	require.Len(t, entries, 2)

	s = openHeap(t, path, dimstore.Options{}) // checks that it is not complete
	assert.Empty(t, s.Positions())
	assert.EqualValues(t, 0, s.Rows())
	require.NoError(t, s.Close())
}

// TestHeapMarksExpire: the mark of a deleted row stays for its time, and no longer, also in memory.
func TestHeapMarksExpire(t *testing.T) {
	path := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := openHeap(t, path, dimstore.Options{}) // marks stay for an hour
		s.SetChunkSize(1 << 12)
		older := upsert(bucket3, 0, 50, "", "k", "old")
		apply(t, s, remove(bucket0, 0, 100, "", "k"))
		for i := range int64(5000) {
			apply(t, s, remove(bucket0, 1+i, 100, "q", strconv.FormatInt(i, 10)))
		}
		full := s.Bytes()
		time.Sleep(59*time.Minute + 59*time.Second)
		assert.Equal(t, dimstore.Applied{Stale: 1}, apply(t, s, older))
		s.SetDeleteMarkTTL(0)
		time.Sleep(4 * time.Second)
		assert.Equal(t, dimstore.Applied{Upserts: 1}, apply(t, s, older), "the time of a mark is that of its making")
		assert.EqualValues(t, 1, s.Rows())
		apply(t, s)
		assert.Less(t, s.Bytes(), full*2/3)
		apply(t, s, remove(bucket3, 1, 50, "", "k"))
		assert.Equal(t, dimstore.Applied{Upserts: 1}, apply(t, s, older), "no mark")

		// A view holds back the removal of the mark, not its end.
		v := s.Read()
		apply(t, s, remove(bucket3, 1, 50, "", "k"))
		assert.Equal(t, dimstore.Applied{Upserts: 1}, apply(t, s, older))
		s.SetDeleteMarkTTL(time.Minute)
		apply(t, s, remove(bucket0, 10_000, 100, "", "k"))
		assert.Equal(t, dimstore.Applied{Stale: 1}, apply(t, s, older))
		time.Sleep(2 * time.Minute)
		assert.Equal(t, dimstore.Applied{Deletes: 1}, apply(t, s, remove(bucket3, 0, 50, "", "k")), "as if it had never been there")
		time.Sleep(2 * time.Minute)
		assert.Equal(t, dimstore.Applied{Upserts: 1}, apply(t, s, older))
		assert.Equal(t, "old", getIn(t, v, "", "k"))
		v.Close()
		require.NoError(t, s.Close())
	})
}

// TestHeapOrder completes a load in which rows were deleted, marks expired and a partition was dropped, so that ids were given back.
func TestHeapOrder(t *testing.T) {
	path := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := openHeap(t, path, dimstore.Options{Indexes: testIndexes})
		s.SetChunkSize(1 << 12)
		m := modelOf(dimstore.Options{Indexes: testIndexes})
		offset := int64(0)
		round := func(partition string, n int64, gone bool) {
			var changes []dimstore.Change
			for i := range n {
				c := upsert(bucket0, offset, 1, partition, strconv.FormatInt(i*7919%n, 10), row(strconv.FormatInt(offset%7, 10), `"x"`, strconv.FormatInt(offset, 10)))
				c.Delete = gone && i%3 == 0
				changes = append(changes, c)
				offset++
			}
			m.apply(changes, nil)
			apply(t, s, changes...)
		}
		round("a", 900, false)
		round("b", 900, false)
		round("c", 900, true)
		s.SetDeleteMarkTTL(time.Second)
		round("b", 900, true) // ids that come back when the marks expire
		time.Sleep(3 * time.Second)
		s.SetDeleteMarkTTL(time.Hour)
		round("c", 300, true)
		require.NoError(t, s.DropPartition([]byte("a")))
		m.drop("a")
		round("d", 200, true)
		require.NoError(t, s.MarkComplete())
		m.check(t, s)
		require.Greater(t, s.Keys(), int(s.Rows())+100)
		older := upsert(bucket3, 0, 0, "c", "0", "old")
		assert.Equal(t, dimstore.Applied{Stale: 1}, apply(t, s, older), "a mark from before")
		time.Sleep(2 * time.Hour)
		for range 3 {
			apply(t, s)
		}
		assert.EqualValues(t, s.Rows(), s.Keys(), "marks from before have expired")
		m.check(t, s)
		round("a", 500, true)
		round("c", 900, true)
		m.check(t, s)
		require.NoError(t, s.Close())
	})
}

// TestHeapChurn has keys that come and go: with and without marks, memory stays bounded, while a view from the beginning sees all it saw.
func TestHeapChurn(t *testing.T) {
	for name, ttl := range map[string]time.Duration{"no marks": 0, "marks": time.Second} {
		t.Run(name, func(t *testing.T) {
			path := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				s := openHeap(t, path, dimstore.Options{Indexes: testIndexes})
				s.SetDeleteMarkTTL(ttl)
				s.SetChunkSize(1 << 12)
				m := modelOf(dimstore.Options{Indexes: testIndexes})
				offset := int64(0)
				churn := func(rounds int) (most int64) {
					for range rounds {
						var changes []dimstore.Change
						for range 100 {
							// Keys rise slowly, so that there are always some hundred, and new ones.
							k := fmt.Sprintf("%08d", offset/10+rand.Int64N(500))
							c := upsert(bucket0, offset, 1, "p", k, row(strconv.FormatInt(offset%7, 10), `"x"`, strconv.FormatInt(offset, 10)))
							c.Delete = rand.IntN(2) == 0 || offset%100 < 50 && offset > 500
							if c.Delete && offset%100 < 50 {
								c.Key = fmt.Appendf(nil, "%08d", offset/10-rand.Int64N(100))
							}
							changes = append(changes, c)
							offset++
						}
						m.apply(changes, nil)
						apply(t, s, changes...)
						most = max(most, s.Bytes())
						time.Sleep(100 * time.Millisecond)
					}
					return most
				}
				first := churn(100)
				m.check(t, s)
				before := modelOf(dimstore.Options{Indexes: testIndexes})
				maps.Copy(before.rows, m.rows)
				v := s.Read()
				held := churn(200)
				before.checkView(t, v)
				v.Close()
				churn(10)
				after := churn(300)
				later := churn(600)
				m.check(t, s)
				time.Sleep(time.Minute)
				apply(t, s)
				assert.EqualValues(t, s.Rows(), s.Keys())
				t.Logf("%d rows: %d bytes, %d with a view open, %d after it, %d later", s.Rows(), first, held, after, later)
				assert.Greater(t, held, first)
				assert.Less(t, after, 5*first/2, "tables stay as large as they were")
				assert.Less(t, later, after*11/10)
				require.NoError(t, s.Close())
			})
		})
	}
}

// TestHeapBudget fills a store up to its budget and beyond.
func TestHeapBudget(t *testing.T) {
	const limit = 16 << 20
	s := openHeap(t, t.TempDir(), dimstore.Options{Memory: limit})
	offset := int64(0)
	batch := func(partition string, key func(i int64) int64) ([]dimstore.Change, []dimstore.Position) {
		var changes []dimstore.Change
		for range 500 {
			k := string(binary.BigEndian.AppendUint64(nil, uint64(key(offset))))
			changes = append(changes, upsert(bucket0, offset, 1, partition, k, strings.Repeat("r", int(offset%200))))
			offset++
		}
		return changes, []dimstore.Position{{Bucket: bucket0, Next: offset}}
	}
	fill := func(partition string) error {
		for {
			changes, positions := batch(partition, func(i int64) int64 { return i })
			rows, at := s.Rows(), s.Positions()
			a, err := s.Apply(changes, positions)
			require.LessOrEqual(t, s.Bytes(), int64(limit))
			if err != nil {
				require.Equal(t, dimstore.Applied{}, a)
				require.Equal(t, rows, s.Rows(), "nothing was written")
				require.Equal(t, at, s.Positions())
				require.Equal(t, "-", get(t, s, partition, string(changes[0].Key)))
				return err
			}
		}
	}
	err := fill("a")
	require.ErrorIs(t, err, dimstore.ErrNoMemory)
	require.ErrorIs(t, err, dimstore.ErrNoSpace, "it is handled alike")
	require.NotErrorIs(t, err, dimstore.ErrClosed)
	require.ErrorContains(t, err, "rows of dimension customer take 15 MiB")
	require.ErrorContains(t, err, "store.memory")
	require.Greater(t, s.Bytes(), int64(limit*9/10), "the budget is used")
	rows := s.Rows()
	require.NoError(t, s.MarkComplete())
	_, err = s.Begin("test")
	require.ErrorIs(t, err, dimstore.ErrNoMemory)

	_, err = s.Apply(nil, []dimstore.Position{{Bucket: bucket0, Next: offset, ProvedAt: time.Now()}})
	require.NoError(t, err, "positions alone")
	require.NoError(t, s.DropPartition([]byte("a")))
	require.Less(t, s.Bytes(), int64(limit/2))
	l, err := s.Begin("test")
	require.NoError(t, err)
	require.NoError(t, l.Abandon())
	require.ErrorIs(t, fill("b"), dimstore.ErrNoMemory)
	require.InDelta(t, rows, s.Rows(), float64(rows)/20, "as many as before")

	// A quarter goes; what is left may change for ever.
	var gone []dimstore.Change
	s.SetDeleteMarkTTL(0)
	first := offset - s.Rows() - 500
	for i := first; i < first+s.Rows()/4; i++ {
		gone = append(gone, remove(bucket0, offset, 1, "b", string(binary.BigEndian.AppendUint64(nil, uint64(i)))))
		if len(gone) == 100 {
			apply(t, s, gone...)
			gone = gone[:0]
		}
	}
	rows = s.Rows()
	for range 1000 {
		changes, positions := batch("b", func(i int64) int64 { return first + rows/3 + i%(rows/2) })
		_, err = s.Apply(changes, positions)
		require.NoError(t, err)
		require.LessOrEqual(t, s.Bytes(), int64(limit))
	}
	require.Equal(t, rows, s.Rows())
	require.NoError(t, s.Close())
}

// TestHeapBudgetOfTwo: generations side by side share the budget.
func TestHeapBudgetOfTwo(t *testing.T) {
	const limit = 8 << 20
	s := openHeap(t, t.TempDir(), dimstore.Options{Memory: limit})
	large := func(i int64) dimstore.Change {
		return upsert(bucket0, i, 1, "", strconv.FormatInt(i, 10), strings.Repeat("r", 100_000))
	}
	for i := range int64(35) {
		apply(t, s, large(i))
	}
	require.NoError(t, s.MarkComplete())
	l, err := s.Begin("test")
	require.NoError(t, err)
	i := int64(0)
	for err = nil; err == nil; i++ {
		_, err = l.Apply([]dimstore.Change{large(i)}, nil)
		require.LessOrEqual(t, s.Bytes()+l.Bytes(), int64(limit))
	}
	require.ErrorIs(t, err, dimstore.ErrNoMemory)
	require.Greater(t, i, int64(35))
	_, err = s.Apply([]dimstore.Change{large(100)}, nil)
	require.ErrorIs(t, err, dimstore.ErrNoMemory)
	require.NoError(t, l.Publish())
	apply(t, s, large(100))
	require.Equal(t, i, s.Rows())
	require.NoError(t, s.Close())
}

// TestHeapLargeCommits replaces many rows at once, which takes a while, beside readers: a view has all of it or nothing.
func TestHeapLargeCommits(t *testing.T) {
	s := openHeap(t, t.TempDir(), dimstore.Options{})
	const keys, rounds, readers = 10_000, 30, 3
	key := func(k int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(k)) }
	changes := make([]dimstore.Change, keys)
	write := func(n int) {
		value := strconv.Itoa(n)
		for k := range changes {
			changes[k] = dimstore.Change{Bucket: bucket0, Offset: int64(n*keys + k), Key: key(k), Row: []byte(value)}
		}
		apply(t, s, changes...)
	}
	read := func(rng *rand.Rand) error {
		v := s.Read()
		defer v.Close()
		first := ""
		for range 2000 {
			row, ok, err := v.Get(nil, key(rng.IntN(keys)))
			if first == "" {
				first = string(row)
			}
			if err != nil || !ok || string(row) != first {
				return fmt.Errorf("row of round %s in a view of round %s: %v: %w", row, first, ok, err)
			}
		}
		return nil
	}
	write(0)
	stop := make(chan struct{})
	failed := make(chan error, readers)
	for r := range readers {
		go func() {
			rng := rand.New(rand.NewPCG(uint64(r), 1))
			for {
				err := read(rng)
				select {
				case <-stop:
				default:
					if err == nil {
						continue
					}
				}
				failed <- err
				return
			}
		}()
	}
	for n := 1; n < rounds; n++ {
		write(n)
	}
	close(stop)
	for range readers {
		require.NoError(t, <-failed)
	}
	require.NoError(t, s.Close())
}

// TestHeapConcurrent is testWindow where memory is taken back at once.
func TestHeapConcurrent(t *testing.T) {
	s := openHeap(t, t.TempDir(), dimstore.Options{Indexes: testIndexes})
	s.SetDeleteMarkTTL(0)
	s.SetChunkSize(1 << 10)
	testWindow(t, s)
	require.NoError(t, s.Close())
}
