package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
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
	b.await("/status", 200, `"records_read": 7`)
	b.await("/status", 200, `"records_read": 3`)
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
