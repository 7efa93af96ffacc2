// Package pipeline is the way of the facts: poll, look up, produce, commit.
//
// # Shape
//
// A [Pipeline] runs sessions, one after the other. A session is one membership of the group with one client:
//
//	poller ──► lanes (one per Kafka partition) ──► workers (lookups) ──► writer (produce, commit)
//
// The poller reads at most Options.Capacity facts ahead of what is written. A lane's batches are looked up beside each other and reach the writer in the order
// of the facts; lookups go on while a transaction ends. The writer is the only goroutine that touches the
// transaction. Decisions are apart from I/O: [ledger] says which offsets are finished, finished.go how that is written down, refusal.go
// which fact a broker refuses, start.go where reading begins.
//
// # Exactly once
//
// Output records, dead letters and offsets are one transaction, ended every Options.CommitInterval. The transactional id is group and instance, so a
// new life of an instance fences the former one with its first request, which also ends a transaction left open. Offsets are fetched only
// when they are stable. What is written in a transaction is a function of the facts between two committed positions, so a transaction that
// does not commit leaves nothing behind: everything in flight is dropped (the generation of every lane is raised) and read again.
//
// At any instant of a crash, one of these holds: the transaction was not committed (the coordinator aborts it, the facts are read again), or the
// coordinator has the commit (it completes, and the offset fetch of the next reader waits for it). Facts that finished beyond the committed
// offset travel in the metadata of the same commit, see finished.go, and are skipped when they are read again.
//
// # Failures
//
// What the broker refuses for good (refusal.go) becomes a dead letter; its transaction is aborted and done again without the record. Any other failure
// of the environment ends the transaction, and, where the client can't go on, the session: the next one begins at the committed offsets.
// A producer that was fenced or timed out by its own past is therefore survived; a second owner of the instance id has taken the member's
// place in the group, which ends the process. Facts are never lost by a failure and never only logged.
//
// # At least once
//
// The same with offsets committed after the acknowledged writes. After a failed write everything since the committed offsets is done again.
package pipeline
