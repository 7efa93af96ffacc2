package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"enricher/lookup"
	"enricher/record"
)

// world is a Kafka cluster with pipelines on it, inside one synctest bubble: time passes when nobody has anything to do.
type world struct {
	t       *testing.T
	cluster *kfake.Cluster
	net     *kfake.VirtualNetwork
	client  *kgo.Client // of the test
	plan    *lookup.Plan
	sent    int
	seen    map[int]bool   // facts whose results were read
	last    map[[2]int]int // the last id per output and input Kafka partition
}

const (
	inTopic  = "orders"
	outTopic = "orders_enriched"
	dlTopic  = "orders_failed"
)

// inWorld runs f in a bubble. Facts are {"id": n, "cust": m}; customers 0..999 exist, each named c<m>.
func inWorld(t *testing.T, f func(*world), opts ...kfake.Opt) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, net: &kfake.VirtualNetwork{}, seen: map[int]bool{}, last: map[[2]int]int{}}
		opts = append([]kfake.Opt{
			kfake.NumBrokers(1), kfake.ListenFn(w.net.Listen), kfake.Ports(9092), kfake.SeedTopics(4, inTopic, outTopic), kfake.SeedTopics(1, dlTopic),
		}, opts...)
		w.cluster = kfake.MustCluster(opts...)
		defer w.cluster.Close()
		w.plan = planOf(t, customers{})
		var err error
		w.client, err = kgo.NewClient(append(w.connection(),
			kgo.ConsumeTopics(outTopic, dlTopic), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
		require.NoError(t, err)
		defer w.client.Close()
		f(w)
	})
}

func (w *world) connection() []kgo.Opt {
	return []kgo.Opt{kgo.SeedBrokers("localhost:9092"), kgo.Dialer(w.net.DialContext)}
}

func planOf(t *testing.T, table lookup.Table) *lookup.Plan {
	t.Helper()
	schema, err := record.NewSchema([]record.Column{{Name: "id", Type: record.Int}, {Name: "name", Type: record.String}}, nil, []string{"id"}, nil)
	require.NoError(t, err)
	plan, err := lookup.Compile(lookup.Options{
		Dimensions: []lookup.Dimension{{Name: "customer", Schema: schema, Table: table}},
		Steps: []lookup.Step{{
			Dimension: "customer", On: []lookup.Condition{{Column: "id", Value: lookup.Operand{Text: "cust"}}},
			Select: lookup.Select{Fields: []lookup.SelectField{{Name: "name", Column: "name"}}},
		}},
	})
	require.NoError(t, err)
	return plan
}

// customers answers every key below 1,000 with the row {id, "c<id>"}, and fails when err is set.
type customers struct{ err error }

func (c customers) Read() lookup.View { return c }

func (c customers) Get(_, key []byte) (record.Row, bool, error) {
	if c.err != nil {
		return nil, false, c.err
	}
	id, _, err := record.DecodeKey(nil, record.Int, key)
	var n int
	if err == nil {
		err = json.Unmarshal(id, &n)
	}
	if err != nil || n >= 1000 {
		return nil, false, err
	}
	return record.AppendRow(nil, [][]byte{id, fmt.Appendf(nil, `"c%d"`, n)}), true, nil
}

func (customers) Scan(_, _ []byte, _ func(record.Row) bool) error { return errors.New("not asked for") }
func (customers) HasPartition([]byte) bool                        { return true }
func (customers) Close()                                          {}

