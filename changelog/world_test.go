package changelog

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"enricher/dimstore"
	"enricher/record"
)

const topic = "customer"

// world is a cluster on a virtual network inside a synctest bubble, with a store that outlives the dimensions that are run on it.
type world struct {
	t       *testing.T
	net     *kfake.VirtualNetwork
	cluster *kfake.Cluster
	cl      *kgo.Client // for producing and administration
	adm     *kadm.Client
	sink    *memSink
	logs    *logBuffer
	letters *letters
	o       Options
}

// inWorld runs fn with a world in a bubble.
func inWorld(t *testing.T, buckets int32, fn func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, net: new(kfake.VirtualNetwork), sink: newMemSink(), logs: new(logBuffer), letters: new(letters)}
		var err error
		w.cluster, err = kfake.NewCluster(kfake.NumBrokers(2), kfake.Ports(9001, 9002), kfake.ListenFn(w.net.Listen))
		require.NoError(t, err)
		defer time.Sleep(time.Minute) // what sleeps in the cluster wakes up and sees that it is closed
		defer w.cluster.Close()
		if buckets > 0 {
			require.NoError(t, w.cluster.CreateTopic(topic, buckets, map[string]string{"cleanup.policy": "compact"}))
		}
		w.cl = w.client()
		defer w.cl.Close()
		w.adm = kadm.NewClient(w.cl)
		schema, err := record.NewSchema([]record.Column{{Name: "id", Type: record.Int}, {Name: "name", Type: record.String}}, nil, []string{"id"}, nil)
		require.NoError(t, err)
		w.o = Options{
			Name: "customer", Topic: topic, Schema: schema, OnError: Skip, Sink: w.sink, DeadLetter: w.letters.write,
			Client: w.connection(), Logger: slog.New(slog.NewTextHandler(w.logs, nil)),
		}
		fn(w)
	})
}

func (w *world) connection() []kgo.Opt {
	return []kgo.Opt{kgo.SeedBrokers(w.cluster.ListenAddrs()...), kgo.Dialer(w.net.DialContext)}
}

func (w *world) client(opts ...kgo.Opt) *kgo.Client {
	w.t.Helper()
	cl, err := kgo.NewClient(append(append(w.connection(), kgo.RecordPartitioner(kgo.ManualPartitioner())), opts...)...)
	require.NoError(w.t, err)
	return cl
}

// put produces records to bucket 0: key, value, key, value; "-" is null.
func (w *world) put(pairs ...string) { w.t.Helper(); w.putTo(0, pairs...) }

func (w *world) putTo(bucket int32, pairs ...string) {
	w.t.Helper()
	w.putTopic(topic, bucket, pairs...)
}

func (w *world) putTopic(topic string, bucket int32, pairs ...string) {
	w.t.Helper()
	cl := w.client() // a new one knows the topic as it is now
	defer cl.Close()
	recs := records(bucket, pairs...)
	for _, r := range recs {
		r.Topic = topic
	}
	require.NoError(w.t, cl.ProduceSync(w.t.Context(), recs...).FirstErr())
}

func records(bucket int32, pairs ...string) []*kgo.Record {
	var recs []*kgo.Record
	null := func(s string) []byte {
		if s == "-" {
			return nil
		}
		return []byte(s)
	}
	for i := 0; i < len(pairs); i += 2 {
		recs = append(recs, &kgo.Record{Topic: topic, Partition: bucket, Key: null(pairs[i]), Value: null(pairs[i+1])})
	}
	return recs
}

// transact produces to bucket 0 in one transaction and ends it as told.
func (w *world) transact(end kgo.TransactionEndTry, pairs ...string) {
	w.t.Helper()
	cl := w.client(kgo.TransactionalID("writer"))
	defer cl.Close()
	require.NoError(w.t, cl.BeginTransaction())
	require.NoError(w.t, cl.ProduceSync(w.t.Context(), records(0, pairs...)...).FirstErr())
	require.NoError(w.t, cl.EndTransaction(w.t.Context(), end))
}

func (w *world) deleteRecordsTo(bucket int32, at int64) {
	w.t.Helper()
	var o kadm.Offsets
	o.Add(kadm.Offset{Topic: topic, Partition: bucket, At: at})
	got, err := w.adm.DeleteRecords(w.t.Context(), o)
	require.NoError(w.t, err)
	require.NoError(w.t, got.Error())
}

// feed is one that reads bucket 0 of the topic from an offset on, and does not run.
func (w *world) feed(id [16]byte, from int64) *feed {
	w.t.Helper()
	d, err := New(w.o)
	require.NoError(w.t, err)
	cl, err := d.openClient()
	require.NoError(w.t, err)
	w.t.Cleanup(cl.Close)
	f := d.newFeed(cl)
	log := logView{topics: []logTopic{{name: topic, id: id, buckets: []logBucket{{0, from, from}}, retention: 24 * time.Hour}}, askedAt: time.Now()}
	_, err = d.prepare(w.t.Context(), f, log)
	require.NoError(w.t, err)
	d.show(f, nil)
	return f
}

