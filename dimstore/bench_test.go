package dimstore_test

import (
	"encoding/binary"
	"math/rand/v2"
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
	d, err := dimstore.OpenDir(b.TempDir())
	require.NoError(b, err)
	s, err := d.OpenStore(dimstore.Options{Name: "bench", Fingerprint: "1", Memory: 256 << 20})
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
