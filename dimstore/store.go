package dimstore

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Store is the local data of one dimension: the generation that answers, and for a while beside it one that is loaded (Begin). Apply,
// MarkComplete, DropPartition, Reset, Begin and Close may be called by several goroutines and wait for each other; everything else is free.
type Store struct {
	dir           *Dir
	options       Options
	log           *slog.Logger
	root          string // <dir>/<dimension>
	space         *space
	sizes         sizes // of a generation
	loadingSizes  sizes // of one that is loaded beside another
	discarded     string
	markTTL       atomic.Int64
	sweepRows     int                        // sweepMost, or what a test says
	current       atomic.Pointer[generation] // written by the holder of writing
	cacheCounters cacheCounters
	cacheEarly    bool // for tests: use the cache in the first load too

	writing sync.Mutex
	// Of the holder of writing.
	closed     bool
	loading    *Loading // nil: none
	lastNumber int      // of a generation

	ending   sync.Mutex     // held by Close
	retiring sync.WaitGroup // generations that were replaced and wait for their views
}

// OpenStore opens the generation of a dimension, or begins an empty one: when there is none, when the one there does not fit or is damaged
// (Discarded tells). Errors, with nothing set aside: ErrNoSpace (less than half of MinFreeDisk is free: a restart of a store that stopped
// applying still works), ErrUnusable, and others of the environment.
func (d *Dir) OpenStore(o Options) (*Store, error) {
	if o.Name == "" {
		return nil, errors.New("open store: a dimension needs a name")
	}
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("open store of %s: %w", o.Name, err)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if !d.opening(o.Name) {
		return nil, fmt.Errorf("open store of %s: it is open already", o.Name)
	}
	s := &Store{
		dir: d, options: o, log: o.Logger, root: filepath.Join(d.path, folderName(o.Name)),
		space: &space{path: d.path, statfs: d.statfs}, sweepRows: cmp.Or(d.sweepRows, sweepMost),
	}
	s.SetDeleteMarkTTL(o.DeleteMarkTTL)
	g, err := s.open()
	if err != nil {
		d.closed(o.Name)
		return nil, openError("open store of "+o.Name, err)
	}
	s.current.Store(g)
	g.writing.Lock()
	defer g.writing.Unlock()
	g.startSweep()
	return s, nil
}

func (d *Dir) opening(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.open[name] {
		return false
	}
	d.open[name] = true
	return true
}

func (d *Dir) closed(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.open, name)
}

// open brings the store to a generation, whatever it finds.
func (s *Store) open() (*generation, error) {
	_, total, err := s.dir.statfs(s.dir.path)
	if err != nil {
		return nil, err
	}
	s.sizes = sizesFor(s.options, s.options.Memory, total)
	s.loadingSizes = sizesFor(s.options, s.options.Memory/loadingShare, total)
	if err := s.space.take(s.options.MinFreeDisk/2+s.sizes.margin(), 0); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(s.root, 0o750); err != nil {
		return nil, err
	}
	number, err := s.lastGeneration()
	if err != nil {
		return nil, err
	}
	if number == 0 {
		return s.create(false)
	}
	return s.resume(s.folder(number))
}

// resume loads the generation in a folder, or replaces it.
func (s *Store) resume(path string) (*generation, error) {
	g, err := s.load(path)
	fit, misfits := errors.AsType[misfit](err)
	switch {
	case err == nil:
		return g, nil
	case errors.Is(err, errUnfinished):
	case misfits:
		s.discarded = string(fit)
		s.log.Info("stored rows are dropped", "dimension", s.options.Name, "reason", s.discarded, "folder", path)
	case environment(err) && !errors.Is(err, ErrDamaged):
		return nil, err
	default:
		if err := s.moveAside(path, err); err != nil {
			return nil, err
		}
		return s.create(false)
	}
	if err := removeGeneration(path); err != nil {
		return nil, err
	}
	return s.create(false)
}

// Discarded tells why OpenStore dropped what it found: "definition" (the fingerprint differs), "format" (written by an incompatible
// version), "damaged" (moved aside); "" when nothing was dropped.
func (s *Store) Discarded() string { return s.discarded }

// Complete reports whether the first load was finished: whether MarkComplete was called on this generation, ever.
func (s *Store) Complete() bool { return s.current.Load().complete.Load() }

// Rows is the number of live rows.
func (s *Store) Rows() int64 { return s.current.Load().rows.Load() }

// Partitions is the number of partitions with a live row.
func (s *Store) Partitions() int { return s.current.Load().live.Load().set.byTuple.length }

