package dimstore_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"enricher/dimstore"
)

// step is one change, what becomes of it, and the row that is there afterwards.
type step struct {
	change dimstore.Change
	want   dimstore.Applied
	row    string
}

var (
	upserted = dimstore.Applied{Upserts: 1}
	deleted  = dimstore.Applied{Deletes: 1}
	stale    = dimstore.Applied{Stale: 1}
)

func run(t *testing.T, s conformingStore, histories map[string][]step) {
	t.Helper()
	for name, steps := range histories {
		t.Run(name, func(t *testing.T) {
			for i, st := range steps {
				st.change.Key = append([]byte(name), st.change.Key...)
				a := apply(t, s, st.change)
				assert.Equal(t, st.want, a, "step %d", i)
				assert.Equal(t, st.row, get(t, s, "", string(st.change.Key)), "step %d", i)
			}
		})
	}
}

func testVersionTimestamp(t *testing.T, s conformingStore) {
	t.Helper()
	up := func(b dimstore.BucketID, offset, ts int64, row string) dimstore.Change {
		return upsert(b, offset, ts, "", "", row)
	}
	del := func(b dimstore.BucketID, offset, ts int64) dimstore.Change { return remove(b, offset, ts, "", "") }
	run(t, s, map[string][]step{
		"older": {
			{up(bucket0, 0, 10, "A"), upserted, "A"},
			{up(bucket0, 1, 5, "B"), stale, "A"},
			{up(bucket3, 2, 9, "C"), stale, "A"},
			{up(bucket0, 2, 11, "D"), upserted, "D"},
			{up(bucket3, 0, 12, "E"), upserted, "E"},
		},
		"older than a delete": {
			{up(bucket0, 0, 7, "A"), upserted, "A"},
			{del(bucket0, 1, 10), deleted, "-"},
			{up(bucket0, 2, 5, "B"), stale, "-"},
			{up(bucket3, 3, 9, "B"), stale, "-"},
			{del(bucket0, 3, 9), stale, "-"},
			{up(bucket0, 4, 11, "C"), upserted, "C"},
		},
		"an older delete": {
			{up(bucket0, 0, 10, "A"), upserted, "A"},
			{del(bucket0, 1, 9), stale, "A"},
			{del(bucket0, 2, 10), deleted, "-"},
		},
		"equal": {
			{up(bucket0, 5, 10, "A"), upserted, "A"},
			{up(bucket0, 5, 10, "A"), stale, "A"},
			{up(bucket0, 4, 10, "B"), stale, "A"},
			{up(bucket0, 6, 10, "C"), upserted, "C"},
			{up(bucket3, 1, 10, "D"), upserted, "D"},
			{up(bucket0, 7, 10, "E"), stale, "D"},
		},
		"lower offset, greater": {
			{up(bucket0, 5, 10, "A"), upserted, "A"},
			{up(bucket0, 4, 11, "B"), upserted, "B"},
		},
	})
}

func testVersionColumn(t *testing.T, s conformingStore) {
	t.Helper()
	up := func(b dimstore.BucketID, offset, ts int64, version, row string) dimstore.Change {
		c := upsert(b, offset, ts, "", "", row)
		c.Version = []byte(version)
		return c
	}
	del := func(b dimstore.BucketID, offset, ts int64) dimstore.Change {
		c := remove(b, offset, ts, "", "")
		c.Version = []byte("not looked at")
		return c
	}
	long := strings.Repeat("v", 1<<20)
	histories := map[string][]step{
		"older": {
			{up(bucket0, 0, 10, "5", "A"), upserted, "A"},
			{up(bucket0, 1, 11, "3", "B"), stale, "A"},
			{up(bucket0, 2, 9, "5", "C"), upserted, "C"},
			{up(bucket0, 1, 11, "5", "B"), stale, "C"},
			{up(bucket0, 2, 9, "5", "C"), stale, "C"},
			{up(bucket0, 0, 0, "50", "D"), upserted, "D"},
		},
		"delete": {
			{up(bucket0, 3, 10, "9", "A"), upserted, "A"},
			{up(bucket0, 4, 10, "8", "B"), stale, "A"},
			{del(bucket0, 2, 10), stale, "A"},
			{del(bucket0, 5, 10), deleted, "-"},
			{up(bucket0, 6, 10, "8", "B"), stale, "-"},
			{up(bucket0, 3, 10, "9", "A"), stale, "-"},
			{up(bucket0, 7, 10, "9", "C"), upserted, "C"},
			{del(bucket0, 8, 10), deleted, "-"},
			{del(bucket0, 9, 10), deleted, "-"},
			{up(bucket0, 8, 10, "9", "D"), stale, "-"},
			{up(bucket0, 1, 10, "91", "D"), upserted, "D"},
		},
		"delete of nothing": {
			{del(bucket0, 5, 10), deleted, "-"},
			{up(bucket0, 4, 10, "", "A"), stale, "-"},
			{up(bucket0, 6, 10, "", "B"), upserted, "B"},
			{up(bucket0, 5, 10, "0", "C"), upserted, "C"},
			{up(bucket0, 7, 10, "", "D"), stale, "C"},
		},
		"between buckets": {
			{up(bucket0, 5, 100, "5", "A"), upserted, "A"},
			{up(bucket3, 9, 99, "5", "B"), stale, "A"},
			{up(bucket3, 1, 100, "5", "C"), upserted, "C"},
			{up(bucket0, 6, 100, "5", "D"), stale, "C"},
			{up(bucket0, 6, 1, "6", "E"), upserted, "E"},
			{del(bucket3, 2, 0), stale, "E"},
			{del(bucket3, 2, 2), deleted, "-"},
			{up(bucket0, 7, 1, "6", "F"), stale, "-"},
			{up(bucket0, 8, 3, "6", "G"), upserted, "G"},
		},
		"long": {
			{up(bucket0, 0, 1, long+"b", "A"), upserted, "A"},
			{up(bucket0, 1, 1, long+"a", "B"), stale, "A"},
			{del(bucket0, 2, 1), deleted, "-"},
			{up(bucket0, 3, 1, long+"a", "B"), stale, "-"},
			{up(bucket0, 4, 1, long+"c", "C"), upserted, "C"},
			{up(bucket0, 5, 1, "w", "D"), upserted, "D"},
			{up(bucket0, 6, 1, long+"c", "E"), stale, "D"},
		},
	}
	for i := range histories["long"] {
		st := histories["long"][i]
		st.change.Key = []byte(strings.Repeat("k", 50_000))
		histories["long of a long key"] = append(histories["long of a long key"], st)
	}
	run(t, s, histories)
	assert.EqualValues(t, len(histories), s.Rows())
	assert.Len(t, scan(t, s, "", ""), len(histories))
}
