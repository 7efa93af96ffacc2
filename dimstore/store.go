package dimstore

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/dgraph-io/badger/v4"
)

// formatVersion of what this package writes. A generation of another one is dropped.
const formatVersion = 1

// meta is the record of a generation about itself, as JSON.
type meta struct {
	Format      int       `json:"format"`
	Fingerprint string    `json:"fingerprint"`
	Created     time.Time `json:"created"`
	Complete    bool      `json:"complete"`
}

// Store is the local data of one dimension: one generation at a time. Apply, MarkComplete, Reset and Close may be called by several
// goroutines and wait for each other; everything else is free.
type Store struct {
	dir       *Dir
	options   Options
	log       *slog.Logger
	root      string // <dir>/<dimension>
	space     *space
	sizes     sizes
	discarded string
	readers   *gate

	writing sync.Mutex
	// Written by the holder of writing. The database and its folder change only while the gate of the readers is shut.
	db       *badger.DB
	path     string // of the generation
	meta     meta
	broken   error   // set when nothing may be written any more
	filter   *filter // keys written since the generation was empty; nil when not known
	nextPart uint64  // number of the next row that is stored in parts
	batch    batch

	mu         sync.RWMutex
	partitions map[string]int64 // live rows by the name of the partition; never 0
	buckets    []bucket         // by number
	numbers    map[BucketID]uint32

	rows     atomic.Int64
	markTTL  atomic.Int64
	complete atomic.Bool
	damage   sync.Once

	sizeMu sync.Mutex
	sizeAt time.Time
	size   int64
}

// Discarded tells why OpenStore dropped what it found: "definition" (the fingerprint differs), "format" (written by an incompatible
// version), "damaged" (moved aside); "" when nothing was dropped.
func (s *Store) Discarded() string { return s.discarded }

// Complete reports whether the first load was finished: whether MarkComplete was called on this generation, ever.
func (s *Store) Complete() bool { return s.complete.Load() }

// Rows is the number of live rows.
func (s *Store) Rows() int64 { return s.rows.Load() }

// Partitions is the number of partitions with a live row.
func (s *Store) Partitions() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.partitions)
}

// PartitionList returns the partitions with a live row, in order.
func (s *Store) PartitionList() [][]byte {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := make([][]byte, 0, len(s.partitions))
	for name := range s.partitions {
		out = append(out, []byte(name))
	}
	slices.SortFunc(out, bytes.Compare)
	return out
}

// SetDeleteMarkTTL replaces Options.DeleteMarkTTL for the deletes from now on; marks that are there keep their time. It may be called at any
// time, by anyone.
func (s *Store) SetDeleteMarkTTL(d time.Duration) { s.markTTL.Store(int64(d)) }

// Positions returns the positions as stored, in no order that means anything.
func (s *Store) Positions() []Position {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := make([]Position, 0, len(s.buckets))
	for i := range s.buckets {
		if s.buckets[i].hasPosition {
			out = append(out, s.buckets[i].position)
		}
	}
	return out
}

// Bytes is the space that the generation takes on disk. The answer is up to a second old.
func (s *Store) Bytes() int64 {
	s.sizeMu.Lock()
	defer s.sizeMu.Unlock()
	if now := time.Now(); s.sizeAt.IsZero() || now.Sub(s.sizeAt) > time.Second {
		if s.readers.enter() {
			s.size, s.sizeAt = diskUsage(s.path), now
			s.readers.leave()
		}
	}
	return s.size
}

// diskUsage adds up the blocks of a folder's files; Badger's are sparse. Files may go while it looks.
func diskUsage(dir string) int64 {
	var size int64
	_ = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // gone meanwhile
		}
		if info, err := e.Info(); err == nil {
			if st, ok := info.Sys().(*syscall.Stat_t); ok {
				size += st.Blocks * 512
			}
		}
		return nil
	})
	return size
}

// margin is what Badger may write later than it is applied: memtables to tables, and to the next logs.
func (s *Store) margin() uint64 { return uint64(4 * s.sizes.memtable) }

// writable is called by the holder of writing before it writes size bytes.
func (s *Store) writable(size uint64) error {
	if s.broken != nil {
		return s.broken
	}
	return s.space.take(s.options.MinFreeDisk+s.margin(), size)
}

