package dimstore_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"enricher/dimstore"
	"enricher/record"
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

// TestHeapConcurrent has a writer that moves a window of keys on: rows come, change, go and come back, index values change, partitions are
// dropped, memory is taken back at once. Readers must see the window of one round, whole and in order, however they look.
func TestHeapConcurrent(t *testing.T) {
	s := openHeap(t, t.TempDir(), dimstore.Options{Indexes: testIndexes})
	s.SetDeleteMarkTTL(0)
	s.SetChunkSize(1 << 10)
	const width, rounds, readers = 30, 600, 6
	offset := int64(0)
	change := func(n, k int, gone bool) dimstore.Change {
		offset++
		c := upsert(bucket0, offset, 1, fmt.Sprintf("p%d", k%4), fmt.Sprintf("%04d", k%200), row(strconv.Itoa(n), `"x"`, strconv.Itoa(k)))
		c.Delete = gone
		return c
	}
	move := func(n int) {
		var changes []dimstore.Change
		if n > 0 {
			changes = append(changes, change(n, n-1, true))
		}
		for k := n; k < n+width; k++ {
			changes = append(changes, change(n, k, false))
		}
		_, err := s.Apply(changes, nil)
		require.NoError(t, err)
		if n%50 == 49 {
			// A partition of others comes and goes.
			apply(t, s, upsert(bucket0, offset, 1, "x", "k", row(strconv.Itoa(-n), `"x"`, "0")))
			require.NoError(t, s.DropPartition([]byte("x")))
		}
	}
	move(0)
	stop := make(chan struct{})
	failed := make(chan error, readers)
	var reads atomic.Int64
	for r := range readers {
		go func() {
			rng := rand.New(rand.NewPCG(uint64(r), 1))
			for {
				select {
				case <-stop:
					failed <- nil
					return
				default:
					if err := readWindow(s.Read(), width, rng); err != nil {
						failed <- err
						return
					}
					reads.Add(1)
				}
			}
		}()
	}
	for n := 1; n < rounds || reads.Load() < rounds && len(failed) == 0; n++ {
		move(n)
	}
	close(stop)
	for range readers {
		require.NoError(t, <-failed)
	}
	require.EqualValues(t, width, s.Rows())
	require.NoError(t, s.Close())
}

// readWindow finds out the round from the first row it meets, and holds all others against it.
func readWindow(v dimstore.View, width int, rng *rand.Rand) error {
	defer v.Close()
	round, rows := -1, 0
	var found []string
	for p := range 4 {
		last := ""
		err := v.Scan(fmt.Appendf(nil, "p%d", p), nil, func(r record.Row) bool {
			var n, k int
			_, err := fmt.Sscan(string(r.Column(0))+" "+string(r.Column(2)), &n, &k)
			if round < 0 {
				round = n
			}
			key := fmt.Sprintf("%04d", k%200)
			if err != nil || n != round || k < n || k >= n+width || k%4 != p || key <= last {
				found = append(found, fmt.Sprintf("row %d of round %d in p%d after %s", k, n, p, last))
			}
			last = key
			rows++
			return true
		})
		if err != nil {
			return err
		}
	}
	if rows != width || len(found) > 0 {
		return fmt.Errorf("round %d: %d rows, %v", round, rows, found)
	}
	for range 40 {
		k := max(0, round-20) + rng.IntN(width+40)
		r, ok, err := v.Get(fmt.Appendf(nil, "p%d", k%4), fmt.Appendf(nil, "%04d", k%200))
		if want := k >= round && k < round+width; err != nil || ok != want || ok && !bytes.Equal(r.Column(0), fmt.Append(nil, round)) {
			return fmt.Errorf("get %d in round %d: %v %s: %w", k, round, ok, r, err)
		}
	}
	for n := max(0, round-1); n <= round+1; n++ {
		key, err := record.AppendKey(nil, record.Int, fmt.Append(nil, n))
		rows := 0
		err = errors.Join(err, v.ScanIndex(0, key, func(record.Row) bool { rows++; return true }))
		if err != nil || rows != map[bool]int{true: width}[n == round] {
			return fmt.Errorf("index of round %d in round %d: %d rows: %w", n, round, rows, err)
		}
	}
	if n := len(v.Latest(9)); n != 4 && (n != 5 || !v.HasPartition([]byte("x"))) {
		return fmt.Errorf("%d partitions", n)
	}
	return nil
}
