package changelog

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var modelSeeds = flag.Int("model.seeds", 8, "random histories of each kind")

// history is a random life of a dimension beside its model: the rows are those of the last committed write of each key, in the topics there are.
type history struct {
	w     *world
	r     *running
	rng   *rand.Rand
	steps []string // for people

	topics  map[string]int32  // → Kafka partitions
	rows    map[string]string // the model: topic + "/" + id → name
	n       int               // makes names
	node    int32             // the broker that goes next
	unsure  bool              // something was done that has to be discovered first
	crashes atomic.Int64      // writes until the next one
	pattern bool
}

func (h *history) log(format string, args ...any) {
	h.steps = append(h.steps, fmt.Sprintf(format, args...))
}

// want is what the store has to hold.
func (h *history) want() []string {
	var rows []string
	for key, name := range h.rows {
		var topic, id string
		topic, id = key[:len(key)-2], key[len(key)-1:]
		n, _ := strconv.Atoi(id)
		if h.pattern {
			rows = append(rows, dated(n, name, topic[len("customer_"):]))
		} else {
			rows = append(rows, row(n, name))
		}
	}
	slices.Sort(rows)
	return rows
}

func (h *history) got() []string {
	rows := h.w.sink.dump(h.w.o.Schema)
	slices.Sort(rows)
	return rows
}

// start runs the dimension, after a crash on what that left.
func (h *history) start() {
	h.w.sink.mu.Lock()
	h.w.sink.loading = nil // as the store does when it is opened
	h.w.sink.fault = nil
	h.w.sink.mu.Unlock()
	h.r = h.w.startWarm()
}

// crash lets the n-th write from now on be the first that never happens, and starts again some time after.
func (h *history) crash() {
	n := h.rng.IntN(12)
	h.log("crash at write %d", n)
	h.crashes.Store(int64(n))
	h.w.sink.setFault(func() error {
		if h.crashes.Add(-1) < 0 {
			return assert.AnError
		}
		return nil
	})
	for range h.rng.IntN(8) {
		h.write()
	}
	time.Sleep(time.Duration(h.rng.IntN(30_000)) * time.Millisecond)
	h.r.stop()
	if err := <-h.r.done; err != nil {
		require.ErrorIs(h.w.t, err, assert.AnError)
	}
	for range h.rng.IntN(4) {
		h.step()
	}
	h.unsure = true
	h.start()
}

func (h *history) topic() string {
	names := slices.Sorted(maps.Keys(h.topics))
	return names[h.rng.IntN(len(names))]
}

// write makes changes in one bucket, in a transaction or not.
func (h *history) write() {
	time.Sleep(2 * time.Millisecond) // every change has a time of its own
	topic := h.topic()
	bucket := h.rng.Int32N(h.topics[topic])
	var recs []*kgo.Record
	after := map[string]string{}
	for range 1 + h.rng.IntN(4) {
		id := h.rng.IntN(9)
		key := topic + "/" + strconv.Itoa(id)
		rec := &kgo.Record{Topic: topic, Partition: bucket, Key: []byte(strconv.Itoa(id)), Value: nil}
		if h.rng.IntN(3) > 0 {
			h.n++
			after[key] = "v" + strconv.Itoa(h.n)
			rec.Value = []byte(row(id, after[key]))
		} else {
			after[key] = ""
		}
		recs = append(recs, rec)
	}
	kind := h.rng.IntN(5)
	h.log("write %d to %s-%d: %v, kind %d", len(recs), topic, bucket, after, kind)
	h.produce(recs, kind)
	if kind == 0 {
		return // aborted
	}
	for key, name := range after {
		if name == "" {
			delete(h.rows, key)
		} else {
			h.rows[key] = name
		}
	}
}

// produce writes records: 0 in a transaction that is aborted, 1 in one that is committed, else without.
func (h *history) produce(recs []*kgo.Record, kind int) {
	w := h.w
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	if kind > 1 {
		cl := w.client()
		defer cl.Close()
		require.NoError(w.t, cl.ProduceSync(ctx, recs...).FirstErr(), h.steps)
		return
	}
	cl := w.client(kgo.TransactionalID("writer"), kgo.MetadataMinAge(50*time.Millisecond))
	defer cl.Close()
	require.NoError(w.t, cl.BeginTransaction())
	require.NoError(w.t, cl.ProduceSync(ctx, recs...).FirstErr(), h.steps)
	if h.rng.IntN(2) == 0 {
		time.Sleep(time.Duration(h.rng.IntN(3000)) * time.Millisecond)
	}
	require.NoError(w.t, cl.EndTransaction(ctx, kgo.TransactionEndTry(kind == 1)))
}

func (h *history) step() {
	w := h.w
	switch op := h.rng.IntN(100); {
	case op < 60:
		h.write()
	case op < 66:
		topic := h.topic()
		if h.topics[topic] < 4 {
			h.topics[topic]++
			h.log("add a bucket to %s", topic)
			h.insist(func() bool {
				h.admin(func(adm *kadm.Client) { _, _ = adm.CreatePartitions(w.t.Context(), 1, topic) })
				return int32(len(w.cluster.PartitionInfos(topic))) == h.topics[topic]
			})
			h.unsure = true
		}
	case op < 70:
		topic := h.topic()
		h.log("create %s again", topic)
		h.remove(topic)
		time.Sleep(time.Duration(h.rng.IntN(2) * h.rng.IntN(30_000) * boolInt(!h.pattern) * int(time.Millisecond)))
		h.create(topic)
	case op < 76 && h.pattern:
		if topic := fmt.Sprintf("customer_%d", 2020+h.rng.IntN(6)); h.topics[topic] == 0 {
			h.log("create %s", topic)
			h.create(topic)
		}
	case op < 82 && h.pattern:
		if topic := h.topic(); len(h.topics) > 1 {
			h.log("remove %s", topic)
			h.remove(topic)
		}
	case op < 86:
		// Another one comes, for the one that went goes on answering on its connections. The second broker stays: there is no other controller.
		h.log("broker %d goes", h.node)
		time.Sleep(time.Second)
		require.NoError(w.t, w.cluster.RemoveNode(h.node))
		time.Sleep(time.Duration(h.rng.IntN(20_000)) * time.Millisecond)
		h.node = max(2, h.node+1)
		_, _, err := w.cluster.AddNode(h.node, 9001+int(h.node))
		require.NoError(w.t, err)
	default:
		time.Sleep(time.Duration(h.rng.IntN(15_000)) * time.Millisecond)
	}
}

