package dimstore_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"enricher/dimstore"
	"enricher/record"
)

func latest(v dimstore.View, n int) []string {
	out := []string{}
	for _, p := range v.Latest(n) {
		out = append(out, string(p))
	}
	return out
}

func partitionList(s conformingStore) []string {
	out := []string{}
	for _, p := range s.PartitionList() {
		out = append(out, string(p))
	}
	return out
}

func testLatest(t *testing.T, s conformingStore) {
	t.Helper()
	in := func(n int) []string {
		v := s.Read()
		defer v.Close()
		return latest(v, n)
	}
	assert.Empty(t, in(2))
	assert.Empty(t, partitionList(s))
	apply(t, s, upsert(bucket0, 0, 1, "2024", "a", ""), upsert(bucket0, 1, 1, "2026", "a", ""), upsert(bucket0, 2, 1, "20", "a", ""),
		upsert(bucket0, 3, 1, "2025", "a", ""))
	assert.Equal(t, []string{"2026", "2025"}, in(2))
	assert.Equal(t, []string{"2026"}, in(1))
	assert.Empty(t, in(0))
	assert.Equal(t, []string{"2026", "2025", "2024", "20"}, in(9))
	assert.Equal(t, []string{"20", "2024", "2025", "2026"}, partitionList(s))

	before := s.Read()
	unused := s.Read()
	long := "2026" + strings.Repeat("x", 40_000)
	apply(t, s, upsert(bucket0, 4, 1, "2027", "a", ""), remove(bucket0, 5, 1, "2026", "a"), remove(bucket0, 6, 1, "3000", "a"),
		upsert(bucket0, 7, 1, long, "a", ""), upsert(bucket0, 8, 1, long+"y", "a", ""))
	assert.Equal(t, []string{"2027", long + "y", long, "2025"}, in(4))
	for _, v := range []dimstore.View{before, unused} {
		assert.Equal(t, []string{"2026", "2025"}, latest(v, 2), "the partitions of the snapshot")
		assert.True(t, v.HasPartition([]byte("2026")))
		assert.False(t, v.HasPartition([]byte("2027")))
		assert.Empty(t, getIn(t, v, "2026", "a"))
		assert.Equal(t, "-", getIn(t, v, "2027", "a"))
		v.Close()
	}

	var changes []dimstore.Change
	for i := range 5_000 {
		changes = append(changes, upsert(bucket0, int64(10+i), 1, fmt.Sprintf("4%04d", (i*7)%5_000), "a", ""))
	}
	apply(t, s, changes...)
	assert.Equal(t, []string{"44999", "44998"}, in(2))
	assert.Equal(t, 5_000+6, s.Partitions())
	list := partitionList(s)
	require.Equal(t, 5_000+6, len(list)) //nolint:testifylint // Len prints all of it
	for i := range 5_000 {
		require.Equal(t, fmt.Sprintf("4%04d", i), list[6+i])
	}
	for i := range changes {
		changes[i].Delete = true
		changes[i].Offset += 5_000
	}
	apply(t, s, changes[:4_990]...)
	assert.Len(t, in(100), 16)
	assert.Equal(t, 16, s.Partitions())
}

