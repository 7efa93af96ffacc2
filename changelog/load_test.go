package changelog

import (
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"enricher/dimstore"
)

func row(id int, name string) string { return fmt.Sprintf(`{"id":%d,"name":"%s"}`, id, name) }

// many produces n rows to each bucket, ids from 1 on; none is like another.
func (w *world) many(buckets, n int) {
	w.t.Helper()
	for b := range buckets {
		var pairs []string
		for i := range n {
			id := b*n + i + 1
			pairs = append(pairs, strconv.Itoa(id), row(id, fmt.Sprintf("n%d", id)))
		}
		w.putTo(int32(b), pairs...)
	}
}

func TestColdLoad(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.many(3, 7_000)
		w.putTo(0, "1", row(1, "newer"), "2", "-")
		reg := prometheus.NewRegistry()
		w.o.Metrics = NewMetrics(reg)
		r := w.startWarm()
		assert.EqualValues(t, 20_999, w.sink.Rows())
		assert.True(t, w.sink.Complete())
		assert.LessOrEqual(t, w.sink.count(&w.sink.largest), batchChanges+1)
		assert.Less(t, w.sink.count(&w.sink.applies), 10, "a load applies large batches")
		assert.Contains(t, w.sink.dump(w.o.Schema), row(1, "newer"))
		st := r.Status()
		assert.True(t, st.Warm)
		assert.True(t, st.Ready, st.Reasons)
		assert.EqualValues(t, 21_002, st.RecordsRead)
		assert.EqualValues(t, 0, st.Lag)
		assert.Nil(t, st.Progress)
		require.NotNil(t, st.FreshnessSeconds)
		assert.Len(t, st.Buckets, 3)
		assert.Empty(t, st.LoadReason)
		for _, m := range []struct {
			name   string
			labels map[string]string
			want   float64
		}{
			{"enricher_dimension_rows", nil, 20_999},
			{"enricher_dimension_lag_records", nil, 0},
			{"enricher_dimension_warmup_ratio", nil, 1},
			{"enricher_dimension_changes_total", map[string]string{"op": "upsert"}, 21_001},
			{"enricher_dimension_changes_total", map[string]string{"op": "delete"}, 1},
			{"enricher_dimension_changes_total", map[string]string{"op": "error"}, 0},
			{"enricher_dimension_paused", map[string]string{"reason": pausedDisk}, 0},
			{"enricher_dimension_open_transaction_seconds", nil, 0},
			{"enricher_store_bytes", nil, 4096},
		} {
			got, ok := metricValue(t, reg, m.name, m.labels)
			assert.True(t, ok, m.name)
			assert.InDelta(t, m.want, got, 1e-9, m.name)
		}
		_, ok := metricValue(t, reg, "enricher_dimension_rebuilds_total", nil)
		assert.False(t, ok)
		r.end()
	})
}

