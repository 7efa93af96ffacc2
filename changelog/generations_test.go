package changelog

import (
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"enricher/dimstore"
)

// breakBucket removes records beyond the position of bucket 0, which is held back meanwhile: its rows are to be what pairs leave.
func (w *world) breakBucket(end int64, pairs ...string) {
	w.t.Helper()
	h := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: topic, Partitions: []int32{0}, Err: kerr.UnknownServerError, Count: -1})
	time.Sleep(time.Second)
	w.put(pairs...)
	w.deleteRecordsTo(0, end)
	time.Sleep(time.Second)
	h.Remove()
}

// limit lets so many writes pass, and more as they are added.
func (w *world) limit() *atomic.Int64 {
	var writes atomic.Int64
	w.sink.setFault(func() error {
		if writes.Add(-1) < 0 {
			return errInjected
		}
		return nil
	})
	return &writes
}

// The buckets that can be read on are, while a new generation is loaded; nothing goes back in time when that takes over.
func TestOldGenerationIsUpdatedMeanwhile(t *testing.T) {
	for _, mode := range []string{Async, Sync} {
		t.Run(mode, func(t *testing.T) {
			inWorld(t, 2, func(w *world) {
				w.o.Refresh.Mode = mode
				var slow atomic.Bool
				w.o.DeadLetter, w.o.OnError = w.letters.write, DeadLetter
				w.put("1", row(1, "A"))
				w.putTo(1, "2", row(2, "0"), "-", "no key: a dead letter holds the load back")
				r := w.startWarm()
				w.letters.setFault(errInjected)
				slow.Store(true)
				w.breakBucket(2, "1", row(1, "B"), "1", row(1, "C"))
				w.eventually("loading", func() bool { return r.Status().Loading != nil })
				last := 0
				check := func() {
					r.refresh()
					got := w.sink.dump(w.o.Schema)
					require.Len(t, got, min(2, len(got)), "%s", got)
					n := 0
					for _, g := range got {
						if i, err := strconv.Atoi(g[len(`{"id":2,"name":"`) : len(g)-2]); err == nil {
							n = i
						}
					}
					assert.GreaterOrEqual(t, n, last, "went back in time")
					if mode == Sync {
						assert.Equal(t, last, n, "what was committed before is seen")
					}
					last = max(last, n)
				}
				for i := range 200 {
					last = max(last, i*boolInt(mode == Sync))
					w.putTo(1, "2", row(2, strconv.Itoa(i)))
					if i == 100 {
						w.eventually("still updated", func() bool { r.refresh(); return w.sink.dump(w.o.Schema)[1] == row(2, "100") })
						w.holdsNow(row(1, "A"), row(2, "100"))
						assert.Zero(t, w.sink.published)
						w.letters.setFault(nil)
					}
					check()
					time.Sleep(20 * time.Millisecond)
				}
				r.rebuilt(1)
				w.holds(row(1, "C"), row(2, "199"))
				assert.Equal(t, 1, w.sink.count(&w.sink.begun))
				w.put("3", row(3, "later"))
				r.refresh()
				w.holds(row(1, "C"), row(2, "199"), row(3, "later"))
				w.eventually("ready", func() bool { ready, _ := r.Ready(); return ready })
				assert.Nil(t, r.Status().Loading)
				r.end()
			})
		})
	}
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

func TestLoadingIsShown(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		reg := prometheus.NewRegistry()
		w.o.Metrics = NewMetrics(reg)
		w.put("1", row(1, "A"))
		r := w.startWarm()
		writes := w.limit()
		w.breakBucket(2, "2", row(2, "B"), "3", row(3, "C"))
		time.Sleep(time.Minute)
		st := r.Status()
		assert.Equal(t, pausedDisk, st.Paused, "there is no room for it")
		assert.Contains(t, st.Buckets[0].Stopped, "outside its log")
		w.holdsNow(row(1, "A"))
		writes.Store(2) // to begin, and the first positions
		time.Sleep(time.Minute)
		st = r.Status()
		require.NotNil(t, st.Loading)
		assert.Equal(t, reasonOutOfRange, st.Loading.Reason)
		assert.Contains(t, st.Loading.Detail, "outside its log")
		assert.InDelta(t, 0, st.Loading.Progress.Ratio, 0)
		assert.EqualValues(t, 2048, st.Loading.Bytes)
		assert.True(t, st.Warm)
		assert.False(t, st.Ready)
		assert.Contains(t, st.Reasons[len(st.Reasons)-1], "stale")
		writes.Store(1) // the rows, but not their publication
		time.Sleep(time.Minute)
		st = r.Status()
		require.NotNil(t, st.Loading)
		assert.InDelta(t, 1, st.Loading.Progress.Ratio, 0)
		assert.EqualValues(t, 1, st.Loading.Rows)
		w.holdsNow(row(1, "A"))
		w.sink.setFault(nil)
		w.holds(row(3, "C"))
		w.eventually("ready", func() bool { ready, _ := r.Ready(); return ready })
		n, _ := metricValue(t, reg, "enricher_dimension_rebuilds_total", map[string]string{"reason": reasonOutOfRange})
		assert.InDelta(t, 1, n, 0)
		r.end()
	})
}

