package integration

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

// every kind of lookup in one pipeline, later ones on what earlier ones added.
const everyLookup = `
kafka: {brokers: ["$BROKER"]}
input: {topics: [$orders], group: $group}
dimensions:
  - {name: customer, topic: $customer, columns: {id: int, name: string, region: string, active: bool}, primary_key: [id]}
  - {name: price, topic: $price, columns: {sku: string, dt: string}, primary_key: [sku, dt], partition_by: [dt]}
  - {name: address, topic: $address, columns: {cust: int, kind: string}, primary_key: [cust, kind]}
  - {name: country, topic: $country, columns: {code: string, name: string}, primary_key: [code]}
  - {name: phone, topic: $phone, columns: {cust: int, seq: int}, primary_key: [cust, seq]}
  - {name: note, topic: $note, columns: {scope: string, id: string, n: int}, primary_key: [scope, id, n]}
lookups:
  - {dimension: customer, on: {id: cust}, where: {active: true}, select: {customer_name: name, customer_region: region}}
  - {dimension: price, on: {sku: item.sku, dt: day}, select: [price]}
  - {dimension: address, on: {cust: cust}, rows: array, into: addresses, select: [kind, city]}
  - {dimension: country, on: {code: customer_region}, join: inner, select: {country: name}}
  - {dimension: phone, on: {cust: cust}, rows: each, select: {phone: number}}
  - {dimension: note, on: {id: $$key, scope: {const: shop}}, rows: first, into: note, select: [text, n]}
output: {topic: $out, partition: input}
dead_letter: {topic: $dead}
store: {dir: $DIR, memory: 128MiB, min_free_disk: 64MiB}
admin: {listen: "$ADMIN"}
log: {level: info, format: json}
`

