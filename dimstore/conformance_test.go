package dimstore_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"enricher/dimstore"
	"enricher/record"
)

// conformingStore is what the suite tests: the contract of a dimension store, whatever keeps the rows.
type conformingStore interface {
	Apply(changes []dimstore.Change, positions []dimstore.Position) (dimstore.Applied, error)
	Positions() []dimstore.Position
	Complete() bool
	MarkComplete() error
	Reset(reason string) error
	Read() dimstore.View
	Rows() int64
	Partitions() int
	PartitionList() [][]byte
	DropPartition(partition []byte) error
	Begin(reason string) (loadingStore, error)
	Close() error
}

// factory opens stores over the same data, one at a time: the first call finds nothing, a later one what the store before left at its
// Close. Of the options, Version and Indexes count, and they are the same in every call.
type factory func(t *testing.T, o dimstore.Options) conformingStore

// testConformance runs the suite. newFactory is called once per test, with data of its own; durable says that data outlive Close.
func testConformance(t *testing.T, durable bool, newFactory func(t *testing.T) factory) {
	t.Helper()
	for _, c := range []struct {
		name string
		test func(t *testing.T, s conformingStore)
	}{
		{"rows", testRows},
		{"versions", testVersions},
		{"marks", testMarks},
		{"one key many times in one batch", testOneKey},
		{"counters", testCounters},
		{"scan", testScan},
		{"scan inside scan", testNested},
		{"long keys", testLongKeys},
		{"large rows", testLargeRows},
		{"large batch", testLargeBatch},
		{"positions", testPositions},
		{"snapshot", testSnapshot},
		{"arguments are not kept", testArguments},
		{"complete", testComplete},
		{"reset", testReset},
		{"closed", testClosed},
		{"readers beside a writer", testConcurrent},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newFactory(t)(t, dimstore.Options{})
			c.test(t, s)
			require.NoError(t, s.Close())
		})
	}
	for _, c := range []struct {
		name    string
		options dimstore.Options
		test    func(t *testing.T, s conformingStore)
	}{
		{"version timestamp", dimstore.Options{Version: dimstore.VersionTimestamp}, testVersionTimestamp},
		{"version column", dimstore.Options{Version: dimstore.VersionColumn}, testVersionColumn},
		{"a window of rows that moves", dimstore.Options{Indexes: testIndexes}, testWindow},
		{"index", dimstore.Options{Indexes: testIndexes}, testIndex},
		{"index over partitions", dimstore.Options{Indexes: testIndexes}, testIndexPartitions},
		{"index of long keys", dimstore.Options{Indexes: testIndexes}, testIndexLong},
		{"index of a large batch", dimstore.Options{Indexes: testIndexes}, testIndexLargeBatch},
		{"latest", dimstore.Options{}, testLatest},
		{"drop partition", dimstore.Options{Indexes: testIndexes}, testDropPartition},
		{"partitions beside a writer", dimstore.Options{Indexes: testIndexes}, testConcurrentPartitions},
		{"publish", dimstore.Options{Indexes: testIndexes}, testPublish},
		{"abandon", dimstore.Options{}, testAbandon},
		{"publish beside readers", dimstore.Options{}, testConcurrentPublish},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newFactory(t)(t, c.options)
			c.test(t, s)
			require.NoError(t, s.Close())
		})
	}
	t.Run("model", func(t *testing.T) { testModel(t, durable, newFactory) })
}

var (
	bucket0 = dimstore.BucketID{Topic: "customer", Partition: 0}
	bucket3 = dimstore.BucketID{Topic: "customer", Partition: 3}
)

func upsert(b dimstore.BucketID, offset, ts int64, partition, key, row string) dimstore.Change {
	return dimstore.Change{
		Bucket: b, Offset: offset, Timestamp: ts, Partition: []byte(partition), Key: []byte(key), Row: record.Row(row),
	}
}

func remove(b dimstore.BucketID, offset, ts int64, partition, key string) dimstore.Change {
	return dimstore.Change{Bucket: b, Offset: offset, Timestamp: ts, Partition: []byte(partition), Key: []byte(key), Delete: true}
}