// Nothing that has no record may delay the first fact.
func TestWarmAtOnce(t *testing.T) {
	for _, c := range []struct {
		name   string
		fill   func(w *world)
		rows   []string
		within time.Duration
	}{
		{"an empty topic", func(*world) {}, nil, 100 * time.Millisecond},
		{"only aborted transactions", func(w *world) {
			w.transact(kgo.TryAbort, "1", row(1, "A"), "2", row(2, "B"))
			w.transact(kgo.TryAbort, "1", row(1, "C"))
		}, nil, time.Second},
		{"a transaction marker at the end", func(w *world) { w.transact(kgo.TryCommit, "1", row(1, "A")) }, []string{row(1, "A")}, time.Second},
		{"an open transaction", func(w *world) {
			w.put("1", row(1, "A"))
			cl := w.client(kgo.TransactionalID("hangs"))
			w.t.Cleanup(cl.Close)
			require.NoError(w.t, cl.BeginTransaction())
			require.NoError(w.t, cl.ProduceSync(w.t.Context(), records(0, "2", row(2, "B"))...).FirstErr())
		}, []string{row(1, "A")}, time.Second},
		{"everything removed up to the end", func(w *world) {
			w.put("1", row(1, "A"), "2", row(2, "B"))
			w.deleteRecordsTo(0, 2)
		}, nil, 100 * time.Millisecond},
		{"only control records left", func(w *world) {
			w.transact(kgo.TryCommit, "1", row(1, "A"))
			w.deleteRecordsTo(0, 1)
		}, nil, time.Second},
		{"a tail whose batches are empty", func(w *world) {
			w.put("1", row(1, "A"))
			w.put("2", row(2, "B"), "3", row(3, "C"))
			w.transact(kgo.TryAbort, "4", row(4, "D"))
			w.compactAway(func(first int64) bool { return first >= 1 })
		}, []string{row(1, "A")}, 2 * time.Second},
		{"a tail whose batches are gone", func(w *world) {
			w.put("1", row(1, "A"))
			w.put("2", row(2, "B"), "3", row(3, "C"))
			w.removeBatches(func(first int64) bool { return first >= 1 })
		}, []string{row(1, "A")}, 2 * time.Second},
		{"nothing but batches that are gone", func(w *world) {
			w.put("1", row(1, "A"))
			w.put("2", row(2, "B"), "3", row(3, "C"))
			w.removeBatches(func(int64) bool { return true })
		}, nil, 2 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, 1, func(w *world) {
				c.fill(w)
				began := time.Now()
				r := w.startWarm()
				assert.LessOrEqual(t, time.Since(began), c.within)
				w.holds(c.rows...)
				st := r.Status()
				assert.EqualValues(t, 0, st.Lag)
				assert.Equal(t, st.Buckets[0].End, w.sink.position(0))
				w.cluster.DropControl()
				r.end()
			})
		})
	}
}

func TestResumeReadsNothingAgain(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		w.many(2, 100)
		w.transact(kgo.TryCommit, "1", row(1, "by a transaction"))
		r := w.startWarm()
		w.putTo(1, "200", row(200, "while it ran"))
		w.eventually("applied", func() bool { return w.sink.position(1) == 101 })
		r.end()
		changes := w.sink.count(&w.sink.changes)

		began := time.Now()
		r = w.startWarm()
		assert.Less(t, time.Since(began), 100*time.Millisecond)
		time.Sleep(time.Minute)
		assert.EqualValues(t, 0, r.Status().RecordsRead)
		assert.Equal(t, changes, w.sink.count(&w.sink.changes))
		assert.Zero(t, w.sink.count(&w.sink.resets))
		w.put("7", row(7, "goes on"))
		w.eventually("applied", func() bool { return r.Status().RecordsRead == 1 })
		r.end()
	})
}

// A process killed in the middle leaves what was applied; the rest is read, and nothing else.
func TestKilledWhileLoading(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		w.many(1, 35_000)
		w.sink.gate = make(chan struct{})
		r := w.start()
		for range 3 { // the first positions and two batches
			w.sink.gate <- struct{}{}
		}
		w.eventually("two batches", func() bool { return r.Status().Progress.Ratio >= 20_000.0/35_000 })
		st := r.Status()
		assert.False(t, st.Warm)
		assert.InDelta(t, float64(w.sink.position(0))/35_000, st.Progress.Ratio, 1e-6)
		assert.Positive(t, st.Progress.Rows)
		assert.Contains(t, st.Reasons[0], "warming up")
		r.stop()
		w.sink.setFault(func() error { return assert.AnError }) // what is under way never arrives
		close(w.sink.gate)
		if err := <-r.done; err != nil {
			require.ErrorIs(t, err, assert.AnError)
		}
		at := w.sink.position(0)
		assert.Less(t, at, int64(35_000))
		assert.False(t, w.sink.Complete())

		w.sink.setFault(nil)
		r = w.startWarm()
		assert.Equal(t, 35_000-at, r.Status().RecordsRead)
		assert.EqualValues(t, 35_000, w.sink.Rows())
		assert.Zero(t, w.sink.count(&w.sink.resets))
		r.end()
	})
}