// What breaks a generation that is being loaded begins another one; the old one answers all the while.
func TestLoadingBreaks(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		w.put("1", row(1, "A"))
		r := w.startWarm()
		writes := w.limit()
		w.breakBucket(2, "2", row(2, "B"), "3", row(3, "C"))
		writes.Store(2)
		w.eventually("loading", func() bool {
			st := r.Status()
			return st.Loading != nil && st.Loading.Progress.Ratio == 0 && w.sink.count(&w.sink.begun) == 1
		})
		time.Sleep(time.Minute)
		require.NoError(t, deleteTopic(w))
		require.NoError(t, w.cluster.CreateTopic(topic, 1, nil))
		w.put("9", row(9, "Z"))
		time.Sleep(time.Minute)
		w.holdsNow(row(1, "A"))
		w.sink.setFault(nil)
		w.holds(row(9, "Z"))
		assert.GreaterOrEqual(t, w.sink.count(&w.sink.begun), 2)
		assert.Equal(t, 1, w.sink.published)
		assert.Nil(t, w.sink.loading)
		r.end()
	})
}

// A process killed at any write of a rebuild leaves the old rows or the new ones, and the next start mends it.
func TestKilledWhileRebuilding(t *testing.T) {
	for kill := range 6 {
		t.Run(strconv.Itoa(kill), func(t *testing.T) {
			inWorld(t, 1, func(w *world) {
				w.put("1", row(1, "A"))
				r := w.startWarm()
				var writes atomic.Int64
				writes.Store(int64(kill))
				w.sink.setFault(func() error {
					if writes.Add(-1) < 0 {
						return assert.AnError
					}
					return nil
				})
				w.breakBucket(2, "2", row(2, "B"), "3", row(3, "C"))
				time.Sleep(time.Minute)
				old := []string{row(1, "A")}
				if got := w.sink.dump(w.o.Schema); len(got) == 0 || got[0] != old[0] {
					w.holdsNow(row(3, "C"))
				}
				r.stop()
				if err := <-r.done; err != nil {
					require.ErrorIs(t, err, assert.AnError)
				}
				w.sink.setFault(nil)
				w.sink.loading = nil // as the store does when it is opened
				r = w.startWarm()
				w.holds(row(3, "C"))
				w.put("4", row(4, "D"))
				w.holds(row(3, "C"), row(4, "D"))
				r.end()
			})
		})
	}
}

// Found at start, the new generation is part of the warm-up; the old one is there until it is complete.
func TestTombstonesAtStartAreLoadedBeside(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		w.put("1", row(1, "A"))
		w.startWarm().end()
		w.put("2", row(2, "B"), "1", "-")
		time.Sleep(25 * time.Hour)
		writes := w.limit()
		writes.Store(2)
		r := w.start()
		time.Sleep(time.Minute)
		assert.False(t, r.Status().Warm)
		assert.NotNil(t, r.Status().Progress)
		w.holdsNow(row(1, "A"))
		w.sink.setFault(nil)
		r.waitWarm()
		w.holdsNow(row(2, "B"))
		assert.Zero(t, w.sink.count(&w.sink.resets))
		assert.Equal(t, 1, w.sink.published)
		w.put("3", row(3, "C"))
		w.holds(row(2, "B"), row(3, "C"))
		r.end()
	})
}

// Without room for both, nobody looks at the old one at start: it makes room.
func TestTombstonesAtStartWithoutRoom(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		w.put("1", row(1, "A"))
		w.startWarm().end()
		w.put("2", row(2, "B"), "1", "-")
		time.Sleep(25 * time.Hour)
		w.sink.setFault(func() error {
			if len(w.sink.data.rows) > 0 && w.sink.loading == nil && w.sink.resets == 0 {
				return dimstore.ErrNoSpace
			}
			return nil
		})
		r := w.startWarm()
		w.holdsNow(row(2, "B"))
		assert.Equal(t, 1, w.sink.count(&w.sink.resets))
		assert.Zero(t, w.sink.published)
		r.end()
	})
}

// A first load has nothing to answer with: when it breaks it is begun again.
func TestFirstLoadBreaks(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		w.put("1", row(1, "A"), "2", row(2, "B"))
		h := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: topic, Err: kerr.UnknownServerError, Count: -1})
		r := w.start()
		time.Sleep(10 * time.Second)
		w.put("3", row(3, "C"))
		w.deleteRecordsTo(0, 2)
		h.Remove()
		r.waitWarm()
		w.holds(row(3, "C"))
		assert.Equal(t, reasonOutOfRange, r.Status().LoadReason)
		r.end()
	})
}
