package changelog

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"enricher/record"
)

// patternWorld is a world whose dimension has a topic per year: rows of columns id, name, dt, of which dt is the partition.
func patternWorld(t *testing.T, fn func(w *world)) {
	t.Helper()
	inWorld(t, 0, func(w *world) {
		w.o.Topic, w.o.TopicPattern = "", `customer_(?P<dt>\d{4})(_\w+)?`
		w.o.Schema = newSchema(t, "id:int name:string dt:string", "id dt", "dt")
		fn(w)
	})
}

func (w *world) create(topics ...string) {
	w.t.Helper()
	for _, topic := range topics {
		require.NoError(w.t, w.cluster.CreateTopic(topic, 1, map[string]string{"cleanup.policy": "compact"}))
	}
}

func (w *world) remove(topics ...string) {
	w.t.Helper()
	_, err := w.adm.DeleteTopics(w.t.Context(), topics...)
	require.NoError(w.t, err)
}

func dated(id int, name, dt string) string {
	return fmt.Sprintf(`{"id":%d,"name":"%s","dt":"%s"}`, id, name, dt)
}

func TestPatternReadsAllThatMatch(t *testing.T) {
	patternWorld(t, func(w *world) {
		w.create("customer_2024", "customer_2025", "customers_2025", "customer_2025.old", "customer_20255")
		for _, topic := range []string{"customer_2024", "customer_2025", "customers_2025", "customer_2025.old", "customer_20255"} {
			w.putTopic(topic, 0, "1", row(1, topic))
		}
		r := w.startWarm()
		w.holds(dated(1, "customer_2024", "2024"), dated(1, "customer_2025", "2025"))
		st := r.Status()
		assert.Equal(t, 2, st.Topics)
		assert.Equal(t, w.o.TopicPattern, st.Topic)
		require.Len(t, st.Buckets, 2)
		assert.NotEmpty(t, st.Buckets[0].Topic)
		w.putTopic("customer_2024", 0, "1", "-", "2", row(2, "B"), `{"id":2}`, "-", "3", row(3, "C"))
		w.putTopic("customer_2025", 0, `{"id":1,"dt":"2025"}`, "-", `{"id":9}`, `{"name":"N"}`)
		w.holds(dated(3, "C", "2024"), `{"id":9,"name":"N","dt":"2025"}`)
		r.end()

		r = w.startWarm()
		assert.EqualValues(t, 0, r.Status().RecordsRead, "nothing is read again")
		r.end()
	})
}

func TestPatternNewTopicDelaysNothing(t *testing.T) {
	for _, mode := range []string{Async, Sync} {
		t.Run(mode, func(t *testing.T) {
			patternWorld(t, func(w *world) {
				w.o.Refresh = Refresh{Mode: mode, Interval: time.Hour}
				if mode == Async {
					w.o.Refresh.Interval = 10 * time.Second
				}
				w.create("customer_2024")
				w.putTopic("customer_2024", 0, "1", row(1, "A"))
				r := w.startWarm()
				time.Sleep(time.Minute + time.Second)
				w.create("customer_2025")
				w.putTopic("customer_2025", 0, "1", row(1, "B"))
				began := time.Now()
				w.holds(dated(1, "A", "2024"), dated(1, "B", "2025"))
				assert.Less(t, time.Since(began), 20*time.Second, "two intervals")
				assert.True(t, r.Status().Ready, r.Status().Reasons)
				assert.Zero(t, w.sink.count(&w.sink.begun))
				r.end()
			})
		})
	}
}

