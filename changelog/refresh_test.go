package changelog

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestDecide(t *testing.T) {
	s := func(change func(*standing)) standing {
		st := standing{warm: true, refreshed: true, onStale: StaleHold}
		change(&st)
		return st
	}
	for _, c := range []struct {
		name  string
		s     standing
		want  verdict
		after time.Duration
	}{
		{"nothing to wait for", s(func(*standing) {}), pass, 0},
		{"cold", s(func(s *standing) { s.warm, s.refreshed, s.freshness, s.maxStaleness = false, false, time.Hour, 1 }), pass, 0},
		{"no refresh yet", s(func(s *standing) { s.refreshed = false }), hold, 0},
		{"no refresh yet, staleness comes", s(func(s *standing) { s.refreshed, s.maxStaleness, s.freshness = false, time.Minute, time.Second }), hold, 59*time.Second + 1},
		{"as many as may be outstanding", s(func(s *standing) { s.outstanding, s.maxPending = 5, 5 }), pass, 0},
		{"more than that", s(func(s *standing) { s.outstanding, s.maxPending = 6, 5 }), hold, 0},
		{"any number", s(func(s *standing) { s.outstanding = 1 << 40 }), pass, 0},
		{"stale and off", s(func(s *standing) { s.freshness = time.Hour }), pass, 0},
		{"at the limit", s(func(s *standing) { s.freshness, s.maxStaleness = time.Second, time.Second }), pass, 0},
		{"stale", s(func(s *standing) { s.freshness, s.maxStaleness = time.Second+1, time.Second }), hold, 0},
		{"stale, serve", s(func(s *standing) { s.freshness, s.maxStaleness, s.onStale = 2, 1, StaleServe }), pass, 0},
		{"stale, serve, no refresh", s(func(s *standing) {
			s.freshness, s.maxStaleness, s.onStale, s.refreshed, s.outstanding, s.maxPending = 2, 1, StaleServe, false, 9, 1
		}), pass, 0},
		{"not stale, serve, no refresh", s(func(s *standing) { s.freshness, s.maxStaleness, s.onStale, s.refreshed = 1, 1, StaleServe, false }), hold, 1},
		{"stale, fail", s(func(s *standing) { s.freshness, s.maxStaleness, s.onStale = 2, 1, StaleFail }), fail, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, after := c.s.decide()
			assert.Equal(t, c.want, got)
			assert.Equal(t, c.after, after)
		})
	}
}

// syncWorld is a world whose dimension is refreshed in mode sync.
func syncWorld(t *testing.T, buckets int32, interval time.Duration, fn func(w *world)) {
	t.Helper()
	inWorld(t, buckets, func(w *world) {
		w.o.Refresh = Refresh{Mode: Sync, Interval: interval}
		fn(w)
	})
}

func TestSyncSeesWhatWasCommittedBefore(t *testing.T) {
	syncWorld(t, 2, 0, func(w *world) {
		r := w.startWarm()
		for i := range 30 {
			w.putTo(int32(i%2), "1", row(1, strconv.Itoa(i)))
			r.refresh()
			w.holdsNow(row(1, strconv.Itoa(i)))
		}
		w.transact(kgo.TryCommit, "2", row(2, "B"))
		w.transact(kgo.TryAbort, "2", row(2, "aborted"))
		r.refresh()
		w.holdsNow(row(1, "29"), row(2, "B"))
		r.end()
	})
}

func TestSyncChangesRowsOnlyAtARefresh(t *testing.T) {
	syncWorld(t, 1, time.Hour, func(w *world) {
		w.put("1", row(1, "A"))
		r := w.startWarm()
		time.Sleep(time.Minute)
		w.many(1, 50_000) // more than the batches hold
		for range 5 {
			time.Sleep(10 * time.Minute)
			r.refresh()
			w.holdsNow(row(1, "A"))
		}
		st := r.Status()
		assert.True(t, st.Ready, "fresh within three intervals: %s", st.Reasons)
		assert.EqualValues(t, 1, st.Refresh.Done)
		assert.LessOrEqual(t, r.Status().RecordsRead, int64(2*batchChanges+1), "held back, and no more than that")
		time.Sleep(10 * time.Minute) // also without a fact
		assert.EqualValues(t, 50_000, w.sink.Rows())
		assert.EqualValues(t, 2, r.Status().Refresh.Done)
		time.Sleep(3 * time.Hour)
		assert.EqualValues(t, 5, r.Status().Refresh.Done)
		r.end()
	})
}

