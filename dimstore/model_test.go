package dimstore_test

import (
	"bytes"
	"fmt"
	"maps"
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
	version   string
	indexes   []dimstore.Index
	rows      map[[2]string]dimstore.Change // rows and marks by partition and key
	positions map[dimstore.BucketID]dimstore.Position
}

// newModel returns the model of an empty store.
func newModel() *model {
	return &model{rows: make(map[[2]string]dimstore.Change), positions: make(map[dimstore.BucketID]dimstore.Position)}
}

// modelOf is newModel for a store with options.
func modelOf(o dimstore.Options) *model {
	m := newModel()
	m.version, m.indexes = o.Version, o.Indexes
	return m
}

// apply does to the model what Store.Apply does to a store.
func (m *model) apply(changes []dimstore.Change, positions []dimstore.Position) dimstore.Applied {
	var a dimstore.Applied
	for _, c := range changes {
		k := [2]string{string(c.Partition), string(c.Key)}
		old, ok := m.rows[k]
		if c.Delete {
			c.Version = old.Version
		}
		switch {
		case ok && !m.newer(c, old):
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

// drop does to the model what Store.DropPartition does to a store.
func (m *model) drop(partition string) {
	maps.DeleteFunc(m.rows, func(k [2]string, _ dimstore.Change) bool { return k[0] == partition })
}

func (m *model) newer(a, b dimstore.Change) bool {
	switch m.version {
	case dimstore.VersionColumn:
		if c := bytes.Compare(a.Version, b.Version); c != 0 {
			return c > 0
		}
	case dimstore.VersionTimestamp:
		if a.Timestamp != b.Timestamp {
			return a.Timestamp > b.Timestamp
		}
	}
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
	live := m.checkView(t, v)
	n := 0
	for _, keys := range live {
		n += len(keys)
	}
	require.EqualValues(t, n, s.Rows(), "number of rows")
	require.Equal(t, len(live), s.Partitions(), "number of partitions")
	partitions := slices.Sorted(maps.Keys(live))
	require.True(t, slices.Equal(partitions, partitionList(s)), "list of partitions")
	require.Len(t, s.Positions(), len(m.positions))
	for _, p := range s.Positions() {
		require.Equal(t, m.positions[p.Bucket], p)
	}
}

// checkView compares a view with the model, and returns the keys by partition.
func (m *model) checkView(t *testing.T, v dimstore.View) map[string][]string {
	t.Helper()
	live := make(map[string][]string)
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
	for p, keys := range live {
		slices.Sort(keys)
		require.True(t, v.HasPartition([]byte(p)))
		m.checkScan(t, v, p, "", keys)
		some := keys[len(keys)/2]
		m.checkScan(t, v, p, some[:len(some)/2], keys)
		m.checkScan(t, v, p, some, keys)
	}
	partitions := slices.Sorted(maps.Keys(live))
	slices.Reverse(partitions)
	require.True(t, slices.Equal(partitions[:min(2, len(partitions))], latest(v, 2)), "latest partitions")
	for i := range m.indexes {
		m.checkIndex(t, v, i)
	}
	return live
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

// checkIndex looks up every value that a row has. There are few of them, so that an entry too many shows among those of other rows.
func (m *model) checkIndex(t *testing.T, v dimstore.View, index int) {
	t.Helper()
	want := make(map[string][][2]string) // codes → partition and key
	for k, c := range m.rows {
		if c.Delete {
			continue
		}
		var key []byte
		var err error
		for i, column := range m.indexes[index].Columns {
			if key, err = record.AppendKey(key, m.indexes[index].Types[i], c.Row.Column(column)); err != nil {
				break
			}
		}
		if err != nil {
			continue
		}
		want[string(key)] = append(want[string(key)], k)
	}
	for key, rows := range want {
		slices.SortFunc(rows, func(a, b [2]string) int {
			if c := strings.Compare(a[0], b[0]); c != 0 {
				return c
			}
			return strings.Compare(a[1], b[1])
		})
		i := 0
		require.NoError(t, v.ScanIndex(index, []byte(key), func(row record.Row) bool {
			require.Less(t, i, len(rows), "more rows of %.40q in index %d", key, index)
			require.Truef(t, bytes.Equal(row, m.rows[rows[i]].Row), "row %d of %.40q in index %d", i, key, index)
			i++
			return true
		}))
		require.Equal(t, len(rows), i, "rows of %.40q in index %d", key, index)
	}
}

// testModel compares a store with the model through random operations, reopened now and then if it is durable.
func testModel(t *testing.T, durable bool, newFactory func(t *testing.T) factory) {
	t.Helper()
	versions := []string{"", dimstore.VersionTimestamp, dimstore.VersionColumn}
	for seed := range uint64(rounds(6, 3)) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			o := dimstore.Options{Version: versions[seed%3]}
			if seed > 0 {
				o.Indexes = testIndexes
			}
			open := newFactory(t)
			p := &play{
				rng: rand.New(rand.NewPCG(seed, 7)), durable: durable, model: modelOf(o), options: o,
				open: func(t *testing.T) conformingStore { t.Helper(); return open(t, o) },
			}
			p.history = newHistory(p.rng)
			p.store = p.open(t)
			for range 40 {
				p.step(t)
			}
			p.model.check(t, p.store)
			require.NoError(t, p.store.Close())
		})
	}
}

// play is a store, its model, and perhaps a generation that is loaded, with a model of its own.
type play struct {
	rng      *rand.Rand
	durable  bool
	options  dimstore.Options
	open     func(t *testing.T) conformingStore
	history  *history
	store    conformingStore
	model    *model
	complete bool
	loading  loadingStore
	loaded   *model
}

func (p *play) step(t *testing.T) {
	t.Helper()
	changes, positions := p.history.batch()
	want := p.model.apply(changes, positions)
	got, err := p.store.Apply(changes, positions)
	require.NoError(t, err)
	require.Equal(t, want, got)
	if p.loading != nil {
		changes, positions = p.history.batch()
		want = p.loaded.apply(changes, positions)
		got, err = p.loading.Apply(changes, positions)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	switch p.rng.IntN(14) {
	case 0, 1:
		p.model.check(t, p.store)
	case 2:
		p.reopen(t)
	case 3:
		if p.rng.IntN(2) == 0 {
			require.NoError(t, p.store.MarkComplete())
			p.complete = true
		}
	case 4, 5:
		p.drop(t)
	case 6, 7:
		p.generation(t)
	case 8:
		if p.rng.IntN(8) == 0 {
			require.NoError(t, p.store.Reset("test"))
			p.model, p.complete, p.loading = modelOf(p.options), false, nil
		}
	}
}

func (p *play) reopen(t *testing.T) {
	t.Helper()
	if !p.durable {
		return
	}
	require.NoError(t, p.store.Close())
	p.store, p.loading = p.open(t), nil
	require.Equal(t, p.complete, p.store.Complete())
	p.model.check(t, p.store)
}

// drop drops a partition while a view is open that must go on.
func (p *play) drop(t *testing.T) {
	t.Helper()
	partition := p.history.parts[p.rng.IntN(len(p.history.parts))]
	v := p.store.Read()
	defer v.Close()
	before := modelOf(p.options)
	before.rows = maps.Clone(p.model.rows)
	require.NoError(t, p.store.DropPartition([]byte(partition)))
	p.model.drop(partition)
	if p.rng.IntN(2) == 0 {
		before.checkView(t, v)
	}
	p.model.check(t, p.store)
	if p.loading != nil {
		require.NoError(t, p.loading.DropPartition([]byte(partition)))
		p.loaded.drop(partition)
	}
}

// generation begins one, or ends the one that is loaded.
func (p *play) generation(t *testing.T) {
	t.Helper()
	var err error
	switch {
	case p.loading == nil:
		p.loading, err = p.store.Begin("test")
		p.loaded = modelOf(p.options)
	case p.rng.IntN(3) == 0:
		err, p.loading = p.loading.Abandon(), nil
	default:
		v := p.store.Read()
		defer v.Close()
		require.NoError(t, p.loading.Publish())
		p.model.checkView(t, v)
		p.model, p.complete, p.loading = p.loaded, true, nil
		p.model.check(t, p.store)
	}
	require.NoError(t, err)
}

// history makes up changes: a few buckets with rising offsets, few keys, times and versions that collide, records read twice.
type history struct {
	rng     *rand.Rand
	buckets []dimstore.Position
	keys    []string
	parts   []string
	values  []string
	past    []dimstore.Change
}

func newHistory(rng *rand.Rand) *history {
	h := &history{
		rng: rng, parts: []string{"", "a", "ab", "\x00", strings.Repeat("p", 33_000), "b", "c", "d"},
		values: []string{"", "null", `"x"`, `"y"`, `"y"`, "1", "[]", strconv.Quote(strings.Repeat("v", 4_080)), strconv.Quote(strings.Repeat("v", 33_000))},
	}
	for i := range 3 {
		h.buckets = append(h.buckets, dimstore.Position{Bucket: dimstore.BucketID{Topic: "t", Partition: int32(i)}, TopicID: [16]byte{1}})
	}
	for i := range 60 {
		h.keys = append(h.keys, fmt.Sprintf("%02d", i%40)+strings.Repeat("k", i%3))
	}
	long := strings.Repeat("x", 32<<10)
	h.keys = append(h.keys, long, long+"a", long+"b", long+"ab", "", long[:5_000], long[:5_000]+"a")
	return h
}

func (h *history) batch() ([]dimstore.Change, []dimstore.Position) {
	var changes []dimstore.Change
	for range 1 + h.rng.IntN(200) {
		if len(h.past) > 0 && h.rng.IntN(20) == 0 {
			changes = append(changes, h.past[h.rng.IntN(len(h.past))])
			continue
		}
		changes = append(changes, h.change())
		h.past = append(h.past, changes[len(changes)-1])
	}
	positions := slices.Clone(h.buckets)
	h.rng.Shuffle(len(positions), func(i, j int) { positions[i], positions[j] = positions[j], positions[i] })
	return changes, positions
}

func (h *history) change() dimstore.Change {
	b := &h.buckets[h.rng.IntN(len(h.buckets))]
	c := dimstore.Change{
		Bucket: b.Bucket, Offset: b.Next, Timestamp: int64(h.rng.IntN(1000)), Delete: h.rng.IntN(4) == 0,
		Partition: []byte(h.parts[h.rng.IntN(4)]), Key: []byte(h.keys[h.rng.IntN(len(h.keys))]),
	}
	b.Next += 1 + int64(h.rng.IntN(3))
	if h.rng.IntN(20) == 0 {
		c.Partition = []byte(h.parts[h.rng.IntN(len(h.parts))])
	}
	if h.rng.IntN(3) > 0 {
		c.Version = []byte(strings.Repeat(strconv.Itoa(h.rng.IntN(5)), 1+h.rng.IntN(2)))
	}
	if h.rng.IntN(200) == 0 {
		c.Version = bytes.Repeat([]byte{'9'}, 100_000)
	}
	if !c.Delete {
		c.Row = h.row(c.Offset)
	}
	return c
}

// row has a number that is few of, another value, one that tells it from all others, and something of any size.
func (h *history) row(offset int64) record.Row {
	filler := strings.Repeat(strconv.FormatInt(offset, 10), h.rng.IntN(50))
	if h.rng.IntN(300) == 0 {
		filler = strings.Repeat("L", 1<<20+h.rng.IntN(1<<20))
	}
	value := h.values[h.rng.IntN(len(h.values))]
	if len(value) > 100 && h.rng.IntN(10) > 0 {
		value = `"x"`
	}
	return record.Row(row(strconv.Itoa(h.rng.IntN(6)), value, strconv.FormatInt(offset, 10), strconv.Quote(filler)))
}
