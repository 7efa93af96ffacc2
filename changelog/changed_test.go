package changelog

import (
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
			w.put("1", row(1, "old"))
			r := w.startWarm()
			recreate(w)
			err := r.fails()
			require.ErrorIs(t, err, ErrRestart)
			assert.Contains(t, err.Error(), "deleted and created again")
			w.holds(row(1, "old")) // never a mix
			r = w.startWarm()
			w.holds(row(8, "new"), row(9, "new"))
			assert.Equal(t, reasonRecreated, r.Status().LoadReason)
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
			assert.Equal(t, 1, w.sink.resets)
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
		require.ErrorIs(t, r.fails(), ErrRestart)
		r = w.startWarm()
		w.holds()
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
			err := r.fails()
			require.ErrorIs(t, err, ErrRestart)
			assert.Contains(t, err.Error(), "bucket 0 was read up to 1, which lies outside its log")
			r = w.startWarm()
			w.holds(row(3, "C"))
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
		err = r.fails()
		require.ErrorIs(t, err, ErrRestart)
		assert.Contains(t, err.Error(), "new Kafka partitions (2, was 1)")
		time.Sleep(10 * time.Second) // the producer learns of it
		w.putTo(1, "2", row(2, "B"), "3", row(3, "C"))
		r = w.startWarm()
		w.holds(row(1, "A"), row(2, "B"), row(3, "C"))
		assert.EqualValues(t, 2, r.Status().RecordsRead)
		assert.Zero(t, w.sink.resets)
		r.end()
	})
}

// The log lost records that were read, and has grown past the position since: only the client noticed.
func TestDataLoss(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		w.put("1", row(1, "A"))
		r := w.startWarm()
		r.end()
		d, err := New(w.o)
		require.NoError(t, err)
		log := logTopic{id: w.cluster.TopicInfo(topic).TopicID, buckets: []logBucket{{0, 1, 1}}, askedAt: time.Now()}
		_, err = d.prepare(w.t.Context(), log)
		require.NoError(t, err)
		reader := newReader(d, nil, nil, newBatch(1))
		err = reader.take(w.t.Context(), kgo.Fetches{{Topics: []kgo.FetchTopic{{Topic: topic, Partitions: []kgo.FetchPartition{{
			Err: &kgo.ErrDataLoss{Topic: topic, ConsumedTo: 1, ResetTo: 0},
		}}}}}})
		require.ErrorIs(t, err, ErrRestart)
		require.True(t, isSpoiled(err))
		require.NoError(t, d.spoil())
		r = w.startWarm()
		assert.Equal(t, reasonOutOfRange, r.Status().LoadReason)
		w.holds(row(1, "A"))
		r.end()
	})
}

// Records of a topic created again under the same name never meet the rows of the old one, even before anything else has noticed.
func TestFetchesOfAnotherTopicIDAreRefused(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		d, err := New(w.o)
		require.NoError(t, err)
		_, err = d.prepare(w.t.Context(), logTopic{id: [16]byte{1}, buckets: []logBucket{{0, 0, 0}}, askedAt: time.Now()})
		require.NoError(t, err)
		reader := newReader(d, nil, nil, newBatch(1))
		fetched := func(id byte) kgo.Fetches {
			return kgo.Fetches{{Topics: []kgo.FetchTopic{{Topic: topic, TopicID: [16]byte{id}, Partitions: []kgo.FetchPartition{{Records: records(0, "1", row(1, "A"))}}}}}}
		}
		require.ErrorIs(t, reader.take(w.t.Context(), fetched(2)), ErrRestart)
		assert.Empty(t, reader.cur.changes)
		require.NoError(t, reader.take(w.t.Context(), fetched(1)))
		assert.Len(t, reader.cur.changes, 1)
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

// A process that could not read for longer than tombstones stay may miss deletes: it applies nothing more, and the next start loads anew.
func TestHeldBackForLongerThanTombstonesStay(t *testing.T) {
	inWorld(t, 0, func(w *world) {
		require.NoError(t, w.cluster.CreateTopic(topic, 1, map[string]string{"delete.retention.ms": "1800000"}))
		w.put("1", row(1, "A"))
		r := w.startWarm()
		time.Sleep(time.Hour)
		h := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: topic, Err: kerr.TopicAuthorizationFailed, Count: -1})
		w.put("2", row(2, "B"))
		time.Sleep(35 * time.Minute)
		h.Remove()
		err := r.fails()
		require.ErrorIs(t, err, ErrRestart)
		assert.Contains(t, err.Error(), "delete.retention.ms")
		assert.EqualValues(t, 1, w.sink.position(0))
		r = w.startWarm()
		assert.Equal(t, reasonTombstones, r.Status().LoadReason)
		w.holds(row(1, "A"), row(2, "B"))
		r.end()
	})
}
