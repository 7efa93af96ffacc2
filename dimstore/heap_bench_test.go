package dimstore_test

import (
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"enricher/dimstore"
	"enricher/record"
)

// benchHeap is a store in memory with rows of 76 bytes under keys of 16, groups of 10 under one prefix of 8.
func benchHeap(b *testing.B, rows int) *dimstore.HeapStore {
	b.Helper()
	d, err := dimstore.OpenDir(b.TempDir())
	require.NoError(b, err)
	s, err := d.OpenHeap(dimstore.Options{Name: "bench"})
	require.NoError(b, err)
	b.Cleanup(func() {
		require.NoError(b, s.Close())
		require.NoError(b, d.Close())
	})
	loadGroups(b, s, 0, rows)
	require.NoError(b, s.MarkComplete())
	return s
}

type benchTable interface {
	Apply(changes []dimstore.Change, positions []dimstore.Position) (dimstore.Applied, error)
	MarkComplete() error
	Read() dimstore.View
}

// groupKey is key i in groups of ten: an order of groups that has nothing to do with i.
func groupKey(dst []byte, i uint64) []byte {
	dst = benchKey(dst, i/10)[:len(dst)+8]
	return append(dst, 0, 0, 0, 0, 0, 0, 0, byte(i%10))
}

func loadGroups(b *testing.B, s benchTable, first, n int) {
	b.Helper()
	const batch = 1000
	id := dimstore.BucketID{Topic: "t"}
	row := record.Row(make([]byte, 76))
	for i := range row {
		row[i] = byte(rand.Uint32())
	}
	changes := make([]dimstore.Change, 0, batch)
	keys := make([]byte, 0, 16*batch)
	for i := first; i < first+n; {
		changes, keys = changes[:0], keys[:0]
		for ; len(changes) < batch && i < first+n; i++ {
			from := len(keys)
			keys = groupKey(keys, uint64(i)*7919%1_000_000+uint64(i/1_000_000)*1_000_000)
			changes = append(changes, dimstore.Change{Bucket: id, Offset: int64(i), Timestamp: 1_764_000_000_000 + int64(i), Key: keys[from:], Row: row})
		}
		_, err := s.Apply(changes, []dimstore.Position{{Bucket: id, Next: int64(i)}})
		require.NoError(b, err)
	}
}

// BenchmarkHeapRead reads from a million rows, 500 times per view, beside the same in Badger.
func BenchmarkHeapRead(b *testing.B) {
	heap := benchHeap(b, benchRows)
	disk := benchStore(b)
	loadGroups(b, disk, 0, benchRows)
	require.NoError(b, disk.MarkComplete())
	for _, s := range []struct {
		name string
		benchTable
	}{{"heap", heap}, {"badger", disk}} {
		b.Run(s.name+"/get", func(b *testing.B) { benchReads(b, s, benchGet(0, true)) })
		b.Run(s.name+"/miss", func(b *testing.B) { benchReads(b, s, benchGet(benchRows, false)) })
		b.Run(s.name+"/prefix of ten", func(b *testing.B) { benchReads(b, s, benchPrefix) })
	}
}

func benchReads(b *testing.B, s benchTable, read func(v dimstore.View, key []byte, i uint64) bool) {
	b.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	v := s.Read()
	defer func() { v.Close() }()
	key := make([]byte, 0, 16)
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		if n++; n%500 == 0 {
			v.Close()
			v = s.Read()
		}
		if !read(v, key, rng.Uint64N(benchRows)) {
			b.Fatal("wrong answer")
		}
	}
}

func benchGet(first uint64, want bool) func(v dimstore.View, key []byte, i uint64) bool {
	return func(v dimstore.View, key []byte, i uint64) bool {
		_, ok, err := v.Get(nil, groupKey(key, first+i))
		return err == nil && ok == want
	}
}

func benchPrefix(v dimstore.View, key []byte, i uint64) bool {
	rows := 0
	err := v.Scan(nil, groupKey(key, i)[:8], func(record.Row) bool { rows++; return true })
	return err == nil && rows == 10
}

// BenchmarkHeapApply is a load: one op is 10,000 new rows in batches of 1,000.
func BenchmarkHeapApply(b *testing.B) {
	for _, c := range []struct {
		name string
		rows int
	}{{"empty", 0}, {"after a load", benchRows}} {
		b.Run(c.name, func(b *testing.B) {
			var s benchTable
			if c.rows > 0 {
				s = benchHeap(b, c.rows)
			} else {
				d, err := dimstore.OpenDir(b.TempDir())
				require.NoError(b, err)
				s, err = d.OpenHeap(dimstore.Options{Name: "bench"})
				require.NoError(b, err)
			}
			b.ReportAllocs()
			i := c.rows
			for b.Loop() {
				loadGroups(b, s, i, 10_000)
				i += 10_000
			}
			b.ReportMetric(float64(i-c.rows)/b.Elapsed().Seconds(), "rows/s")
		})
	}
	b.Run("updates", func(b *testing.B) {
		s := benchHeap(b, benchRows)
		b.ReportAllocs()
		i := 0
		for b.Loop() {
			// The same keys again, with later offsets.
			loadGroupsAs(b, s, i, 10_000)
			i += 10_000
		}
		b.ReportMetric(float64(i)/b.Elapsed().Seconds(), "rows/s")
		b.ReportMetric(float64(s.Bytes())/benchRows, "B/row")
	})
}

func loadGroupsAs(b *testing.B, s benchTable, i, n int) {
	b.Helper()
	id := dimstore.BucketID{Topic: "t"}
	row := record.Row(make([]byte, 76))
	changes := make([]dimstore.Change, 0, n)
	for j := range n {
		changes = append(changes, dimstore.Change{
			Bucket: id, Offset: int64(2*benchRows + i + j), Timestamp: 1_764_000_000_000, Key: groupKey(nil, uint64(i+j)*7919%benchRows), Row: row,
		})
	}
	_, err := s.Apply(changes, nil)
	require.NoError(b, err)
}

// BenchmarkHeapGC is a collection with a million rows in memory, less one without.
func BenchmarkHeapGC(b *testing.B) {
	collect := func() time.Duration {
		runtime.GC()
		start := time.Now()
		runtime.GC()
		return time.Since(start)
	}
	without := collect()
	s := benchHeap(b, benchRows)
	var with time.Duration
	n := 0
	for b.Loop() {
		with += collect()
		n++
	}
	b.ReportMetric(float64(s.Bytes())/benchRows, "B/row")
	b.ReportMetric(float64((with/time.Duration(n)-without).Microseconds())/1000, "gc-ms")
	runtime.KeepAlive(s)
}

// BenchmarkHeapOrder is MarkComplete after a million rows.
func BenchmarkHeapOrder(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		d, err := dimstore.OpenDir(b.TempDir())
		require.NoError(b, err)
		s, err := d.OpenHeap(dimstore.Options{Name: "bench"})
		require.NoError(b, err)
		loadGroups(b, s, 0, benchRows)
		b.StartTimer()
		require.NoError(b, s.MarkComplete())
	}
}