// brokenFor is why a feed needs a new generation.
func brokenFor(f *feed) string {
	reason, _, _ := f.d.brokenOf(f)
	return reason
}

// rebuilt waits until n generations were loaded beside the one that answered.
func (r *running) rebuilt(n int) {
	r.w.t.Helper()
	r.w.eventually("a new generation", func() bool {
		r.w.sink.mu.Lock()
		defer r.w.sink.mu.Unlock()
		return r.w.sink.published == n
	})
}

// running is a dimension that runs.
type running struct {
	*Dimension

	w    *world
	stop context.CancelFunc
	done chan error
}

func (w *world) start() *running {
	w.t.Helper()
	d, err := New(w.o)
	require.NoError(w.t, err)
	ctx, cancel := context.WithCancel(w.t.Context())
	r := &running{Dimension: d, w: w, stop: cancel, done: make(chan error, 1)}
	go func() { r.done <- d.Run(ctx) }()
	return r
}

// startWarm starts and waits until it is warm.
func (w *world) startWarm() *running {
	w.t.Helper()
	r := w.start()
	r.waitWarm()
	return r
}

func (r *running) waitWarm() {
	r.w.t.Helper()
	select {
	case <-r.Warm():
	case err := <-r.done:
		r.w.t.Fatalf("ended before it was warm: %v\n%s", err, r.w.logs)
	case <-time.After(time.Hour):
		r.w.t.Fatalf("not warm after an hour: %+v\n%s", r.Status(), r.w.logs)
	}
}

// end stops it and wants no error.
func (r *running) end() {
	r.w.t.Helper()
	r.stop()
	require.NoError(r.w.t, <-r.done)
}

// fails waits for it to end by itself.
func (r *running) fails() error {
	r.w.t.Helper()
	select {
	case err := <-r.done:
		require.Error(r.w.t, err)
		return err
	case <-time.After(time.Hour):
		r.w.t.Fatalf("still runs after an hour: %+v\n%s", r.Status(), r.w.logs)
	}
	return nil
}

// refresh is what whoever looks facts up does.
func (r *running) refresh() {
	r.w.t.Helper()
	ctx, cancel := context.WithTimeout(r.w.t.Context(), time.Hour)
	defer cancel()
	require.NoError(r.w.t, r.Refresh(ctx), r.w.logs)
}

// holdsNow is holds at this moment.
func (w *world) holdsNow(rows ...string) {
	w.t.Helper()
	require.Equal(w.t, strings.Join(rows, " "), strings.Join(w.sink.dump(w.o.Schema), " "), w.logs.String())
}

// eventually waits, in the bubble's time, until cond holds.
func (w *world) eventually(what string, cond func() bool) {
	w.t.Helper()
	for range 100_000 {
		if cond() {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	w.t.Fatalf("never: %s\n%s", what, w.logs)
}

// holds waits until the store holds exactly these rows, `{"id":1,"name":"A"}` by the key's JSON.
func (w *world) holds(rows ...string) {
	w.t.Helper()
	want := strings.Join(rows, " ")
	got := ""
	for range 2_000 {
		if got = strings.Join(w.sink.dump(w.o.Schema), " "); got == want {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	require.Equal(w.t, want, got, w.logs.String())
}

// logBuffer collects log lines.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// letters are the dead letters, with a fault to inject.
type letters struct {
	mu    sync.Mutex
	got   []string
	fault error
}

func (l *letters) write(_ context.Context, rec *kgo.Record, class, message string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fault != nil {
		return l.fault
	}
	l.got = append(l.got, fmt.Sprintf("%s-%d@%d %s: %s", rec.Topic, rec.Partition, rec.Offset, class, message))
	return nil
}

func (l *letters) setFault(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fault = err
}

func (l *letters) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.got...)
}

func metricValue(t *testing.T, reg *prometheus.Registry, name string, labels map[string]string) (float64, bool) {
	t.Helper()
	families, err := reg.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
	metric:
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if want, ok := labels[l.GetName()]; ok && want != l.GetValue() {
					continue metric
				}
			}
			return m.GetGauge().GetValue() + m.GetCounter().GetValue(), true
		}
	}
	return 0, false
}

var errInjected = fmt.Errorf("injected: %w", dimstore.ErrNoSpace)

func countLines(l *logBuffer, what string) int {
	n := 0
	for line := range strings.SplitSeq(l.String(), "\n") {
		if strings.Contains(line, what) {
			n++
		}
	}
	return n
}
