// Package changelog reads the changelog of a dimension, a Kafka topic, into the store of the dimension: the first load, going on after a
// restart, and following the topic while the process runs. It knows nothing of facts and lookups.
//
// # Goroutines
//
// Run looks at the topic (discover.go), decides what to do with what the store holds (plan.go, pure), and joins four goroutines:
//
//	poll   waits for the client's fetches                            read.go
//	read   records → changes, owns the offsets that are read         read.go, decode.go, key.go
//	apply  dead letters, then changes and positions into the store   apply.go
//	watch  ends, topic id, buckets; what the client does not show    watch.go, probe.go
//
// Two batches go round between read and apply, so one is filled while the other is written. What is shared is state (state.go), with the
// tracker in it (progress.go, pure): positions and ends → warm, lag, progress, proofs.
//
// # Positions
//
// Offsets are next offsets. A bucket is done when the position in the store has reached the last stable offset that was seen at start, by
// whatever moves the position: a record, a transaction marker (kept by the client), or a probe. Probes are for what the client shows nothing
// of: batches emptied by compaction, a tail that is gone, aborted records whose marker is gone. A probe is a read committed fetch of our own
// at the position that comes back from the leader; silence never moves a position.
//
// A position outside of the log is never mended in silence (the client has no reset offset), records of a topic created again never meet the
// rows of the old one (every fetch carries the topic id), and an answer that leaves a bucket out is no answer.
//
// # Proofs
//
// A bucket is proved to be read to its end at a moment when the position has reached the end that the leader named after it. Proofs are
// stored with the positions, at least every minute while they move. While a bucket is loaded its proof is the moment before reading began:
// nothing of it was in the store then, so nothing in the store can have missed a tombstone. That way one rule covers a load that was killed, a
// restart, and a process that was held back: what is read later than delete.retention.ms after the proof may have lost tombstones, and the
// dimension is loaded anew. Where nothing was written since the position there is nothing to miss, however long ago the proof is.
//
// # What ends Run
//
// The store fails; a record can't be read and on_error is fail (ErrRecord); or something changed that a start mends (ErrRestart): the topic was
// created again, a position lies outside its log, records were lost, new buckets, read too late. Everything else is waited for, and is
// seen in Status, Ready and the metrics while it lasts: a missing topic, refusals, brokers that are away, a full disk, a dead-letter topic
// that can't be written.
//
// # Crashes
//
// Rows and the positions behind them are one store transaction, and the dead letters of a batch are acknowledged before it. A crash at any
// instant repeats at most the batches under way: changes read twice are stale the second time, dead letters are written at least once. The
// store is complete, and the rows visible, only after every bucket is done.
package changelog
