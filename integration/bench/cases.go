package main

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

// Deliveries, as the configuration names them.
const (
	exactlyOnce = "exactly_once"
	atLeastOnce = "at_least_once"
)

// Topics with what the clock does not see being written.
const (
	dimensionTopic = "customer"
	uniformTopic   = "orders"
	zipfTopic      = "orders-zipf"
	idleTopic      = "orders-none" // of a service that only loads
)

// loadCase is what -cases calls the first load.
const loadCase = "load"

// requestDelay is by how much the broker is late in the delayed cases.
const requestDelay = 5 * time.Millisecond

// benchCase is one line of the result.
type benchCase struct {
	workload string
	topic    string
	lookups  int
	delivery string
	delay    time.Duration
	keys     string // more keys of the dimension, as YAML
}

// name is how -cases and the result call it: workload/delivery, with the delay behind.
func (c benchCase) name() string {
	name := c.workload + "/" + c.delivery
	if c.delay > 0 {
		name += "/" + c.delay.String()
	}
	return name
}

// allCases are the cases in the order of the result. The two deliveries of a workload follow each other, for they are compared.
func allCases() []benchCase {
	var all []benchCase
	for _, delay := range []time.Duration{0, requestDelay} {
		for _, w := range []benchCase{
			{"uniform", uniformTopic, 1, "", delay, ""}, {"zipf", zipfTopic, 1, "", delay, ""}, {"three", uniformTopic, 3, "", delay, ""},
		} {
			for _, w.delivery = range []string{exactlyOnce, atLeastOnce} {
				all = append(all, w)
			}
		}
	}
	// Where the rows are: all in the heap, all from disk, and a tenth of those that are looked up ready in memory.
	return append(all,
		benchCase{"uniform-uncached", uniformTopic, 1, exactlyOnce, 0, "cache_keys: 0"},
		benchCase{"zipf-uncached", zipfTopic, 1, exactlyOnce, 0, "cache_keys: 0"},
		benchCase{"zipf-tenth", zipfTopic, 1, exactlyOnce, 0, "cache_keys: 100000"},
		benchCase{"uniform-memory", uniformTopic, 1, exactlyOnce, 0, "store: memory"},
	)
}

// choice is what -cases chooses.
type choice struct {
	cases         []benchCase
	load, latency bool
}

// chooseCases keeps what has a name that matches.
func chooseCases(pattern string) (c choice, err error) {
	re, err := regexp.Compile(pattern)
	if err != nil {
		return c, fmt.Errorf("-cases: %w", err)
	}
	for _, candidate := range allCases() {
		if re.MatchString(candidate.name()) {
			c.cases = append(c.cases, candidate)
		}
	}
	c.load, c.latency = re.MatchString(loadCase), re.MatchString(latencyCase)
	if len(c.cases) == 0 && !c.load && !c.latency {
		return c, fmt.Errorf("-cases %s: there is no such case", pattern)
	}
	return c, nil
}

// configuration is the file of a service: what a person would write, with defaults for the rest.
func configuration(broker, store, group, input, output, delivery string, lookups int, keys string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `kafka:
  brokers: ["%s"]
input:
  topics: ["%s"]
  group: "%s"
  session_timeout: %s
dimensions:
  - name: customer
    topic: %s
    columns: {c_site: string, c_custkey: int, c_name: string, c_address: string, c_phone: string, c_acctbal: decimal, c_mktsegment: string, c_comment: string}
    primary_key: [c_site, c_custkey]
    %s
lookups:
`, broker, input, group, sessionTimeout, dimensionTopic, keys)
	for _, step := range [][2]string{{"o_custkey", "customer"}, {"o_shipto", "shipto"}, {"o_payer", "payer"}}[:lookups] {
		fmt.Fprintf(&b, `  - dimension: customer
    on: {c_site: o_site, c_custkey: %[1]s}
    select: {%[2]s_name: c_name, %[2]s_phone: c_phone, %[2]s_segment: c_mktsegment}
`, step[0], step[1])
	}
	fmt.Fprintf(&b, `output:
  topic: "%s"
  compression: %s
processing:
  delivery: %s
  commit_interval: %s
store:
  dir: "%s"
  min_free_disk: 64MiB
admin:
  listen: 127.0.0.1:0
log: {level: info, format: json}
`, output, compression, delivery, commitInterval, store)
	return b.String()
}
