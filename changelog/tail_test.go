package changelog

import (
	"errors"
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
	"enricher/record"
)

func TestTail(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		r := w.startWarm()
		w.put("1", row(1, "A"), "2", row(2, "B"))
		w.holds(row(1, "A"), row(2, "B"))
		w.put("1", row(1, "A2"), "2", "-")
		w.holds(row(1, "A2"))
		w.transact(kgo.TryCommit, "3", row(3, "C"))
		w.eventually("the marker is behind the position", func() bool { return w.sink.position(0) == 6 })
		assert.EqualValues(t, 0, r.Status().Lag)
		r.end()
	})
}

// A change is applied as soon as it is fetched.
func TestTailDoesNotWait(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		w.sink.entered = make(chan struct{}, 100)
		r := w.startWarm()
		for len(w.sink.entered) > 0 {
			<-w.sink.entered
		}
		for range 20 {
			began := time.Now()
			w.put("1", row(1, "A"))
			<-w.sink.entered
			assert.Less(t, time.Since(began), 25*time.Millisecond)
		}
		r.end()
	})
}

func TestTombstonesInAllForms(t *testing.T) {
	for _, declared := range []string{"id:int name:string", "name:string"} {
		for _, key := range []string{`42`, `"42"`, `{"id":42}`} {
			inWorld(t, 1, func(w *world) {
				w.o.Schema = newSchema(t, declared, "id", "")
				w.put("-", row(42, "A"), "-", row(7, "stays"))
				r := w.startWarm()
				require.EqualValues(t, 2, w.sink.Rows())
				w.put(key, "-")
				w.eventually(key+" deletes the row of "+declared, func() bool { return w.sink.Rows() == 1 })
				assert.Contains(t, w.sink.dump(w.o.Schema)[0], "stays")
				r.end()
			})
		}
	}
}

var badRecords = []string{"1", row(1, "A"), "2", "not json", "-", `{"name":"no key"}`, "3", `{"id":"x"}`, "4", `{"id":4,"name":false}`, "5", row(5, "E")}

var badLetters = []string{
	`customer-0@1 decode: the value is not a JSON object`,
	`customer-0@2 key: the value lacks the key column "id" and the record key is null`,
	`customer-0@3 key: the key column "id" is declared int and holds "x"`,
	`customer-0@4 decode: column "name" is declared string and holds false`,
}

func TestBadRecords(t *testing.T) {
	begin := map[string]func(w *world) *running{
		"in the first load": func(w *world) *running { w.put(badRecords...); return w.start() },
		"later":             func(w *world) *running { r := w.startWarm(); w.put(badRecords...); return r },
	}
	for when, begin := range begin {
		for _, mode := range []string{DeadLetter, Skip} {
			t.Run(mode+" "+when, func(t *testing.T) {
				inWorld(t, 1, func(w *world) {
					reg := prometheus.NewRegistry()
					w.o.OnError, w.o.Metrics = mode, NewMetrics(reg)
					r := begin(w)
					r.waitWarm()
					w.holds(row(1, "A"), row(5, "E"))
					w.eventually("position", func() bool { return w.sink.position(0) == 6 })
					n, _ := metricValue(t, reg, "enricher_dimension_changes_total", map[string]string{"op": "error"})
					assert.InDelta(t, 4, n, 0)
					assert.EqualValues(t, 4, r.Status().RecordErrors)
					assert.Contains(t, r.Status().LastError, `bucket 0, offset 4: decode: column "name"`)
					if mode == Skip {
						assert.Empty(t, w.letters.all())
					} else {
						got := w.letters.all()
						require.Len(t, got, len(badLetters))
						for _, want := range badLetters {
							assert.Condition(t, func() bool { return hasPrefix(got, want) }, "%s in %s", want, got)
						}
					}
					assert.True(t, r.Status().Ready)
					r.end()
				})
			})
		}
		for _, mode := range []string{Fail, DeadLetter} {
			t.Run("fail as "+mode+" "+when, func(t *testing.T) {
				inWorld(t, 1, func(w *world) {
					w.o.OnError, w.o.DeadLetter = mode, nil // without a dead-letter topic dead_letter means fail
					err := begin(w).fails()
					require.ErrorIs(t, err, ErrRecord)
					require.NotErrorIs(t, err, ErrRestart)
					assert.Contains(t, err.Error(), "topic customer: bucket 0, offset 1: ")
					assert.LessOrEqual(t, w.sink.position(0), int64(1))
				})
			})
		}
	}
}

