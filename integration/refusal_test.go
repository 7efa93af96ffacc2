package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

// What the broker refuses for good is dead-lettered alone, the neighbours in
// the same batch go out once.
func TestRefusedByTheBroker(t *testing.T) {
	t.Parallel()
	const facts = 1000
	c := onShared(t)
	c.create(t, "orders", 2, "message.timestamp.after.max.ms=9223372036854775807")
	c.create(t, "customer", 1, "cleanup.policy=compact")
	c.create(t, "out", 2, "cleanup.policy=compact")
	c.create(t, "dead", 1, "message.timestamp.after.max.ms=9223372036854775807")
	kafka.shared.enforce(t, c.topic("out"), 2)
	c.rows(t, 10, 1)
	c.bulk(t, facts, func(i int) *kgo.Record {
		r := c.fact(i, 2, 10)
		switch i {
		case 101, 102, 500:
			r.Timestamp = time.Now().Add(30 * 24 * time.Hour)
		case 300, 301:
			r.Key = nil
		}
		return r
	})
	s := c.newHost(t).start(t, standard)
	w := c.follow(t, "out")
	w.await(t, facts-5, 60*time.Second, s)
	s.awaitReady(t, 15*time.Second)
	until(t, 15*time.Second, []*service{s}, func() (string, bool) {
		n, err := s.tryMetric("enricher_facts_total", `outcome="dead_lettered"`)
		return fmt.Sprintf("%v dead letters, %v", n, err), err == nil && n == 5
	})
	s.terminate(t)
	ids := map[int]int{}
	for _, r := range c.read(t, "out") {
		id, err := factID(r)
		require.NoError(t, err)
		ids[id]++
	}
	require.Len(t, ids, facts-5)
	for id, n := range ids {
		require.Equal(t, 1, n, "fact %d", id)
	}
	dead := map[int]bool{}
	for _, r := range c.read(t, "dead") {
		id, err := factID(r)
		require.NoError(t, err)
		require.False(t, dead[id], "fact %d has two dead letters", id)
		dead[id] = true
		assert.Equal(t, "rejected", header(r, "__enricher.errors.class"))
		assert.Equal(t, "output", header(r, "__enricher.errors.stage"))
		assert.NotEmpty(t, header(r, "__enricher.errors.message"))
	}
	assert.Equal(t, map[int]bool{101: true, 102: true, 500: true, 300: true, 301: true}, dead)
}

// Too large for the limit of the configuration, too large for the output topic
// though not for the limit, and too large for the dead-letter topic as well.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	c := onShared(t)
	c.create(t, "orders", 1)
	c.create(t, "customer", 1, "cleanup.policy=compact")
	c.create(t, "out", 1, "max.message.bytes=30000")
	c.create(t, "dead", 1, "max.message.bytes=50000")
	c.rows(t, 9, 1)
	c.produce(t, c.rec("customer", 0, "9", fmt.Sprintf(`{"id":9,"name":"%s"}`, strings.Repeat("n", 48_000))))
	config := replace(t, standard, "output: {topic: $out}", "output: {topic: $out, max_record_size: 40KiB, compression: none}")
	c.bulk(t, 100, func(i int) *kgo.Record {
		r := c.fact(i, 1, 9)
		pad := func(n int) { r.Value = fmt.Appendf(nil, `{"fid":%d,"cust":1,"pad":"%s"}`, i, strings.Repeat("p", n)) }
		switch i {
		case 10: // the row makes it too large
			r.Value = []byte(`{"fid":10,"cust":9}`)
		case 20: // too large for the topic, not for the limit
			pad(32_000)
		case 30: // too large for the dead-letter topic too
			pad(60_000)
		}
		return r
	})
	s := c.newHost(t).start(t, config)
	w := c.follow(t, "out")
	w.await(t, 97, 60*time.Second, s)
	until(t, 15*time.Second, []*service{s}, func() (string, bool) {
		n, err := s.tryMetric("enricher_facts_total", `outcome="dead_lettered"`)
		return fmt.Sprintf("%v dead letters, %v", n, err), err == nil && n == 3
	})
	s.terminate(t)
	require.Len(t, c.read(t, "out"), 97)
	letters := map[string]*kgo.Record{}
	for _, r := range c.read(t, "dead") {
		letters[header(r, "__enricher.errors.offset")] = r
	}
	require.Len(t, letters, 3)
	assert.Equal(t, "too_large", header(letters["10"], "__enricher.errors.class"))
	assert.Equal(t, `{"fid":10,"cust":9}`, string(letters["10"].Value), "the fact as it came, not the result")
	assert.Equal(t, "rejected", header(letters["20"], "__enricher.errors.class"))
	assert.Contains(t, []string{"too_large", "rejected"}, header(letters["30"], "__enricher.errors.class"))
	assert.Empty(t, letters["30"].Value, "too large itself: without its value")
	assert.NotEmpty(t, header(letters["30"], "__enricher.errors.truncated"))
	assert.Equal(t, "k30", string(letters["30"].Key))
}

// Without a dead-letter topic a fact that fails stops the service, and it stays
// the next one to read; with `skip` it is counted.
func TestNoDeadLetterTopic(t *testing.T) {
	t.Parallel()
	c := onShared(t)
	c.createAll(t, 1)
	c.rows(t, 10, 1)
	for id := range 20 {
		r := c.fact(id, 1, 10)
		if id == 10 {
			r.Value = []byte(`{"fid":10`)
		}
		c.produce(t, r)
	}
	config := replace(t, standard, "dead_letter: {topic: $dead}\n", "")
	h := c.newHost(t)
	for range 2 {
		s := h.run(t, config)
		assert.Equal(t, 1, s.awaitExit(t, 30*time.Second))
		assert.Contains(t, s.lastLine(), c.topic("orders"), "the last line names the fact")
		assert.Contains(t, s.lastLine(), "10")
	}
	assert.LessOrEqual(t, len(c.read(t, "out")), 10)
	s := h.start(t, replace(t, config, "session_timeout: 6s", "session_timeout: 6s, on_error: skip"))
	w := c.follow(t, "out")
	w.await(t, 19, 30*time.Second, s)
	assert.InDelta(t, 1, s.metric(t, "enricher_facts_total", `outcome="skipped"`), 0)
	s.terminate(t)
	require.Len(t, c.read(t, "out"), 19)
}
