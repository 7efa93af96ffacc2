package main

import (
	"encoding/json"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

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
		for name, want := range map[string]string{"stage": "dimension", "class": "key", "topic": "customer", "partition": "0", "offset": "0", "dimension": "customer"} {
			assert.Equal(t, want, letter.header(name), name)
		}
		assert.Equal(t, []string{`{"id":"x"}`, `{"cust":2,"name":"Ada"}`}, []string{string(records[0].Value), string(records[1].Value)})
		b.await("/metrics", 200, `enricher_dead_letters_total{class="key",stage="dimension"} 1`)
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
