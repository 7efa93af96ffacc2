package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// Dashboards and alerts are written against these names and labels: a change here breaks them.
func TestMetricsHaveTheirNamesAndLabels(t *testing.T) {
	b := newBench(t, "customer", "facts", "out", "dead")
	b.produce("customer", "1", `{"id":1,"name":"Ada"}`)
	b.produce("customer", "2", `{"id":"x"}`)
	b.produce("facts", "a", `{"cust":1}`)
	b.produce("facts", "b", `{"cust":9}`)
	b.produce("facts", "c", `{}`)
	b.produce("facts", "d", `{`)
	r := b.start(b.config("dead_letter: {topic: dead}"))
	b.output(3)
	b.await("/readyz", 200, "")
	// The counters of a commit are raised one after the other, and may be read in between.
	b.await("/metrics", 200, `enricher_facts_total{outcome="written"} 3`)
	b.await("/metrics", 200, `enricher_dead_letters_total{class="decode",stage="input"} 1`)
	text := b.await("/metrics", 200, `enricher_end_to_end_latency_seconds_count 4`)
	for _, series := range []string{
		`enricher_facts_total{outcome="dead_lettered"} 1`,
		`enricher_facts_total{outcome="dropped"} 0`,
		`enricher_facts_total{outcome="passed"} 0`,
		`enricher_facts_total{outcome="skipped"} 0`,
		`enricher_lookup_total{dimension="customer",result="match"} 1`,
		`enricher_lookup_total{dimension="customer",result="miss"} 2`,
		`enricher_lookup_miss_total{dimension="customer",reason="no_row"} 1`,
		`enricher_lookup_miss_total{dimension="customer",reason="null_key"} 1`,
		`enricher_lookup_miss_total{dimension="customer",reason="type_mismatch"} 0`,
		`enricher_lookup_miss_total{dimension="customer",reason="no_partition"} 0`,
		`enricher_lookup_miss_total{dimension="customer",reason="condition"} 0`,
		`enricher_lookup_duration_seconds_count{dimension="customer"} [1-9]\d*`,
		`enricher_end_to_end_latency_seconds_count 4`,
		`enricher_batch_phase_seconds_count{phase="poll"} [1-9]\d*`,
		`enricher_batch_phase_seconds_count{phase="lookup"} [1-9]\d*`,
		`enricher_batch_phase_seconds_count{phase="produce"} [1-9]\d*`,
		`enricher_batch_phase_seconds_count{phase="commit"} [1-9]\d*`,
		`enricher_dead_letters_total{class="decode",stage="input"} 1`,
		`enricher_dimension_rows{dimension="customer"} 1`,
		`enricher_dimension_lag_records{dimension="customer"} 0`,
		`enricher_dimension_freshness_seconds{dimension="customer"} \S+`,
		`enricher_dimension_changes_total{dimension="customer",op="upsert"} 1`,
		`enricher_dimension_changes_total{dimension="customer",op="delete"} 0`,
		`enricher_dimension_changes_total{dimension="customer",op="stale"} 0`,
		`enricher_dimension_changes_total{dimension="customer",op="error"} 1`,
		`enricher_dimension_paused{dimension="customer",reason="disk"} 0`,
		`enricher_dimension_warmup_ratio{dimension="customer"} 1`,
		`enricher_dimension_open_transaction_seconds{dimension="customer"} 0`,
		`enricher_store_bytes{dimension="customer"} \S+`,
		`enricher_store_cache_total{dimension="customer",result="hit"} \d+`,
		`enricher_store_cache_total{dimension="customer",result="miss"} [1-9]\d*`,
		`enricher_input_gap_records_total{topic="facts"} 0`,
		`enricher_input_lag_records{topic="facts"} \d+`,
		`enricher_ready 1`,
		`enricher_build_info{commit="[^"]*",go_version="[^"]*",version="[^"]*"} 1`,
		`enricher_kafka_fetch_records_total{client="facts",topic="facts"} 4`,
	} {
		assert.Regexp(t, `(?m)^`+strings.NewReplacer("{", `\{`, "}", `\}`).Replace(series)+`$`, text)
	}
	r.stop()
	assert.Equal(t, exitDone, r.end(t), r.stderr)
}
