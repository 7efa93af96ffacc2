package dimstore_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"enricher/dimstore"
	"enricher/record"
)

// model is what a store must hold, in plain maps.
type model struct {
	rows      map[[2]string]dimstore.Change // rows and marks by partition and key
	positions map[dimstore.BucketID]dimstore.Position
}

// newModel returns the model of an empty store.
func newModel() *model {
	return &model{rows: make(map[[2]string]dimstore.Change), positions: make(map[dimstore.BucketID]dimstore.Position)}
}

// apply does to the model what Store.Apply does to a store.
func (m *model) apply(changes []dimstore.Change, positions []dimstore.Position) dimstore.Applied {
	var a dimstore.Applied
	for _, c := range changes {
		k := [2]string{string(c.Partition), string(c.Key)}
		old, ok := m.rows[k]
		switch {
		case ok && !newer(c, old):
			a.Stale++
			continue
		case c.Delete:
			a.Deletes++
		default:
			a.Upserts++
		}
		c.Row = slices.Clone(c.Row)
		m.rows[k] = c
	}
	for _, p := range positions {
		m.positions[p.Bucket] = p
	}
	return a
}

func newer(a, b dimstore.Change) bool {
	if a.Bucket == b.Bucket {
		return a.Offset > b.Offset
	}
	if a.Timestamp != b.Timestamp {
		return a.Timestamp > b.Timestamp
	}
	if a.Bucket.Topic != b.Bucket.Topic {
		return a.Bucket.Topic > b.Bucket.Topic
	}
	return a.Bucket.Partition > b.Bucket.Partition
}

// check compares a store with the model, row by row.
func (m *model) check(t *testing.T, s conformingStore) {
	t.Helper()
	v := s.Read()
	defer v.Close()
	live := make(map[string][]string) // partition → keys
	for k, c := range m.rows {
		row, ok, err := v.Get([]byte(k[0]), []byte(k[1]))
		require.NoError(t, err)
		require.Equal(t, !c.Delete, ok, "row %.40q", k)
		if c.Delete {
			continue
		}
		require.Truef(t, bytes.Equal(row, c.Row), "content of %.40q", k)
		live[k[0]] = append(live[k[0]], k[1])
	}
	n := 0
	for p, keys := range live {
		slices.Sort(keys)
		n += len(keys)
		require.True(t, v.HasPartition([]byte(p)))
		m.checkScan(t, v, p, "", keys)
		some := keys[len(keys)/2]
		m.checkScan(t, v, p, some[:len(some)/2], keys)
		m.checkScan(t, v, p, some, keys)
	}
	require.EqualValues(t, n, s.Rows(), "number of rows")
	require.Equal(t, len(live), s.Partitions(), "number of partitions")
	require.Len(t, s.Positions(), len(m.positions))
	for _, p := range s.Positions() {
		require.Equal(t, m.positions[p.Bucket], p)
	}
}

func (m *model) checkScan(t *testing.T, v dimstore.View, partition, prefix string, keys []string) {
	t.Helper()
	keys = slices.DeleteFunc(slices.Clone(keys), func(k string) bool { return !strings.HasPrefix(k, prefix) })
	i := 0
	require.NoError(t, v.Scan([]byte(partition), []byte(prefix), func(row record.Row) bool {
		require.Less(t, i, len(keys), "more rows than keys")
		require.Truef(t, bytes.Equal(row, m.rows[[2]string{partition, keys[i]}].Row), "row %d of partition %.40q from %.40q", i, partition, prefix)
		i++
		return true
	}))
	require.Equal(t, len(keys), i, "rows of partition %.40q from %.40q", partition, prefix)
}

// testModel compares a store with the model through random changes, reopened now and then if it is durable.
func testModel(t *testing.T, durable bool, newFactory func(t *testing.T) factory) {
	t.Helper()
	for seed := range uint64(4) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 7))
			open := newFactory(t)
			s := open(t)
			m := newModel()
			h := newHistory(rng)
			complete := false
			for range 40 {
				changes, positions := h.batch()
				want := m.apply(changes, positions)
				got, err := s.Apply(changes, positions)
				require.NoError(t, err)
				require.Equal(t, want, got)
				switch rng.IntN(8) {
				case 0:
					m.check(t, s)
				case 1:
					if !durable {
						continue
					}
					require.NoError(t, s.Close())
					s = open(t)
					require.Equal(t, complete, s.Complete())
					m.check(t, s)
				case 2:
					if rng.IntN(3) == 0 {
						require.NoError(t, s.MarkComplete())
						complete = true
					}
				}
			}
			m.check(t, s)
			require.NoError(t, s.Close())
		})
	}
}

// history makes up changes: a few buckets with rising offsets, few keys, times that collide, records read twice.
type history struct {
	rng     *rand.Rand
	buckets []dimstore.Position
	keys    []string
	parts   []string
	past    []dimstore.Change
}

func newHistory(rng *rand.Rand) *history {
	h := &history{rng: rng, parts: []string{"", "a", "ab", "\x00", strings.Repeat("p", 33_000)}}
	for i := range 3 {
		h.buckets = append(h.buckets, dimstore.Position{Bucket: dimstore.BucketID{Topic: "t", Partition: int32(i)}, TopicID: [16]byte{1}})
	}
	for i := range 60 {
		h.keys = append(h.keys, fmt.Sprintf("%02d", i%40)+strings.Repeat("k", i%3))
	}
	long := strings.Repeat("x", 32<<10)
	h.keys = append(h.keys, long, long+"a", long+"b", long+"ab", "")
	return h
}

func (h *history) batch() ([]dimstore.Change, []dimstore.Position) {
	var changes []dimstore.Change
	for range 1 + h.rng.IntN(200) {
		if len(h.past) > 0 && h.rng.IntN(20) == 0 {
			changes = append(changes, h.past[h.rng.IntN(len(h.past))])
			continue
		}
		b := &h.buckets[h.rng.IntN(len(h.buckets))]
		c := dimstore.Change{
			Bucket: b.Bucket, Offset: b.Next, Timestamp: int64(h.rng.IntN(1000)), Delete: h.rng.IntN(4) == 0,
			Partition: []byte(h.parts[min(h.rng.IntN(40), len(h.parts)-1)]), Key: []byte(h.keys[h.rng.IntN(len(h.keys))]),
		}
		if h.rng.IntN(30) > 0 {
			c.Partition = []byte(h.parts[h.rng.IntN(4)])
		}
		if !c.Delete {
			c.Row = record.Row(strings.Repeat(strconv.FormatInt(c.Offset, 10), h.rng.IntN(50)))
			if h.rng.IntN(300) == 0 {
				c.Row = record.Row(strings.Repeat("L", 1<<20+h.rng.IntN(1<<20)))
			}
		}
		b.Next += 1 + int64(h.rng.IntN(3))
		changes = append(changes, c)
		h.past = append(h.past, c)
	}
	positions := slices.Clone(h.buckets)
	h.rng.Shuffle(len(positions), func(i, j int) { positions[i], positions[j] = positions[j], positions[i] })
	return changes, positions
}