// A new topic that can't be read yet holds no fact back and makes nothing stale at once; one that stays so is seen.
func TestPatternNewTopicThatCantBeRead(t *testing.T) {
	patternWorld(t, func(w *world) {
		w.o.Refresh.Mode = Sync
		w.o.MaxStaleness = 40 * time.Second
		w.create("customer_2024")
		w.putTopic("customer_2024", 0, "1", row(1, "A"))
		r := w.startWarm()
		h := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: "customer_2025", Err: kerr.TopicAuthorizationFailed, Count: -1})
		w.create("customer_2025")
		w.putTopic("customer_2025", 0, "1", row(1, "B"))
		w.eventually("found", func() bool { return r.Status().Topics == 2 })
		for range 10 {
			began := time.Now()
			r.refresh()
			assert.Less(t, time.Since(began), time.Second)
			time.Sleep(2 * time.Second)
		}
		assert.True(t, r.Status().Ready, r.Status().Reasons)
		w.putTopic("customer_2024", 0, "2", row(2, "A"))
		r.refresh()
		w.holdsNow(dated(1, "A", "2024"), dated(2, "A", "2024"))
		time.Sleep(time.Minute)
		ready, reason := r.Ready()
		assert.False(t, ready)
		assert.Contains(t, reason, "TOPIC_AUTHORIZATION_FAILED")
		h.Remove()
		w.holds(dated(1, "A", "2024"), dated(2, "A", "2024"), dated(1, "B", "2025"))
		w.eventually("ready", func() bool { ready, _ := r.Ready(); return ready })
		r.end()
	})
}

func TestPatternTopicLeavesWithItsRows(t *testing.T) {
	for _, mode := range []string{Async, Sync} {
		t.Run(mode, func(t *testing.T) {
			patternWorld(t, func(w *world) {
				w.o.Refresh.Mode = mode
				w.create("customer_2023", "customer_2024", "customer_2025")
				for _, dt := range []string{"2023", "2024", "2025"} {
					w.putTopic("customer_"+dt, 0, "1", row(1, "A"))
				}
				r := w.startWarm()
				w.remove("customer_2023")
				began := time.Now()
				for len(w.sink.dump(w.o.Schema)) == 3 {
					r.refresh() // never waits for it
					time.Sleep(100 * time.Millisecond)
				}
				w.holdsNow(dated(1, "A", "2024"), dated(1, "A", "2025"))
				assert.Greater(t, time.Since(began), time.Second, "one listing is not enough")
				assert.Less(t, time.Since(began), 31*time.Second)
				assert.Zero(t, w.sink.count(&w.sink.begun)+w.sink.count(&w.sink.resets))
				time.Sleep(time.Minute)
				st := r.Status()
				assert.True(t, st.Ready, st.Reasons)
				assert.Len(t, st.Buckets, 2)
				assert.Empty(t, st.Trouble)

				// It comes back as another one.
				w.create("customer_2023")
				w.putTopic("customer_2023", 0, "2", row(2, "again"))
				w.holds(dated(2, "again", "2023"), dated(1, "A", "2024"), dated(1, "A", "2025"))
				assert.Zero(t, w.sink.count(&w.sink.begun))
				r.end()

				w.remove("customer_2024") // while it is down
				r = w.startWarm()
				w.holdsNow(dated(2, "again", "2023"), dated(1, "A", "2025"))
				assert.EqualValues(t, 0, r.Status().RecordsRead)
				r.end()
				r = w.startWarm()
				w.holdsNow(dated(2, "again", "2023"), dated(1, "A", "2025"))
				assert.Zero(t, w.sink.count(&w.sink.begun)+w.sink.count(&w.sink.resets))
				r.end()
			})
		})
	}
}

func TestPatternAllTopicsNeverLeaveAtOnce(t *testing.T) {
	patternWorld(t, func(w *world) {
		w.create("customer_2024", "customer_2025")
		w.putTopic("customer_2024", 0, "1", row(1, "A"))
		w.putTopic("customer_2025", 0, "1", row(1, "B"))
		r := w.startWarm()
		w.remove("customer_2024", "customer_2025")
		time.Sleep(10 * time.Minute)
		w.holdsNow(dated(1, "A", "2024"), dated(1, "B", "2025"))
		_, reason := r.Ready()
		assert.Contains(t, reason, "topic_missing")
		r.end()
		r = w.start()
		time.Sleep(10 * time.Minute)
		assert.Contains(t, r.Status().WaitingFor, "no topic matches the pattern")
		w.holdsNow(dated(1, "A", "2024"), dated(1, "B", "2025"))
		w.create("customer_2026") // the only one that is known to be there
		w.putTopic("customer_2026", 0, "1", row(1, "C"))
		r.waitWarm()
		w.holds(dated(1, "C", "2026"))
		r.end()
	})
}

