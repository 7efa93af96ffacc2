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
		id, epoch, err := cl.ProducerID(w.t.Context())
		require.NoError(t, err)
		held := r.Status().Buckets[0].OpenTransaction
		require.NotNil(t, held)
		assert.Equal(t, OpenTransaction{Seconds: held.Seconds, ProducerID: id, ProducerEpoch: epoch, StartOffset: 0}, *held)
		assert.Equal(t, 1, countLines(w.logs, "a producer holds a transaction open"))
		assert.True(t, r.Status().Ready, "the dimension is at its end")
		w.holds()
		require.NoError(t, cl.EndTransaction(w.t.Context(), kgo.TryCommit))
		w.holds(row(1, "A"), row(2, "B"))
		time.Sleep(time.Minute)
		assert.Zero(t, r.Status().Buckets[0].OpenTransactionSeconds)
		assert.Nil(t, r.Status().Buckets[0].OpenTransaction)
		r.end()
	})
}

// What a probe passed, or was taken before, is not taken again.
func TestEveryOffsetIsTakenOnce(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		f := w.feed([16]byte{}, 9)
		r := newReader(f, nil, nil)
		r.follow()
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
		r.found(w.t.Context(), found{from: 3, to: 7})
		require.EqualValues(t, 4, r.read[0], "the client was faster")
		r.found(w.t.Context(), found{from: 3, outOfRange: true})
		require.Empty(t, brokenFor(f))
		r.found(w.t.Context(), found{from: 4, to: 7})
		require.EqualValues(t, 7, r.cur.next[0])
		take(5, 7)
		require.Equal(t, []int64{0, 2, 3, 7}, offsets())
		r.found(w.t.Context(), found{from: 8, outOfRange: true})
		require.Equal(t, reasonOutOfRange, brokenFor(f))
		take(8)
		require.Equal(t, []int64{0, 2, 3, 7}, offsets(), "nothing of it is taken any more")
	})
}

func TestOptions(t *testing.T) {
	_, err := New(Options{
		KeyFormat: "avro", OnError: "ignore", FetchBytes: -1, CheckInterval: -1, DiscoveryInterval: -1, OnStale: "panic",
		Refresh: Refresh{Mode: "now", MaxPending: -1},
	})
	for _, want := range []string{
		"no name", "topic is missing", "schema is missing", "sink is missing", `"avro"`, `"ignore"`, "fetch bytes", "check interval", "discovery interval",
		`"panic"`, `"now"`, "max_pending",
	} {
		require.ErrorContains(t, err, want)
	}
	_, err = New(Options{
		Name: "x", Topic: "x", Schema: newSchema(t, "id:int", "id", ""), OnError: Skip, Sink: struct{ Sink }{newMemSink()}, Version: "column:nope",
		AutoPartition: &AutoPartition{Column: "id"},
	})
	for _, want := range []string{"no column \"nope\"", "auto_partition", "can't load a generation"} {
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
	_ Sink           = (*dimstore.Store)(nil)
	_ Sink           = (*dimstore.HeapStore)(nil)
	_ Generation     = (*dimstore.Loading)(nil)
	_ Generation     = (*dimstore.HeapLoading)(nil)
	_ GenerationSink = (*memSink)(nil)
)