func apply(t *testing.T, s conformingStore, changes ...dimstore.Change) dimstore.Applied {
	t.Helper()
	a, err := s.Apply(changes, nil)
	require.NoError(t, err)
	return a
}

// get returns the row, "-" when there is none.
func get(t *testing.T, s conformingStore, partition, key string) string {
	t.Helper()
	v := s.Read()
	defer v.Close()
	return getIn(t, v, partition, key)
}

func getIn(t *testing.T, v dimstore.View, partition, key string) string {
	t.Helper()
	row, ok, err := v.Get([]byte(partition), []byte(key))
	require.NoError(t, err)
	if !ok {
		assert.Nil(t, row)
		return "-"
	}
	return string(row)
}

func scan(t *testing.T, s conformingStore, partition, prefix string) []string {
	t.Helper()
	v := s.Read()
	defer v.Close()
	return scanIn(t, v, partition, prefix)
}

func scanIn(t *testing.T, v dimstore.View, partition, prefix string) []string {
	t.Helper()
	var rows []string
	require.NoError(t, v.Scan([]byte(partition), []byte(prefix), func(row record.Row) bool {
		rows = append(rows, string(row))
		return true
	}))
	return rows
}

func testRows(t *testing.T, s conformingStore) {
	t.Helper()
	assert.Equal(t, "-", get(t, s, "", "k"))
	assert.Equal(t, dimstore.Applied{Upserts: 2}, apply(t, s, upsert(bucket0, 0, 1, "", "k", "one"), upsert(bucket0, 1, 1, "", "", "empty key")))
	assert.Equal(t, "one", get(t, s, "", "k"))
	assert.Equal(t, "empty key", get(t, s, "", ""))
	assert.Equal(t, "-", get(t, s, "", "k\x00"))
	assert.Equal(t, "-", get(t, s, "k", ""), "a partition is not a key")
	apply(t, s, upsert(bucket0, 2, 1, "", "k", "two"))
	assert.Equal(t, "two", get(t, s, "", "k"))
	assert.Equal(t, dimstore.Applied{Deletes: 1}, apply(t, s, remove(bucket0, 3, 1, "", "k")))
	assert.Equal(t, "-", get(t, s, "", "k"))
	apply(t, s, upsert(bucket0, 4, 1, "", "k", ""))
	assert.Empty(t, get(t, s, "", "k"), "an empty row is a row")
	apply(t, s, upsert(bucket0, 5, 1, "p", "bc", "p/bc"), upsert(bucket0, 6, 1, "pb", "c", "pb/c"))
	assert.Equal(t, "p/bc", get(t, s, "p", "bc"))
	assert.Equal(t, "pb/c", get(t, s, "pb", "c"))
}

func testVersions(t *testing.T, s conformingStore) {
	t.Helper()
	topicB := dimstore.BucketID{Topic: "customer_b", Partition: 0}
	for i, c := range []struct {
		name          string
		first, second dimstore.Change
		newer         bool
	}{
		{"later offset, earlier time", upsert(bucket0, 5, 100, "", "", ""), upsert(bucket0, 6, 1, "", "", ""), true},
		{"earlier offset, later time", upsert(bucket0, 5, 100, "", "", ""), upsert(bucket0, 4, 200, "", "", ""), false},
		{"read twice", upsert(bucket0, 5, 100, "", "", ""), upsert(bucket0, 5, 100, "", "", ""), false},
		{"other bucket, later time, lower offset", upsert(bucket0, 900, 100, "", "", ""), upsert(bucket3, 2, 101, "", "", ""), true},
		{"other bucket, earlier time", upsert(bucket0, 5, 100, "", "", ""), upsert(bucket3, 900, 99, "", "", ""), false},
		{"other bucket, same time, higher", upsert(bucket0, 5, 100, "", "", ""), upsert(bucket3, 1, 100, "", "", ""), true},
		{"other bucket, same time, lower", upsert(bucket3, 5, 100, "", "", ""), upsert(bucket0, 900, 100, "", "", ""), false},
		{"other topic, same time, higher", upsert(bucket3, 5, 100, "", "", ""), upsert(topicB, 1, 100, "", "", ""), true},
		{"before the epoch", upsert(bucket0, 5, -100, "", "", ""), upsert(bucket3, 1, -99, "", "", ""), true},
	} {
		for _, op := range []string{"upsert", "delete"} {
			t.Run(c.name+", "+op, func(t *testing.T) {
				key := fmt.Appendf(nil, "%d %s", i, op)
				c.first.Key, c.first.Row = key, record.Row("first")
				c.second.Key, c.second.Row = key, record.Row("second")
				c.second.Delete = op == "delete"
				apply(t, s, c.first)
				a := apply(t, s, c.second)
				want := "first"
				switch {
				case !c.newer:
					assert.Equal(t, dimstore.Applied{Stale: 1}, a)
				case c.second.Delete:
					want = "-"
					assert.Equal(t, dimstore.Applied{Deletes: 1}, a)
				default:
					want = "second"
					assert.Equal(t, dimstore.Applied{Upserts: 1}, a)
				}
				assert.Equal(t, want, get(t, s, "", string(key)))
			})
		}
	}
}