func TestAbortedRowsAreAbsent(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		w.put("1", row(1, "A"))
		w.transact(kgo.TryAbort, "1", row(1, "aborted"), "2", row(2, "aborted"))
		w.transact(kgo.TryCommit, "3", row(3, "C"))
		r := w.startWarm()
		w.holds(row(1, "A"), row(3, "C"))
		w.transact(kgo.TryAbort, "3", row(3, "aborted"), "1", "-")
		w.put("4", row(4, "D"))
		w.holds(row(1, "A"), row(3, "C"), row(4, "D"))
		r.end()
	})
}

func TestMissingTopicIsWaitedFor(t *testing.T) {
	inWorld(t, 0, func(w *world) {
		r := w.start()
		time.Sleep(150 * time.Second)
		st := r.Status()
		assert.True(t, st.TopicMissing)
		assert.Equal(t, `topic "customer" does not exist: create it, or correct the topic of dimension "customer"`, st.WaitingFor)
		ready, reason := r.Ready()
		assert.False(t, ready)
		assert.Contains(t, reason, "topic_missing")
		assert.Equal(t, 3, countLines(w.logs, "does not exist"), w.logs)

		require.NoError(t, w.cluster.CreateTopic(topic, 2, nil))
		r.waitWarm()
		assert.False(t, r.Status().TopicMissing)
		assert.Empty(t, r.Status().WaitingFor)
		w.put("1", row(1, "A"))
		w.holds(row(1, "A"))
		r.end()
	})
}

// Refusals at start are waited out, whatever they concern.
func TestRefusedAtStart(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault kfake.Fault
		says  string
	}{
		{"describing", kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: topic, Err: kerr.TopicAuthorizationFailed, Count: -1}, "grant READ"},
		{"ends", kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Topic: topic, Err: kerr.TopicAuthorizationFailed, Count: -1}, "grant READ"},
		{"one bucket without a leader", kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Topic: topic, Partitions: []int32{1}, Err: kerr.OffsetNotAvailable, Count: -1}, "bucket 1"},
		{"fetching", kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: topic, Err: kerr.TopicAuthorizationFailed, Count: -1}, "TOPIC_AUTHORIZATION_FAILED"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, 2, func(w *world) {
				w.put("1", row(1, "A"))
				h := w.cluster.Fault(c.fault)
				r := w.start()
				time.Sleep(30 * time.Second)
				st := r.Status()
				assert.False(t, st.Warm)
				assert.False(t, st.Ready)
				assert.Contains(t, st.WaitingFor+st.LastError, c.says)
				h.Remove()
				r.waitWarm()
				w.holds(row(1, "A"))
				time.Sleep(30 * time.Second)
				assert.Empty(t, r.Status().Trouble)
				r.end()
			})
		})
	}
}

// An answer that leaves a bucket out, without an error, is none: an end of 0 would make the dimension warm without its rows.
func TestAnswersThatLeaveBucketsOut(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		w.many(2, 10)
		left := 20
		w.cluster.ControlKey(int16(kmsg.ListOffsets), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
			w.cluster.KeepControl()
			left--
			return kreq.ResponseKind(), nil, left > 0
		})
		r := w.start()
		time.Sleep(time.Second)
		assert.Contains(t, r.Status().WaitingFor, "the answer lacks it")
		r.waitWarm()
		assert.EqualValues(t, 20, w.sink.Rows())
		r.end()
	})
}

func TestRetentionThatCantBeReadIsKafkasDefault(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeConfigs}, Err: kerr.TopicAuthorizationFailed, Count: -1})
		r := w.startWarm()
		r.state.mu.Lock()
		assert.Equal(t, 24*time.Hour, r.state.current.track.buckets[0].retention)
		r.state.mu.Unlock()
		r.end()
	})
}

func TestDeleteMarksStayAsLongAsTombstones(t *testing.T) {
	inWorld(t, 0, func(w *world) {
		require.NoError(t, w.cluster.CreateTopic(topic, 1, map[string]string{"delete.retention.ms": "7200000"}))
		r := w.startWarm()
		w.sink.mu.Lock()
		assert.Equal(t, 2*time.Hour, w.sink.ttl)
		w.sink.mu.Unlock()
		r.end()
	})
}