// A topic that may no longer be described is missing in a listing of all, but it is not gone.
func TestPatternRefusedIsNotGone(t *testing.T) {
	patternWorld(t, func(w *world) {
		w.create("customer_2024", "customer_2025")
		w.putTopic("customer_2024", 0, "1", row(1, "A"))
		w.putTopic("customer_2025", 0, "1", row(1, "B"))
		r := w.startWarm()
		w.cluster.ControlKey(int16(kmsg.Metadata), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
			w.cluster.KeepControl()
			req := kreq.(*kmsg.MetadataRequest)
			resp := req.ResponseKind().(*kmsg.MetadataResponse)
			for i, a := range w.cluster.ListenAddrs() {
				b := kmsg.NewMetadataResponseBroker()
				host, port, _ := strings.Cut(a, ":")
				n, _ := strconv.Atoi(port)
				b.NodeID, b.Host, b.Port = int32(i), host, int32(n)
				resp.Brokers = append(resp.Brokers, b)
			}
			add := func(name string, code int16) {
				rt := kmsg.NewMetadataResponseTopic()
				rt.Topic, rt.ErrorCode = &name, code
				if code == 0 {
					rt.TopicID = w.cluster.TopicInfo(name).TopicID
					p := kmsg.NewMetadataResponseTopicPartition()
					p.Leader = w.cluster.LeaderFor(name, 0)
					p.LeaderEpoch = w.cluster.PartitionInfo(name, 0).Epoch
					rt.Partitions = append(rt.Partitions, p)
				}
				resp.Topics = append(resp.Topics, rt)
			}
			if req.Topics == nil {
				add("customer_2025", 0)
				return resp, nil, true
			}
			for _, rt := range req.Topics {
				if rt.Topic == nil {
					return nil, nil, false
				}
				if *rt.Topic == "customer_2024" {
					add(*rt.Topic, kerr.TopicAuthorizationFailed.Code)
				} else {
					add(*rt.Topic, 0)
				}
			}
			return resp, nil, true
		})
		time.Sleep(5 * time.Minute)
		w.holdsNow(dated(1, "A", "2024"), dated(1, "B", "2025"))
		assert.Contains(t, fmt.Sprint(r.Status().Trouble), "TOPIC_AUTHORIZATION_FAILED")
		w.cluster.DropControl()
		r.end()
	})
}

// Where the rows of a topic can't be told from those of others, its leaving is a new generation.
func TestPatternTopicLeavesANewGeneration(t *testing.T) {
	for name, c := range map[string]struct {
		columns, key, partition string
		left                    string
	}{
		"no partitions":             {"id:int name:string dt:string", "id", "", "customer_2023"},
		"two topics of a partition": {"id:int name:string dt:string", "id dt", "dt", "customer_2024_b"},
	} {
		t.Run(name, func(t *testing.T) {
			patternWorld(t, func(w *world) {
				w.o.Schema = newSchema(t, c.columns, c.key, c.partition)
				topics := []string{c.left, "customer_2024", "customer_2025"}
				w.create(topics...)
				for i, topic := range topics {
					w.putTopic(topic, 0, "-", row(i+1, topic))
				}
				r := w.startWarm()
				require.EqualValues(t, 3, w.sink.Rows())
				w.remove(c.left)
				r.rebuilt(1)
				w.holds(dated(2, "customer_2024", "2024"), dated(3, "customer_2025", "2025"))
				w.eventually("ready", func() bool { ready, _ := r.Ready(); return ready })
				r.end()

				w.remove("customer_2024") // while it is down
				began := w.sink.count(&w.sink.begun)
				if c.partition != "" {
					began-- // its partition is its own by now
				}
				r = w.startWarm()
				w.holds(dated(3, "customer_2025", "2025"))
				assert.Equal(t, began+1, w.sink.count(&w.sink.begun))
				assert.Zero(t, w.sink.count(&w.sink.resets))
				r.end()
			})
		})
	}
}