func testMarks(t *testing.T, s conformingStore) {
	t.Helper()
	apply(t, s, upsert(bucket3, 1, 100, "p", "k", "row"), remove(bucket3, 2, 200, "p", "k"))
	assert.Equal(t, dimstore.Applied{Stale: 1}, apply(t, s, upsert(bucket0, 50, 150, "p", "k", "old")), "older than the delete")
	assert.Equal(t, "-", get(t, s, "p", "k"))
	assert.Empty(t, scan(t, s, "p", ""), "a mark is no row")
	assert.EqualValues(t, 0, s.Rows())

	assert.Equal(t, dimstore.Applied{Deletes: 1}, apply(t, s, remove(bucket3, 3, 100, "p", "never there")))
	assert.Equal(t, dimstore.Applied{Stale: 1}, apply(t, s, upsert(bucket0, 51, 99, "p", "never there", "old")))
	assert.Equal(t, dimstore.Applied{Stale: 1}, apply(t, s, remove(bucket0, 52, 99, "p", "never there")))
	assert.Equal(t, dimstore.Applied{Deletes: 1}, apply(t, s, remove(bucket0, 53, 101, "p", "never there")), "a newer mark replaces one")

	assert.Equal(t, dimstore.Applied{Upserts: 1}, apply(t, s, upsert(bucket0, 54, 201, "p", "k", "new")))
	assert.Equal(t, "new", get(t, s, "p", "k"))
	assert.EqualValues(t, 1, s.Rows())
}

func testOneKey(t *testing.T, s conformingStore) {
	t.Helper()
	a := apply(t, s,
		upsert(bucket0, 0, 1, "p", "k", "a"), remove(bucket0, 1, 1, "p", "k"), upsert(bucket0, 2, 1, "p", "k", "b"),
		upsert(bucket0, 1, 1, "p", "k", "stale"), upsert(bucket0, 3, 1, "p", "k", "c"))
	assert.Equal(t, dimstore.Applied{Upserts: 3, Deletes: 1, Stale: 1}, a)
	assert.Equal(t, "c", get(t, s, "p", "k"))
	assert.EqualValues(t, 1, s.Rows())
	apply(t, s, remove(bucket0, 4, 1, "p", "k"), upsert(bucket0, 5, 1, "p", "k", "d"), remove(bucket0, 6, 1, "p", "k"))
	assert.EqualValues(t, 0, s.Rows())
	assert.Equal(t, 0, s.Partitions())
}

