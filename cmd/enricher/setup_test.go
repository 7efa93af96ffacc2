package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// syncBuffer is what a running program writes to while a test reads it.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer // under mu
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func (b *syncBuffer) lastLine() string {
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	return lines[len(lines)-1]
}

// bench is a broker, a store directory and a configuration for one service.
type bench struct {
	t      *testing.T
	broker string
	dir    string
	admin  string
	kafka  *kfake.Cluster
	client *kgo.Client
}

// newBench makes the topics; the dimension's is missing when told so.
func newBench(t *testing.T, topics ...string) *bench {
	t.Helper()
	c := cluster(t, kfake.SeedTopics(1, topics...))
	b := &bench{t: t, kafka: c, broker: c.ListenAddrs()[0], dir: filepath.Join(t.TempDir(), "store"), admin: freeAddress(t)}
	client, err := kgo.NewClient(kgo.SeedBrokers(b.broker), kgo.ConsumeTopics("out"), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(50*time.Millisecond))
	require.NoError(t, err)
	t.Cleanup(client.Close)
	b.client = client
	return b
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

// config writes the configuration file of one simple lookup; more are further sections.
func (b *bench) config(more string) string {
	return b.tables(`dimensions: [{name: customer, topic: customer, columns: {id: int, name: string}, primary_key: [id]}]
lookups: [{dimension: customer, on: {id: cust}, select: [name]}]
` + more)
}

// tables writes the configuration file; more are dimensions, lookups and further sections.
func (b *bench) tables(more string) string {
	return writeFile(b.t, "enricher.yaml", fmt.Sprintf(`kafka: {brokers: [%q]}
input: {topics: [facts], group: g}
output: {topic: out}
store: {dir: %q, memory: 64MiB, min_free_disk: 1MiB}
admin: {listen: %q}
log: {format: text}
%s`, b.broker, b.dir, b.admin, more))
}

// produce writes a record; without a value it is a delete.
func (b *bench) produce(topic, key, value string) {
	b.t.Helper()
	b.produceAt(topic, key, value, time.Now())
}

func (b *bench) produceAt(topic, key, value string, at time.Time) {
	b.t.Helper()
	rec := &kgo.Record{Topic: topic, Key: []byte(key), Timestamp: at}
	if value != "" {
		rec.Value = []byte(value)
	}
	require.NoError(b.t, b.client.ProduceSync(b.t.Context(), rec).FirstErr())
}

// output gives the next n values of the output topic.
func (b *bench) output(n int) []string {
	b.t.Helper()
	var values []string
	for _, r := range b.records(n) {
		values = append(values, string(r.Value))
	}
	return values
}

// records gives the next n records of the topics that are read.
func (b *bench) records(n int) []*kgo.Record {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), 30*time.Second)
	defer cancel()
	var records []*kgo.Record
	for len(records) < n {
		fetches := b.client.PollFetches(ctx)
		require.NoError(b.t, ctx.Err(), "%d of %d records", len(records), n)
		fetches.EachRecord(func(r *kgo.Record) { records = append(records, r) })
	}
	return records
}

// get asks the admin server; code 0 when nobody answers.
func (b *bench) get(path string) (code int, body string) {
	resp, err := http.Get("http://" + b.admin + path)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(b.t, err)
	return resp.StatusCode, string(text)
}

// await asks until the answer is as wanted.
func (b *bench) await(path string, code int, contains string) string {
	b.t.Helper()
	var last string
	require.Eventually(b.t, func() bool {
		got, body := b.get(path)
		last = fmt.Sprint(got, " ", body)
		return got == code && strings.Contains(body, contains)
	}, 30*time.Second, 10*time.Millisecond, "%s: wanted %d %s", path, code, contains)
	return last
}

// running is a service in this process.
type running struct {
	stop   context.CancelFunc
	stderr *syncBuffer
	code   chan int
}

func (b *bench) start(file string) *running {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.t.Context())
	r := &running{stop: cancel, stderr: &syncBuffer{}, code: make(chan int, 1)}
	go func() { r.code <- run(ctx, []string{"run", "-c", file}, nil, nil, io.Discard, r.stderr) }()
	b.t.Cleanup(cancel)
	return r
}

// end waits for the exit code.
func (r *running) end(t *testing.T) int {
	t.Helper()
	select {
	case code := <-r.code:
		return code
	case <-time.After(40 * time.Second):
		t.Fatalf("the service did not end:\n%s", r.stderr)
		return -1
	}
}