func hasPrefix(lines []string, prefix string) bool {
	for _, l := range lines {
		if len(l) >= len(prefix) && l[:len(prefix)] == prefix {
			return true
		}
	}
	return false
}

func TestDeadLetterThatCantBeWrittenBlocksThePosition(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		reg := prometheus.NewRegistry()
		w.o.OnError, w.o.Metrics = DeadLetter, NewMetrics(reg)
		w.letters.setFault(errors.New("the dead-letter topic is gone"))
		r := w.startWarm()
		w.put("1", row(1, "A"), "2", "not json", "3", row(3, "C"))
		time.Sleep(time.Minute)
		assert.LessOrEqual(t, w.sink.position(0), int64(1))
		st := r.Status()
		assert.Equal(t, pausedDeadLetter, st.Paused)
		assert.Contains(t, st.LastError, "write the dead letter of bucket 0, offset 1: the dead-letter topic is gone")
		assert.False(t, st.Ready)
		v, _ := metricValue(t, reg, "enricher_dimension_paused", map[string]string{"reason": pausedDeadLetter})
		assert.InDelta(t, 1, v, 0)
		r.end()

		// Read again by the next start, and written then.
		w.letters.setFault(nil)
		r = w.startWarm()
		w.holds(row(1, "A"), row(3, "C"))
		assert.Len(t, w.letters.all(), 1)
		assert.Empty(t, r.Status().Paused)
		r.end()
	})
}

func TestManyBadRecords(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		w.o.OnError = DeadLetter
		var pairs []string
		for range 3_000 {
			pairs = append(pairs, "x", "-")
		}
		w.put(pairs...)
		r := w.startWarm()
		assert.Len(t, w.letters.all(), 3_000)
		r.end()
	})
}

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

func TestRefusedFetches(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		w.put("1", row(1, "A"))
		r := w.startWarm()
		h := w.cluster.Fault(
			kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: topic, Err: kerr.TopicAuthorizationFailed, Count: -1},
			kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Topic: topic, Err: kerr.TopicAuthorizationFailed, Count: -1},
		)
		w.put("2", row(2, "B"), "1", "-")
		time.Sleep(5 * time.Minute)
		w.holds(row(1, "A"))
		ready, reason := r.Ready()
		assert.False(t, ready)
		assert.Contains(t, reason, "not fresh")
		assert.Contains(t, reason, "TOPIC_AUTHORIZATION_FAILED")
		assert.NotEmpty(t, r.Status().Trouble)
		assert.Less(t, countLines(w.logs, "level=WARN"), 20, "not a line per attempt")
		h.Remove()
		w.holds(row(2, "B"))
		w.eventually("ready again", func() bool { ready, _ := r.Ready(); return ready })
		assert.Empty(t, r.Status().Trouble)
		r.end()
	})
}

func TestBrokersAway(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		w.many(2, 10)
		r := w.startWarm()
		for _, n := range []int32{0, 1} {
			require.NoError(t, w.cluster.RemoveNode(n))
			time.Sleep(30 * time.Second)
			_, _, err := w.cluster.AddNode(n, 9001+int(n))
			require.NoError(t, err)
			w.put("100", row(100+int(n), "back"))
			w.eventually("goes on", func() bool { return w.sink.Rows() == 21+int64(n) })
		}
		time.Sleep(time.Minute)
		ready, reason := r.Ready()
		assert.True(t, ready, reason)
		r.end()
	})
}