// A fact that comes when the interval has passed waits, and sees what was committed before the refresh began.
func TestSyncIntervalIsFromStartToStart(t *testing.T) {
	syncWorld(t, 1, time.Minute, func(w *world) {
		r := w.startWarm()
		time.Sleep(time.Second)
		begunAt := func() time.Time {
			r.state.mu.Lock()
			defer r.state.mu.Unlock()
			return r.state.refresh.begunAt
		}
		began := begunAt()
		w.put("1", row(1, "A"))
		time.Sleep(58 * time.Second)
		r.refresh()
		w.holdsNow()
		time.Sleep(time.Minute - time.Since(began))
		r.refresh()
		w.holdsNow(row(1, "A"))
		assert.Equal(t, time.Minute, begunAt().Sub(began))
		r.end()
	})
}

func TestSyncCallersShareRefreshes(t *testing.T) {
	syncWorld(t, 1, 0, func(w *world) {
		r := w.startWarm()
		r.refresh()
		done := r.Status().Refresh.Done
		w.cluster.ControlKey(int16(kmsg.ListOffsets), func(kmsg.Request) (kmsg.Response, error, bool) {
			w.cluster.KeepControl()
			w.cluster.SleepControl(func() { time.Sleep(time.Second) }) // time passes only when all callers wait
			return nil, nil, false
		})
		var wg sync.WaitGroup
		for range 200 {
			wg.Go(r.refresh)
		}
		wg.Wait()
		assert.LessOrEqual(t, r.Status().Refresh.Done-done, int64(3))
		r.end()
	})
}

func TestSyncRefreshEndsWhateverIsWritten(t *testing.T) {
	syncWorld(t, 2, 0, func(w *world) {
		r := w.startWarm()
		ctx, stop := context.WithCancel(w.t.Context())
		done := make(chan struct{})
		cl := w.client()
		defer cl.Close()
		go func() {
			defer close(done)
			for i := 0; ctx.Err() == nil; i++ {
				cl.Produce(context.WithoutCancel(ctx), records(int32(i%2), "1", row(1, "x"))[0], nil)
				time.Sleep(100 * time.Microsecond)
			}
		}()
		for range 20 {
			began := time.Now()
			r.refresh()
			assert.Less(t, time.Since(began), 2*time.Second)
		}
		stop()
		<-done
		require.NoError(t, cl.Flush(w.t.Context()))
		r.refresh()
		assert.EqualValues(t, 1, w.sink.Rows())
		assert.Zero(t, r.Status().Lag)
		r.end()
	})
}

// The broker refuses fetches for several refreshes: facts wait, it is seen, and nothing is skipped afterwards.
func TestSyncFailedRefreshIsRepeated(t *testing.T) {
	for name, fault := range map[string]kfake.Fault{
		"fetches": {Keys: []kmsg.Key{kmsg.Fetch}, Topic: topic, Err: kerr.TopicAuthorizationFailed, Count: -1},
		"ends":    {Keys: []kmsg.Key{kmsg.ListOffsets}, Topic: topic, Err: kerr.UnknownServerError, Count: -1},
	} {
		t.Run(name, func(t *testing.T) {
			syncWorld(t, 1, time.Second, func(w *world) {
				reg := prometheus.NewRegistry()
				w.o.Metrics = NewMetrics(reg)
				w.put("1", row(1, "A"))
				r := w.startWarm()
				h := w.cluster.Fault(fault)
				time.Sleep(time.Second)
				w.put("2", row(2, "B"), "1", "-")
				passed := make(chan struct{})
				time.Sleep(time.Second)
				go func() { r.refresh(); close(passed) }()
				time.Sleep(time.Minute)
				select {
				case <-passed:
					t.Error("facts went on without a refresh")
				default:
				}
				w.holdsNow(row(1, "A"))
				ready, reason := r.Ready()
				assert.False(t, ready)
				assert.Contains(t, reason, "stale")
				n, _ := metricValue(t, reg, "enricher_dimension_refresh_total", map[string]string{"result": "error"})
				assert.GreaterOrEqual(t, n, 3.0)
				assert.NotEmpty(t, r.Status().Refresh.Failure)
				h.Remove()
				<-passed
				w.holdsNow(row(2, "B"))
				time.Sleep(time.Minute)
				ready, reason = r.Ready()
				assert.True(t, ready, reason)
				assert.Empty(t, r.Status().Refresh.Failure)
				assert.Less(t, countLines(w.logs, "a refresh failed"), 3)
				r.end()
			})
		})
	}
}

