package integration

import (
	"fmt"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The broker goes away for a while, by an operator's stop and by a kill; the
// service goes on by itself.
func TestBrokerOutage(t *testing.T) {
	t.Parallel()
	const limit, customers, partitions = 60_000, 100, 4
	b := ownBroker(t)
	c := on(t, b.plain())
	c.createAll(t, partitions)
	c.rows(t, customers, partitions)
	w := c.follow(t, "out")
	s := c.newHost(t).start(t, standard)
	facts := c.load(t, limit, 250, customers, partitions)
	w.await(t, 500, 30*time.Second, s)

	b.stop(t)
	<-time.After(10 * time.Second)
	b.restart(t)
	awaitBroker(t, b.plain())
	w.await(t, w.count()+500, 60*time.Second, s)
	s.awaitReady(t, 15*time.Second)
	t.Logf("after the first outage: %d results", w.count())

	b.kill(t)
	gone := time.Now()
	s.awaitUnready(t, 25*time.Second)
	status, _ := s.get("/livez")
	assert.Equal(t, http.StatusOK, status, "/livez while the broker is gone")
	<-time.After(time.Until(gone.Add(30 * time.Second)))
	b.restart(t)
	awaitBroker(t, b.plain())
	w.await(t, w.count()+500, 90*time.Second, s)
	s.awaitReady(t, 15*time.Second)
	n := facts.end(t)
	w.await(t, n, 60*time.Second, s)
	assert.Empty(t, c.read(t, "dead"), "an outage is not a fact's fault")
	s.terminate(t)
	c.exactlyOnce(t, n, customers)
}

// A stop while the broker is gone ends within the grace, with 0.
func TestStopWithoutBroker(t *testing.T) {
	t.Parallel()
	const limit, customers = 100_000, 100
	b := ownBroker(t)
	c := on(t, b.plain())
	c.createAll(t, 4)
	c.rows(t, customers, 4)
	w := c.follow(t, "out")
	config := replace(t, standard, "shutdown_grace: 20s", "shutdown_grace: 5s")
	h := c.newHost(t)
	s := h.start(t, config)
	facts := c.load(t, limit, 500, customers, 4)
	w.await(t, 500, 30*time.Second, s)
	b.stop(t)
	<-time.After(2 * time.Second)
	took := s.terminate(t)
	assert.Less(t, took, 8*time.Second, "a stop within the grace of 5 s")

	b.restart(t)
	awaitBroker(t, b.plain())
	s = h.start(t, config)
	n := facts.end(t)
	w.await(t, n, 60*time.Second, s)
	s.terminate(t)
	c.exactlyOnce(t, n, customers)
}

// The second signal ends the process at once, with 1. The broker does not
// answer, so that the first one has something to wait for.
func TestSecondSignal(t *testing.T) {
	t.Parallel()
	const limit, customers = 20_000, 100
	b := ownBroker(t)
	c := on(t, b.plain())
	c.createAll(t, 4)
	c.rows(t, customers, 4)
	w := c.follow(t, "out")
	s := c.newHost(t).start(t, standard)
	facts := c.load(t, limit, 500, customers, 4)
	w.await(t, 500, 30*time.Second, s)
	thaw := b.freeze(t)
	<-time.After(500 * time.Millisecond)
	s.signal(t, syscall.SIGTERM)
	<-time.After(500 * time.Millisecond)
	_, over := s.exited()
	assert.False(t, over, "an open batch is waited for after the first signal")
	began := time.Now()
	s.signal(t, syscall.SIGTERM)
	assert.Equal(t, 1, s.awaitExit(t, 5*time.Second), "exit code after the second signal\n%s", s.tail())
	assert.Less(t, time.Since(began), 2*time.Second)
	thaw()
	facts.end(t)
}

// A stop under load loses and repeats nothing.
func TestExactlyOnceStopsUnderLoad(t *testing.T) {
	t.Parallel()
	const limit, customers = 100_000, 100
	c := onShared(t)
	c.createAll(t, 4)
	c.rows(t, customers, 4)
	w := c.follow(t, "out")
	h := c.newHost(t)
	facts := c.load(t, limit, 1500, customers, 4)
	for range 3 {
		s := h.start(t, standard)
		w.await(t, w.count()+800, 30*time.Second, s)
		t.Logf("terminated in %v after %d results", s.terminate(t), w.count())
	}
	s := h.start(t, standard)
	n := facts.end(t)
	w.await(t, n, 60*time.Second, s)
	s.terminate(t)
	c.exactlyOnce(t, n, customers)
}

// The output topic is missing: named in the log, retried, never a dead letter.
func TestOutputTopicMissing(t *testing.T) {
	t.Parallel()
	const facts, customers = 200, 10
	c := onShared(t)
	c.create(t, "orders", 2)
	c.create(t, "customer", 2, "cleanup.policy=compact")
	c.create(t, "dead", 1)
	c.rows(t, customers, 2)
	c.load(t, facts, 10_000, customers, 2).wait(t)
	s := c.newHost(t).run(t, standard)
	s.awaitLog(t, c.topic("out"), 30*time.Second)
	s.awaitUnready(t, 30*time.Second)
	status, body := s.get("/livez")
	assert.Equal(t, http.StatusOK, status, body)
	c.create(t, "out", 2)
	w := c.follow(t, "out")
	w.await(t, facts, 30*time.Second, s)
	s.awaitReady(t, 30*time.Second)
	assert.Empty(t, c.read(t, "dead"))
	s.terminate(t)
	c.exactlyOnce(t, facts, customers)
}

// The output topic is deleted while facts flow and comes back: the facts since
// then go out once, none is a dead letter.
func TestOutputTopicRecreated(t *testing.T) {
	t.Parallel()
	const customers, before, after = 10, 100, 300
	c := onShared(t)
	c.createAll(t, 2)
	c.rows(t, customers, 2)
	c.load(t, before, 10_000, customers, 2).wait(t)
	w := c.follow(t, "out")
	s := c.newHost(t).start(t, standard)
	w.await(t, before, 30*time.Second, s)
	_, err := c.admin.DeleteTopic(t.Context(), c.topic("out"))
	require.NoError(t, err)
	<-time.After(time.Second)
	for id := before; id < before+after; id++ {
		c.produce(t, c.fact(id, 2, customers))
	}
	s.awaitUnready(t, 30*time.Second)
	c.create(t, "out", 2)
	until(t, 60*time.Second, []*service{s}, func() (string, bool) {
		n, err := s.tryMetric("enricher_facts_total", `outcome="written"`)
		return fmt.Sprintf("%v facts are written, %v", n, err), err == nil && n == before+after
	})
	s.awaitReady(t, 30*time.Second)
	s.terminate(t)
	out := map[int]bool{}
	for _, r := range c.read(t, "out") {
		id, err := factID(r)
		require.NoError(t, err)
		require.False(t, out[id], "fact %d came out twice", id)
		out[id] = true
	}
	require.Len(t, out, after, "the facts after the topic was gone")
	assert.Empty(t, c.read(t, "dead"))
}

// A dimension topic is missing: the service waits for it, alive, unready, and
// names it; no fact is read before it is there.
func TestDimensionTopicMissing(t *testing.T) {
	t.Parallel()
	const facts, customers = 200, 10
	c := onShared(t)
	c.create(t, "orders", 2)
	c.create(t, "out", 2)
	c.create(t, "dead", 1)
	c.load(t, facts, 10_000, customers, 2).wait(t)
	w := c.follow(t, "out")
	s := c.newHost(t).run(t, standard)
	s.awaitLog(t, c.topic("customer"), 30*time.Second)
	status, body := s.get("/readyz")
	assert.Equal(t, http.StatusServiceUnavailable, status, body)
	assert.Contains(t, body, "customer")
	c.create(t, "customer", 2, "cleanup.policy=compact")
	c.rows(t, customers, 2)
	until(t, 60*time.Second, []*service{s}, func() (string, bool) {
		return fmt.Sprintf("%d results", w.count()), w.count() == facts
	})
	s.terminate(t)
}
