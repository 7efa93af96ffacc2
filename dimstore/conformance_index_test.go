package dimstore_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"enricher/dimstore"
	"enricher/record"
)

// testIndexes are over rows of three columns, of which the last says what the row is.
var testIndexes = []dimstore.Index{
	{Columns: []int{0}, Types: []record.Type{record.Int}},
	{Columns: []int{1, 0}, Types: []record.Type{record.String, record.Int}},
}

// row makes one of JSON values; an empty one is absent.
func row(columns ...string) string {
	var values [][]byte
	for _, c := range columns {
		values = append(values, []byte(c))
	}
	return string(record.AppendRow(nil, values))
}

// codes is the key of an index.
func codes(t *testing.T, index int, values ...string) []byte {
	t.Helper()
	var key []byte
	for i, v := range values {
		var err error
		key, err = record.AppendKey(key, testIndexes[index].Types[i], []byte(v))
		require.NoError(t, err)
	}
	return key
}

func byIndex(t *testing.T, s conformingStore, index int, values ...string) []string {
	t.Helper()
	v := s.Read()
	defer v.Close()
	return byIndexIn(t, v, index, values...)
}

func byIndexIn(t *testing.T, v dimstore.View, index int, values ...string) []string {
	t.Helper()
	found := []string{}
	require.NoError(t, v.ScanIndex(index, codes(t, index, values...), func(r record.Row) bool {
		found = append(found, strings.Trim(string(r.Column(2)), `"`))
		return true
	}))
	return found
}

func testIndex(t *testing.T, s conformingStore) {
	t.Helper()
	offset := int64(0)
	put := func(key string, columns ...string) {
		apply(t, s, upsert(bucket0, offset, 1, "", key, row(columns...)))
		offset++
	}
	none := []string{}
	assert.Equal(t, none, byIndex(t, s, 0, "7"))
	put("b", "7", `"x"`, "1")
	put("a", `"7"`, `"x"`, "2")
	put("c", "7.0", `"xy"`, "3")
	put("d", "-7", `"x"`, "4")
	assert.Equal(t, []string{"2", "1", "3"}, byIndex(t, s, 0, "7"), "in key order, compared by value")
	assert.Equal(t, []string{"2", "1"}, byIndex(t, s, 1, `"x"`, "7"))
	assert.Equal(t, []string{"3"}, byIndex(t, s, 1, `"xy"`, "7"))
	assert.Equal(t, []string{"4"}, byIndex(t, s, 0, "-7"))

	put("e", "", `"x"`, "null")
	put("f", "null", `"x"`, "null")
	put("g", `"seven"`, `"x"`, "mismatch")
	put("h", "7", "", "h")
	put("i", "[7]", "{}", "nothing to compare")
	assert.Equal(t, []string{"2", "1", "3", "h"}, byIndex(t, s, 0, "7"), "a null and what does not convert is in no index")
	assert.Equal(t, []string{"2", "1"}, byIndex(t, s, 1, `"x"`, "7"))

	put("a", "8", `"x"`, "2 moved")
	assert.Equal(t, []string{"1", "3", "h"}, byIndex(t, s, 0, "7"))
	assert.Equal(t, []string{"2 moved"}, byIndex(t, s, 0, "8"))
	put("a", "8", `"x"`, "2 changed")
	assert.Equal(t, []string{"2 changed"}, byIndex(t, s, 0, "8"), "the row is that of now")
	apply(t, s, upsert(bucket0, 0, 1, "", "a", row("7", `"x"`, "stale")), remove(bucket0, 1, 1, "", "a"))
	assert.Equal(t, []string{"1", "3", "h"}, byIndex(t, s, 0, "7"), "a stale change changes nothing")
	assert.Equal(t, []string{"2 changed"}, byIndex(t, s, 1, `"x"`, "8"))
	before := s.Read()
	put("a", "null", `"x"`, "2 null")
	assert.Equal(t, none, byIndex(t, s, 0, "8"))
	assert.Equal(t, []string{"2 changed"}, byIndexIn(t, before, 0, "8"), "a view opened before")
	before.Close()
	put("a", "9", `"x"`, "back")
	apply(t, s, remove(bucket0, offset, 1, "", "a"))
	offset++
	assert.Equal(t, none, byIndex(t, s, 0, "9"), "removed by what is stored: the delete names no column")
	put("a", "7", `"x"`, "again")
	assert.Equal(t, []string{"again", "1", "3", "h"}, byIndex(t, s, 0, "7"))

	// Several changes of one key in one Apply.
	apply(t, s,
		upsert(bucket0, offset, 1, "", "m", row("1", `"m"`, "m1")), upsert(bucket0, offset+1, 1, "", "m", row("2", `"m"`, "m2")),
		remove(bucket0, offset+2, 1, "", "m"), upsert(bucket0, offset+3, 1, "", "m", row("3", `"m"`, "m3")),
		upsert(bucket0, offset+4, 1, "", "m", row("1", `"m"`, "m4")))
	assert.Equal(t, []string{"m4"}, byIndex(t, s, 0, "1"))
	assert.Equal(t, none, byIndex(t, s, 0, "2"))
	assert.Equal(t, none, byIndex(t, s, 0, "3"))

	v := s.Read()
	defer v.Close()
	n := 0
	require.NoError(t, v.ScanIndex(0, codes(t, 0, "7"), func(record.Row) bool {
		n++
		assert.Equal(t, []string{"again", "1", "3", "h"}, byIndexIn(t, v, 0, "7"), "a scan inside a scan")
		assert.Len(t, scanIn(t, v, "", "b"), 1)
		return n < 2
	}))
	assert.Equal(t, 2, n, "stops when told to")
	require.ErrorContains(t, v.ScanIndex(2, nil, nil), "there is no index 2")
}

