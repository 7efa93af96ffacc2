package integration

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

// customers of the warm-up scenarios: 200,000 rows, and one fact for the last.
const manyRows = 200_000

func (c *cluster) manyCustomers(t *testing.T) {
	t.Helper()
	c.createAll(t, 4)
	c.rows(t, manyRows, 4)
	c.produce(t, c.fact(manyRows-1, 4, manyRows))
}

// From a cold start no fact is read before the last row is there; a clean
// restart reads no row again.
func TestColdStartAndRestart(t *testing.T) {
	t.Parallel()
	c := onShared(t)
	c.manyCustomers(t)
	w := c.follow(t, "out")
	h := c.newHost(t)
	began := time.Now()
	s := h.run(t, standard)
	live, unready := 0, 0
	until(t, 120*time.Second, []*service{s}, func() (string, bool) {
		if status, _ := s.get("/livez"); status == http.StatusOK {
			live++
		} else if live > 0 {
			t.Fatalf("/livez says %d during the warm-up", status)
		}
		status, body := s.get("/readyz")
		if status == http.StatusServiceUnavailable {
			unready++
		}
		return body, status == http.StatusOK
	})
	assert.Positive(t, unready, "/readyz was 503 during the warm-up")
	w.await(t, 1, 30*time.Second, s)
	t.Logf("%d rows and the fact in %v", manyRows, time.Since(began))
	require.Equal(t, []string{enriched(manyRows-1, manyRows)}, values(c.read(t, "out")))
	assert.InDelta(t, manyRows, s.metric(t, "enricher_dimension_rows", `dimension="customer"`), 0)
	s.terminate(t)

	s = h.start(t, standard)
	c.produce(t, c.fact(17, 4, manyRows))
	w.await(t, 2, 30*time.Second, s)
	assert.Zero(t, s.metric(t, "enricher_dimension_changes_total"), "dimension records read after a clean restart")
	assert.InDelta(t, manyRows, s.metric(t, "enricher_dimension_rows", `dimension="customer"`), 0)
	s.terminate(t)
}

// Killed at half of the first load, started again: every row is there.
func TestKilledWhileLoading(t *testing.T) {
	t.Parallel()
	c := onShared(t)
	c.manyCustomers(t)
	w := c.follow(t, "out")
	h := c.newHost(t)
	s := h.run(t, standard)
	until(t, 60*time.Second, []*service{s}, func() (string, bool) {
		ratio, err := s.tryMetric("enricher_dimension_warmup_ratio", `dimension="customer"`)
		return fmt.Sprintf("warm-up at %v, %v", ratio, err), err == nil && ratio >= 0.5
	})
	s.kill9(t)
	assert.Zero(t, w.count(), "a fact came out before the dimension was warm")

	s = h.start(t, standard)
	w.await(t, 1, 30*time.Second, s)
	require.Equal(t, []string{enriched(manyRows-1, manyRows)}, values(c.read(t, "out")))
	assert.InDelta(t, manyRows, s.metric(t, "enricher_dimension_rows", `dimension="customer"`), 0)
	again := s.metric(t, "enricher_dimension_changes_total")
	t.Logf("%v of %d dimension records were read after the kill", again, manyRows)
	assert.Less(t, again, float64(manyRows), "only the rest is read")
	// Every row, by a fact for each thousandth.
	for id := 0; id < manyRows; id += 1000 {
		c.client.Produce(t.Context(), c.fact(id, 4, manyRows), nil)
	}
	require.NoError(t, c.client.Flush(t.Context()))
	w.await(t, 1+manyRows/1000, 30*time.Second, s)
	for _, r := range c.read(t, "out") {
		id, err := factID(r)
		require.NoError(t, err)
		require.Equal(t, enriched(id, manyRows), string(r.Value))
	}
	s.terminate(t)
}