func testCounters(t *testing.T, s conformingStore) {
	t.Helper()
	has := func(p string) bool {
		v := s.Read()
		defer v.Close()
		return v.HasPartition([]byte(p))
	}
	assert.False(t, has(""))
	apply(t, s, upsert(bucket0, 0, 1, "2024", "a", ""), upsert(bucket0, 1, 1, "2024", "b", ""), upsert(bucket0, 2, 1, "2025", "a", ""))
	assert.EqualValues(t, 3, s.Rows())
	assert.Equal(t, 2, s.Partitions())
	assert.True(t, has("2024"))
	assert.False(t, has("202"))
	assert.False(t, has(""))
	apply(t, s, upsert(bucket0, 3, 1, "2024", "a", "again"), remove(bucket0, 4, 1, "2025", "a"), remove(bucket0, 5, 1, "2025", "a"))
	assert.EqualValues(t, 2, s.Rows())
	assert.Equal(t, 1, s.Partitions())
	assert.False(t, has("2025"))
	apply(t, s, remove(bucket0, 6, 1, "2026", "nothing"))
	assert.False(t, has("2026"), "a mark makes no partition")
	apply(t, s, upsert(bucket0, 7, 1, "2025", "a", ""))
	assert.True(t, has("2025"))
}

func testScan(t *testing.T, s conformingStore) {
	t.Helper()
	keys := []string{"", "\x00", "\x00\x01", "a", "ab", "abc", "b", "\xff", "\xff\xff"}
	var changes []dimstore.Change
	for i := range keys {
		k := keys[(i*5)%len(keys)]
		changes = append(changes, upsert(bucket0, int64(i), 1, "p", k, k))
		changes = append(changes, upsert(bucket0, int64(i), 1, "q", k, "q"+k))
	}
	apply(t, s, changes...)
	assert.Equal(t, keys, scan(t, s, "p", ""))
	assert.Equal(t, []string{"a", "ab", "abc"}, scan(t, s, "p", "a"))
	assert.Equal(t, []string{"\x00", "\x00\x01"}, scan(t, s, "p", "\x00"))
	assert.Equal(t, []string{"\xff\xff"}, scan(t, s, "p", "\xff\xff"))
	assert.Equal(t, []string{"qb"}, scan(t, s, "q", "b"))
	assert.Empty(t, scan(t, s, "p", "abcd"))
	assert.Empty(t, scan(t, s, "r", ""))
	assert.Empty(t, scan(t, s, "", ""))

	v := s.Read()
	defer v.Close()
	n := 0
	require.NoError(t, v.Scan([]byte("p"), nil, func(record.Row) bool { n++; return n < 2 }))
	assert.Equal(t, 2, n, "stops when told to")
	assert.Equal(t, []string{"b"}, scanIn(t, v, "p", "b"), "and the view goes on")
	assert.Equal(t, keys, scanIn(t, v, "p", ""), "backwards as well")
}

func testNested(t *testing.T, s conformingStore) {
	t.Helper()
	for i := range 5 {
		apply(t, s, upsert(bucket0, int64(i), 1, "", fmt.Sprintf("k%d", i), fmt.Sprintf("r%d", i)))
	}
	v := s.Read()
	defer v.Close()
	var seen []string
	require.NoError(t, v.Scan(nil, []byte("k"), func(row record.Row) bool {
		own := string(row)
		assert.Equal(t, "r4", getIn(t, v, "", "k4"))
		assert.Len(t, scanIn(t, v, "", "k"), 5)
		seen = append(seen, own)
		return true
	}))
	assert.Equal(t, []string{"r0", "r1", "r2", "r3", "r4"}, seen)
}

