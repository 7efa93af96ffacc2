package changelog

import (
	"slices"
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

func TestCreatedAgain(t *testing.T) {
	recreate := func(w *world) {
		require.NoError(w.t, deleteTopic(w))
		require.NoError(w.t, w.cluster.CreateTopic(topic, 1, nil))
		w.put("9", row(9, "new"), "8", row(8, "new"))
	}
	t.Run("while it runs", func(t *testing.T) {
		inWorld(t, 1, func(w *world) {
			reg := prometheus.NewRegistry()
			w.o.Metrics = NewMetrics(reg)
			w.put("1", row(1, "old"), "2", row(2, "old"))
			r := w.startWarm()
			recreate(w)
			seen := w.watchRows(r, []string{row(1, "old"), row(2, "old")}, []string{row(8, "new"), row(9, "new")})
			r.rebuilt(1)
			seen()
			w.holds(row(8, "new"), row(9, "new"))
			assert.Zero(t, w.sink.count(&w.sink.resets))
			n, _ := metricValue(t, reg, "enricher_dimension_rebuilds_total", map[string]string{"reason": reasonRecreated})
			assert.InDelta(t, 1, n, 0)
			w.put("7", row(7, "later"))
			w.holds(row(7, "later"), row(8, "new"), row(9, "new"))
			time.Sleep(time.Minute)
			assert.Equal(t, 1, w.sink.count(&w.sink.begun))
			ready, reason := r.Ready()
			assert.True(t, ready, reason)
			r.end()
		})
	})
	t.Run("while it was down", func(t *testing.T) {
		inWorld(t, 1, func(w *world) {
			reg := prometheus.NewRegistry()
			w.o.Metrics = NewMetrics(reg)
			w.put("1", row(1, "old"), "2", row(2, "old"))
			w.startWarm().end()
			recreate(w)
			r := w.startWarm()
			w.holds(row(8, "new"), row(9, "new"))
			assert.Equal(t, 1, w.sink.count(&w.sink.resets))
			r.end()
		})
	})
}

func deleteTopic(w *world) error {
	_, err := w.adm.DeleteTopic(w.t.Context(), topic)
	return err
}

func TestDeletedTopicKeepsTheRows(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		w.put("1", row(1, "A"))
		r := w.startWarm()
		require.NoError(t, deleteTopic(w))
		w.eventually("noticed", func() bool { return r.Status().TopicMissing })
		time.Sleep(10 * time.Minute)
		w.holds(row(1, "A"))
		ready, reason := r.Ready()
		assert.False(t, ready)
		assert.Contains(t, reason, "topic_missing")
		require.NoError(t, w.cluster.CreateTopic(topic, 1, nil))
		r.rebuilt(1)
		w.holds()
		w.eventually("ready", func() bool { ready, _ := r.Ready(); return ready })
		r.end()
	})
}

func TestRecordsRemovedBeyondThePosition(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		w.put("1", row(1, "A"), "2", row(2, "B"))
		w.startWarm().end()
		w.put("3", row(3, "C"), "2", "-", "4", row(4, "D"))
		w.deleteRecordsTo(0, 4)
		r := w.startWarm()
		w.holds(row(4, "D"))
		assert.Equal(t, reasonOutOfRange, r.Status().LoadReason)
		r.end()
	})
	t.Run("while it is held back", func(t *testing.T) {
		inWorld(t, 1, func(w *world) {
			w.put("1", row(1, "A"))
			r := w.startWarm()
			h := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: topic, Err: kerr.UnknownServerError, Count: -1})
			time.Sleep(time.Second)
			w.put("2", row(2, "B"), "1", "-", "3", row(3, "C"))
			w.deleteRecordsTo(0, 3)
			time.Sleep(time.Second)
			h.Remove()
			w.holds(row(1, "A"))
			r.rebuilt(1)
			assert.Positive(t, countLines(w.logs, "bucket 0 was read up to 1, which lies outside its log"))
			w.holds(row(3, "C"))
			assert.Zero(t, w.sink.count(&w.sink.resets))
			r.end()
		})
	})
}

func TestNewBucket(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		w.put("1", row(1, "A"))
		r := w.startWarm()
		_, err := w.adm.CreatePartitions(w.t.Context(), 1, topic)
		require.NoError(t, err)
		w.putTo(1, "2", row(2, "B"), "3", row(3, "C"), "4", row(4, "D"), "5", row(5, "E"), "6", row(6, "F"))
		w.holds(row(1, "A"), row(2, "B"), row(3, "C"), row(4, "D"), row(5, "E"), row(6, "F"))
		assert.EqualValues(t, 6, r.Status().RecordsRead)
		assert.Len(t, r.Status().Buckets, 2)
		assert.EqualValues(t, 5, w.sink.position(1))
		w.putTo(1, "2", "-")
		w.holds(row(1, "A"), row(3, "C"), row(4, "D"), row(5, "E"), row(6, "F"))
		time.Sleep(time.Minute)
		assert.True(t, r.Status().Ready, r.Status().Reasons)
		r.end()

		r = w.startWarm()
		assert.EqualValues(t, 0, r.Status().RecordsRead)
		assert.Zero(t, w.sink.count(&w.sink.resets)+w.sink.count(&w.sink.begun))
		r.end()
	})
	t.Run("found at start", func(t *testing.T) {
		inWorld(t, 1, func(w *world) {
			w.put("1", row(1, "A"))
			w.startWarm().end()
			_, err := w.adm.CreatePartitions(w.t.Context(), 1, topic)
			require.NoError(t, err)
			w.putTo(1, "2", row(2, "B"), "3", row(3, "C"))
			r := w.startWarm()
			w.holds(row(1, "A"), row(2, "B"), row(3, "C"))
			assert.EqualValues(t, 2, r.Status().RecordsRead)
			assert.Zero(t, w.sink.count(&w.sink.resets))
			r.end()
		})
	})
}

