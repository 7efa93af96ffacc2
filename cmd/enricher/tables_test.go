package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestIndexesAndLatestPartitions(t *testing.T) {
	b := newBench(t, "price", "rate", "facts", "out")
	for _, row := range []string{
		`{"dt":"2024","id":1,"nation":7,"name":"a"}`,
		`{"dt":"2025","id":1,"nation":7,"name":"b"}`,
		`{"dt":"2025","id":2,"nation":"7","name":"c"}`,
		`{"dt":"2025","id":3,"nation":null,"name":"d"}`,
		`{"dt":"2023","id":1,"nation":8,"name":"e"}`,
	} {
		b.produce("price", "", row)
	}
	b.produce("rate", "", `{"dt":"2024","rate":1.10}`)
	b.produce("rate", "", `{"dt":"2025","rate":1.20}`)
	b.produce("facts", "", `{"id":1,"n":7}`)
	b.produce("facts", "", `{"id":9,"n":9}`)
	file := b.tables(`dimensions:
  - {name: price, topic: price, columns: {id: int, nation: int}, primary_key: [dt, id], partition_by: [dt], indexes: [[nation]]}
  - {name: rate, topic: rate, primary_key: [dt], partition_by: [dt]}
lookups:
  - {dimension: price, on: {id: id}, partitions: latest, select: {last: name}}
  - {dimension: price, on: {id: id}, partitions: latest_two, select: [dt], into: two, rows: array}
  - {dimension: price, on: {nation: n}, select: [dt, id], into: nation, rows: array}
  - {dimension: rate, partitions: latest, select: [rate]}
`)
	r := b.start(file)
	assert.Equal(t, []string{
		`{"id":1,"n":7,"last":"b","two":[{"dt":"2025"},{"dt":"2024"}],"nation":[{"dt":"2024","id":1},{"dt":"2025","id":1},{"dt":"2025","id":2}],"rate":1.20}`,
		`{"id":9,"n":9,"last":null,"two":[],"nation":[],"rate":1.20}`,
	}, b.output(2))

	// A row leaves the value of the index that it had; a new partition is the latest with its first row.
	b.produce("price", "", `{"dt":"2025","id":1,"nation":8,"name":"moved"}`)
	b.produce("price", `{"dt":"2025","id":2}`, "")
	b.produce("rate", "", `{"dt":"2026","rate":1.30}`)
	b.await("/metrics", 200, `enricher_dimension_changes_total{dimension="price",op="delete"} 1`)
	b.await("/metrics", 200, `enricher_dimension_changes_total{dimension="rate",op="upsert"} 3`)
	b.produce("facts", "", `{"id":1,"n":7}`)
	assert.Equal(t, []string{`{"id":1,"n":7,"last":"moved","two":[{"dt":"2025"},{"dt":"2024"}],"nation":[{"dt":"2024","id":1}],"rate":1.30}`}, b.output(1))
	r.stop()
	assert.Equal(t, exitDone, r.end(t), r.stderr)

	r = b.start(file) // indexes and partitions outlive the process
	b.produce("facts", "", `{"id":2,"n":8}`)
	assert.Equal(t, []string{`{"id":2,"n":8,"last":null,"two":[],"nation":[{"dt":"2023","id":1},{"dt":"2025","id":1}],"rate":1.30}`}, b.output(1))
	_, body := b.get("/status")
	assert.Contains(t, body, `"records_read": 0`)
	r.stop()
	assert.Equal(t, exitDone, r.end(t), r.stderr)
}

func TestVersions(t *testing.T) {
	b := newBench(t, "byTime", "byColumn", "facts", "out")
	early, late := time.UnixMilli(5_000), time.UnixMilli(10_000)
	b.produceAt("byTime", "1", `{"id":1,"v":"A"}`, late)
	b.produceAt("byTime", "1", `{"id":1,"v":"B"}`, early)
	b.produceAt("byTime", "2", `{"id":2,"v":"A"}`, early)
	b.produceAt("byTime", "2", "", late)
	b.produceAt("byTime", "2", `{"id":2,"v":"B"}`, early)
	b.produce("byColumn", "1", `{"id":1,"changed":"2025-01-02","w":"A"}`)
	b.produce("byColumn", "1", `{"id":1,"changed":"2025-01-01","w":"B"}`)
	b.produce("byColumn", "2", `{"id":2,"changed":"2025-01-01","w":"A"}`)
	b.produce("byColumn", "2", `{"id":2,"changed":"2025-01-02","w":"B"}`)
	b.produce("facts", "", `{"id":1}`)
	b.produce("facts", "", `{"id":2}`)
	r := b.start(b.tables(`dimensions:
  - {name: byTime, topic: byTime, columns: {id: int}, primary_key: [id], version: timestamp}
  - {name: byColumn, topic: byColumn, columns: {id: int}, primary_key: [id], version: "column:changed"}
lookups:
  - {dimension: byTime, on: {id: id}, select: [v]}
  - {dimension: byColumn, on: {id: id}, select: [w]}
`))
	assert.Equal(t, []string{`{"id":1,"v":"A","w":"A"}`, `{"id":2,"v":null,"w":"B"}`}, b.output(2))
	b.await("/metrics", 200, `enricher_dimension_changes_total{dimension="byTime",op="stale"} 2`)
	b.await("/metrics", 200, `enricher_dimension_changes_total{dimension="byColumn",op="stale"} 1`)
	r.stop()
	assert.Equal(t, exitDone, r.end(t), r.stderr)
}

