package integration

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"
)

// Killed in the middle of transactions, again and again, each result comes out once.
func TestExactlyOnceKilled(t *testing.T) {
	t.Parallel()
	const limit, customers, partitions, kills = 150_000, 500, 4, 5
	c := onShared(t)
	c.createAll(t, partitions)
	c.rows(t, customers, partitions)
	w := c.follow(t, "out")
	facts := c.load(t, limit, 1500, customers, partitions)
	h := c.newHost(t)
	for kill := range kills {
		s := h.run(t, standard)
		w.await(t, w.count()+500, 60*time.Second, s)
		pause := time.Duration(rand.IntN(200)) * time.Millisecond // somewhere in a transaction
		<-time.After(pause)
		s.kill9(t)
		t.Logf("kill %d after %d results and %v", kill+1, w.count(), pause)
	}
	s := h.run(t, standard)
	n := facts.end(t)
	w.await(t, n, 60*time.Second, s)
	s.terminate(t)
	c.exactlyOnce(t, n, customers)
}

// Instances join and leave under load, by signal and without a word.
func TestExactlyOnceInstances(t *testing.T) {
	t.Parallel()
	const limit, customers, partitions = 150_000, 500, 6
	c := onShared(t)
	c.createAll(t, partitions)
	c.rows(t, customers, partitions)
	w := c.follow(t, "out")
	facts := c.load(t, limit, 1500, customers, partitions)
	hosts := [3]*host{c.newHost(t), c.newHost(t), c.newHost(t)}
	first := hosts[0].start(t, standard)
	w.await(t, 1000, 30*time.Second, first)
	second := hosts[1].start(t, standard)
	awaitShares(t, first, second)
	third := hosts[2].start(t, standard)
	awaitShares(t, first, second, third)
	t.Logf("second terminated after %d results", w.count())
	second.terminate(t)
	w.await(t, w.count()+2000, 60*time.Second, first, third)
	t.Logf("first killed after %d results", w.count())
	first.kill9(t)
	second = hosts[1].start(t, standard)
	awaitShares(t, second, third)
	w.await(t, w.count()+1000, 60*time.Second, second, third)
	t.Logf("first comes back after %d results", w.count())
	first = hosts[0].start(t, standard)
	awaitShares(t, first, second, third)
	n := facts.end(t)
	w.await(t, n, 60*time.Second, first, second, third)
	for _, s := range []*service{third, first, second} {
		s.terminate(t)
	}
	c.exactlyOnce(t, n, customers)
}

// awaitShares waits until each instance has written something.
func awaitShares(t *testing.T, services ...*service) {
	t.Helper()
	for i, s := range services {
		until(t, 60*time.Second, services, func() (string, bool) {
			n, err := s.tryMetric("enricher_facts_total", `outcome="written"`)
			return fmt.Sprintf("instance %d has written %v facts", i, n), err == nil && n > 0
		})
	}
}

// A process that is stopped for longer than the transaction and session
// timeouts was given up by the broker; it goes on by itself.
func TestExactlyOncePausedProcess(t *testing.T) {
	t.Parallel()
	const limit, customers, partitions = 100_000, 100, 4
	c := onShared(t)
	c.createAll(t, partitions)
	c.rows(t, customers, partitions)
	w := c.follow(t, "out")
	facts := c.load(t, limit, 700, customers, partitions)
	s := c.newHost(t).start(t, standard)
	w.await(t, 1000, 30*time.Second, s)
	s.signal(t, syscall.SIGSTOP)
	<-time.After(9 * time.Second)
	s.signal(t, syscall.SIGCONT)
	n := facts.end(t)
	w.await(t, n, 60*time.Second, s)
	s.awaitReady(t, 15*time.Second)
	s.terminate(t)
	c.exactlyOnce(t, n, customers)
}

// While one instance is paused another takes over its partitions; back again,
// the paused one must not write what the other has written.
func TestExactlyOncePausedAmongTwo(t *testing.T) {
	t.Parallel()
	const limit, customers, partitions = 100_000, 100, 4
	c := onShared(t)
	c.createAll(t, partitions)
	c.rows(t, customers, partitions)
	w := c.follow(t, "out")
	facts := c.load(t, limit, 700, customers, partitions)
	first, second := c.newHost(t).start(t, standard), c.newHost(t).start(t, standard)
	awaitShares(t, first, second)
	first.signal(t, syscall.SIGSTOP)
	n := w.count()
	<-time.After(9 * time.Second)
	w.await(t, n+1000, 30*time.Second, second)
	first.signal(t, syscall.SIGCONT)
	n = facts.end(t)
	w.await(t, n, 60*time.Second, first, second)
	first.awaitReady(t, 15*time.Second)
	first.terminate(t)
	second.terminate(t)
	c.exactlyOnce(t, n, customers)
}

// at_least_once may repeat after a kill, but loses nothing.
func TestAtLeastOnceKilled(t *testing.T) {
	t.Parallel()
	const limit, customers, partitions = 100_000, 100, 4
	config := replace(t, standard, "processing: {", "processing: {delivery: at_least_once, ")
	c := onShared(t)
	c.createAll(t, partitions)
	c.rows(t, customers, partitions)
	w := c.follow(t, "out")
	facts := c.load(t, limit, 1500, customers, partitions)
	h := c.newHost(t)
	for range 2 {
		s := h.run(t, config)
		w.await(t, w.count()+500, 60*time.Second, s)
		s.kill9(t)
	}
	s := h.run(t, config)
	n := facts.end(t)
	w.await(t, n, 60*time.Second, s)
	s.terminate(t)
}