func testDropPartition(t *testing.T, s conformingStore) {
	t.Helper()
	long := strings.Repeat("k", 50_000)
	offset := int64(0)
	fill := func(p string) {
		apply(t, s,
			upsert(bucket0, offset, 1, p, "a", row("1", `"x"`, strconv.Quote(p+"a"))),
			upsert(bucket0, offset+1, 1, p, long, row("1", strconv.Quote(long), strconv.Quote(p+"long"))),
			upsert(bucket0, offset+2, 1, p, "big", row("1", "", strconv.Quote(strings.Repeat("b", 1<<20)))),
			upsert(bucket0, offset+3, 1, p, "gone", row("1", "", "0")), remove(bucket0, offset+4, 1, p, "gone"))
		offset += 5
	}
	partitions := []string{"2023", "2024", "2025", strings.Repeat("p", 40_000)}
	for _, p := range partitions {
		fill(p)
	}
	require.NoError(t, s.DropPartition([]byte("2022")), "there is none")
	require.EqualValues(t, 12, s.Rows())
	for i, p := range partitions {
		before := s.Read()
		require.NoError(t, s.DropPartition([]byte(p)))
		v := s.Read()
		assert.False(t, v.HasPartition([]byte(p)))
		assert.NotContains(t, latest(v, 9), p)
		assert.Equal(t, "-", getIn(t, v, p, "a"))
		assert.Equal(t, "-", getIn(t, v, p, long))
		assert.Empty(t, scanIn(t, v, p, ""))
		assert.Len(t, byIndexIn(t, v, 0, "1"), 9)
		v.Close()
		assert.EqualValues(t, 9, s.Rows())
		assert.Equal(t, 3, s.Partitions())
		assert.NotContains(t, partitionList(s), p)

		assert.True(t, before.HasPartition([]byte(p)), "a view opened before")
		assert.Len(t, scanIn(t, before, p, ""), 3)
		assert.Len(t, byIndexIn(t, before, 0, "1"), 12)
		assert.NotEqual(t, "-", getIn(t, before, p, long))
		before.Close()

		// It comes back at once, with changes that are older than the marks and rows that were dropped.
		a := apply(t, s, upsert(bucket0, int64(i), 0, p, "gone", row("1", "", `"back"`)))
		assert.Equal(t, upserted, a, "marks are dropped as well")
		assert.Equal(t, []string{row("1", "", `"back"`)}, scan(t, s, p, ""))
		assert.Equal(t, 4, s.Partitions())
		fill(p)
		assert.EqualValues(t, 12, s.Rows())
		assert.Len(t, scan(t, s, p, ""), 3)
		assert.Len(t, byIndex(t, s, 0, "1"), 12)
	}
	for range 50 {
		require.NoError(t, s.DropPartition([]byte("2024")))
		assert.Equal(t, "-", get(t, s, "2024", "a"))
		fill("2024")
		assert.Len(t, byIndex(t, s, 0, "1"), 12)
	}
	assert.Equal(t, []string{"2023a", "2024a", "2025a", partitions[3] + "a"}, byIndex(t, s, 1, `"x"`, "1"))

	// A partition of marks only.
	apply(t, s, remove(bucket3, 9, 100, "2026", "a"))
	assert.Equal(t, stale, apply(t, s, upsert(bucket0, offset, 99, "2026", "a", row("1", "", ""))))
	require.NoError(t, s.DropPartition([]byte("2026")))
	assert.Equal(t, upserted, apply(t, s, upsert(bucket0, offset, 99, "2026", "a", row("1", "", ""))))
}

// testConcurrentPartitions has a writer that makes a greater partition, and drops or empties the one before the last; a view must always have
// two, full in every way of reading.
func testConcurrentPartitions(t *testing.T, s conformingStore) {
	t.Helper()
	const readers, rows = 4, 10
	times := rounds(120, 40)
	partition := func(n int) string { return fmt.Sprintf("%06d", n) }
	changes := func(n int, del bool) []dimstore.Change {
		var out []dimstore.Change
		for i := range rows {
			c := upsert(bucket0, int64(4*n*rows+i), 1, partition(n), strconv.Itoa(i), row("1", `"x"`, strconv.Itoa(n)))
			if del {
				c.Delete = true
				c.Offset += 2 * rows
			}
			out = append(out, c)
		}
		return out
	}
	apply(t, s, changes(0, false)...)
	apply(t, s, changes(1, false)...)
	var wg sync.WaitGroup
	stop := make(chan struct{})
	failed := make([]error, readers)
	for r := range readers {
		wg.Go(func() {
			for failed[r] == nil {
				select {
				case <-stop:
					return
				default:
					failed[r] = readLatest(s, rows)
				}
			}
		})
	}
	for n := 2; n < times; n++ {
		if n%2 == 0 {
			apply(t, s, changes(n, false)...)
			require.NoError(t, s.DropPartition([]byte(partition(n-2))))
		} else {
			apply(t, s, append(changes(n, false), changes(n-2, true)...)...)
		}
	}
	close(stop)
	wg.Wait()
	require.NoError(t, errors.Join(failed...))
	assert.Equal(t, []string{partition(times - 2), partition(times - 1)}, partitionList(s))
}

func readLatest(s conformingStore, rows int) error {
	v := s.Read()
	defer v.Close()
	all := v.Latest(9)
	if len(all) != 2 && len(all) != 3 {
		return fmt.Errorf("%d partitions: %q", len(all), all)
	}
	indexed := 0
	key, _ := record.AppendKey(nil, record.Int, []byte("1"))
	err := v.ScanIndex(0, key, func(record.Row) bool { indexed++; return true })
	if err != nil || indexed != rows*len(all) {
		return fmt.Errorf("%d rows of the index in %q: %w", indexed, all, err)
	}
	for _, p := range all {
		n := 0
		if err := v.Scan(p, nil, func(record.Row) bool { n++; return true }); err != nil || n != rows {
			return fmt.Errorf("%d rows of %q: %w", n, p, err)
		}
		if _, ok, err := v.Get(p, []byte("3")); err != nil || !ok || !v.HasPartition(p) {
			return fmt.Errorf("a row of %q: %v: %w", p, ok, err)
		}
	}
	return nil
}