func testLongKeys(t *testing.T, s conformingStore) {
	t.Helper()
	const mib = 1 << 20
	long := strings.Repeat("x", mib)
	half := strings.Repeat("x", 40_000)
	keys := []string{ // in order
		"a", half, half + "a", long, long + "\x00", long + "b", long + "c", long + long, strings.Repeat("x", 32<<10) + "y", "y",
	}
	for _, p := range []string{"", "p", strings.Repeat("p", 32<<10-2), strings.Repeat("p", mib), strings.Repeat("p", mib) + "q"} {
		for i := range keys {
			k := keys[(i*7)%len(keys)]
			apply(t, s, upsert(bucket0, int64(i), 1, p, k, fmt.Sprintf("%d+%d", len(p), len(k))))
		}
		var want []string
		for _, k := range keys {
			want = append(want, fmt.Sprintf("%d+%d", len(p), len(k)))
			require.Equal(t, want[len(want)-1], get(t, s, p, k))
		}
		require.Equal(t, "-", get(t, s, p, long+"d"))
		require.Equal(t, want, scan(t, s, p, ""))
		require.Equal(t, want[1:9], scan(t, s, p, "x"))
		require.Equal(t, want[3:8], scan(t, s, p, long))
		require.Equal(t, want[5:6], scan(t, s, p, long+"b"))
		require.Empty(t, scan(t, s, p, long+"d"))
		v := s.Read()
		require.True(t, v.HasPartition([]byte(p)))
		v.Close()
	}
	assert.Equal(t, 5, s.Partitions())
	apply(t, s, remove(bucket0, 100, 1, "p", long), upsert(bucket0, 101, 1, "p", long+"b", "changed"))
	assert.Equal(t, "-", get(t, s, "p", long))
	assert.Equal(t, "changed", get(t, s, "p", long+"b"))
	assert.Equal(t, len(keys)-1, len(scan(t, s, "p", ""))) //nolint:testifylint // Len prints all of it
	assert.EqualValues(t, 5*len(keys)-1, s.Rows())
}

func testLargeRows(t *testing.T, s conformingStore) {
	t.Helper()
	big := func(c byte, n int) string { return strings.Repeat(string(c), n) }
	for i, size := range []int{600_000, 1 << 20, 3 << 20, 20 << 20} {
		key := strconv.Itoa(i)
		apply(t, s, upsert(bucket0, int64(3*i), 1, "p", key, big('a', size)))
		require.Equal(t, big('a', size), get(t, s, "p", key))
		old := s.Read()
		apply(t, s, upsert(bucket0, int64(3*i+1), 1, "p", key, big('b', size)))
		require.Equal(t, big('b', size), get(t, s, "p", key))
		require.Equal(t, big('a', size), getIn(t, old, "p", key), "the view opened before")
		old.Close()
	}
	rows := scan(t, s, "p", "")
	require.Len(t, rows, 4)
	require.Equal(t, big('b', 3<<20), rows[2])
	apply(t, s, remove(bucket0, 100, 1, "p", "2"), upsert(bucket0, 101, 1, "p", "1", "small"))
	assert.Equal(t, "-", get(t, s, "p", "2"))
	assert.Equal(t, "small", get(t, s, "p", "1"))
	assert.EqualValues(t, 3, s.Rows())
	long := strings.Repeat("k", 1<<20)
	apply(t, s, upsert(bucket0, 102, 1, "p", long, big('c', 3<<20)), upsert(bucket0, 103, 1, "p", long, big('d', 3<<20)))
	assert.Equal(t, big('d', 3<<20), get(t, s, "p", long), "a long key and a large row, twice in one batch")
}

func testLargeBatch(t *testing.T, s conformingStore) {
	t.Helper()
	const n = 60_000
	var changes []dimstore.Change
	for i := range n {
		p := strconv.Itoa(i % 7)
		changes = append(changes, upsert(bucket0, int64(i), 1, p, fmt.Sprintf("%08d", i), strings.Repeat("r", 100)))
	}
	positions := []dimstore.Position{{Bucket: bucket0, Next: n + 5}}
	a, err := s.Apply(changes, positions)
	require.NoError(t, err)
	assert.Equal(t, dimstore.Applied{Upserts: n}, a)
	assert.EqualValues(t, n, s.Rows())
	assert.Equal(t, positions, s.Positions())
	a, err = s.Apply(changes, positions)
	require.NoError(t, err)
	assert.Equal(t, dimstore.Applied{Stale: n}, a)
	assert.EqualValues(t, n, s.Rows())
	assert.Equal(t, 1428, len(scan(t, s, "3", "0001"))) //nolint:testifylint // Len prints all of it
}