func TestCleanupPolicyIsWarnedOf(t *testing.T) {
	for policy, says := range map[string]string{
		"compact":        "",
		"delete":         "rows that are older than its retention are gone",
		"compact,delete": "rows that are older than its retention are gone",
	} {
		t.Run(policy, func(t *testing.T) {
			inWorld(t, 0, func(w *world) {
				require.NoError(t, w.cluster.CreateTopic(topic, 1, map[string]string{"cleanup.policy": policy}))
				r := w.startWarm()
				if says == "" {
					assert.Empty(t, r.Status().Warnings)
					assert.Zero(t, countLines(w.logs, "cleanup.policy"))
				} else {
					require.Len(t, r.Status().Warnings, 1)
					assert.Contains(t, r.Status().Warnings[0], says)
					assert.Equal(t, 1, countLines(w.logs, says))
				}
				assert.True(t, r.Status().Ready, "a warning only")
				r.end()
			})
		})
	}
	assert.Contains(t, policyWarning("t", "none"), "without compact")
	assert.Empty(t, policyWarning("t", ""), "not known")
}

func TestNoSpace(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		reg := prometheus.NewRegistry()
		w.o.Metrics = NewMetrics(reg)
		w.put("1", row(1, "A"))
		r := w.startWarm()
		w.holds(row(1, "A"))
		var refused atomic.Int64
		w.sink.setFault(func() error { refused.Add(1); return errInjected })
		w.put("2", row(2, "B"))
		w.put("1", "-")
		time.Sleep(time.Minute)
		assert.Greater(t, refused.Load(), int64(5))
		w.holds(row(1, "A"))
		st := r.Status()
		assert.Equal(t, pausedDisk, st.Paused)
		assert.False(t, st.Ready)
		assert.Contains(t, st.Reasons[0], "not enough free disk")
		v, _ := metricValue(t, reg, "enricher_dimension_paused", map[string]string{"reason": pausedDisk})
		assert.InDelta(t, 1, v, 0)
		assert.Equal(t, 1, countLines(w.logs, "changes are not applied until there is space"))

		w.sink.setFault(nil)
		w.holds(row(2, "B"))
		time.Sleep(time.Minute)
		st = r.Status()
		assert.Empty(t, st.Paused)
		assert.True(t, st.Ready, st.Reasons)
		assert.EqualValues(t, 3, st.RecordsRead)
		r.end()
	})
}

// A store that holds its rows in memory is full in its own way.
func TestNoMemory(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		reg := prometheus.NewRegistry()
		w.o.Metrics = NewMetrics(reg)
		w.put("1", row(1, "A"))
		r := w.startWarm()
		w.sink.setFault(func() error {
			return fmt.Errorf("injected: %w", errors.Join(dimstore.ErrNoMemory, dimstore.ErrNoSpace))
		})
		w.put("2", row(2, "B"))
		time.Sleep(time.Minute)
		assert.Equal(t, "memory", r.Status().Paused)
		v, _ := metricValue(t, reg, "enricher_dimension_paused", map[string]string{"reason": "memory"})
		assert.InDelta(t, 1, v, 0)
		w.sink.setFault(nil)
		w.holds(row(1, "A"), row(2, "B"))
		time.Sleep(time.Minute)
		assert.Empty(t, r.Status().Paused)
		r.end()
	})
}

func TestNoSpaceWhileLoading(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		w.many(1, 10)
		w.sink.setFault(func() error { return errInjected })
		r := w.start()
		time.Sleep(time.Minute)
		assert.Equal(t, pausedDisk, r.Status().Paused)
		w.sink.setFault(nil)
		r.waitWarm()
		assert.EqualValues(t, 10, w.sink.Rows())
		r.end()
	})
}

func TestStoreErrorsEndTheProcess(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		r := w.startWarm()
		w.sink.setFault(func() error { return dimstore.ErrDamaged })
		w.put("1", row(1, "A"))
		require.ErrorIs(t, r.fails(), dimstore.ErrDamaged)
	})
}
