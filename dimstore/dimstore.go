package dimstore

import (
	"errors"
	"log/slog"
	"time"

	"enricher/record"
)

// Options of one dimension's store.
type Options struct {
	Name          string        // name of the dimension, the folder under the directory
	Fingerprint   string        // of schema, topic, key format, ...: a stored generation with another one does not fit
	Memory        int64         // bytes for this dimension; all sizes derive from it
	Compression   string        // none (default when empty) | snappy | zstd
	MinFreeDisk   uint64        // bytes; below this nothing is applied
	DeleteMarkTTL time.Duration // how long delete marks stay
	Logger        *slog.Logger
}

// BucketID names one Kafka partition of a dimension topic.
type BucketID struct {
	Topic     string
	Partition int32
}

// Position is how far one bucket has been applied.
type Position struct {
	Bucket   BucketID
	TopicID  [16]byte
	Next     int64     // next offset to read
	ProvedAt time.Time // when the bucket was last proved to be read to its end; zero: never
}

// Change is one upsert or delete.
type Change struct {
	Bucket         BucketID
	Offset         int64
	Timestamp      int64  // record timestamp, ms
	Partition, Key []byte // encoded tuples: the partition columns; the primary key without them
	Delete         bool
	Row            record.Row
}

// Applied counts what became of the changes of one Apply.
type Applied struct{ Upserts, Deletes, Stale int }

// View is one consistent snapshot for one goroutine.
type View interface {
	// Get returns the row; it is valid until Close.
	Get(partition, key []byte) (record.Row, bool, error)
	// Scan yields the rows of a partition whose key tuple begins with prefix, in key order; a row is valid in its call only.
	Scan(partition, prefix []byte, yield func(row record.Row) bool) error
	// HasPartition reports whether the partition has a live row.
	HasPartition(partition []byte) bool
	// Close ends the view.
	Close()
}

// Store is one dimension's local data.
type Store struct{}

// Discarded tells why OpenStore dropped what it found.
func (s *Store) Discarded() string { return "" }

// Positions as stored.
func (s *Store) Positions() []Position { return nil }

// Complete reports whether the first load was finished.
func (s *Store) Complete() bool { return false }

// MarkComplete marks the generation as complete.
func (s *Store) MarkComplete() error { return errors.ErrUnsupported }

// Reset begins an empty generation.
func (s *Store) Reset(reason string) error { return errors.ErrUnsupported }

// Apply writes changes and positions.
func (s *Store) Apply(changes []Change, positions []Position) (Applied, error) {
	return Applied{}, errors.ErrUnsupported
}

// Read opens a view.
func (s *Store) Read() View { return nil }

// Rows is the number of live rows.
func (s *Store) Rows() int64 { return 0 }

// Bytes is the size on disk.
func (s *Store) Bytes() int64 { return 0 }

// Partitions is the number of partitions with a live row.
func (s *Store) Partitions() int { return 0 }

// Close closes the store.
func (s *Store) Close() error { return nil }