func TestEveryKindOfLookup(t *testing.T) {
	t.Parallel()
	c := onShared(t)
	c.create(t, "orders", 1)
	c.create(t, "out", 1)
	c.create(t, "dead", 1)
	for _, d := range []string{"customer", "price", "address", "country", "phone", "note"} {
		c.create(t, d, 3, "cleanup.policy=compact")
	}
	row := func(topic string, partition int32, key, value string) *kgo.Record {
		return c.rec(topic, partition, key, value)
	}
	c.produce(t,
		row("customer", 0, "1", `{"id":1,"name":"Ann","region":"EU","active":true}`),
		row("customer", 1, "2", `{"id":2,"name":"Bob","region":"EU","active":false}`),
		row("customer", 2, "3", `{"id":3,"name":"C\u00ef\"d","region":"EU","active":true}`),
		row("customer", 0, "4", `{"id":4,"name":"gone","region":"EU","active":true}`),
		&kgo.Record{Topic: c.topic("customer"), Key: []byte("4")},
		row("price", 0, "a", `{"sku":"A","dt":"2025","price":1.10}`),
		row("price", 1, "b", `{"sku":"A","dt":"2026","price":1.20}`),
		row("address", 0, "a", `{"cust":1,"kind":"work","city":"Oslo"}`),
		row("address", 0, "b", `{"cust":1,"kind":"home","city":"Rome","zip":9007199254740993}`),
		row("address", 1, "c", `{"cust":11,"kind":"home","city":"Bonn"}`),
		row("country", 0, "EU", `{"code":"EU","name":"Europe"}`),
		row("phone", 0, "a", `{"cust":1,"seq":10,"number":"+10"}`),
		row("phone", 1, "b", `{"cust":1,"seq":-1,"number":"+-1"}`),
		row("phone", 2, "c", `{"cust":1,"seq":2,"number":"+2"}`),
		row("note", 0, "a", `{"scope":"shop","id":"f1","n":7,"text":"later"}`),
		row("note", 0, "b", `{"scope":"shop","id":"f1","n":-7,"text":"first"}`),
		row("note", 0, "c", `{"scope":"other","id":"f1","n":-9,"text":"wrong"}`),
	)
	ts := time.UnixMilli(1000)
	headers := []kgo.RecordHeader{{Key: "h", Value: []byte("1")}, {Key: "h"}, {Key: "", Value: []byte{}}}
	c.produce(t,
		&kgo.Record{
			Topic: c.topic("orders"), Key: []byte("f1"), Timestamp: ts, Headers: headers,
			Value: []byte(`{"fid":1, "cust":1,"item":{"sku":"A"},"day":"2025","big":9007199254740993,"x":1e400,"n":-0,"u":"a?b=1&c=<d>"}`),
		},
		c.rec("orders", 0, "f2", `{"fid":2,"cust":2,"item":{"sku":"A"},"day":"2025"}`), // not active: a miss, then no region: dropped
		c.rec("orders", 0, "f3", `{"fid":3,"cust":4,"item":{"sku":"A"},"day":"2025"}`), // deleted: dropped
		c.rec("orders", 0, "", `{"fid":4,"cust":"3","item":{"sku":"A"},"day":"2024"}`), // null key, a string for an int, no such partition
		&kgo.Record{Topic: c.topic("orders"), Key: []byte("f5"), Headers: headers},     // null value passes
		c.rec("orders", 0, "f6", `{"fid":6`),
		c.rec("orders", 0, "f7", `{"fid":7,"cust":1,"price":2}`), // has the field already
		c.rec("orders", 0, "f8", `{"fid":8,"cust":3.0,"item":{"sku":"A"},"day":"2026"}`),
	)
	s := c.newHost(t).start(t, everyLookup)
	w := c.follow(t, "out")
	until(t, 30*time.Second, []*service{s}, func() (string, bool) {
		sum, err := s.tryMetric("enricher_facts_total")
		return "facts", err == nil && sum == 8 && w.records() >= 6
	})

	one := `{"fid":1, "cust":1,"item":{"sku":"A"},"day":"2025","big":9007199254740993,"x":1e400,"n":-0,"u":"a?b=1&c=<d>",` +
		`"customer_name":"Ann","customer_region":"EU","price":1.10,"addresses":[{"kind":"home","city":"Rome"},{"kind":"work","city":"Oslo"}],` +
		`"country":"Europe","phone":"+`
	rest := `","note":{"text":"first","n":-7}}`
	out := c.read(t, "out")
	require.Equal(t, []string{
		one + `-1` + rest, one + `2` + rest, one + `10` + rest,
		`{"fid":4,"cust":"3","item":{"sku":"A"},"day":"2024","customer_name":"C\u00ef\"d","customer_region":"EU","price":null,` +
			`"addresses":[],"country":"Europe","phone":null,"note":null}`,
		``,
		`{"fid":8,"cust":3.0,"item":{"sku":"A"},"day":"2026","customer_name":"C\u00ef\"d","customer_region":"EU","price":1.20,` +
			`"addresses":[],"country":"Europe","phone":null,"note":null}`,
	}, values(out))
	assert.Equal(t, headers, out[2].Headers, "headers: order, duplicates, null and empty")
	assert.Equal(t, ts, out[0].Timestamp)
	assert.Equal(t, "f1", string(out[1].Key))
	assert.Nil(t, out[3].Key, "a null key is not an empty one")
	assert.Nil(t, out[4].Value, "a null value passes as null")
	assert.Equal(t, headers, out[4].Headers)

	dead := c.read(t, "dead")
	require.Len(t, dead, 2)
	assert.Equal(t, `{"fid":6`, string(dead[0].Value))
	assert.Equal(t, "decode", header(dead[0], "__enricher.errors.class"))
	assert.Equal(t, "conflict", header(dead[1], "__enricher.errors.class"))
	assert.Equal(t, c.topic("orders"), header(dead[0], "__enricher.errors.topic"))
	assert.Equal(t, "0", header(dead[0], "__enricher.errors.partition"))
	assert.Equal(t, "5", header(dead[0], "__enricher.errors.offset"))
	assert.Equal(t, "f6", string(dead[0].Key))

	for outcome, n := range map[string]float64{"written": 3, "dropped": 2, "passed": 1, "dead_lettered": 2, "skipped": 0} {
		assert.InDelta(t, n, s.metric(t, "enricher_facts_total", `outcome="`+outcome+`"`), 0, "facts %s", outcome)
	}
	for _, m := range []struct{ dimension, reason string }{
		{"customer", "condition"}, {"customer", "no_row"}, {"price", "no_partition"}, {"country", "null_key"},
	} {
		assert.Positive(t, s.metric(t, "enricher_lookup_miss_total", `dimension="`+m.dimension+`"`, `reason="`+m.reason+`"`), "%v", m)
	}
	s.terminate(t)
}