func TestSyncBrokersAway(t *testing.T) {
	syncWorld(t, 2, 0, func(w *world) {
		r := w.startWarm()
		for _, n := range []int32{0, 1} {
			// With metadata younger than its least age the client would ask the one that is not the leader over and over, and no time would pass.
			time.Sleep(time.Second)
			require.NoError(t, w.cluster.RemoveNode(n))
			time.Sleep(15 * time.Second)
			_, _, err := w.cluster.AddNode(n, 9001+int(n))
			require.NoError(t, err)
			w.putTo(n, "1", row(1, strconv.Itoa(int(n))))
			r.refresh()
			w.holdsNow(row(1, strconv.Itoa(int(n))))
		}
		r.end()
	})
}

// A topic that is gone has no end to be brought to: the rows stay and answer.
func TestSyncDeletedTopic(t *testing.T) {
	syncWorld(t, 1, 0, func(w *world) {
		w.put("1", row(1, "A"))
		r := w.startWarm()
		require.NoError(t, deleteTopic(w))
		r.refresh()
		w.holdsNow(row(1, "A"))
		_, reason := r.Ready()
		assert.Contains(t, reason, "topic_missing")
		require.NoError(t, w.cluster.CreateTopic(topic, 1, nil))
		w.put("2", row(2, "B"))
		r.rebuilt(1)
		r.refresh()
		w.holdsNow(row(2, "B"))
		r.end()
	})
}

func TestRefreshEndsWithItsContext(t *testing.T) {
	syncWorld(t, 1, 0, func(w *world) {
		r := w.startWarm()
		w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Topic: topic, Err: kerr.UnknownServerError, Count: -1})
		ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
		defer cancel()
		require.ErrorIs(t, r.Refresh(ctx), context.DeadlineExceeded)
		r.end()
	})
}

func TestRefreshBeforeTheWarmUp(t *testing.T) {
	syncWorld(t, 0, 0, func(w *world) {
		r := w.start()
		r.refresh() // someone said that facts may go on
		r.end()
	})
}

func TestAsyncNeverWaits(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		r := w.startWarm()
		w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch, kmsg.ListOffsets}, Topic: topic, Err: kerr.UnknownServerError, Count: -1})
		time.Sleep(time.Hour)
		began := time.Now()
		r.refresh()
		assert.Zero(t, time.Since(began))
		r.end()
	})
}

func TestAsyncMaxPending(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		w.o.Refresh.MaxPending = 10
		r := w.startWarm()
		release := make(chan struct{})
		w.sink.setFault(func() error { <-release; return nil })
		w.many(1, 10)
		time.Sleep(time.Second)
		r.refresh()
		w.put("11", row(11, "n11"))
		time.Sleep(time.Minute)
		passed := make(chan struct{})
		go func() { r.refresh(); close(passed) }()
		time.Sleep(time.Minute)
		select {
		case <-passed:
			t.Error("more than may be outstanding")
		default:
		}
		close(release)
		<-passed
		assert.GreaterOrEqual(t, w.sink.Rows(), int64(1))
		r.end()
	})
}