func (w *world) options(change ...func(*Options)) Options {
	level := slog.LevelError + 4
	if os.Getenv("ENRICHER_TEST_LOG") != "" {
		level = slog.LevelDebug
	}
	o := Options{
		Topics: []string{inTopic}, Group: "g", InstanceID: "a", LeaveOnStop: true, SessionTimeout: 45 * time.Second, OnGap: OnGapFail,
		OnError: OnErrorDeadLetter, Plan: w.plan, OutputTopic: outTopic, Partition: PartitionByKey, Compression: "none", MaxRecordSize: 1 << 20,
		DeadLetterTopic: dlTopic, Delivery: ExactlyOnce, Capacity: 10000, CommitInterval: 100 * time.Millisecond, TransactionTimeout: 10 * time.Second,
		Grace: 30 * time.Second, Client: w.connection(), FetchBytes: 16 << 20, ProduceBytes: 16 << 20,
		Metrics: NewMetrics(prometheus.NewRegistry()), Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})),
	}
	for _, c := range change {
		c(&o)
	}
	if os.Getenv("ENRICHER_TEST_LOG") == "kgo" {
		o.Client = append(o.Client, kgo.WithLogger(kgo.BasicLogger(os.Stderr, kgo.LogLevelDebug, nil)))
	}
	return o
}

// instance is a running pipeline.
type instance struct {
	*Pipeline
	w    *world
	stop context.CancelFunc
	done chan error
}

func (w *world) start(change ...func(*Options)) *instance {
	p, err := New(w.options(change...))
	require.NoError(w.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	in := &instance{Pipeline: p, w: w, stop: cancel, done: make(chan error, 1)}
	go func() { in.done <- p.Run(ctx) }()
	return in
}

// end stops the pipeline as a signal does and returns what Run returned.
func (in *instance) end() error {
	in.stop()
	return <-in.done
}

// produce writes n facts over the Kafka partitions of the input topic, with the ids that follow those written before.
func (w *world) produce(n int) {
	recs := make([]*kgo.Record, n)
	for i := range recs {
		id := w.sent + i
		recs[i] = &kgo.Record{
			Topic: inTopic, Partition: int32(id % 4), Key: fmt.Appendf(nil, "k%d", id%7), Value: fmt.Appendf(nil, `{"id":%d,"cust":%d}`, id, id%1000),
			Timestamp: time.UnixMilli(int64(1000 + id)),
		}
	}
	w.sent += n
	w.write(recs...)
}

func (w *world) write(recs ...*kgo.Record) {
	require.NoError(w.t, w.client.ProduceSync(context.Background(), recs...).FirstErr())
}

// read returns the next n committed records of the output and dead-letter topics.
func (w *world) read(n int) []*kgo.Record {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	var got []*kgo.Record
	for len(got) < n {
		fetches := w.client.PollFetches(ctx)
		require.NoError(w.t, ctx.Err(), "%d of %d records came", len(got), n)
		got = append(got, fetches.Records()...)
	}
	require.Len(w.t, got, n)
	return got
}

// quiet checks that nothing more comes for a while.
func (w *world) quiet() {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, r := range w.client.PollFetches(ctx).Records() {
		assert.Fail(w.t, "a record too many", "%s: %s", r.Topic, r.Value)
	}
}

type enriched struct {
	ID   int     `json:"id"`
	Cust int     `json:"cust"`
	Name *string `json:"name"`
}

// expect checks that all facts sent come out exactly once, joined right, in order per input Kafka partition.
func (w *world) expect() {
	w.t.Helper()
	w.exactlyOnce(w.read(w.sent))
	w.quiet()
}

func (w *world) exactlyOnce(recs []*kgo.Record) {
	w.t.Helper()
	for _, r := range recs {
		require.Equal(w.t, outTopic, r.Topic, "%s", r.Value)
		var e enriched
		require.NoError(w.t, json.Unmarshal(r.Value, &e))
		require.False(w.t, w.seen[e.ID], "fact %d came twice", e.ID)
		w.seen[e.ID] = true
		require.NotNil(w.t, e.Name)
		require.Equal(w.t, fmt.Sprintf("c%d", e.Cust), *e.Name)
		require.Equal(w.t, int64(1000+e.ID), r.Timestamp.UnixMilli())
		lane := [2]int{int(r.Partition), e.ID % 4}
		require.GreaterOrEqual(w.t, e.ID, w.last[lane], "order of input partition %d", lane[1])
		w.last[lane] = e.ID
	}
}

// enrichedNext reads the next n results and checks that no fact came before.
func (w *world) enrichedNext(n int) {
	w.t.Helper()
	w.exactlyOnce(w.read(n))
}
