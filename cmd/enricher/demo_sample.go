package main

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Topics of the demo.
const (
	demoDimension  = "customer"
	demoFacts      = "orders"
	demoOutput     = "orders_enriched"
	demoDeadLetter = "orders_dead_letter"
)

// demoCustomer is one row of the dimension; the key is (c_custkey, dt).
type demoCustomer struct {
	Key     int    `json:"c_custkey"`
	Dt      string `json:"dt"`
	Name    string `json:"c_name"`
	Address string `json:"c_address"`
	deleted bool   // a tombstone instead of a row
}

// record is the changelog record of the row: its whole primary key as the record key, so that the tombstone says which row is meant.
func (c demoCustomer) record() *kgo.Record {
	r := &kgo.Record{Topic: demoDimension, Key: fmt.Appendf(nil, `{"c_custkey":%d,"dt":%q}`, c.Key, c.Dt)}
	if !c.deleted {
		r.Value, _ = json.Marshal(c) // ints and strings
	}
	return r
}

// demoOrder is one fact, and what it shows.
type demoOrder struct {
	key    int // o_orderkey, also the record key
	value  string
	remark string
}

func (o demoOrder) record() *kgo.Record {
	return &kgo.Record{Topic: demoFacts, Key: strconv.AppendInt(nil, int64(o.key), 10), Value: []byte(o.value)}
}

func newOrder(key, customer int, dt, price, remark string) demoOrder {
	return demoOrder{key, fmt.Sprintf(`{"o_orderkey":%d,"o_custkey":%d,"o_dt":%q,"o_totalprice":%s}`, key, customer, dt, price), remark}
}

// demoCustomers are what the service loads before it reads its first order.
func demoCustomers() []demoCustomer {
	return []demoCustomer{
		{Key: 1, Dt: "2024", Name: "Ada Lovelace", Address: "12 St James's Square"},
		{Key: 1, Dt: "2025", Name: "Ada Lovelace", Address: "6 Ockham Park"},
		{Key: 2, Dt: "2024", Name: "Grace Hopper", Address: "1 York Avenue"},
		{Key: 2, Dt: "2025", Name: "Grace Hopper", Address: "3 Riverside Drive"},
		{Key: 3, Dt: "2025", Name: "Alan Turing", Address: "78 High Street"},
		{Key: 3, Dt: "2025", deleted: true},
	}
}

// demoOrders are the facts that follow.
func demoOrders() []demoOrder {
	return []demoOrder{
		newOrder(1001, 1, "2024", "173.50", ""),
		newOrder(1002, 1, "2025", "80.00", "another date, another row"),
		newOrder(1003, 2, "2025", "9007199254740993", "numbers keep every digit"),
		newOrder(1004, 9, "2025", "12.25", "miss: no such customer; join: left keeps it"),
		newOrder(1005, 3, "2025", "64.00", "miss: the row was deleted"),
		{1006, `{"o_orderkey":1006,"o_custkey":`, ""},
	}
}

// demoMove is the late update: a customer that has ordered before gets another address.
func demoMove() demoCustomer {
	return demoCustomer{Key: 2, Dt: "2025", Name: "Grace Hopper", Address: "90 Harbor Street"}
}

// demoLateOrder comes after the update.
func demoLateOrder() demoOrder {
	return newOrder(1007, 2, "2025", "31.10", "the new address; 1003 keeps the old one")
}

// demoConfig is the configuration that the demo runs, for these addresses and this folder.
func demoConfig(broker, listen, dir string) string {
	return fmt.Sprintf(`# The configuration of "enricher demo": orders get the name and the address of their customer.
kafka:
  brokers: [%q]

input:
  topics: [orders]
  group: orders-enricher

dimensions:
  - name: customer
    topic: customer
    columns: {c_custkey: int, dt: string, c_name: string, c_address: string}
    primary_key: [c_custkey, dt]
    partition_by: [dt]

lookups:
  - dimension: customer
    on: {c_custkey: o_custkey, dt: o_dt} # dimension column: field of the order
    join: left
    select: {customer_name: c_name, customer_address: c_address}

output:
  topic: orders_enriched

dead_letter:
  topic: orders_dead_letter

store:
  dir: %q
  memory: 64MiB
  min_free_disk: 64MiB

admin:
  listen: %q
`, broker, dir, listen)
}