// MarkComplete says that the first load is finished. It brings all tables to one level (a table that stays in level 0 reads 1.6 times
// slower), syncs, and writes the mark in a transaction of its own. It takes as long as copying the data; Apply waits. Calling it again does
// nothing.
func (s *Store) MarkComplete() error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.meta.Complete && s.broken == nil {
		return nil
	}
	if err := s.writable(0); err != nil {
		return fmt.Errorf("mark complete: %w", err)
	}
	s.flatten()
	m := s.meta
	m.Complete = true
	// The first sync is for the rows, so that the mark is never there without them; the second for the mark.
	err := s.db.Sync()
	if err == nil {
		err = s.writeMeta(m)
	}
	if err == nil {
		err = s.db.Sync()
	}
	if err != nil {
		return fmt.Errorf("mark complete: %w", err)
	}
	s.filter = nil
	s.complete.Store(true)
	return nil
}

// flatten is for speed only: it is left out when there is no room for it, and its errors are nobody's misfortune.
func (s *Store) flatten() {
	if err := s.space.take(s.options.MinFreeDisk+s.margin(), uint64(diskUsage(s.path))); err != nil {
		s.log.Warn("tables are not merged after the load", "dimension", s.options.Name, "error", err)
		return
	}
	start := time.Now()
	if err := s.db.Flatten(1); err != nil {
		s.log.Warn("tables are not merged after the load", "dimension", s.options.Name, "error", err)
		return
	}
	s.log.Debug("tables merged after the load", "dimension", s.options.Name, "duration", time.Since(start))
}

// writeMeta writes the generation's record about itself.
func (s *Store) writeMeta(m meta) error {
	value, err := json.Marshal(m)
	if err != nil {
		return err
	}
	key := []byte{kindMeta}
	err = s.transaction(func(txn *badger.Txn) error {
		return txn.Set(key, appendChecksum(value, key))
	})
	if err != nil {
		return err
	}
	s.meta = m
	return nil
}

// transaction commits what fill writes. After a commit that failed the state of the database is not known, so nothing is written any more
// until a restart has replayed the log.
func (s *Store) transaction(fill func(*badger.Txn) error) error {
	txn := s.db.NewTransaction(true)
	defer txn.Discard()
	if err := fill(txn); err != nil {
		return err
	}
	return s.commit(txn)
}

// commit closes every transaction of this package: the entry "s" keeps the highest number visible in the tables.
func (s *Store) commit(txn *badger.Txn) error {
	key := []byte{kindCommit}
	if err := txn.Set(key, appendChecksum(nil, key)); err != nil {
		return err
	}
	if err := txn.Commit(); err != nil {
		s.broken = fmt.Errorf("the store can't be written until the next start, after: %w", err)
		return s.broken
	}
	return nil
}

// Reset drops the generation and begins an empty one. At start only: it waits until all views are closed.
func (s *Store) Reset(reason string) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.broken != nil {
		return fmt.Errorf("reset store: %w", s.broken)
	}
	if err := s.space.take(s.options.MinFreeDisk/2+s.margin(), 0); err != nil {
		return fmt.Errorf("reset store: %w", err)
	}
	s.log.Info("dropping the rows of a dimension", "dimension", s.options.Name, "reason", reason)
	s.readers.shut()
	s.broken = errors.New("the store was left half reset: start again")
	if err := s.db.Close(); err != nil {
		s.log.Warn("close of a generation that is dropped", "dimension", s.options.Name, "error", err)
	}
	if err := removeGeneration(s.path); err != nil {
		return fmt.Errorf("reset store: %w", err)
	}
	if err := s.create(); err != nil {
		return fmt.Errorf("reset store: %w", err)
	}
	s.readers.unlock()
	return nil
}

// Close waits until all views are closed, writes out what is in memory and closes the files. Calling it again does nothing.
func (s *Store) Close() error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if errors.Is(s.broken, ErrClosed) {
		return nil
	}
	wasBroken := s.broken
	s.broken = ErrClosed
	s.readers.shut()
	defer s.dir.closed(s.options.Name)
	if s.db == nil || s.db.IsClosed() {
		return nil
	}
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("close store of %s: %w", s.options.Name, err)
	}
	if wasBroken != nil {
		return nil
	}
	if err := leaveClean(s.path); err != nil {
		return fmt.Errorf("close store of %s: %w", s.options.Name, err)
	}
	return nil
}

// leaveClean notes what MANIFEST was at a clean stop.
func leaveClean(dir string) error {
	sum, err := manifestSum(dir)
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, cleanMark), []byte(sum))
}

// noteDamage remembers damage that was found while running, so that the next open moves the generation aside instead of meeting it again.
func (s *Store) noteDamage(err error) error {
	if errors.Is(err, ErrDamaged) {
		s.damage.Do(func() {
			note := os.WriteFile(filepath.Join(s.path, damagedMark), []byte(err.Error()+"\n"), 0o640)
			s.log.Error("stored data is damaged; the next start loads the dimension anew",
				"dimension", s.options.Name, "folder", s.path, "error", errors.Join(err, note))
		})
	}
	return err
}
