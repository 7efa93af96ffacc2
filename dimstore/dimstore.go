package dimstore

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"enricher/record"
)

var (
	// ErrLocked is returned when another process (or another Dir of this one) uses the directory; the message names the directory and the
	// other pid. Only a person can mend it.
	ErrLocked = errors.New("store directory is in use")
	// ErrUnusable is returned when the directory can't be used: no permission, a read-only file system, a file in its place. Nothing was
	// moved or removed. Only a person can mend it.
	ErrUnusable = errors.New("store directory is unusable")
	// ErrNoSpace is returned when free disk is below the limit, or the directory above its own. Nothing was written (of an Apply in several transactions: nothing more);
	// the same call may be repeated once there is space.
	ErrNoSpace = errors.New("not enough free disk")
	// ErrDamaged is returned when stored data does not match its checksum. The caller stops using the store; the next OpenStore moves the
	// generation aside and begins an empty one.
	ErrDamaged = errors.New("stored data is damaged")
	// ErrClosed is returned by a store, or a view of a store, that was closed.
	ErrClosed = errors.New("store is closed")
)

// Options of one dimension's store.
type Options struct {
	// Name of the dimension. The folder is named after it.
	Name string
	// Fingerprint stands for everything that decides how rows are read (schema, topic, key format): a stored generation with another one is
	// dropped.
	Fingerprint string
	// Memory is what this store may use, in bytes; all sizes derive from it. About six memtables of at most 16 MiB, and with compression a
	// block cache. While a generation is loaded beside another (Begin), the two share it. Each index beyond the first few raises the least
	// size of a memtable (2 MiB) by a quarter.
	Memory int64
	// CacheBytes bounds the memory for rows that were looked up, beside Memory: rows, groups under a prefix or an index, and keys without a row.
	// Zero: none. While a generation takes over from another, each may have that much.
	CacheBytes int64
	// CacheKeys bounds the number of keys that are kept so; zero: as many as CacheBytes holds.
	CacheKeys int64
	// KeyTypes are the types of the columns of Change.Key, in order. Without them groups under a prefix are not cached.
	KeyTypes []record.Type
	// Compression of the tables: none (as is the empty string), snappy, zstd.
	Compression string
	// MinFreeDisk in bytes: with less than that nothing is applied.
	MinFreeDisk uint64
	// MaxDisk is what the whole directory may take, in bytes: beyond it nothing is applied. What makes room, and the merging of tables in the
	// background, goes on. Zero: no limit.
	MaxDisk uint64
	// DeleteMarkTTL is how long the mark of a deleted row stays, so that an older upsert from another bucket does not bring it back. In whole
	// seconds, rounded up; zero or less: no marks. SetDeleteMarkTTL changes it later.
	DeleteMarkTTL time.Duration
	// Version says which of two changes of one key is the newer: VersionOffset (as is the empty string), VersionTimestamp, VersionColumn. It
	// belongs into Fingerprint.
	Version string
	// Indexes that are kept beside the rows, for View.ScanIndex. They belong into Fingerprint.
	Indexes []Index
	// Logger takes what happens at open, and Badger's own messages.
	Logger *slog.Logger
}

// maxIndexes is how many indexes a dimension can have: their numbers are one byte of a key.
const maxIndexes = 255

// check finds what no caller may ask for.
func (o *Options) check() error {
	switch o.Version {
	case "", VersionOffset, VersionTimestamp, VersionColumn:
	default:
		return fmt.Errorf("version %q is none of offset, timestamp, column", o.Version)
	}
	if len(o.Indexes) > maxIndexes {
		return fmt.Errorf("%d indexes, %d are possible", len(o.Indexes), maxIndexes)
	}
	for i, index := range o.Indexes {
		if len(index.Columns) == 0 || len(index.Columns) != len(index.Types) {
			return fmt.Errorf("BUG: index %d has %d columns and %d types", i, len(index.Columns), len(index.Types))
		}
	}
	return nil
}

// The values of Options.Version.
const (
	// VersionOffset: within a bucket the later offset wins, between buckets the later record timestamp, ties to the higher bucket.
	VersionOffset = "offset"
	// VersionTimestamp: the later record timestamp wins, equal ones by offset within a bucket, between buckets to the higher bucket.
	VersionTimestamp = "timestamp"
	// VersionColumn: the greater Change.Version wins, equal ones as under VersionOffset. A delete takes the version of what is stored under
	// its key, so it deletes whatever is not newer by offset, and afterwards an upsert needs that version or a greater one to come back.
	VersionColumn = "column"
)

// Index is a set of columns that rows are looked up by.
type Index struct {
	Columns []int         // numbers of columns of the row, in the order of the index
	Types   []record.Type // of these columns
}

// BucketID names one Kafka partition of a dimension topic.
type BucketID struct {
	Topic     string
	Partition int32
}

// higher decides ties between changes of different buckets with the same timestamp.
func (b BucketID) higher(o BucketID) bool {
	if b.Topic != o.Topic {
		return b.Topic > o.Topic
	}
	return b.Partition > o.Partition
}

// Position is how far one bucket has been applied.
type Position struct {
	Bucket   BucketID
	TopicID  [16]byte
	Next     int64     // next offset to read
	ProvedAt time.Time // when the bucket was last proved to be read to its end; zero: never. Stored to the nanosecond, in UTC
}

// Change is one upsert or delete of a row. The store keeps no reference to its slices after Apply.
type Change struct {
	Bucket    BucketID
	Offset    int64  // at least 0
	Timestamp int64  // record timestamp, ms since the epoch
	Partition []byte // encoded tuple of the partition columns; empty for a dimension without any
	Key       []byte // encoded tuple of the primary key without the partition columns
	Delete    bool
	Row       record.Row // not looked at when Delete
	// Version is the order-preserving code (record.AppendKey) of the version column, empty (the least) when the row lacks it. Looked at only
	// under VersionColumn, and not when Delete.
	Version []byte
}

// Applied counts what became of the changes of one Apply.
type Applied struct {
	Upserts int // rows written
	Deletes int // deletes that were newer than what was stored, rows that were not there included
	Stale   int // changes older than what was stored, or read before
}

// View is a consistent snapshot of a store for one goroutine; any number may be open. It holds back the removal of what it sees, so it
// must be closed, and soon.
type View interface {
	// Get returns the row of a full key; it is valid until Close and must not be changed. Errors: ErrDamaged, ErrClosed, or one of the
	// environment.
	Get(partition, key []byte) (record.Row, bool, error)
	// Scan yields the rows of a partition whose key tuple begins with prefix (whole encoded columns), in key order, until yield returns
	// false. A row is valid in its call only. Yield may use the view.
	Scan(partition, prefix []byte, yield func(row record.Row) bool) error
	// ScanIndex yields the rows whose columns of Options.Indexes[index] have the codes that key consists of, in the order of (partition, key),
	// over all partitions, until yield returns false. A row with a null in one of these columns, or a value that does not convert, is in no
	// index. A row is valid in its call only. Yield may use the view.
	ScanIndex(index int, key []byte, yield func(row record.Row) bool) error
	// Latest returns the greatest partitions that have a live row, greatest first, at most n: tuples that are valid until Close and must not be
	// changed. They are those of the snapshot: a partition named here has rows in Get and Scan.
	Latest(n int) [][]byte
	// HasPartition reports whether the partition has a live row in the snapshot. It costs no more than a look into memory.
	HasPartition(partition []byte) bool
	// Close ends the view. No other method may be called after it.
	Close()
}