// PartitionList returns the partitions with a live row, in order. The tuples must not be changed.
func (s *Store) PartitionList() [][]byte { return s.current.Load().live.Load().set.tuples() }

// Positions returns the positions as stored, in no order that means anything.
func (s *Store) Positions() []Position { return s.current.Load().positions() }

// Bytes is the space that the generation takes on disk. The answer is up to a second old.
func (s *Store) Bytes() int64 { return s.current.Load().bytes() }

// CacheStats is what Options.CacheBytes is used for.
type CacheStats struct {
	Hits, Misses uint64 // lookups of views that used the cache, since OpenStore
	Keys         int64  // kept of the generation that answers, what was found missing included
	Bytes        int64  // reserved for them
	Aside        bool   // too few lookups were hits: it is not used until the next trial
}

// CacheStats tells how the cache does; all zero when there is none.
func (s *Store) CacheStats() CacheStats {
	out := CacheStats{Hits: s.cacheCounters.hits.Load(), Misses: s.cacheCounters.misses.Load()}
	if c := s.current.Load().cache; c != nil {
		out.Keys, out.Bytes = c.size()
		out.Aside = !c.worthwhile()
	}
	return out
}

// SetDeleteMarkTTL replaces Options.DeleteMarkTTL for the deletes from now on; marks that are there keep their time. It may be called at any
// time, by anyone.
func (s *Store) SetDeleteMarkTTL(d time.Duration) { s.markTTL.Store(int64(d)) }

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

// Apply writes changes, in order, and positions, in one transaction. When Badger's limit forces more, each carries the positions of its own
// last changes (of the buckets that have one in positions, with the time of the last proof as stored), and positions go with the last one. A
// change that is not newer than what is stored is counted as stale and not written. Every position must be that behind the changes given
// with it and before. At return, all of it survives a kill of the process, and views opened from now on see it.
//
// Errors: ErrNoSpace (nothing is written, the call may be repeated), ErrDamaged, ErrClosed, others after which the store can't be written
// until the next start. Applied then counts what was committed all the same; repeating the whole call is always right.
func (s *Store) Apply(changes []Change, positions []Position) (Applied, error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	return s.current.Load().apply(changes, positions)
}

// MarkComplete says that the first load is finished. It brings all tables to one level (a table that stays in level 0 reads 1.6 times
// slower), syncs, and writes the mark in a transaction of its own. It takes as long as copying the data; Apply waits. Calling it again does
// nothing.
func (s *Store) MarkComplete() error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if err := s.current.Load().markComplete(); err != nil {
		return fmt.Errorf("mark complete: %w", err)
	}
	return nil
}

// Reset drops the generation, and one that is loaded beside it, and begins an empty one. At start only: it waits until all views are closed.
func (s *Store) Reset(reason string) error {
	if err := s.abandonLoading(); err != nil {
		return fmt.Errorf("reset store: %w", err)
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	g := s.current.Load()
	if err := s.resettable(g); err != nil {
		return fmt.Errorf("reset store: %w", err)
	}
	s.log.Info("dropping the rows of a dimension", "dimension", s.options.Name, "reason", reason)
	if err := g.remove(errors.New("the store was left half reset: start again")); err != nil {
		return fmt.Errorf("reset store: %w", err)
	}
	g, err := s.create(false)
	if err != nil {
		return fmt.Errorf("reset store: %w", err)
	}
	s.current.Store(g)
	return nil
}

func (s *Store) resettable(g *generation) error {
	g.writing.Lock()
	defer g.writing.Unlock()
	if g.broken != nil {
		return g.broken
	}
	if s.loading != nil {
		return errors.New("another generation was begun meanwhile")
	}
	return s.space.take(s.options.MinFreeDisk/2+s.sizes.margin(), 0)
}

// Close waits until all views are closed and for the work in the background (at most the merging of 2 GiB of tables), writes out what is in
// memory and closes the files; a generation that was begun and not published is removed. Calling it again does nothing.
func (s *Store) Close() error {
	s.ending.Lock()
	defer s.ending.Unlock()
	s.writing.Lock()
	closed := s.closed
	s.closed = true // nothing begins any more
	s.writing.Unlock()
	if closed {
		return nil
	}
	err := s.abandonLoading()
	s.writing.Lock()
	defer s.writing.Unlock()
	defer s.dir.closed(s.options.Name)
	g := s.current.Load()
	broken := g.stop(ErrClosed)
	open := !g.db.IsClosed()
	err = errors.Join(err, g.close())
	s.retiring.Wait()
	if err == nil && open && broken == nil {
		err = leaveClean(g.path)
	}
	if err != nil {
		return fmt.Errorf("close store of %s: %w", s.options.Name, err)
	}
	return nil
}