// insist repeats what the brokers may refuse while one of them comes or goes.
func (h *history) insist(done func() bool) {
	for range 100 {
		if done() {
			return
		}
		time.Sleep(time.Second)
	}
	h.w.t.Fatalf("the brokers refuse: %s", h.steps)
}

// admin gives a client that knows the brokers as they are now.
func (h *history) admin(do func(adm *kadm.Client)) {
	cl := h.w.client()
	defer cl.Close()
	do(kadm.NewClient(cl))
}

func (h *history) remove(topic string) {
	h.insist(func() bool {
		h.admin(func(adm *kadm.Client) { _, _ = adm.DeleteTopics(h.w.t.Context(), topic) })
		return h.w.cluster.TopicInfo(topic) == nil
	})
	h.forget(topic)
}

func (h *history) create(topic string) {
	require.NoError(h.w.t, h.w.cluster.CreateTopic(topic, 1, map[string]string{"cleanup.policy": "compact"}))
	h.topics[topic] = 1
	h.unsure = true
}

func (h *history) forget(topic string) {
	delete(h.topics, topic)
	for key := range h.rows {
		if key[:len(key)-2] == topic {
			delete(h.rows, key)
		}
	}
	h.unsure = true
}

// known reports whether the dimension reads the topics that there are, with all their buckets, and no others.
func (h *history) known() bool {
	h.r.state.mu.Lock()
	defer h.r.state.mu.Unlock()
	f := h.r.state.current
	if len(f.topics) != len(h.topics) || len(f.leaving) > 0 {
		return false
	}
	for name, n := range h.topics {
		t := f.topics[name]
		if t == nil || t.id != h.w.cluster.TopicInfo(name).TopicID || len(t.buckets) != int(n) {
			return false
		}
		for _, i := range t.buckets {
			if b := &f.track.buckets[i]; !b.live() || !b.reached() {
				return false
			}
		}
	}
	return true
}

// check compares: in mode sync at once, where nothing has to be discovered before.
func (h *history) check() {
	w := h.w
	h.log("check")
	if !h.unsure && w.o.Refresh.Mode == Sync {
		h.r.refresh()
		require.Equal(w.t, h.want(), h.got(), "%s\n%s", h.steps, w.logs)
		return
	}
	for range 10_000 {
		h.r.refresh()
		select {
		case err := <-h.r.done:
			require.NoError(w.t, errors.Join(errors.New("it ended"), err), "%s\n%s", h.steps, w.logs)
		default:
		}
		if st := h.r.Status(); slices.Equal(h.want(), h.got()) && st.Ready && st.Loading == nil && h.known() {
			h.unsure = false
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	require.Equal(w.t, h.want(), h.got(), "%v\n%s\n%+v", h.steps, w.logs, h.r.Status())
	w.t.Fatalf("equal, but not settled: %v\n%s\n%+v", h.steps, w.logs, h.r.Status())
}

func TestModel(t *testing.T) {
	for _, pattern := range []bool{false, true} {
		for _, mode := range []string{Async, Sync} {
			for seed := range *modelSeeds {
				t.Run(fmt.Sprintf("pattern %t, %s, seed %d", pattern, mode, seed), func(t *testing.T) {
					inWorld(t, 0, func(w *world) { live(w, pattern, mode, uint64(seed)) })
				})
			}
		}
	}
}

// live plays one history.
func live(w *world, pattern bool, mode string, seed uint64) {
	h := &history{w: w, rng: rand.New(rand.NewPCG(seed, 1)), topics: map[string]int32{}, rows: map[string]string{}, pattern: pattern}
	w.o.Refresh = Refresh{Mode: mode, Interval: time.Duration(boolInt(mode == Async)) * 5 * time.Second}
	w.o.DiscoveryInterval = 5 * time.Second
	if pattern {
		w.o.Topic, w.o.TopicPattern = "", `customer_(?P<dt>\d{4})`
		w.o.Schema = newSchema(w.t, "id:int name:string dt:string", "id dt", "dt")
		h.create("customer_2020")
		h.create("customer_2021")
	} else {
		h.create(topic)
	}
	// The client asks a broker that has just lost a leader again and again until its metadata may be renewed. Time has to pass meanwhile.
	w.cluster.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
		w.cluster.KeepControl()
		w.cluster.SleepControl(func() { time.Sleep(time.Millisecond) })
		return nil, nil, false
	})
	h.start()
	for range 12 {
		for range 1 + h.rng.IntN(6) {
			h.step()
		}
		if h.rng.IntN(5) == 0 {
			h.crash()
		}
		h.check()
	}
	h.r.end()
	time.Sleep(time.Second) // nothing sleeps in the cluster when it is closed
}
