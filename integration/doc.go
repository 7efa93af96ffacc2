// Package integration runs the built enricher binary against Kafka and checks
// what its users see: records, exit codes, health, logs. It imports no other
// package of the module.
//
// # Which Kafka
//
// Where a container engine answers, the scenarios run on a real Apache Kafka
// (Testcontainers); else on kfake, which listens on TCP in the test process and
// keeps its log on disk so that it can be stopped and started. The first line of
// the output says which one and why.
//
//	ENRICHER_REQUIRE_KAFKA=1   no real broker is a failure (as in CI)
//	KAFKA_IMAGE=...            the image; default: the one that kafka-image.sh
//	                           builds when it is there, else apache/kafka:4.4.0
//
// One broker is shared by all scenarios, each with topics and groups of its own
// names. Only a scenario that stops its broker has one to itself.
//
// # What is checked
//
// Every fact carries an id. The oracle reads the output topic read-committed
// from its beginning to its end and counts each id: one result per fact, no more
// and no fewer, with the row that the dimension has. Open transactions hold the
// end back, so they can't hide a duplicate.
//
// Scenarios wait for conditions, each wait has a limit, and every load is bounded
// in count.
package integration
