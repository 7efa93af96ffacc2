// Package lookup compiles the lookups of a configuration into a plan and runs
// it: facts and the rows of dimensions in, output records out.
//
// The package is pure. It knows no Kafka, no store, no clock and no metric: a
// dimension is a [Table], a fact a plain struct, and what happened is an
// [Outcome] and a few counters. The same facts over the same rows give the same
// bytes, so a replay after a crash repeats what was written; nothing here
// outlives the process.
//
// # How a batch runs
//
// [Plan.NewBatch] gives the working memory of one goroutine, [Batch.Run] takes
// a batch of facts through it:
//
//  1. Every fact is scanned once ([record.Shape]): its validity, the values of
//     all paths that the plan asks for, the occurrences of the fields that the
//     plan adds. A fact that is no JSON object fails with class decode, one
//     that has a field which a lookup with `on_conflict: fail` adds fails with
//     class conflict. Both are decided before any lookup, so they do not depend
//     on what the dimensions hold at the moment.
//  2. Step by step over the whole batch: the key of every branch (a fact, or
//     one of the records that an earlier step made of it), the memo that maps
//     equal keys to one entry, then one read per new entry, then the branches
//     are given their rows, multiplied or dropped.
//  3. The records are assembled into one buffer.
//
// Each Run opens at most one [View] per dimension, so all facts of a batch and
// all steps on one dimension see one state of it, the latest partitions included:
// they are asked for when the view is opened.
//
// # How rows are found
//
// The columns of a join condition decide it when the plan is compiled
// (planJoin): by the full key, by a prefix of the key, by either inside the
// greatest partitions, or by an index, in this order of precedence. The first
// three read inside one partition or two, an index reads all of them. A view needs
// to know indexes and the order of partitions ([IndexView], [PartitionView]) only
// when the dimension has them; one that lacks what a step needs ends the Run with
// an error, for an answer without it would be wrong.
//
// # Data layout
//
// All bytes that a Run derives (keys, fragments, values) lie in one arena and are
// named by offsets; entries of the memo, rows and branches are flat slices
// without pointers. All of it is reused, so that a fact costs no allocation. A
// matched row is turned at once into a fragment (`"a":1,"b":"x"`) that is ready
// to be spliced, with the spans of the values inside it for later steps and
// projections: nothing of a row is kept after it was read, which is what the
// lifetimes of [View] ask for. Only the output records are carved from fresh
// memory, because the producer still holds them when the next batch runs.
//
// # What a miss is
//
// The reasons of a miss in order of precedence, the first that holds counts:
//
//   - null_key: any operand of `on`, constants aside, is absent or null, that of
//     a further condition included; nothing is read
//   - type_mismatch: any operand of `on` does not convert to the type of its
//     column; nothing is read
//   - no_partition: the condition names a partition that does not exist, or
//     there is none at all where the latest is asked for; expired_partition
//     instead when the one named is older than the retention
//   - no_row: no row with this key, with this prefix of it, or with these values
//     of the index
//   - condition: there are rows, but none meets the further conditions and
//     `where`
//
// # Decisions the specification leaves open
//
//   - A path of a later lookup, or of output.select, means the record as it
//     stands at that point: a field that a lookup added has the lookup's value,
//     one that was kept or, with overwrite, missed has the fact's.
//   - $headers.NAME is the last header of that name, like lastHeader of the Java
//     client; absent or with a null value it is a null key.
//   - The limit of records per fact holds after every step, so a fact that
//     exceeds it for a moment fails even if a later `inner` would drop most of
//     its records.
//   - A condition on an index finds rows in the order of (partition, key).
//   - `partitions` needs a key or a prefix in `on` and none of the partition
//     columns. Beside the columns of an index alone it is refused: an index reads all
//     partitions, and a setting must not be ignored.
//   - When the key consists of the partition columns alone, `partitions` needs no
//     column in `on`: the row of the latest partition is meant.
//   - A condition on an index that has all partition columns as well, inside the
//     index or beside it, names a partition: its misses are told as of any other.
//   - Memory is bounded by bytes as well ([Options.MaxBytes], class too_large).
package lookup
