package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
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

// config writes the configuration file; more are further sections.
func (b *bench) config(more string) string {
	return writeFile(b.t, "enricher.yaml", fmt.Sprintf(`kafka: {brokers: [%q]}
input: {topics: [facts], group: g}
dimensions: [{name: customer, topic: customer, columns: {id: int, name: string}, primary_key: [id]}]
lookups: [{dimension: customer, on: {id: cust}, select: [name]}]
output: {topic: out}
store: {dir: %q, memory: 64MiB, min_free_disk: 1MiB}
admin: {listen: %q}
log: {format: text}
%s`, b.broker, b.dir, b.admin, more))
}

func (b *bench) produce(topic, key, value string) {
	b.t.Helper()
	require.NoError(b.t, b.client.ProduceSync(b.t.Context(), &kgo.Record{Topic: topic, Key: []byte(key), Value: []byte(value)}).FirstErr())
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

func TestRunEnrichesAndStops(t *testing.T) {
	b := newBench(t, "customer", "facts", "out")
	b.produce("customer", "1", `{"id":1,"name":"Ada"}`)
	b.produce("facts", "a", `{"cust":1,"n":9007199254740993}`)
	b.produce("facts", "b", `{"cust":2}`)
	r := b.start(b.config(""))
	assert.Equal(t, []string{`{"cust":1,"n":9007199254740993,"name":"Ada"}`, `{"cust":2,"name":null}`}, b.output(2))
	b.await("/readyz", 200, `"ready": true`)
	b.await("/metrics", 200, "enricher_ready 1\n")
	b.await("/metrics", 200, `enricher_facts_total{outcome="written"} 2`)
	b.await("/metrics", 200, `enricher_kafka_connects_total{client="dimension_customer"`)
	_, body := b.get("/status")
	var status serviceStatus
	require.NoError(t, json.Unmarshal([]byte(body), &status), body)
	assert.Equal(t, "running", status.Phase)
	assert.NotEmpty(t, status.InstanceID)
	require.Len(t, status.Dimensions, 1)
	assert.True(t, status.Dimensions[0].Warm && status.Dimensions[0].Complete && !status.Dimensions[0].Cold, body)
	assert.Equal(t, int64(1), status.Dimensions[0].Rows)
	require.Len(t, status.Lookups, 1)
	assert.Equal(t, int64(1), status.Lookups[0].Matches)
	assert.Equal(t, int64(1), status.Lookups[0].Misses["no_row"])

	r.stop()
	assert.Equal(t, exitDone, r.end(t), r.stderr)
	assert.Contains(t, r.stderr.String(), "enricher stopped")
	code, _ := b.get("/livez")
	assert.Zero(t, code, "the admin server is closed")

	b.produce("facts", "c", `{"cust":1}`) // a second run goes on where the first one stopped, with the same id
	r = b.start(b.config(""))
	assert.Equal(t, []string{`{"cust":1,"name":"Ada"}`}, b.output(1))
	_, body = b.get("/status")
	var again serviceStatus
	require.NoError(t, json.Unmarshal([]byte(body), &again))
	assert.Equal(t, status.InstanceID, again.InstanceID)
	assert.Zero(t, again.Dimensions[0].RecordsRead, "no dimension record is read twice")
	r.stop()
	assert.Equal(t, exitDone, r.end(t), r.stderr)
}

func TestAliveAndUnreadyDuringTheWarmUp(t *testing.T) {
	b := newBench(t, "facts", "out")
	r := b.start(b.config(""))
	b.await("/readyz", 503, "topic_missing")
	code, _ := b.get("/livez")
	assert.Equal(t, 200, code)
	b.await("/metrics", 200, "enricher_ready 0\n")
	_, body := b.get("/status")
	assert.Contains(t, body, `"phase": "warming_up"`)
	r.stop()
	assert.Equal(t, exitDone, r.end(t), r.stderr)
}

func TestAStoppedServiceLeavesNothingRunning(t *testing.T) {
	b := newBench(t, "customer", "facts", "out", "letters")
	b.produce("customer", "1", `{"id":"x"}`)
	b.produce("facts", "a", `{"cust":1}`)
	r := b.start(b.config("dead_letter: {topic: letters}\n"))
	b.output(1)
	b.client.Close()
	r.stop()
	assert.Equal(t, exitDone, r.end(t), r.stderr)
	left := func() (stacks []string) {
		text := make([]byte, 4<<20)
		for stack := range strings.SplitSeq(string(text[:runtime.Stack(text, true)]), "\n\n") {
			ours := regexp.MustCompile(`enricher/(pipeline|changelog|dimstore|admin)\.|badger|franz-go/pkg/kgo`)
			if ours.MatchString(stack) && !strings.Contains(stack, "pkg/kfake") {
				stacks = append(stacks, stack)
			}
		}
		return stacks
	}
	// The client's last goroutines end just after its Close has returned.
	require.Eventually(t, func() bool { return len(left()) == 0 }, 5*time.Second, 10*time.Millisecond, "%v", left())
}

func TestDeadLettersOfTheFirstLoad(t *testing.T) {
	t.Run("the topic is created", func(t *testing.T) {
		b := newBench(t, "customer", "facts")
		b.produce("customer", "1", `{"id":"x"}`)
		b.produce("customer", "2", `{"id":2,"name":"Ada"}`)
		b.produce("facts", "a", `{"cust":2}`)
		b.client.AddConsumeTopics("letters")
		file := b.config("dead_letter: {topic: letters}")
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		r := b.start(writeFile(t, "create.yaml", strings.Replace(string(text), "kafka: {", "kafka: {create_topics: true, ", 1)))
		records := b.records(2)
		slices.SortFunc(records, func(a, b *kgo.Record) int { return strings.Compare(a.Topic, b.Topic) })
		letter := demoResult{records[0]}
		assert.Equal(t, "letters", records[0].Topic)
		assert.Equal(t, `{"id":"x"}`, string(records[0].Value))
		for name, want := range map[string]string{"stage": "dimension", "class": "key", "topic": "customer", "partition": "0", "offset": "0", "dimension": "customer"} {
			assert.Equal(t, want, letter.header(name), name)
		}
		assert.Equal(t, `{"cust":2,"name":"Ada"}`, string(records[1].Value))
		r.stop()
		assert.Equal(t, exitDone, r.end(t), r.stderr)
	})
	t.Run("the topic is missing", func(t *testing.T) {
		b := newBench(t, "customer", "facts", "out")
		b.produce("customer", "1", `{"id":"x"}`)
		r := b.start(b.config("dead_letter: {topic: letters}"))
		b.await("/readyz", 503, "dead-letter topic letters does not exist: create it, or set kafka.create_topics: true")
		r.stop()
		assert.Equal(t, exitDone, r.end(t), r.stderr)
	})
}

func TestWarmUpTimeout(t *testing.T) {
	t.Run("fail", func(t *testing.T) {
		b := newBench(t, "facts", "out")
		r := b.start(b.config("processing: {warmup: {timeout: 200ms}}"))
		assert.Equal(t, exitFailed, r.end(t))
		last := r.stderr.lastLine()
		assert.Regexp(t, `^enricher: warm-up: not done after 200ms: customer: .*customer.*processing\.warmup\.timeout`, last)
	})
	t.Run("proceed", func(t *testing.T) {
		b := newBench(t, "facts", "out")
		b.produce("facts", "a", `{"cust":1}`)
		r := b.start(b.config("processing: {warmup: {timeout: 200ms, on_timeout: proceed}}"))
		assert.Equal(t, []string{`{"cust":1,"name":null}`}, b.output(1))
		b.await("/readyz", 200, "")
		b.await("/status", 200, `"cold": true`)
		r.stop()
		assert.Equal(t, exitDone, r.end(t), r.stderr)
	})
}

func TestWhatOnlyAPersonCanMendAtStart(t *testing.T) {
	b := newBench(t, "customer", "facts", "out")
	first := b.start(b.config(""))
	b.await("/readyz", 200, "")
	t.Run("admin address in use", func(t *testing.T) {
		other := *b
		other.dir = t.TempDir()
		r := b.start(other.config(""))
		assert.Equal(t, exitFailed, r.end(t))
		assert.Contains(t, r.stderr.lastLine(), b.admin+": bind: address already in use: stop the process that listens there, or set admin.listen to a free address")
	})
	t.Run("store in use", func(t *testing.T) {
		other := *b
		other.admin = freeAddress(t)
		r := b.start(other.config(""))
		assert.Equal(t, exitFailed, r.end(t))
		assert.Contains(t, r.stderr.lastLine(), b.dir)
		assert.Contains(t, r.stderr.lastLine(), strconv.Itoa(os.Getpid()))
	})
	t.Run("store is a file", func(t *testing.T) {
		other := *b
		other.admin, other.dir = freeAddress(t), writeFile(t, "file", "x")
		r := b.start(other.config(""))
		assert.Equal(t, exitFailed, r.end(t))
		assert.Contains(t, r.stderr.lastLine(), other.dir)
	})
	t.Run("admin address of another machine", func(t *testing.T) {
		other := *b
		other.admin, other.dir = "192.0.2.1:80", t.TempDir()
		r := b.start(other.config(""))
		assert.Equal(t, exitFailed, r.end(t))
		assert.Contains(t, r.stderr.lastLine(), "set admin.listen to an address of this machine")
	})
	first.stop()
	assert.Equal(t, exitDone, first.end(t), first.stderr)
}

func TestAJSONLogEndsInJSON(t *testing.T) {
	b := newBench(t, "customer", "facts", "out")
	b.dir = writeFile(t, "file", "x")
	file := b.config("")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	file = writeFile(t, "json.yaml", strings.Replace(string(text), "format: text", "format: json", 1))
	r := b.start(file)
	assert.Equal(t, exitFailed, r.end(t))
	for line := range strings.SplitSeq(strings.TrimSpace(r.stderr.String()), "\n") {
		assert.True(t, json.Valid([]byte(line)), line)
	}
	assert.Contains(t, r.stderr.lastLine(), `"level":"ERROR","msg":"enricher failed","error":"`)
	assert.Contains(t, r.stderr.lastLine(), b.dir)
}

// program starts the program as a process of its own.
func (b *bench) program(file string) (*exec.Cmd, *syncBuffer) {
	b.t.Helper()
	cmd := exec.Command(os.Args[0], "run", "-c", file)
	stderr := &syncBuffer{}
	cmd.Env, cmd.Stderr = append(os.Environ(), asProgram+"=1"), stderr
	require.NoError(b.t, cmd.Start())
	b.t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd, stderr
}

func TestSignals(t *testing.T) {
	t.Run("one", func(t *testing.T) {
		b := newBench(t, "customer", "facts", "out")
		b.produce("facts", "a", `{"cust":1}`)
		cmd, stderr := b.program(b.config(""))
		b.output(1)
		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		require.NoError(t, cmd.Wait(), stderr)
		assert.Contains(t, stderr.String(), "signal: terminated")
	})
	t.Run("one during the warm-up", func(t *testing.T) {
		b := newBench(t, "facts", "out")
		cmd, stderr := b.program(b.config(""))
		b.await("/readyz", 503, "topic_missing")
		require.NoError(t, cmd.Process.Signal(os.Interrupt))
		require.NoError(t, cmd.Wait(), stderr)
	})
	t.Run("one while the broker hangs in a write", func(t *testing.T) {
		b := newBench(t, "customer", "facts", "out")
		cmd, stderr := b.program(b.config("processing: {shutdown_grace: 1s}"))
		b.hangInWrite(cmd, stderr)
		began := time.Now()
		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		require.NoError(t, cmd.Wait(), stderr)
		assert.Less(t, time.Since(began), 1*time.Second+closeMargin+2*time.Second) // the race detector alone takes a second to exit
	})
	t.Run("one while the broker is gone", func(t *testing.T) {
		b := newBench(t, "customer", "facts", "out")
		cmd, stderr := b.program(b.config("processing: {shutdown_grace: 1s}"))
		b.await("/readyz", 200, "")
		b.kafka.Close()
		began := time.Now()
		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		require.NoError(t, cmd.Wait(), stderr)
		assert.Less(t, time.Since(began), 1*time.Second+closeMargin+2*time.Second) // the race detector alone takes a second to exit
	})
	t.Run("a second one", func(t *testing.T) {
		b := newBench(t, "customer", "facts", "out")
		cmd, stderr := b.program(b.config("processing: {shutdown_grace: 60s}"))
		b.hangInWrite(cmd, stderr)
		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		b.await("/readyz", 503, "stopping")
		began := time.Now()
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		tick := time.NewTicker(sameSignal)
		defer tick.Stop()
		var err error
		for running := true; running; {
			select {
			case err = <-ended:
				running = false
			case <-tick.C: // from here on it is not the first signal any more
				_ = cmd.Process.Signal(syscall.SIGTERM)
			}
		}
		exit, ok := errors.AsType[*exec.ExitError](err)
		require.True(t, ok, "%v", err)
		assert.Equal(t, exitFailed, exit.ExitCode())
		assert.Less(t, time.Since(began), 2*time.Second)
		assert.Equal(t, "enricher: ended at once by a second signal; the next start goes on at the last commit", stderr.lastLine())
	})
}

// hangInWrite brings the program to where it has written an output record that the broker does not answer, nor anything else after it.
func (b *bench) hangInWrite(cmd *exec.Cmd, stderr *syncBuffer) {
	b.t.Helper()
	b.await("/readyz", 200, "")
	hung, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	b.t.Cleanup(func() { close(release) })
	b.kafka.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.kafka.KeepControl()
		if req.(*kmsg.ProduceRequest).TransactionID == nil { // a record of the test itself
			return nil, nil, false
		}
		once.Do(func() { close(hung) })
		<-release
		return nil, nil, false
	})
	b.produce("facts", "a", `{"cust":1}`)
	select {
	case <-hung:
	case <-time.After(30 * time.Second):
		b.t.Fatalf("%s wrote nothing:\n%s", cmd.Path, stderr)
	}
}

func TestAwaitEnd(t *testing.T) {
	boom := errors.New("boom")
	synctest.Test(t, func(t *testing.T) {
		done, stopping := make(chan error, 1), make(chan struct{})
		done <- boom
		ended, err := awaitEnd(done, stopping, time.Second)
		assert.True(t, ended)
		require.ErrorIs(t, err, boom, "it ends by itself")

		close(stopping)
		time.AfterFunc(time.Second-1, func() { done <- boom })
		ended, err = awaitEnd(done, stopping, time.Second)
		assert.True(t, ended)
		require.ErrorIs(t, err, boom, "it ends in time")

		began := time.Now()
		ended, _ = awaitEnd(done, stopping, time.Second)
		assert.False(t, ended)
		assert.Equal(t, time.Second, time.Since(began))
	})
}

func TestDrainTimeLeavesTimeToClose(t *testing.T) {
	assert.Equal(t, 22*time.Second+500*time.Millisecond, drainTime(30*time.Second))
	assert.Equal(t, 750*time.Millisecond, drainTime(time.Second))
	assert.Equal(t, 292*time.Second, drainTime(5*time.Minute))
	assert.Zero(t, drainTime(0))
}