func testIndexPartitions(t *testing.T, s conformingStore) {
	t.Helper()
	// More partitions than are looked into without asking, made in another order than theirs; shorter ones are not before longer ones.
	var want []string
	for i := range 30 {
		p := strconv.Itoa(i * 7 % 30)
		for _, key := range []string{"b", "a"} {
			value := "1"
			if i%3 == 0 {
				value = "2"
			}
			apply(t, s, upsert(bucket0, int64(i), 1, p, key, row(value, "", strconv.Quote(p+key))))
			if value == "1" {
				want = append(want, p+key)
			}
		}
	}
	slices.SortFunc(want, func(a, b string) int {
		if c := strings.Compare(a[:len(a)-1], b[:len(b)-1]); c != 0 {
			return c
		}
		return strings.Compare(a, b)
	})
	assert.Equal(t, want, byIndex(t, s, 0, "1"))
	assert.Len(t, byIndex(t, s, 0, "2"), 20)
	for i := range 27 {
		p := strconv.Itoa(i)
		apply(t, s, remove(bucket0, 100, 1, p, "a"), remove(bucket0, 100, 1, p, "b"))
	}
	want = slices.DeleteFunc(want, func(w string) bool { return len(w) != 3 || w < "27" || w > "29b" })
	require.NotEmpty(t, want)
	assert.Equal(t, want, byIndex(t, s, 0, "1"), "of few partitions")
}

func testIndexLong(t *testing.T, s conformingStore) {
	t.Helper()
	// Keys, values and both together around and beyond what is stored of them in order, rows in parts.
	name := 0
	offset := int64(0)
	for _, valueSize := range []int{1, 3_000, 4_085, 4_090, 5_000, 40_000, 300_000} {
		value := strconv.Quote(strings.Repeat("v", valueSize))
		longer := strconv.Quote(strings.Repeat("v", valueSize) + "w")
		var want []string
		for _, p := range []string{"p", "q"} {
			for i, key := range []string{
				"", "a", strings.Repeat("k", 1_000), strings.Repeat("k", 5_000) + "a", strings.Repeat("k", 5_000) + "b",
				strings.Repeat("k", 40_000) + "a", strings.Repeat("k", 40_000) + "b", "l",
			} {
				name++
				own := strconv.Itoa(name)
				want = append(want, own)
				fill := strconv.Itoa(valueSize)
				if i%3 == 0 && valueSize != 3_000 {
					fill = strings.Repeat(fill, 150_000/len(fill))
				}
				key = fill[:1] + strconv.Itoa(valueSize) + "/" + key
				apply(t, s,
					upsert(bucket0, offset+1, 1, p, "x"+key, string(record.AppendRow(nil, [][]byte{[]byte("1"), []byte(longer), []byte("0"), []byte(fill)}))),
					upsert(bucket0, offset, 1, p, key, string(record.AppendRow(nil, [][]byte{[]byte("1"), []byte(value), []byte(own), []byte(fill)}))))
				offset += 2
			}
		}
		require.Equal(t, want, byIndex(t, s, 1, value, "1"), "of %d bytes", valueSize)
		require.Len(t, byIndex(t, s, 1, longer, "1"), len(want))
		require.Empty(t, byIndex(t, s, 1, value, "2"))
	}
	rows := s.Rows()
	require.Len(t, byIndex(t, s, 0, "1"), int(rows))
	// Every row moves from one value to another, and is deleted.
	value := strconv.Quote(strings.Repeat("v", 1<<20))
	var keys []string
	for _, key := range []string{"1", strings.Repeat("k", 5_000), strings.Repeat("k", 40_000)} {
		keys = append(keys, key)
		apply(t, s, upsert(bucket0, offset, 1, "r", key, row("5", value, "1")), upsert(bucket0, offset+1, 1, "r", key, row("6", value, "2")))
		offset += 2
	}
	assert.Empty(t, byIndex(t, s, 1, value, "5"))
	assert.Len(t, byIndex(t, s, 1, value, "6"), 3)
	assert.Equal(t, []string{"2", "2", "2"}, byIndex(t, s, 0, "6"), "the last entries of a partition are long")
	for _, key := range keys {
		apply(t, s, remove(bucket0, offset, 1, "r", key))
		offset++
	}
	assert.Empty(t, byIndex(t, s, 1, value, "6"))
	assert.Empty(t, byIndex(t, s, 0, "6"))
}

// testIndexLargeBatch has changes whose entries need several transactions.
func testIndexLargeBatch(t *testing.T, s conformingStore) {
	t.Helper()
	const n = 20_000
	for round := range 2 {
		var changes []dimstore.Change
		for i := range n {
			changes = append(changes, upsert(bucket0, int64(round*n+i), 1, strconv.Itoa(i%3), fmt.Sprintf("%06d", i),
				row(strconv.Itoa(i%10+round), strconv.Quote(strconv.Itoa(i)), strconv.Itoa(i))))
		}
		a, err := s.Apply(changes, []dimstore.Position{{Bucket: bucket0, Next: int64((round + 1) * n)}})
		require.NoError(t, err)
		require.Equal(t, dimstore.Applied{Upserts: n}, a)
	}
	assert.Empty(t, byIndex(t, s, 0, "0"))
	for i := range 10 {
		found := byIndex(t, s, 0, strconv.Itoa(i+1))
		require.Equal(t, n/10, len(found)) //nolint:testifylint // Len prints all of it
	}
	assert.Equal(t, []string{"4711"}, byIndex(t, s, 1, `"4711"`, "2"))
	assert.Empty(t, byIndex(t, s, 1, `"4711"`, "1"))
}