// Without space for changes facts go on with the rows there are, those that wait already too.
func TestFullDiskHoldsNoFacts(t *testing.T) {
	for _, refresh := range []Refresh{{Mode: Async, MaxPending: 10}, {Mode: Sync}} {
		t.Run(refresh.Mode, func(t *testing.T) {
			inWorld(t, 1, func(w *world) {
				w.o.Refresh = refresh
				r := w.startWarm()
				r.refresh()
				block := make(chan struct{})
				w.sink.setFault(func() error {
					<-block
					return errInjected
				})
				w.many(1, 20)
				time.Sleep(time.Second)
				waiting := make(chan struct{})
				go func() { r.refresh(); close(waiting) }()
				time.Sleep(time.Second)
				select {
				case <-waiting:
					t.Fatal("it does not wait for the changes")
				default:
				}
				close(block)
				<-waiting
				began := time.Now()
				r.refresh()
				assert.Zero(t, time.Since(began))
				ready, why := r.Ready()
				assert.False(t, ready)
				assert.Contains(t, why, "paused (disk)")
				w.sink.setFault(nil)
				time.Sleep(time.Minute)
				r.refresh()
				assert.Equal(t, int64(20), w.sink.Rows())
				r.end()
			})
		})
	}
}

func TestMaxStaleness(t *testing.T) {
	for _, mode := range []string{Async, Sync} {
		for _, on := range []string{StaleHold, StaleServe, StaleFail} {
			t.Run(mode+" "+on, func(t *testing.T) {
				inWorld(t, 1, func(w *world) {
					w.o.Refresh = Refresh{Mode: mode, Interval: 10 * time.Second}
					w.o.MaxStaleness, w.o.OnStale = 3*time.Second, on // less than the interval: facts ask for proofs
					r := w.startWarm()
					for range 20 {
						time.Sleep(7 * time.Second)
						if on == StaleHold {
							r.refresh()
							assert.LessOrEqual(t, r.Freshness(), 3*time.Second)
						}
					}
					time.Sleep(time.Second)
					h := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Topic: topic, Err: kerr.UnknownServerError, Count: -1})
					time.Sleep(time.Minute)
					assert.Greater(t, r.Freshness(), time.Minute-time.Second)
					ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
					defer cancel()
					began := time.Now()
					err := r.Refresh(ctx)
					switch on {
					case StaleHold:
						require.ErrorIs(t, err, context.DeadlineExceeded)
						h.Remove()
						r.refresh()
						assert.LessOrEqual(t, r.Freshness(), 3*time.Second)
					case StaleServe:
						require.NoError(t, err)
						assert.Zero(t, time.Since(began))
					case StaleFail:
						require.ErrorIs(t, err, ErrStale)
						assert.Contains(t, err.Error(), "max_staleness is 3s")
						assert.Contains(t, err.Error(), "UNKNOWN_SERVER_ERROR")
					}
					r.end()
				})
			})
		}
	}
}

// With serve, facts of mode sync wait for a refresh only until the dimension is staler than it may be.
func TestMaxStalenessReleases(t *testing.T) {
	syncWorld(t, 1, 0, func(w *world) {
		w.o.MaxStaleness, w.o.OnStale = 30*time.Second, StaleServe
		r := w.startWarm()
		r.refresh()
		w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Topic: topic, Err: kerr.UnknownServerError, Count: -1})
		began := time.Now()
		r.refresh()
		assert.InDelta(t, 30, time.Since(began).Seconds(), 0.1)
		r.end()
	})
}

func TestFreshness(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		w.o.CheckInterval = 30 * time.Second
		d, err := New(w.o)
		require.NoError(t, err)
		assert.Greater(t, d.Freshness(), 1000*time.Hour, "unknown until warm")
		r := w.startWarm()
		for range 200 {
			time.Sleep(17 * time.Second)
			assert.LessOrEqual(t, r.Freshness(), 31*time.Second)
		}
		h := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Topic: topic, Err: kerr.UnknownServerError, Count: -1})
		time.Sleep(58 * time.Second)
		ready, reason := r.Ready()
		assert.True(t, ready, reason)
		time.Sleep(time.Minute)
		ready, reason = r.Ready()
		assert.False(t, ready, "three intervals")
		assert.Contains(t, reason, "stale")
		h.Remove()
		time.Sleep(31 * time.Second)
		ready, reason = r.Ready()
		assert.True(t, ready, reason)
		r.end()
	})
}