func TestStoreInMemory(t *testing.T) {
	b := newBench(t, "price", "customer", "facts", "out")
	b.produce("price", "", `{"dt":"2024","id":1,"nation":7}`)
	b.produce("price", "", `{"dt":"2025","id":1,"nation":7}`)
	b.produce("customer", "", `{"id":1,"name":"Ada"}`)
	b.produce("facts", "", `{"id":1,"n":7}`)
	file := b.tables(`dimensions:
  - {name: price, topic: price, columns: {id: int, nation: int}, primary_key: [dt, id], partition_by: [dt], indexes: [[nation]], store: memory}
  - {name: customer, topic: customer, primary_key: [id]}
lookups:
  - {dimension: price, on: {id: id}, partitions: latest, select: {last: dt}}
  - {dimension: price, on: {nation: n}, select: [dt], into: nation, rows: array}
  - {dimension: customer, on: {id: id}, select: [name]}
`)
	const enriched = `{"id":1,"n":7,"last":"2025","nation":[{"dt":"2024"},{"dt":"2025"}],"name":"Ada"}`
	status := func() (dimensions []dimensionStatus) {
		var s serviceStatus
		_, body := b.get("/status")
		require.NoError(t, json.Unmarshal([]byte(body), &s), body)
		return s.Dimensions
	}
	r := b.start(file)
	assert.Equal(t, []string{enriched}, b.output(1))
	b.await("/readyz", 200, "")
	for _, d := range status() {
		assert.True(t, d.Complete && d.Bytes > 0, "%+v", d)
	}
	r.stop()
	assert.Equal(t, exitDone, r.end(t), r.stderr)
	assert.NoDirExists(t, filepath.Join(b.dir, "price"), "nothing of it is on disk")

	r = b.start(file)
	b.produce("facts", "", `{"id":1,"n":7}`)
	assert.Equal(t, []string{enriched}, b.output(1))
	again := status()
	assert.Equal(t, int64(2), again[0].RecordsRead, "it is loaded at every start")
	assert.Zero(t, again[1].RecordsRead)
	r.stop()
	assert.Equal(t, exitDone, r.end(t), r.stderr)
}

func TestMoreRowsThanTheMemoryHolds(t *testing.T) {
	b := newBench(t, "customer", "facts", "out")
	large := strings.Repeat("x", 500_000)
	for i := range 60 {
		b.produce("customer", "", fmt.Sprintf(`{"id":%d,"name":"%s"}`, i, large))
	}
	file := b.tables(`dimensions: [{name: customer, topic: customer, columns: {id: int}, primary_key: [id], store: memory}]
lookups: [{dimension: customer, on: {id: id}, select: [name]}]
`)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	r := b.start(writeFile(t, "small.yaml", strings.Replace(string(text), ", memory: 64MiB", ", memory: 16MiB", 1)))
	b.await("/readyz", 503, "raise store.memory, or keep it on disk (store: badger)")
	r.stop()
	assert.Equal(t, exitDone, r.end(t), r.stderr)
}

