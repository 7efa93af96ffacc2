package main

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"enricher/config"
)

const planBase = `kafka: {brokers: ["localhost:9092"]}
input: {topics: [orders], group: g}
output: {topic: out}
`

func TestSchemaHasTheColumnsThatLookupsUse(t *testing.T) {
	cfg := parse(t, planBase+`dimensions:
  - {name: customer, topic: customer, columns: {name: string, id: int}, primary_key: [region, id], indexes: [[name, kind], [city]], version: "column:at"}
  - {name: nation, topic: nation, primary_key: [n]}
lookups:
  - {dimension: customer, on: {region: r, id: cust}, select: {a: zip, b: name}, where: {segment: X}}
  - {dimension: nation, on: {n: nation}, select: [label]}
  - {dimension: customer, on: {region: r2}, select: {c: zip, d: city}}
`)
	plan, err := newPlan(cfg, nil)
	require.NoError(t, err)
	var names [2][]string
	for i, d := range plan.Dimensions {
		for _, c := range d.Schema.Columns {
			names[i] = append(names[i], c.Name)
		}
	}
	assert.Equal(t, []string{"name", "id", "at", "city", "kind", "region", "segment", "zip"}, names[0], "declared in order, then used, sorted")
	assert.Equal(t, 2, plan.Dimensions[0].Schema.Declared)
	assert.Equal(t, []string{"label", "n"}, names[1])
	assert.Equal(t, [][]int{{0, 4}, {3}}, plan.Dimensions[0].IndexColumns)
}

func TestFingerprint(t *testing.T) {
	of := func(dimension, lookups string) string {
		t.Helper()
		plan, err := newPlan(parse(t, planBase+"dimensions: [{name: d, "+dimension+"}]\nlookups: ["+lookups+"]\n"), nil)
		require.NoError(t, err)
		return plan.Dimensions[0].Fingerprint
	}
	const dim, look = "topic: t, primary_key: [id]", "{dimension: d, on: {id: x}, select: [a, b]}"
	base := of(dim, look)
	same := map[string]string{
		"again":                     of(dim, look),
		"columns in another order":  of(dim, "{dimension: d, on: {id: x}, select: [b, a]}"),
		"other fields":              of(dim, "{dimension: d, on: {id: y}, select: {p: a, q: b}, join: inner}"),
		"two lookups":               of(dim, "{dimension: d, on: {id: x}, select: [b]}, {dimension: d, on: {id: y}, select: [a]}"),
		"what becomes of bad ones":  of(dim+", on_error: skip", look),
		"a key that is not counted": of(dim+", bucket_key: [id]", look),
	}
	for name, f := range same {
		assert.Equal(t, base, f, name)
	}
	other := map[string]string{
		"topic":         of("topic: u, primary_key: [id]", look),
		"version":       of(dim+", version: timestamp", look),
		"other version": of(dim+", version: 'column:a'", look),
		"retention":     of("topic: t, primary_key: [id], partition_by: [id], auto_partition: {enabled: true, column: id}", look),
		"longer one":    of("topic: t, primary_key: [id], partition_by: [id], auto_partition: {enabled: true, column: id, retention: 8}", look),
		"pattern":       of("topic_pattern: t, primary_key: [id]", look),
		"group":         of("topic_pattern: '(?P<x>t)', primary_key: [id]", look),
		"index":         of(dim+", indexes: [[a]]", look),
		"indexes":       of(dim+", indexes: [[a], [b]]", look),
		"their order":   of(dim+", indexes: [[b], [a]]", look),
		"one index":     of(dim+", indexes: [[a, b]]", look),
		"key format":    of(dim+", key_format: string", look),
		"type":          of(dim+", columns: {id: int}", look),
		"primary key":   of("topic: t, primary_key: [id, a]", look),
		"partitions":    of("topic: t, primary_key: [id, a], partition_by: [a]", "{dimension: d, on: {id: x, a: y}, select: [b]}"),
		"one more":      of(dim, "{dimension: d, on: {id: x}, select: [a, b, c]}"),
	}
	seen := map[string]string{base: "base"}
	for name, f := range other {
		assert.NotContains(t, seen, f, "%s is the same as %s", name, seen[f])
		seen[f] = name
	}
}

func TestRetentionProblems(t *testing.T) {
	cfg := parse(t, planBase+`dimensions:
  - name: price
    topic: price
    primary_key: [dt, id]
    partition_by: [dt]
    auto_partition:
      enabled: true
      column: dt
      format: yyyy-MM
lookups: [{dimension: price, on: {dt: dt, id: id}, select: [v]}]
`)
	_, err := newPlan(cfg, nil)
	require.ErrorContains(t, err, `test.yaml:12: dimensions[0].auto_partition.format: format "yyyy-MM": a partition by day needs d (such as yyyyMMdd)`)
}

func TestPlanProblemsHaveTheirPlaces(t *testing.T) {
	cfg := parse(t, planBase+`dimensions:
  - name: customer
    topic: customer
    primary_key: [id, region]
    columns: {id: int}
lookups:
  - dimension: customer
    on:
      region: r
    select: [name]
  - dimension: customer
    on: {id: {const: x}, region: r}
    select: [name]
store: {memory: 2MiB}
`)
	_, err := newPlan(cfg, nil)
	invalid, ok := errors.AsType[*config.InvalidError](err)
	require.True(t, ok, "%v", err)
	var lines []string
	for _, p := range invalid.Problems {
		lines = append(lines, p.String())
	}
	require.GreaterOrEqual(t, len(lines), 3, "%q", lines)
	text := err.Error()
	assert.Contains(t, text, "test.yaml:11: lookups[0].on: no way")
	assert.Contains(t, text, "test.yaml:15: lookups[1].on.id")
	assert.Contains(t, text, "test.yaml:17: store.memory: too little for 1 dimension(s): 2MiB (at least 12MiB)")
}
