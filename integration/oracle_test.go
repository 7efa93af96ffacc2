package integration

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

// collect is the T inside require.EventuallyWithT.
type collect = assert.CollectT

// A watch follows the committed records of a topic while a scenario runs, to
// see how far it is. It judges nothing: what counts is read at the end.
type watch struct {
	mu  sync.Mutex
	ids map[int]int // fact id: how often it came out
	all int
}

// follow starts a watch that ends with the scenario.
func (c *cluster) follow(t *testing.T, topic string) *watch {
	t.Helper()
	w := &watch{ids: map[int]int{}}
	opts := append([]kgo.Opt{
		kgo.SeedBrokers(c.addr), kgo.ConsumeTopics(c.topic(topic)), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxWait(100 * time.Millisecond),
	}, c.opts...)
	client, err := kgo.NewClient(opts...)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		for ctx.Err() == nil {
			fetches := client.PollFetches(ctx)
			w.mu.Lock()
			fetches.EachRecord(func(r *kgo.Record) {
				w.all++
				if id, err := factID(r); err == nil {
					w.ids[id]++
				}
			})
			w.mu.Unlock()
		}
	})
	t.Cleanup(func() { cancel(); done.Wait(); client.Close() })
	return w
}

// count is how many different facts have come out, records how many records.
func (w *watch) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.ids)
}

func (w *watch) records() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all
}

// await waits until n different facts have come out. While it waits it looks
// whether the services are alive.
func (w *watch) await(t *testing.T, n int, limit time.Duration, alive ...*service) {
	t.Helper()
	until(t, limit, alive, func() (string, bool) {
		got := w.count()
		return fmt.Sprintf("%d of %d facts have come out", got, n), got >= n
	})
}

// until polls a condition that says what it sees.
func until(t *testing.T, limit time.Duration, alive []*service, condition func() (string, bool)) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for {
		state, ok := condition()
		if ok {
			return
		}
		for _, s := range alive {
			if code, exited := s.exited(); exited {
				t.Fatalf("the service ended with exit code %d; %s\n%s", code, state, s.tail())
			}
		}
		if time.Now().After(deadline) {
			var logs strings.Builder
			for _, s := range alive {
				_, status := s.get("/status")
				fmt.Fprintf(&logs, "%s/status of it: %s\n", s.tail(), status)
			}
			t.Fatalf("not within %v: %s\n%s", limit, state, logs.String())
		}
		<-time.After(30 * time.Millisecond)
	}
}

// factID takes the id out of a fact or a result.
func factID(r *kgo.Record) (int, error) {
	_, rest, _ := strings.Cut(string(r.Value), `"fid":`)
	end := strings.IndexFunc(rest, func(c rune) bool { return c < '0' || c > '9' })
	if end < 0 {
		return 0, fmt.Errorf("no fact id in %q", r.Value)
	}
	return strconv.Atoi(rest[:end])
}

// exactlyOnce reads the whole output and checks that each of the facts 0 to n-1
// is there once, as it must be, on the partition and in the order of its key.
func (c *cluster) exactlyOnce(t *testing.T, n, customers int) {
	t.Helper()
	seen := make([]int, n)
	var wrong []string
	for _, r := range c.read(t, "out") {
		id, err := factID(r)
		if err != nil || id >= n {
			wrong = append(wrong, string(r.Value))
			continue
		}
		seen[id]++
		if string(r.Value) != enriched(id, customers) || string(r.Key) != "k"+strconv.Itoa(id) {
			wrong = append(wrong, fmt.Sprintf("%s=%s", r.Key, r.Value))
		}
	}
	var lost, twice []int
	for id, times := range seen {
		switch {
		case times == 0:
			lost = append(lost, id)
		case times > 1:
			twice = append(twice, id)
		}
	}
	require.Empty(t, some(wrong), "%d wrong results", len(wrong))
	require.Empty(t, some(twice), "%d facts came out more than once", len(twice))
	require.Empty(t, some(lost), "%d facts were lost", len(lost))
}

// some is enough of a list to read.
func some[T any](list []T) []T { return list[:min(len(list), 10)] }

// values are the values of records, for comparison.
func values(records []*kgo.Record) []string {
	out := make([]string, len(records))
	for i, r := range records {
		out[i] = string(r.Value)
	}
	return out
}

// header is the last header of a name; "" when there is none.
func header(r *kgo.Record, name string) string {
	value := ""
	for _, h := range r.Headers {
		if h.Key == name {
			value = string(h.Value)
		}
	}
	return value
}