func TestTopicPattern(t *testing.T) {
	b := newBench(t, "price_2024", "price_old", "facts", "out")
	admin := kadm.NewClient(b.client)
	b.produce("price_2024", "", `{"id":1,"v":"a"}`)
	b.produce("price_old", "", `{"id":1,"v":"not matched"}`)
	b.produce("facts", "", `{"id":1,"year":"2024"}`)
	r := b.start(b.tables(`dimensions:
  - {name: price, topic_pattern: 'price_(?P<dt>\d{4})', columns: {id: int}, primary_key: [dt, id], partition_by: [dt], discovery_interval: 100ms}
lookups:
  - {dimension: price, on: {id: id, dt: year}, select: [v]}
  - {dimension: price, on: {id: id}, partitions: latest, select: [dt], into: latest, rows: first}
`))
	assert.Equal(t, []string{`{"id":1,"year":"2024","v":"a","latest":{"dt":"2024"}}`}, b.output(1))
	b.await("/status", 200, `"topic": "price_(?P<dt>\\d{4})"`)

	_, err := admin.CreateTopic(t.Context(), 1, 1, nil, "price_2025")
	require.NoError(t, err)
	b.produce("price_2025", "", `{"id":1,"v":"b"}`)
	becomes := func(want string) {
		t.Helper()
		require.Eventually(t, func() bool {
			b.produce("facts", "", `{"id":1,"year":"2025"}`)
			return b.output(1)[0] == want
		}, 30*time.Second, 10*time.Millisecond, want)
	}
	becomes(`{"id":1,"year":"2025","v":"b","latest":{"dt":"2025"}}`)
	b.await("/status", 200, `"partitions": 2`)
	b.await("/readyz", 200, "")

	_, err = admin.DeleteTopic(t.Context(), "price_2025") // its rows go with it
	require.NoError(t, err)
	becomes(`{"id":1,"year":"2025","v":null,"latest":{"dt":"2024"}}`)
	b.await("/status", 200, `"partitions": 1`)
	_, metrics := b.get("/metrics")
	assert.NotContains(t, metrics, `enricher_lookup_miss_total{dimension="price",reason="no_partition"} 0`)
	r.stop()
	assert.Equal(t, exitDone, r.end(t), r.stderr)
}

func TestAPatternWithoutATopicIsWaitedFor(t *testing.T) {
	b := newBench(t, "facts", "out")
	r := b.start(b.tables(`dimensions: [{name: price, topic_pattern: 'price_(?P<dt>\d{4})', primary_key: [dt], discovery_interval: 100ms}]
lookups: [{dimension: price, on: {dt: year}, select: [v]}]
`))
	b.await("/readyz", 503, `"reason": "topic_missing"`)
	_, err := kadm.NewClient(b.client).CreateTopic(t.Context(), 1, 1, nil, "price_2025")
	require.NoError(t, err)
	b.produce("price_2025", "", `{"v":1}`)
	b.await("/readyz", 200, "")
	r.stop()
	assert.Equal(t, exitDone, r.end(t), r.stderr)
}

func TestSyncSeesWhatWasCommittedBeforeTheFact(t *testing.T) {
	b := newBench(t, "customer", "nation", "region", "facts", "out")
	r := b.start(b.tables(`dimensions:
  - {name: customer, topic: customer, columns: {id: int}, primary_key: [id], refresh: {mode: sync, interval: 0s}}
  - {name: nation, topic: nation, columns: {id: int}, primary_key: [id], refresh: {mode: sync, interval: 0s}, store: memory}
  - {name: region, topic: region, columns: {id: int}, primary_key: [id], refresh: {interval: 1s, max_pending: 5}}
lookups:
  - {dimension: customer, on: {id: id}, select: [name]}
  - {dimension: nation, on: {id: id}, select: [label]}
  - {dimension: region, on: {id: id}, select: [area]}
`))
	for i := range 30 {
		b.produce("customer", "", fmt.Sprintf(`{"id":1,"name":%d}`, i))
		b.produce("nation", "", fmt.Sprintf(`{"id":1,"label":%d}`, i))
		b.produce("facts", "", `{"id":1}`)
		assert.Equal(t, []string{fmt.Sprintf(`{"id":1,"name":%d,"label":%d,"area":null}`, i, i)}, b.output(1))
	}
	_, metrics := b.get("/metrics")
	assert.NotContains(t, metrics, `enricher_batch_phase_seconds_count{phase="refresh"} 0`)
	assert.Regexp(t, `enricher_dimension_refresh_total\{dimension="customer",result="ok"\} [1-9]`, metrics)
	r.stop()
	assert.Equal(t, exitDone, r.end(t), r.stderr)
}

