// Package dimstore keeps the rows of dimensions on local disk: rows, indexes over them, the positions they were read up to, and how many live
// rows each partition has. It knows nothing of Kafka and of facts; encoded tuples and rows come from package record. What follows is about Store;
// HeapStore keeps all of it in memory and answers alike.
//
// # On disk
//
//	<dir>/LOCK                      locked (flock) by the process that uses the directory, its pid inside
//	<dir>/instance                  the instance id, written by the first start
//	<dir>/<dimension>/<generation>/ one Badger database, a generation: one complete loading of a dimension
//	<dir>/<dimension>/damaged/      the last generation that was found damaged, for people to look at
//	<dir>/<dimension>/.removing-*   a removal that a crash interrupted; removed at the next open. .beginning-*: the same of a beginning
//
// Inside a generation (kind, key) → value; the kind is one byte in front of the key:
//
//	r  number of the partition, key tuple → header (flags, bucket, offset, record timestamp), version, row, checksum
//	r  the same, of a deleted row → header with the flag "mark", version; Badger's TTL removes it after Options.DeleteMarkTTL
//	i  number of the index, codes of its columns, number of the partition, key tuple → nothing: an index entry
//	b  bucket number → bucket (topic, Kafka partition) and, once there is one, its position
//	c  partition tuple → number of the partition, number of live rows
//	d  number of a partition that was dropped → nothing; what is left of it is being removed
//	o  number, part → a part of a row too large for one entry
//	m  → format, fingerprint, time of creation, whether the first load is complete
//	s  → nothing; written by every transaction, see "Crashes"
//	f  → filler, see pushOut
//
// The rows of a partition are one key range, in key order, and a prefix lookup is one seek. The number of a partition stands for one life of it:
// after it was dropped, it comes back under another one, while the rows of the first are still being removed. Keys beyond 32 KiB (Badger takes 65,000 bytes)
// are stored as their first 32 KiB and a SHA-256; the full key is in the value, and runs of such keys are put in order when they are
// scanned; keys of index entries beyond 4 KiB likewise. Rows beyond a fraction of Badger's largest transaction are stored in parts, written before the row that names them; parts that
// no row names (a crash in between) are removed at open. So nothing ever goes to Badger's value log: its garbage collection can't see what
// is dead before a compaction, and a few large rows that change often never cause one, so its files would grow for ever; it also answers an
// unreadable value with an empty one.
//
// # Versions
//
// A change is applied when it is newer than what the store holds under its key, be it a row or the mark of a deleted row. Within a bucket
// the later offset is newer; between buckets the later record timestamp, ties to the higher bucket (by topic, then Kafka partition). Before
// that counts what Options.Version says: the record timestamp, or the version column, whose code stands in front of the row. A delete has no
// column, so it takes the version that is stored, and its mark keeps it: an older version does not come back, the same one with a later offset
// does. A change read twice is stale the second time. Counters and index entries follow from the row that was there before, so they are exact.
//
// # Partitions
//
// Which partitions have a live row is kept in memory, sorted, as a list that never changes: a commit that makes one come or go replaces it. A
// view has the list of its snapshot, without a lock: see liveState. So what Latest names has rows in the same view.
//
// A partition is dropped by one transaction, and its rows are removed in the background, in small transactions, after a restart if need be;
// what marks it as not done goes with the last of them. The only goroutine this package starts besides is one that waits for the views of a
// generation that was replaced. Close waits for both.
//
// # Cache
//
// What views looked up of a complete generation is kept in memory, bounded (Options.CacheBytes): rows, groups of rows, and that there is none. A view
// takes only what its own snapshot has; cache says how. It belongs to its generation and goes with it.
//
// # Generations
//
// A generation that is loaded beside another one (Begin) has the file LOADING in its folder from the first moment. To publish it is to complete it,
// to sync it, and to remove that file: before that, an open removes the folder, and from then on the older one. In the process the same moment is
// the change of one pointer, which views read when they are opened; nobody waits for the merging of tables before it, nor for the closing of the
// old generation after its last view. Not kept over a restart: a loading is repeated from its beginning, which is simple, and right whatever
// happened to the topic meanwhile.
//
// # Invariants
//
//   - A position is never ahead of the rows: both are written by one Badger transaction. An Apply that exceeds Badger's transaction
//     becomes several, each with the positions of its own last changes.
//   - Per partition the counter equals the number of live rows, in every transaction; per index there is one entry for each live row without
//     a null in its columns, and no other, except of partitions that were dropped.
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