func TestPatternTopicCreatedAgain(t *testing.T) {
	patternWorld(t, func(w *world) {
		w.o.DiscoveryInterval = time.Minute
		w.create("customer_2024", "customer_2025")
		w.putTopic("customer_2024", 0, "1", row(1, "A"))
		w.putTopic("customer_2025", 0, "1", row(1, "B"), "2", row(2, "B"))
		r := w.startWarm()
		w.remove("customer_2025")
		w.create("customer_2025")
		w.putTopic("customer_2025", 0, "1", row(1, "C"))
		seen := w.watchRows(r, []string{dated(1, "A", "2024"), dated(1, "B", "2025"), dated(2, "B", "2025")},
			[]string{dated(1, "A", "2024"), dated(1, "C", "2025")})
		r.rebuilt(1)
		seen()
		w.putTopic("customer_2024", 0, "2", row(2, "A"))
		w.holds(dated(1, "A", "2024"), dated(2, "A", "2024"), dated(1, "C", "2025"))
		r.end()
	})
}

func TestPatternWithoutAMatchIsWaitedFor(t *testing.T) {
	patternWorld(t, func(w *world) {
		r := w.start()
		time.Sleep(150 * time.Second)
		st := r.Status()
		assert.Contains(t, st.WaitingFor, "no topic matches the pattern")
		assert.Equal(t, 3, countLines(w.logs, "the dimension waits"))
		_, reason := r.Ready()
		assert.Contains(t, reason, "topic_missing")
		w.create("customer_2024")
		r.waitWarm()
		assert.True(t, r.Status().Ready, r.Status().Reasons)
		r.end()
	})
}

func TestPatternRecordsThatContradictTheTopic(t *testing.T) {
	patternWorld(t, func(w *world) {
		w.o.OnError = DeadLetter
		w.create("customer_2024")
		w.putTopic("customer_2024", 0, "1", dated(1, "A", "2024"), "1", dated(1, "B", "2025"), `{"id":1,"dt":"2025"}`, "-")
		r := w.startWarm()
		w.holds(dated(1, "A", "2024"))
		require.Len(t, w.letters.all(), 2)
		letters := w.letters.all()
		slices.Sort(letters)
		for i, l := range letters {
			assert.Equal(t, fmt.Sprintf(`customer_2024-0@%d key: the key column "dt" holds "2025" and the topic's name says "2024"`, i+1), l)
		}
		r.end()
	})
}

// A partition with a topic of its own exists once the topic was read to the end seen at its discovery, and stays while it is read on.
func TestPartitionIsHiddenUntilItsTopicIsRead(t *testing.T) {
	patternWorld(t, func(w *world) {
		w.create("customer_2024")
		w.putTopic("customer_2024", 0, "1", row(1, "A"))
		r := w.startWarm()
		in2025 := partitionOf(t, record.String, `"2025"`)
		assert.False(t, r.hidden.Load().has(partitionOf(t, record.String, `"2024"`)))
		w.create("customer_2025")
		var pairs []string
		for i := range 25_000 {
			pairs = append(pairs, "-", row(i, "n"))
		}
		w.putTopic("customer_2025", 0, pairs...)
		var writes atomic.Int64 // that there is space for
		w.sink.setFault(func() error {
			if writes.Add(-1) < 0 {
				return errInjected
			}
			return nil
		})
		w.eventually("found", func() bool { return r.Status().Topics == 2 })
		for w.sink.Rows() < 20_000 {
			assert.True(t, r.hidden.Load().has(in2025))
			writes.Store(1)
			time.Sleep(15 * time.Second)
		}
		assert.True(t, r.hidden.Load().has(in2025))
		w.sink.setFault(nil)
		w.eventually("read", func() bool { return w.sink.Rows() == 25_001 })
		time.Sleep(time.Second)
		assert.False(t, r.hidden.Load().has(in2025))
		w.putTopic("customer_2025", 0, pairs[:2000]...)
		for range 100 {
			assert.False(t, r.hidden.Load().has(in2025), "later rows hide nothing")
			time.Sleep(10 * time.Millisecond)
		}
		r.end()
	})
}
