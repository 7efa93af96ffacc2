package dimstore_test

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"enricher/dimstore"
	"enricher/record"
)

// loadingStore is a generation that is filled beside the one that answers.
type loadingStore interface {
	Apply(changes []dimstore.Change, positions []dimstore.Position) (dimstore.Applied, error)
	Positions() []dimstore.Position
	Rows() int64
	Bytes() int64
	DropPartition(partition []byte) error
	PartitionList() [][]byte
	Publish() error
	Abandon() error
}

func testPublish(t *testing.T, s conformingStore) {
	t.Helper()
	old := []dimstore.Position{{Bucket: bucket0, Next: 2}}
	_, err := s.Apply([]dimstore.Change{
		upsert(bucket0, 0, 1, "p", "k", row("1", "", `"old"`)), upsert(bucket0, 1, 1, "q", "gone", row("1", "", `"old"`)),
	}, old)
	require.NoError(t, err)
	require.NoError(t, s.MarkComplete())

	for round := range 3 {
		name := strconv.Quote(strconv.Itoa(round))
		l, err := s.Begin("test")
		require.NoError(t, err)
		_, err = s.Begin("test")
		require.ErrorContains(t, err, "another one is loading")
		assert.EqualValues(t, 0, l.Rows())
		assert.Empty(t, l.Positions())

		renewed := []dimstore.Position{{Bucket: bucket3, Next: int64(7 + round)}}
		a, err := l.Apply([]dimstore.Change{
			upsert(bucket3, 5, 1, "p", "k", row("2", "", name)), upsert(bucket3, 6, 1, "p", "new", row("2", "", name)),
			upsert(bucket3, 6, 1, "expired", "k", row("2", "", name)),
		}, renewed)
		require.NoError(t, err)
		assert.Equal(t, dimstore.Applied{Upserts: 3}, a)
		require.NoError(t, l.DropPartition([]byte("expired")))
		assert.EqualValues(t, 2, l.Rows())
		assert.Equal(t, [][]byte{[]byte("p")}, l.PartitionList())
		assert.Equal(t, renewed, l.Positions())
		assert.Positive(t, l.Bytes())

		rows := s.Rows()
		a = apply(t, s, upsert(bucket0, int64(round), 1, "p", "meanwhile", row("1", "", `"meanwhile"`)))
		assert.Equal(t, dimstore.Applied{Upserts: 1}, a, "the old one goes on")
		assert.Equal(t, rows+1, s.Rows())
		assert.NotEqual(t, renewed, s.Positions())

		before := s.Read()
		was := getIn(t, before, "p", "k")
		require.NoError(t, l.Publish())
		assert.Equal(t, was, getIn(t, before, "p", "k"), "a view opened before")
		assert.Equal(t, row("1", "", `"meanwhile"`), getIn(t, before, "p", "meanwhile"))
		assert.Equal(t, row("2", "", name), get(t, s, "p", "k"))
		assert.Equal(t, "-", get(t, s, "p", "meanwhile"))
		assert.Equal(t, "-", get(t, s, "q", "gone"))
		assert.Len(t, byIndex(t, s, 0, "2"), 2)
		assert.Empty(t, byIndex(t, s, 0, "1"))
		assert.Equal(t, renewed, s.Positions())
		assert.True(t, s.Complete())
		assert.EqualValues(t, 2, s.Rows())
		assert.Equal(t, 1, s.Partitions())
		before.Close()

		require.NoError(t, l.Abandon(), "does nothing any more")
		require.Error(t, l.Publish())
		_, err = l.Apply(nil, nil)
		require.Error(t, err)
		apply(t, s, upsert(bucket3, 8, 1, "p", "k", row("1", "", `"later"`)))
		assert.Equal(t, row("1", "", `"later"`), get(t, s, "p", "k"))
		apply(t, s, remove(bucket3, 9, 1, "p", "k"))
	}
}

func testAbandon(t *testing.T, s conformingStore) {
	t.Helper()
	apply(t, s, upsert(bucket0, 0, 1, "p", "k", "old"))
	load := func() loadingStore {
		l, err := s.Begin("test")
		require.NoError(t, err)
		_, err = l.Apply([]dimstore.Change{upsert(bucket0, 0, 1, "p", "k", "new")}, nil)
		require.NoError(t, err)
		return l
	}
	over := func(l loadingStore) {
		_, err := l.Apply(nil, nil)
		require.Error(t, err)
		require.Error(t, l.Publish())
		require.Error(t, l.DropPartition(nil))
		require.NoError(t, l.Abandon())
	}
	l := load()
	require.NoError(t, l.Abandon())
	over(l)
	assert.Equal(t, "old", get(t, s, "p", "k"))
	l = load()
	require.NoError(t, s.Reset("test"))
	over(l)
	assert.Equal(t, "-", get(t, s, "p", "k"))
	apply(t, s, upsert(bucket0, 0, 1, "p", "k", "after the reset"))
	l = load()
	require.NoError(t, l.Publish())
	assert.Equal(t, "new", get(t, s, "p", "k"))
	l = load()
	require.NoError(t, s.Close())
	over(l)
	_, err := s.Begin("test")
	require.ErrorIs(t, err, dimstore.ErrClosed)
}

// testConcurrentPublish has readers beside a writer that loads one generation after the other: a view has the rows of one.
func testConcurrentPublish(t *testing.T, s conformingStore) {
	t.Helper()
	const readers, rounds, rows = 4, 12, 50
	changes := func(n int) []dimstore.Change {
		var out []dimstore.Change
		for i := range rows {
			out = append(out, upsert(bucket0, int64(i), 1, "p", strconv.Itoa(i), fmt.Sprintf("%06d", n)))
		}
		return out
	}
	apply(t, s, changes(0)...)
	read := func() error {
		v := s.Read()
		defer v.Close()
		first, ok, err := v.Get([]byte("p"), []byte("0"))
		if err != nil || !ok {
			return fmt.Errorf("first row: %v: %w", ok, err)
		}
		n := 0
		if err := v.Scan([]byte("p"), nil, func(r record.Row) bool { n++; return string(r) == string(first) }); err != nil || n != rows {
			return fmt.Errorf("%d rows like %s: %w", n, first, err)
		}
		if s.Rows() != rows || s.Partitions() != 1 {
			return fmt.Errorf("%d rows, %d partitions", s.Rows(), s.Partitions())
		}
		_ = s.Positions()
		return nil
	}
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
					failed[r] = read()
				}
			}
		})
	}
	for n := 1; n <= rounds; n++ {
		l, err := s.Begin("test")
		require.NoError(t, err)
		_, err = l.Apply(changes(n), nil)
		require.NoError(t, err)
		if n%4 == 3 {
			require.NoError(t, l.Abandon())
			continue
		}
		require.NoError(t, l.Publish())
	}
	close(stop)
	wg.Wait()
	require.NoError(t, errors.Join(failed...))
	assert.Equal(t, fmt.Sprintf("%06d", rounds), get(t, s, "p", "0"))
}
