// Package changelog reads the changelog of a dimension, one Kafka topic or all that match a pattern, into the store of the dimension: the first
// load, going on after a restart, following the topics while the process runs, and loading anew beside what answers. It knows nothing of facts
// and lookups; whoever looks facts up asks Refresh before.
//
// # Generations and feeds
//
// A feed reads the buckets into one generation of the store, with a Kafka client of its own (feed.go). There is one, and a second one while a
// generation is loaded beside the one that answers (generations.go, publish.go). A bucket that can't be gone on with stops and asks for a new
// generation: its topic was created again, its position lies outside the log, records were lost, it was read too late. The other buckets of the
// old generation go on. The new one is published once it has applied everything that the old one has, of the buckets that both read; the
// old one stands still for that moment, so nothing goes back in time. A first load has nothing to answer with and is begun again instead.
//
// A feed joins four goroutines:
//
//	poll   waits for the client's fetches                             read.go
//	read   records → changes, owns the offsets that are read          read.go, decode.go, key.go
//	apply  dead letters, then changes and positions into the store;
//	       partitions that leave                                      apply.go
//	watch  topics, buckets, ends; what the client does not show       watch.go, topics.go, probe.go, transaction.go
//
// Two batches go round between read and apply, so one is filled while the other is written. What is shared stands under one mutex (state.go).
// The decisions are pure, in files of their own: plan.go (stored positions and logs → go on, load anew, beside what is there), progress.go
// (positions and ends → warm, lag, proofs, freshness), route.go (names of topics → columns, partitions, who has left), retention.go with
// layout.go (the age of partitions), hold.go (what facts do).
//
// # Positions
//
// Offsets are next offsets. A bucket is done when the position in the store has reached the last stable offset that was seen when the bucket
// was first seen, by whatever moves the position: a record, a transaction marker (kept by the client), or a probe. Probes are for what the
// client shows nothing of: batches emptied by compaction, a tail that is gone, aborted records whose marker is gone. A probe is a read
// committed fetch of our own at the position that comes back from the leader; silence never moves a position.
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
// Freshness is the age of the oldest proof. A new bucket counts as fresh while it moves on, for it delays no fact.
//
// # Refreshes
//
// In mode async changes are applied as they come. In mode sync the applier holds them back (two batches, and what the client buffers) until a
// refresh (refresh.go), which asks for the last stable offsets and lets the applier go on until the positions have reached them: a target that
// does not move, so a refresh ends whatever is written meanwhile. It waits neither for buckets that were not yet read to the end seen at their
// discovery, nor for those that wait for a new generation, nor for topics that the brokers do not know. While a new bucket is
// loaded, changes are applied as they come in this mode too.
//
// # Topics of a pattern
//
// Named groups of the pattern fill the columns of their names. A record whose key says otherwise is an error: its delete would name another
// row, and it would stay when the topic goes. So when all partition columns are groups, a topic's rows are exactly one partition, which is
// dropped with it. Where they are not, or where another topic has the same partition, a topic that leaves is a new generation. Such a partition is
// hidden (View) until its topic was read to the end seen at its discovery.
//
// # What ends Run
//
// The store fails, or a record can't be read and on_error is fail (ErrRecord). Everything else is waited for or mended, and is seen in Status,
// Ready and the metrics while it lasts: a missing topic, refusals, brokers that are away, a full disk, a dead-letter topic that can't be
// written.
//
// # Crashes
//
// Rows and the positions behind them are one store transaction, and the dead letters of a batch are acknowledged before it. A crash at any
// instant repeats at most the batches under way: changes read twice are stale the second time, dead letters are written at least once. The
// store is complete, and the rows visible, only after every bucket is done. A generation that was not published is gone after a crash; what
// asked for it is still in the stored positions, so the next start asks again. Where a position looks right although records before it were
// lost, it is replaced by one that lies outside of every log. A partition is dropped before the positions say so: a crash between repeats it.
package changelog