func testPositions(t *testing.T, s conformingStore) {
	t.Helper()
	assert.Empty(t, s.Positions())
	p0 := dimstore.Position{
		Bucket: bucket0, TopicID: [16]byte{1, 2, 15: 9}, Next: 17, ProvedAt: time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC),
	}
	p3 := dimstore.Position{Bucket: bucket3}
	_, err := s.Apply(nil, []dimstore.Position{p0, p3})
	require.NoError(t, err)
	assert.ElementsMatch(t, []dimstore.Position{p0, p3}, s.Positions())
	apply(t, s, upsert(bucket0, 17, 1, "", "k", "row"), upsert(dimstore.BucketID{Topic: "new"}, 17, 1, "", "k2", "row"))
	assert.ElementsMatch(t, []dimstore.Position{p0, p3}, s.Positions(), "only a given position moves")
	p0.Next = 3
	_, err = s.Apply(nil, []dimstore.Position{p0})
	require.NoError(t, err)
	assert.ElementsMatch(t, []dimstore.Position{p0, p3}, s.Positions(), "back as well")

	many := make([]dimstore.Position, 20_000)
	for i := range many {
		many[i] = dimstore.Position{Bucket: dimstore.BucketID{Topic: strings.Repeat("t", 200), Partition: int32(i)}, Next: int64(i)}
	}
	_, err = s.Apply(nil, many)
	require.NoError(t, err)
	assert.ElementsMatch(t, append(many, p0, p3), s.Positions(), "more than fit into a transaction")
}

func testSnapshot(t *testing.T, s conformingStore) {
	t.Helper()
	apply(t, s, upsert(bucket0, 0, 1, "", "k", "old"), upsert(bucket0, 1, 1, "", "gone", "old"))
	v := s.Read()
	row, ok, err := v.Get(nil, []byte("k"))
	require.NoError(t, err)
	require.True(t, ok)
	for i := range 100 {
		apply(t, s, upsert(bucket0, int64(2+i), 1, "", "k", strconv.Itoa(i)), remove(bucket0, int64(2+i), 1, "", "gone"))
	}
	assert.Equal(t, "old", string(row), "a row stays valid until the view is closed")
	assert.Equal(t, "old", getIn(t, v, "", "k"))
	assert.Equal(t, []string{"old", "old"}, scanIn(t, v, "", ""))
	v.Close()
	assert.Equal(t, "99", get(t, s, "", "k"))
	assert.Equal(t, "-", get(t, s, "", "gone"))
}

func testArguments(t *testing.T, s conformingStore) {
	t.Helper()
	buf := []byte("pkr")
	apply(t, s, dimstore.Change{Bucket: bucket0, Partition: buf[:1], Key: buf[1:2], Row: buf[2:]})
	copy(buf, "xyz")
	assert.Equal(t, "r", get(t, s, "p", "k"))
	v := s.Read()
	defer v.Close()
	assert.True(t, v.HasPartition([]byte("p")))
	apply(t, s, dimstore.Change{Bucket: bucket0, Offset: 1, Partition: []byte("p"), Key: []byte("k"), Delete: true})
	assert.Equal(t, 0, s.Partitions())
}

func testComplete(t *testing.T, s conformingStore) {
	t.Helper()
	var changes []dimstore.Change
	for i := range 20_000 {
		changes = append(changes, upsert(bucket0, int64(i), 1, "", fmt.Sprintf("%08d", i*7919%20_000), strings.Repeat("r", 200)))
	}
	apply(t, s, changes...)
	assert.False(t, s.Complete())
	require.NoError(t, s.MarkComplete())
	assert.True(t, s.Complete())
	require.NoError(t, s.MarkComplete())
	assert.EqualValues(t, 20_000, s.Rows())
	assert.Equal(t, 20_000, len(scan(t, s, "", ""))) //nolint:testifylint // Len prints all of it
	apply(t, s, upsert(bucket0, 30_000, 1, "", "00000000", "new"), upsert(bucket0, 30_001, 1, "", "x", "new"))
	assert.Equal(t, "new", get(t, s, "", "00000000"))
	assert.EqualValues(t, 20_001, s.Rows())
}