// Topics whose end no record can reach: empty, only aborted records, the last
// records removed by the log cleaner. All are warm at once.
func TestWarmBehindEmptyTails(t *testing.T) {
	t.Parallel()
	c := onShared(t)
	c.create(t, "orders", 1)
	c.create(t, "out", 1)
	c.create(t, "dead", 1)
	for _, d := range []string{"empty", "aborted", "compacted"} {
		c.create(t, d, 1, "cleanup.policy=compact", "segment.ms=500", "min.cleanable.dirty.ratio=0.001",
			"delete.retention.ms=0", "min.compaction.lag.ms=0", "max.compaction.lag.ms=1000")
	}
	c.transact(t, kgo.TryAbort, c.rec("aborted", 0, "1", `{"id":1,"name":"aborted"}`), c.rec("aborted", 0, "2", `{"id":2,"name":"aborted"}`))
	c.compactedTail(t)

	config := replace(t, standard, "topic: $customer,", "topic: $compacted,") // named customer, and two more
	config = replace(t, config, "lookups:\n", `  - {name: empty, topic: $empty, columns: {id: int, name: string}, primary_key: [id]}
  - {name: aborted, topic: $aborted, columns: {id: int, name: string}, primary_key: [id]}
lookups:
  - {dimension: empty, on: {id: cust}, select: {empty: name}}
  - {dimension: aborted, on: {id: cust}, select: {aborted: name}}
`)
	c.produce(t, c.rec("orders", 0, "k", `{"fid":1,"cust":1}`), c.rec("orders", 0, "k", `{"fid":2,"cust":99}`))
	w := c.follow(t, "out")
	h := c.newHost(t)
	for run := range 2 { // warm from nothing, and warm from the stored position
		began := time.Now()
		s := h.start(t, config)
		t.Logf("run %d: ready after %v", run+1, time.Since(began))
		w.await(t, 2, 30*time.Second, s)
		if run == 1 {
			assert.Zero(t, s.metric(t, "enricher_dimension_changes_total"))
		}
		s.terminate(t)
	}
	assert.Equal(t, []string{
		`{"fid":1,"cust":1,"empty":null,"aborted":null,"name":"one"}`,
		`{"fid":2,"cust":99,"empty":null,"aborted":null,"name":null}`,
	}, values(c.read(t, "out")))
}

// compactedTail fills the topic `compacted` so that after the log cleaner's work
// the offsets before its end hold no record: two rows, a tombstone of the second
// one, then an aborted row. Each part is longer ago than a segment when the next
// one is appended, because the cleaner leaves the last segment alone; and the
// cleaner removes a tombstone only when it comes a second time.
func (c *cluster) compactedTail(t *testing.T) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(c.addr), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.TransactionalID(c.topic("tail")))
	require.NoError(t, err)
	defer client.Close()
	put := func(records ...*kgo.Record) {
		require.NoError(t, client.ProduceSync(t.Context(), records...).FirstErr())
		<-time.After(600 * time.Millisecond)
	}
	awaitOffsets := func(last int64) {
		until(t, 60*time.Second, nil, func() (string, bool) {
			kafka.shared.compact()
			<-time.After(200 * time.Millisecond)
			var offsets []int64
			for _, r := range c.read(t, "compacted") {
				offsets = append(offsets, r.Offset)
			}
			ok := !slices.ContainsFunc(offsets, func(o int64) bool { return o != 0 && o != last })
			return fmt.Sprintf("records at offsets %v", offsets), ok
		})
	}
	require.NoError(t, client.BeginTransaction())
	put(c.rec("compacted", 0, "1", `{"id":1,"name":"one"}`), c.rec("compacted", 0, "99", `{"id":99,"name":"deleted"}`))
	put(&kgo.Record{Topic: c.topic("compacted"), Key: []byte("99")})
	require.NoError(t, client.EndTransaction(t.Context(), kgo.TryCommit))
	awaitOffsets(2)
	require.NoError(t, client.BeginTransaction())
	put(c.rec("compacted", 0, "98", `{"id":98,"name":"aborted"}`))
	require.NoError(t, client.EndTransaction(t.Context(), kgo.TryAbort))
	awaitOffsets(0)
}

// The definition of a dimension changed between two starts: it is loaded anew.
func TestChangedColumns(t *testing.T) {
	t.Parallel()
	c := onShared(t)
	c.createAll(t, 1)
	for id := range 10 {
		c.produce(t, c.rec("customer", 0, strconv.Itoa(id), fmt.Sprintf(`{"id":"%d","name":"n","city":"c%d"}`, id, id)))
	}
	h := c.newHost(t)
	w := c.follow(t, "out")
	s := h.start(t, standard)
	c.produce(t, c.rec("orders", 0, "k", `{"fid":1,"cust":7}`))
	w.await(t, 1, 15*time.Second, s)
	s.terminate(t)
	s = h.start(t, replace(t, replace(t, standard, "name: string}", "name: string, city: string}"), "select: [name]", "select: [name, city]"))
	c.produce(t, c.rec("orders", 0, "k", `{"fid":2,"cust":7}`))
	w.await(t, 2, 15*time.Second, s)
	s.terminate(t)
	assert.Equal(t, []string{`{"fid":1,"cust":7,"name":"n"}`, `{"fid":2,"cust":7,"name":"n","city":"c7"}`}, values(c.read(t, "out")))
}
