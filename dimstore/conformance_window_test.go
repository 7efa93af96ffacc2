package dimstore_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"enricher/dimstore"
	"enricher/record"
)

// testWindow has a writer that moves a window of keys on: rows come, change, go and come back, index values change, partitions are dropped.
// Readers must see the window of one round, whole and in order, however they look. The store has testIndexes.
func testWindow(t *testing.T, s conformingStore) {
	t.Helper()
	const width, readers = 30, 4
	times := rounds(200, 15)
	offset := int64(0)
	change := func(n, k int, gone bool) dimstore.Change {
		offset++
		c := upsert(bucket0, offset, 1, fmt.Sprintf("p%d", k%4), fmt.Sprintf("%04d", k%200), row(strconv.Itoa(n), `"x"`, strconv.Itoa(k)))
		c.Delete = gone
		return c
	}
	move := func(n int) {
		var changes []dimstore.Change
		if n > 0 {
			changes = append(changes, change(n, n-1, true))
		}
		for k := n; k < n+width; k++ {
			changes = append(changes, change(n, k, false))
		}
		_, err := s.Apply(changes, nil)
		require.NoError(t, err)
		if n%50 == 49 {
			// A partition of others comes and goes.
			apply(t, s, upsert(bucket0, offset, 1, "x", "k", row(strconv.Itoa(-n), `"x"`, "0")))
			require.NoError(t, s.DropPartition([]byte("x")))
		}
	}
	move(0)
	stop := make(chan struct{})
	failed := make(chan error, readers)
	var reads atomic.Int64
	for r := range readers {
		go func() {
			rng := rand.New(rand.NewPCG(uint64(r), 1))
			for {
				select {
				case <-stop:
					failed <- nil
					return
				default:
					if err := readWindow(s.Read(), width, rng); err != nil {
						failed <- err
						return
					}
					reads.Add(1)
				}
			}
		}()
	}
	for n := 1; n < times || reads.Load() < int64(times) && len(failed) == 0; n++ {
		move(n)
	}
	close(stop)
	for range readers {
		require.NoError(t, <-failed)
	}
	require.EqualValues(t, width, s.Rows())
}

// readWindow finds out the round from the first row it meets, and holds all others against it.
func readWindow(v dimstore.View, width int, rng *rand.Rand) error {
	defer v.Close()
	round, rows := -1, 0
	var found []string
	for p := range 4 {
		last := ""
		err := v.Scan(fmt.Appendf(nil, "p%d", p), nil, func(r record.Row) bool {
			var n, k int
			_, err := fmt.Sscan(string(r.Column(0))+" "+string(r.Column(2)), &n, &k)
			if round < 0 {
				round = n
			}
			key := fmt.Sprintf("%04d", k%200)
			if err != nil || n != round || k < n || k >= n+width || k%4 != p || key <= last {
				found = append(found, fmt.Sprintf("row %d of round %d in p%d after %s", k, n, p, last))
			}
			last = key
			rows++
			return true
		})
		if err != nil {
			return err
		}
	}
	if rows != width || len(found) > 0 {
		return fmt.Errorf("round %d: %d rows, %v", round, rows, found)
	}
	for range 40 {
		k := max(0, round-20) + rng.IntN(width+40)
		r, ok, err := v.Get(fmt.Appendf(nil, "p%d", k%4), fmt.Appendf(nil, "%04d", k%200))
		if want := k >= round && k < round+width; err != nil || ok != want || ok && !bytes.Equal(r.Column(0), fmt.Append(nil, round)) {
			return fmt.Errorf("get %d in round %d: %v %s: %w", k, round, ok, r, err)
		}
	}
	for n := max(0, round-1); n <= round+1; n++ {
		key, err := record.AppendKey(nil, record.Int, fmt.Append(nil, n))
		rows := 0
		err = errors.Join(err, v.ScanIndex(0, key, func(record.Row) bool { rows++; return true }))
		if err != nil || rows != map[bool]int{true: width}[n == round] {
			return fmt.Errorf("index of round %d in round %d: %d rows: %w", n, round, rows, err)
		}
	}
	if n := len(v.Latest(9)); n != 4 && (n != 5 || !v.HasPartition([]byte("x"))) {
		return fmt.Errorf("%d partitions", n)
	}
	return nil
}
