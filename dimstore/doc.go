// Package dimstore keeps the rows of dimensions on local disk: rows, the positions they were read up to, and how many live rows each
// partition has. It knows nothing of Kafka and of facts; encoded tuples and rows come from package record.
//
// # On disk
//
//	<dir>/LOCK                      locked (flock) by the process that uses the directory, its pid inside
//	<dir>/instance                  the instance id, written by the first start
//	<dir>/<dimension>/<generation>/ one Badger database, a generation: one complete loading of a dimension
//	<dir>/<dimension>/damaged/      the last generation that was found damaged, for people to look at
//	<dir>/<dimension>/.removing-*   a removal that a crash interrupted; removed at the next open
//
// Inside a generation (kind, key) → value; the kind is one byte in front of the key:
//
//	r  length of the partition tuple, partition tuple, key tuple → header (flags, bucket, offset, record timestamp), row, checksum
//	r  the same, of a deleted row → header with the flag "mark"; Badger's TTL removes it after Options.DeleteMarkTTL
//	b  bucket number → bucket (topic, Kafka partition) and, once there is one, its position
//	c  partition tuple → number of live rows
//	o  number, part → a part of a row too large for one entry
//	m  → format, fingerprint, time of creation, whether the first load is complete
//	s  → nothing; written by every transaction, see "Crashes"
//
// The rows of a partition are one key range, in key order, and a prefix lookup is one seek. Keys beyond 32 KiB (Badger takes 65,000 bytes)
// are stored as their first 32 KiB and a SHA-256; the full key is in the value, and runs of such keys are put in order when they are
// scanned. Rows beyond a fraction of Badger's largest transaction are stored in parts, written before the row that names them; parts that
// no row names (a crash in between) are removed at open. So nothing ever goes to Badger's value log: its garbage collection can't see what
// is dead before a compaction, and a few large rows that change often never cause one, so its files would grow for ever; it also answers an
// unreadable value with an empty one.
//
// # Versions
//
// A change is applied when it is newer than what the store holds under its key, be it a row or the mark of a deleted row. Within a bucket
// the later offset is newer; between buckets the later record timestamp, ties to the higher bucket (by topic, then Kafka partition). A
// change read twice is stale the second time. Counters follow from the row that was there before, so they are exact.
//
// # Invariants
//
//   - A position is never ahead of the rows: both are written by one Badger transaction. An Apply that exceeds Badger's transaction
//     becomes several, each with the positions of its own last changes.
//   - Per partition the counter equals the number of live rows, in every transaction.
//   - Only what matches its checksum is returned.
//
// # Crashes
//
// kill -9: every acknowledged Apply survives. Badger writes its log through a memory map, and the page cache outlives the process.
//
// Power loss: some prefix of the applied transactions survives, and the positions say which, so the rest is read from Kafka again.
// SyncWrites is off: a sync per transaction would buy only that less is read again. It is not enough, though, to leave that to Badger: it
// keeps up to four logs (of the memtable in use and of those being written out), replays each up to its first bad byte, and would go on
// with the next one, leaving a hole in the middle. So this package reads the logs before Badger does: transactions are numbered without a
// gap (every transaction writes the entry "s", so the highest number of the tables is known too), and what comes after a gap is removed.
// MarkComplete and Close sync.
//
// Damage: before a generation is opened, MANIFEST must parse to its last byte and every table that it names must match its checksums, in
// full: Badger by itself skips a table with a broken index, drops the end of a broken MANIFEST with the tables it named, and answers a
// broken block as "not found", all without an error. Rows carry a checksum of their own besides. A generation found damaged at open is moved
// aside and an empty one begun; damage found while reading is returned to the caller as ErrDamaged and noted in the generation, so that the
// next open moves it aside. Lack of space, permissions, memory or file handles is never taken for damage.
//
// Disk space: Badger dies (SIGBUS) when a memory-mapped file meets a full disk. Free space is checked before a generation is opened and before
// every write: at least Options.MinFreeDisk, and besides the size of what is written and of four memtables, for what is written out later
// than it is applied. Not guaranteed: other processes may fill the disk between two checks, and a compaction may need more than that for a
// moment; MinFreeDisk is the margin for both. If it happens all the same, the next start finds too little space and says so.
package dimstore