func TestStaleDimensions(t *testing.T) {
	// The ends of the dimension are not told, so nobody knows that it is up to date. The pipeline asks about other topics.
	hide := func(b *bench) *kfake.FaultHandle {
		return b.kafka.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Topic: "customer", Err: kerr.UnknownServerError, Count: -1})
	}
	const tables = `dimensions: [{name: customer, topic: customer, columns: {id: int}, primary_key: [id], refresh: {interval: 500ms}}]
lookups: [{dimension: customer, on: {id: id}, select: [name]}]
processing: {max_staleness: 1s, shutdown_grace: 2s, on_stale: `
	start := func(t *testing.T, onStale string) (*bench, *running) {
		t.Helper()
		b := newBench(t, "customer", "facts", "out")
		b.produce("customer", "", `{"id":1,"name":"Ada"}`)
		b.produce("facts", "", `{"id":1}`)
		r := b.start(b.tables(tables + onStale + "}\n"))
		b.output(1)
		return b, r
	}
	stale := func(b *bench) {
		require.Eventually(b.t, func() bool {
			var s serviceStatus
			_, body := b.get("/status")
			require.NoError(b.t, json.Unmarshal([]byte(body), &s), body)
			return *s.Dimensions[0].FreshnessSeconds > 1.2
		}, 30*time.Second, 20*time.Millisecond)
		b.produce("facts", "", `{"id":1,"n":2}`)
	}
	t.Run("hold", func(t *testing.T) {
		b, r := start(t, "hold")
		fault := hide(b)
		stale(b)
		require.Never(t, func() bool {
			_, body := b.get("/metrics")
			return strings.Contains(body, `enricher_facts_total{outcome="written"} 2`)
		}, 700*time.Millisecond, 50*time.Millisecond)
		fault.Remove()
		assert.Equal(t, []string{`{"id":1,"n":2,"name":"Ada"}`}, b.output(1))
		r.stop()
		assert.Equal(t, exitDone, r.end(t), r.stderr)
	})
	t.Run("serve", func(t *testing.T) {
		b, r := start(t, "serve")
		hide(b)
		stale(b)
		assert.Equal(t, []string{`{"id":1,"n":2,"name":"Ada"}`}, b.output(1))
		r.stop()
		assert.Equal(t, exitDone, r.end(t), r.stderr)
	})
	t.Run("fail", func(t *testing.T) {
		b, r := start(t, "fail")
		hide(b)
		stale(b)
		assert.Equal(t, exitFailed, r.end(t))
		assert.Contains(t, r.stderr.lastLine(), "dimension customer was last known to be up to date")
		assert.Contains(t, r.stderr.lastLine(), "max_staleness is 1s")
	})
	t.Run("held facts end with the service", func(t *testing.T) {
		b, r := start(t, "hold")
		hide(b)
		stale(b)
		r.stop()
		assert.Equal(t, exitDone, r.end(t), r.stderr)
	})
}

func TestRetention(t *testing.T) {
	b := newBench(t, "price", "facts", "out")
	day := func(ago int) string { return time.Now().UTC().AddDate(0, 0, -ago).Format("20060102") }
	for _, dt := range []string{day(0), day(1), day(5), day(-7), "someday"} { // today, yesterday, expired, far ahead, not a day
		b.produce("price", "", fmt.Sprintf(`{"dt":"%s","id":1,"nation":7}`, dt))
	}
	fact := func(dt string) string { return fmt.Sprintf(`{"id":1,"n":7,"day":"%s"}`, dt) }
	b.produce("facts", "", fact(day(1)))
	b.produce("facts", "", fact(day(5)))
	b.produce("facts", "", fact(day(4)))
	b.produce("facts", "", fact(day(2)))
	r := b.start(b.tables(`dimensions:
  - name: price
    topic: price
    columns: {id: int, nation: int}
    primary_key: [dt, id]
    partition_by: [dt]
    auto_partition: {enabled: true, column: dt, retention: 2}
    indexes: [[nation]]
    on_error: skip
lookups:
  - {dimension: price, on: {id: id, dt: day}, select: {found: dt}}
  - {dimension: price, on: {id: id}, partitions: latest, select: {latest: dt}}
  - {dimension: price, on: {nation: n}, select: [dt], into: nation, rows: array}
`))
	enriched := func(dt, found string) string {
		return fmt.Sprintf(`{"id":1,"n":7,"day":"%s","found":%s,"latest":"%s","nation":[{"dt":"%s"},{"dt":"%s"},{"dt":"%s"}]}`,
			dt, found, day(0), day(1), day(0), day(-7))
	}
	assert.Equal(t, []string{enriched(day(1), `"`+day(1)+`"`), enriched(day(5), "null"), enriched(day(4), "null"), enriched(day(2), "null")}, b.output(4))
	b.await("/metrics", 200, `enricher_lookup_miss_total{dimension="price",reason="expired_partition"} 2`)
	b.await("/metrics", 200, `enricher_lookup_miss_total{dimension="price",reason="no_partition"} 1`)
	b.await("/metrics", 200, `enricher_dimension_changes_total{dimension="price",op="expired"} 1`)
	b.await("/metrics", 200, `enricher_dimension_changes_total{dimension="price",op="error"} 1`)
	b.await("/status", 200, `"partitions": 3`)
	r.stop()
	assert.Equal(t, exitDone, r.end(t), r.stderr)
}