// An idle dimension is fresh, and what is stored says so, so that the rule of delete.retention.ms has its proof.
func TestIdleIsProved(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		w.put("1", row(1, "A"))
		r := w.startWarm()
		time.Sleep(time.Hour)
		st := r.Status()
		assert.True(t, st.Ready, st.Reasons)
		assert.LessOrEqual(t, *st.FreshnessSeconds, 11.0)
		for _, p := range w.sink.Positions() {
			assert.Less(t, time.Since(p.ProvedAt), 2*time.Minute)
		}
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

func TestHangingTransactionIsShown(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		reg := prometheus.NewRegistry()
		w.o.Metrics = NewMetrics(reg)
		r := w.startWarm()
		cl := w.client(kgo.TransactionalID("hangs"), kgo.TransactionTimeout(10*time.Minute))
		defer cl.Close()
		require.NoError(t, cl.BeginTransaction())
		require.NoError(t, cl.ProduceSync(w.t.Context(), records(0, "1", row(1, "A"))...).FirstErr())
		w.put("2", row(2, "B"))
		time.Sleep(2 * time.Minute)
		v, _ := metricValue(t, reg, "enricher_dimension_open_transaction_seconds", nil)
		assert.Greater(t, v, 100.0)
		assert.Greater(t, r.Status().Buckets[0].OpenTransactionSeconds, 100.0)
		w.holds()
		require.NoError(t, cl.EndTransaction(w.t.Context(), kgo.TryCommit))
		w.holds(row(1, "A"), row(2, "B"))
		time.Sleep(time.Minute)
		assert.Zero(t, r.Status().Buckets[0].OpenTransactionSeconds)
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

// What a probe passed, or was taken before, is not taken again.
func TestEveryOffsetIsTakenOnce(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		d, err := New(w.o)
		require.NoError(t, err)
		_, err = d.prepare(w.t.Context(), logTopic{buckets: []logBucket{{0, 9, 9}}, askedAt: time.Now()})
		require.NoError(t, err)
		r := newReader(d, nil, nil, newBatch(1))
		take := func(offsets ...int64) {
			recs := records(0, "1", row(1, "A"), "2", row(2, "B"), "3", row(3, "C"))[:len(offsets)]
			for i := range recs {
				recs[i].Offset = offsets[i]
			}
			require.NoError(t, r.take(w.t.Context(), kgo.Fetches{{Topics: []kgo.FetchTopic{{Topic: topic, Partitions: []kgo.FetchPartition{{Records: recs}}}}}}))
		}
		offsets := func() (got []int64) {
			for _, c := range r.cur.changes {
				got = append(got, c.Offset)
			}
			return got
		}
		take(0, 2)
		take(2, 3)
		require.Equal(t, []int64{0, 2, 3}, offsets())
		require.NoError(t, r.found(found{from: 3, to: 7}))
		require.EqualValues(t, 4, r.read[0], "the client was faster")
		require.NoError(t, r.found(found{from: 3, outOfRange: true}))
		require.NoError(t, r.found(found{from: 4, to: 7}))
		require.EqualValues(t, 7, r.cur.next[0])
		take(5, 7)
		require.Equal(t, []int64{0, 2, 3, 7}, offsets())
		require.ErrorIs(t, r.found(found{from: 8, outOfRange: true}), ErrRestart)
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

func TestOptions(t *testing.T) {
	_, err := New(Options{KeyFormat: "avro", OnError: "ignore", FetchBytes: -1, CheckInterval: -1})
	for _, want := range []string{"no name", "topic is missing", "schema is missing", "sink is missing", `"avro"`, `"ignore"`, "fetch bytes", "check interval"} {
		require.ErrorContains(t, err, want)
	}
	d, err := New(Options{Name: "x", Topic: "x", Schema: &record.Schema{PrimaryKey: []int{0}, Columns: []record.Column{{Name: "id"}}}, OnError: DeadLetter, Sink: newMemSink()})
	require.NoError(t, err)
	assert.Equal(t, Fail, d.o.OnError)
	st := d.Status()
	assert.False(t, st.Ready)
	assert.Equal(t, []string{"starting"}, st.Reasons)
	d.o.Client = []kgo.Opt{kgo.ClientID("x\x00"), kgo.MaxConcurrentFetches(-1), kgo.FetchMaxBytes(1 << 30), kgo.BrokerMaxReadBytes(1)}
	require.Error(t, d.Run(t.Context()), "options that the client refuses")
	require.ErrorContains(t, d.Run(t.Context()), "twice")
}

var (
	_ Sink = (*dimstore.Store)(nil)
	_ Sink = (*memSink)(nil)
)