// The log lost records that were read, and has grown past the position since: only the client noticed.
func TestDataLoss(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		w.put("1", row(1, "A"))
		r := w.startWarm()
		r.end()
		f := w.feed(w.cluster.TopicInfo(topic).TopicID, 1)
		reader := newReader(f, nil, nil)
		reader.follow()
		require.NoError(t, reader.take(w.t.Context(), kgo.Fetches{{Topics: []kgo.FetchTopic{{Topic: topic, Partitions: []kgo.FetchPartition{{
			Err: &kgo.ErrDataLoss{Topic: topic, ConsumedTo: 1, ResetTo: 0},
		}}}}}}))
		assert.Equal(t, reasonLost, brokenFor(f))
		r = w.startWarm() // a crash before the new generation
		assert.Equal(t, reasonOutOfRange, r.Status().LoadReason)
		w.holds(row(1, "A"))
		r.end()
	})
}

// Records of a topic created again under the same name never meet the rows of the old one, even before anything else has noticed.
func TestFetchesOfAnotherTopicIDAreRefused(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		fetched := func(id byte) kgo.Fetches {
			return kgo.Fetches{{Topics: []kgo.FetchTopic{{Topic: topic, TopicID: [16]byte{id}, Partitions: []kgo.FetchPartition{{Records: records(0, "1", row(1, "A"))}}}}}}
		}
		f := w.feed([16]byte{1}, 0)
		reader := newReader(f, nil, nil)
		reader.follow()
		require.NoError(t, reader.take(w.t.Context(), fetched(1)))
		assert.Len(t, reader.cur.changes, 1)
		require.NoError(t, reader.take(w.t.Context(), fetched(2)))
		assert.Len(t, reader.cur.changes, 1)
		assert.Equal(t, reasonRecreated, brokenFor(f))
	})
}

func TestDroppedStoreIsCounted(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		reg := prometheus.NewRegistry()
		w.o.Metrics = NewMetrics(reg)
		w.sink.discarded = "damaged: moved to /data/customer/damaged"
		r := w.startWarm()
		n, _ := metricValue(t, reg, "enricher_dimension_rebuilds_total", map[string]string{"reason": "damaged"})
		assert.InDelta(t, 1, n, 0)
		assert.Equal(t, w.sink.discarded, r.Status().LoadReason)
		r.end()
	})
}

func TestAwayForLongerThanTombstonesStay(t *testing.T) {
	for _, c := range []struct {
		name   string
		away   time.Duration
		write  bool
		reason string
	}{
		{"a day and a bit", 25 * time.Hour, true, reasonTombstones},
		{"less than that", 23 * time.Hour, true, ""},
		{"long, but nothing was written", 1000 * time.Hour, false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, 1, func(w *world) {
				w.put("1", row(1, "A"))
				w.startWarm().end()
				if c.write {
					w.put("2", row(2, "B"))
				}
				time.Sleep(c.away)
				r := w.startWarm()
				assert.Equal(t, c.reason, r.Status().LoadReason)
				r.end()
			})
		})
	}
	t.Run("a shorter retention", func(t *testing.T) {
		inWorld(t, 0, func(w *world) {
			require.NoError(t, w.cluster.CreateTopic(topic, 1, map[string]string{"delete.retention.ms": "60000", "cleanup.policy": "compact"}))
			w.put("1", row(1, "A"))
			w.startWarm().end()
			w.put("1", "-")
			time.Sleep(2 * time.Minute)
			r := w.startWarm()
			assert.Equal(t, reasonTombstones, r.Status().LoadReason)
			w.holds()
			r.end()
		})
	})
}

// A process that could not read for longer than tombstones stay may miss deletes: it applies nothing more of that bucket to the old generation.
func TestHeldBackForLongerThanTombstonesStay(t *testing.T) {
	inWorld(t, 0, func(w *world) {
		require.NoError(t, w.cluster.CreateTopic(topic, 1, map[string]string{"delete.retention.ms": "1800000"}))
		w.put("1", row(1, "A"))
		r := w.startWarm()
		time.Sleep(time.Hour)
		h := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: topic, Err: kerr.TopicAuthorizationFailed, Count: -1})
		w.put("2", row(2, "B"))
		time.Sleep(35 * time.Minute)
		w.holds(row(1, "A"))
		h.Remove()
		seen := w.watchRows(r, []string{row(1, "A")}, []string{row(1, "A"), row(2, "B")})
		r.rebuilt(1)
		seen()
		assert.Equal(t, reasonTombstones, r.Status().LoadReason)
		w.holds(row(1, "A"), row(2, "B"))
		r.end()
	})
}

// watchRows checks, until the function that it returns is called, that only these states of the store are ever seen.
func (w *world) watchRows(r *running, states ...[]string) (end func()) {
	w.t.Helper()
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
			}
			got := w.sink.dump(w.o.Schema)
			if !slices.ContainsFunc(states, func(s []string) bool { return slices.Equal(s, got) }) {
				w.t.Errorf("a mix is seen: %s; %+v", got, r.Status())
				return
			}
		}
	}()
	return func() { close(stop); <-done }
}