func testReset(t *testing.T, s conformingStore) {
	t.Helper()
	_, err := s.Apply([]dimstore.Change{upsert(bucket0, 0, 1, "p", "k", "row")}, []dimstore.Position{{Bucket: bucket0, Next: 1}})
	require.NoError(t, err)
	require.NoError(t, s.MarkComplete())
	require.NoError(t, s.Reset("test"))
	assert.Equal(t, "-", get(t, s, "p", "k"))
	assert.Empty(t, s.Positions())
	assert.False(t, s.Complete())
	assert.EqualValues(t, 0, s.Rows())
	assert.Equal(t, 0, s.Partitions())
	apply(t, s, upsert(bucket0, 0, 1, "p", "k", "again"))
	assert.Equal(t, "again", get(t, s, "p", "k"))
}

func testClosed(t *testing.T, s conformingStore) {
	t.Helper()
	apply(t, s, upsert(bucket0, 0, 1, "p", "k", "row"))
	v := s.Read()
	done := make(chan error, 1)
	go func() { done <- s.Close() }()
	assert.Equal(t, "row", getIn(t, v, "p", "k"), "Close waits for the view")
	v.Close()
	require.NoError(t, <-done)
	require.NoError(t, s.Close())
	_, err := s.Apply([]dimstore.Change{upsert(bucket0, 1, 1, "p", "k", "row")}, nil)
	require.ErrorIs(t, err, dimstore.ErrClosed)
	require.ErrorIs(t, s.MarkComplete(), dimstore.ErrClosed)
	require.ErrorIs(t, s.Reset("test"), dimstore.ErrClosed)
	v = s.Read()
	defer v.Close()
	_, _, err = v.Get([]byte("p"), []byte("k"))
	require.ErrorIs(t, err, dimstore.ErrClosed)
	require.ErrorIs(t, v.Scan(nil, nil, func(record.Row) bool { return true }), dimstore.ErrClosed)
}

// testConcurrent has one writer that moves a row of pairs from n to n+1 in one Apply, and readers that must see one n at a time.
func testConcurrent(t *testing.T, s conformingStore) {
	t.Helper()
	const readers, keys = 8, 20
	times := rounds(300, 60)
	key := func(i int) []byte { return binary.BigEndian.AppendUint32([]byte("k"), uint32(i)) }
	round := func(n int) []dimstore.Change {
		var changes []dimstore.Change
		for i := range keys {
			row := bytes.Repeat(fmt.Appendf(nil, "%06d", n), 1+i*50)
			changes = append(changes, dimstore.Change{Bucket: bucket0, Offset: int64(n*keys + i), Partition: []byte("p"), Key: key(i), Row: row})
		}
		return changes
	}
	apply(t, s, round(0)...)
	stop := make(chan struct{})
	failed := make(chan error, readers)
	for r := range readers {
		go func() {
			for {
				select {
				case <-stop:
					failed <- nil
					return
				default:
					if err := readRound(s, key, keys, r); err != nil {
						failed <- err
						return
					}
				}
			}
		}()
	}
	for n := 1; n < times; n++ {
		apply(t, s, round(n)...)
	}
	close(stop)
	for range readers {
		require.NoError(t, <-failed)
	}
}

func readRound(s conformingStore, key func(int) []byte, keys, reader int) error {
	v := s.Read()
	defer v.Close()
	first, ok, err := v.Get([]byte("p"), key(0))
	if err != nil || !ok || len(first) != 6 {
		return fmt.Errorf("first row %q, %v: %w", first, ok, err)
	}
	n := 0
	err = v.Scan([]byte("p"), []byte("k"), func(row record.Row) bool {
		if !bytes.Equal(row, bytes.Repeat(first, 1+n*50)) {
			ok = false
		}
		n++
		return true
	})
	if err != nil || n != keys || !ok {
		return fmt.Errorf("reader %d: scan of round %s: %d rows, the same: %v: %w", reader, first, n, ok, err)
	}
	row, ok, err := v.Get([]byte("p"), key(reader))
	if err != nil || !ok || !bytes.Equal(row, bytes.Repeat(first, 1+reader*50)) {
		return fmt.Errorf("reader %d: get in round %s: %v: %w", reader, first, ok, err)
	}
	return nil
}
