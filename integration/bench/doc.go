// Command bench measures the enricher binary:
//
//	go run ./integration/bench [-rows N] [-facts N] [-rounds N] [-cases REGEXP] [-broker HOST:PORT] [-json]
//
// # What it runs
//
// The driver builds the binary and starts it, with a configuration of its own for each case, against a broker (kfake over TCP on the loopback
// interface) in a process of its own. Topics are filled before the clock starts. A case is a workload, a delivery and a delay:
//
//   - uniform: one lookup per fact by full key, every row as likely as any other
//   - zipf: the same, keys by a Zipf distribution with exponent 1.07
//   - three: three lookups per fact, uniform keys
//   - exactly_once and at_least_once
//   - 5ms: the broker sees every request 5 ms late, as over a network; requests on one connection may be on their way at the same time
//
// A fact is about 300 bytes of JSON; a lookup reads two fields of it and adds three columns of a row of about 200 bytes.
//
// The case "latency" is of another kind: it changes rows, and measures how long after the acknowledgment a fact is written that sees the change (with
// -broker on that one).
//
// # The yardstick
//
// What a machine does per second says little about another one, so each case is followed, or preceded, by a passthrough over the same facts: a
// program that consumes and produces with the same client, the same client settings, the same commits, and nothing else. Their ratio is the
// result; everything is repeated in rounds, so that a disturbance of the machine meets both.
//
// # How it measures
//
// The driver samples the group's committed offsets, which move when facts are done for good, with the CPU time and the memory of the process
// from /proc (Linux). Facts per second and CPU are differences between two commits of one run, so that the start of the process and the idle end
// of the last commit interval are not in them. After each case the counters of /status and a record of the output topic are checked: every fact was
// written, every lookup was a match.
//
// The broker keeps all records in memory: about 0.3 KiB per row and 1.5 KiB per fact. Output topics are deleted after each run.
//
// # Files
//
//	main.go         flags, the order of the runs
//	world.go        the broker process, its topics and what is in them
//	data.go         rows, facts, keys
//	cases.go        the cases, the configuration of each
//	service.go      one run of the binary: first load, or facts
//	latency.go      from a change to the first fact that sees it
//	passthrough.go  the yardstick, a role of the same program
//	broker.go       the broker, a role of the same program
//	measure.go      samples and what follows from them, pure
//	proc.go         child processes, /proc
//	report.go       the table and the JSON
package main