// Rows change while the service runs: an upsert, a delete, an aborted transaction.
func TestChangesWhileRunning(t *testing.T) {
	t.Parallel()
	c := onShared(t)
	c.createAll(t, 1)
	c.transact(t, kgo.TryAbort, c.rec("customer", 0, "1", `{"id":1,"name":"aborted"}`))
	c.transact(t, kgo.TryCommit, c.rec("customer", 0, "2", `{"id":2,"name":"two"}`))
	c.transact(t, kgo.TryAbort, c.rec("customer", 0, "2", `{"id":2,"name":"aborted"}`), c.rec("customer", 0, "3", `{"id":3,"name":"aborted"}`))
	s := c.newHost(t).start(t, standard)
	w := c.follow(t, "out")
	ask := func(id string) {
		t.Helper()
		n := w.records()
		c.produce(t, c.rec("orders", 0, "k", `{"cust":`+id+`}`))
		until(t, 15*time.Second, []*service{s}, func() (string, bool) { return "no result", w.records() > n })
	}
	applied := func(op string, n float64) {
		t.Helper()
		until(t, 15*time.Second, []*service{s}, func() (string, bool) {
			v, err := s.tryMetric("enricher_dimension_changes_total", `op="`+op+`"`)
			return "changes " + op, err == nil && v == n
		})
	}
	ask("1")
	ask("2")
	ask("3")
	c.transact(t, kgo.TryAbort, c.rec("customer", 0, "1", `{"id":1,"name":"aborted again"}`))
	c.produce(t, c.rec("customer", 0, "1", `{"id":1,"name":"one"}`))
	applied("upsert", 2)
	ask("1")
	c.produce(t, c.rec("customer", 0, "2", ""), &kgo.Record{Topic: c.topic("customer"), Key: []byte(`{"id":1}`)})
	applied("delete", 1)
	ask("1")
	ask("2")
	assert.Equal(t, []string{
		`{"cust":1,"name":null}`, `{"cust":2,"name":"two"}`, `{"cust":3,"name":null}`,
		`{"cust":1,"name":"one"}`, `{"cust":1,"name":null}`, `{"cust":2,"name":"two"}`,
	}, values(c.read(t, "out")))
	dead := c.read(t, "dead")
	require.Len(t, dead, 1, "an empty value is not a delete: it can't be read")
	assert.Equal(t, "dimension", header(dead[0], "__enricher.errors.stage"))
	assert.Equal(t, "customer", header(dead[0], "__enricher.errors.dimension"))
	s.terminate(t)
}

// Facts with null keys stay without a key and use more than one partition.
func TestNullKeys(t *testing.T) {
	t.Parallel()
	c := onShared(t)
	c.createAll(t, 6)
	c.rows(t, 1, 1)
	c.bulk(t, 1000, func(i int) *kgo.Record { return c.rec("orders", int32(i%6), "", `{"cust":0}`) })
	s := c.newHost(t).start(t, standard)
	w := c.follow(t, "out")
	until(t, 30*time.Second, []*service{s}, func() (string, bool) { return "facts", w.records() == 1000 })
	used := map[int32]bool{}
	out := c.read(t, "out")
	require.Len(t, out, 1000)
	for _, r := range out {
		used[r.Partition] = true
	}
	assert.False(t, slices.ContainsFunc(out, func(r *kgo.Record) bool { return r.Key != nil }), "a key appeared")
	assert.Greater(t, len(used), 1, "output partitions used")
	s.terminate(t)
}
