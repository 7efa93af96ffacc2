package dimstore_test

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"enricher/dimstore"
	"enricher/record"
)

// benchKey is a 16-byte key in an order that has nothing to do with i.
func benchKey(dst []byte, i uint64) []byte {
	h := i * 0x9E3779B97F4A7C15
	h ^= h >> 29
	dst = binary.BigEndian.AppendUint64(dst, h*0xBF58476D1CE4E5B9)
	return binary.BigEndian.AppendUint64(dst, i)
}

// load applies n rows of 100 bytes in batches of 10,000, groups of `group` rows under one 16-byte prefix when group > 1.
func load(b *testing.B, s *dimstore.Store, first, n int) {
	b.Helper()
	const batch = 10_000
	id := dimstore.BucketID{Topic: "t"}
	row := record.Row(make([]byte, 100))
	for i := range row {
		row[i] = byte(rand.Uint32())
	}
	changes := make([]dimstore.Change, 0, batch)
	for i := first; i < first+n; {
		changes = changes[:0]
		for ; len(changes) < batch && i < first+n; i++ {
			changes = append(changes, dimstore.Change{
				Bucket: id, Offset: int64(i), Timestamp: int64(i), Key: benchKey(nil, uint64(i)), Row: row,
			})
		}
		_, err := s.Apply(changes, []dimstore.Position{{Bucket: id, Next: int64(i)}})
		require.NoError(b, err)
	}
}

func benchStore(b *testing.B) *dimstore.Store {
	b.Helper()
	return benchStoreOf(b, dimstore.Options{Name: "bench", Fingerprint: "1", Memory: 256 << 20})
}

func benchStoreOf(b *testing.B, o dimstore.Options) *dimstore.Store {
	b.Helper()
	d, err := dimstore.OpenDir(b.TempDir())
	require.NoError(b, err)
	s, err := d.OpenStore(o)
	require.NoError(b, err)
	b.Cleanup(func() {
		require.NoError(b, s.Close())
		require.NoError(b, d.Close())
	})
	return s
}

// BenchmarkApplyFresh is a first load: one op is 10,000 new rows.
func BenchmarkApplyFresh(b *testing.B) {
	s := benchStore(b)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		load(b, s, i, 10_000)
		i += 10_000
	}
	b.ReportMetric(float64(i)/b.Elapsed().Seconds(), "rows/s")
}

// BenchmarkApplyAfterLoad is the same on a complete store, where each key is looked up in the database.
func BenchmarkApplyAfterLoad(b *testing.B) {
	s := benchStore(b)
	load(b, s, 0, 1_000_000)
	require.NoError(b, s.MarkComplete())
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		load(b, s, 1_000_000+i, 10_000)
		i += 10_000
	}
	b.ReportMetric(float64(i)/b.Elapsed().Seconds(), "rows/s")
}

const benchRows = 1_000_000

// BenchmarkGet reads single rows of a million, 500 per view.
func BenchmarkGet(b *testing.B) {
	s := benchStore(b)
	load(b, s, 0, benchRows)
	require.NoError(b, s.MarkComplete())
	run := func(first uint64, want bool) func(b *testing.B) {
		return func(b *testing.B) {
			b.Helper()
			rng := rand.New(rand.NewPCG(1, 2))
			v := s.Read()
			var key []byte
			n := 0
			b.ReportAllocs()
			for b.Loop() {
				if n++; n%500 == 0 {
					v.Close()
					v = s.Read()
				}
				key = benchKey(key[:0], first+rng.Uint64N(benchRows))
				_, ok, err := v.Get(nil, key)
				if err != nil || ok != want {
					b.Fatal(ok, err)
				}
				if !ok && !v.HasPartition(nil) {
					b.Fatal("partition")
				}
			}
			v.Close()
		}
	}
	b.Run("hit", run(0, true))
	b.Run("miss", run(benchRows, false))
	b.Run("scan1", func(b *testing.B) {
		rng := rand.New(rand.NewPCG(1, 2))
		v := s.Read()
		var key []byte
		n := 0
		b.ReportAllocs()
		for b.Loop() {
			if n++; n%500 == 0 {
				v.Close()
				v = s.Read()
			}
			key = benchKey(key[:0], rng.Uint64N(benchRows))
			rows := 0
			if err := v.Scan(nil, key[:8], func(record.Row) bool { rows++; return true }); err != nil || rows == 0 {
				b.Fatal(rows, err)
			}
		}
		v.Close()
	})
	b.Run("open", func(b *testing.B) {
		for b.Loop() {
			s.Read().Close()
		}
	})
}

// BenchmarkApplyIndexed is BenchmarkApplyFresh with rows of three columns and the two indexes of the suite, in batches of 10,000.
func BenchmarkApplyIndexed(b *testing.B) {
	s := benchIndexed(b)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		loadIndexed(b, s, i, 10_000, 1)
		i += 10_000
	}
	b.ReportMetric(float64(i)/b.Elapsed().Seconds(), "rows/s")
}

// BenchmarkScanIndex finds ten rows of 200,000 by an index, 500 times per view, in one partition or in a hundred.
func BenchmarkScanIndex(b *testing.B) {
	for _, partitions := range []int{1, 100} {
		b.Run(strconv.Itoa(partitions), func(b *testing.B) {
			s := benchIndexed(b)
			loadIndexed(b, s, 0, 200_000, partitions)
			require.NoError(b, s.MarkComplete())
			rng := rand.New(rand.NewPCG(1, 2))
			v := s.Read()
			n := 0
			b.ReportAllocs()
			for b.Loop() {
				if n++; n%500 == 0 {
					v.Close()
					v = s.Read()
				}
				key, err := record.AppendKeyInt(nil, record.Int, int64(rng.IntN(20_000)))
				rows := 0
				if err := errors.Join(err, v.ScanIndex(0, key, func(record.Row) bool { rows++; return true })); err != nil || rows != 10 {
					b.Fatal(rows, err)
				}
			}
			v.Close()
		})
	}
}

func benchIndexed(b *testing.B) *dimstore.Store {
	b.Helper()
	return benchStoreOf(b, dimstore.Options{Name: "bench", Fingerprint: "1", Memory: 256 << 20, Indexes: testIndexes})
}

// loadIndexed applies n rows, of which n/20,000 share a value of the first index, in batches of 10,000.
func loadIndexed(b *testing.B, s *dimstore.Store, first, n, partitions int) {
	b.Helper()
	const batch = 10_000
	id := dimstore.BucketID{Topic: "t"}
	for at := first; at < first+n; at += batch {
		changes := make([]dimstore.Change, batch)
		for i := range changes {
			offset := at + i
			number := strconv.Itoa(offset)
			changes[i] = dimstore.Change{
				Bucket: id, Offset: int64(offset), Partition: strconv.AppendInt(nil, int64(offset/20_000%partitions), 10),
				Key: benchKey(nil, uint64(offset)), Row: record.Row(row(strconv.Itoa(offset%20_000), strconv.Quote(number), number)),
			}
		}
		_, err := s.Apply(changes, []dimstore.Position{{Bucket: id, Next: int64(at + batch)}})
		require.NoError(b, err)
	}
}
