package dimstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// Loading is a generation that is filled beside the one that answers. Its methods may be called by several goroutines; Apply, Publish and
// Abandon wait for each other.
type Loading struct {
	store *Store
	gen   *generation

	mu   sync.Mutex
	over error // set once it was published or abandoned
}

// loadingShare: a generation that is loaded beside another has this part of the memory of a store.
const loadingShare = 4

// Begin starts an empty generation beside the one that answers, which goes on as before, Apply included, until the new one is published. There
// can be one at a time. It is not kept over a restart: what was not published is removed at the next open.
//
// Memory: the new generation gets a quarter of Options.Memory (memtables of 2 MiB at least). A generation of a store takes about three quarters
// (six memtables of an eighth), so the two take together what one is given. Once published it goes on so until the next open.
//
// Errors: ErrNoSpace when there is no room for another generation of the size of the present one above Options.MinFreeDisk; ErrClosed; others
// of the environment. Nothing has changed then.
func (s *Store) Begin(reason string) (*Loading, error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.closed {
		return nil, fmt.Errorf("begin a generation: %w", ErrClosed)
	}
	if s.loading != nil {
		return nil, errors.New("begin a generation: another one is loading")
	}
	g := s.current.Load()
	limit := s.options.MinFreeDisk + g.margin() + s.loadingSizes.margin() + uint64(diskUsage(g.path))
	if err := s.space.take(limit, 0); err != nil {
		return nil, fmt.Errorf("begin a generation: %w", err)
	}
	next, err := s.create(true)
	if err != nil {
		return nil, openError("begin a generation of "+s.options.Name, err)
	}
	s.log.Info("loading a new generation beside the old one", "dimension", s.options.Name, "reason", reason, "folder", next.path)
	s.loading = &Loading{store: s, gen: next}
	return s.loading, nil
}

// Apply is Store.Apply for this generation.
func (l *Loading) Apply(changes []Change, positions []Position) (Applied, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over != nil {
		return Applied{}, fmt.Errorf("apply: %w", l.over)
	}
	return l.gen.apply(changes, positions)
}

// DropPartition is Store.DropPartition for this generation.
func (l *Loading) DropPartition(partition []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over != nil {
		return fmt.Errorf("drop a partition: %w", l.over)
	}
	return l.gen.dropPartition(partition)
}

// PartitionList is Store.PartitionList for this generation.
func (l *Loading) PartitionList() [][]byte { return l.gen.live.Load().set.tuples() }

// Positions returns the positions as stored, in no order that means anything.
func (l *Loading) Positions() []Position { return l.gen.positions() }

// Rows is the number of live rows.
func (l *Loading) Rows() int64 { return l.gen.rows.Load() }

// Bytes is the space that this generation takes on disk. The answer is up to a second old.
func (l *Loading) Bytes() int64 { return l.gen.bytes() }

// Publish completes the generation as Store.MarkComplete does, which takes as long as copying its data, and makes it the one that answers, in
// one step: views opened before still read the old one, those opened after it the new one, and none waits. The old one is removed from disk
// when its last view is closed. A crash leaves one of the two, whole.
//
// After an error (ErrNoSpace, others of the environment) the old one answers as before, and Publish may be called again. After ErrClosed or a
// success only Positions, Rows and Bytes mean something.
func (l *Loading) Publish() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over != nil {
		return fmt.Errorf("publish a generation: %w", l.over)
	}
	if err := l.gen.markComplete(); err != nil {
		return fmt.Errorf("publish a generation: %w", err)
	}
	s := l.store
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.closed {
		return fmt.Errorf("publish a generation: %w", ErrClosed)
	}
	err := os.Remove(filepath.Join(l.gen.path, loadingMark))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil // by a call before, whose sync failed
	}
	if err == nil {
		err = syncDir(l.gen.path)
	}
	if err != nil {
		return fmt.Errorf("publish a generation: %w", err)
	}
	old := s.current.Swap(l.gen)
	s.loading = nil
	l.over = errors.New("the generation was published")
	s.retire(old)
	s.log.Info("a new generation answers", "dimension", s.options.Name, "folder", l.gen.path, "rows", l.gen.rows.Load())
	return nil
}

// retire removes a generation that was replaced once its views are closed. Close waits for it.
func (s *Store) retire(g *generation) {
	s.retiring.Go(func() {
		if err := g.remove(errors.New("another generation has taken its place")); err != nil {
			s.log.Warn("an old generation is not removed until the next start",
				"dimension", s.options.Name, "folder", g.path, "error", err)
		}
	})
}

// Abandon removes the generation. After it was published or abandoned, it does nothing.
func (l *Loading) Abandon() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over != nil {
		return nil
	}
	l.over = errors.New("the generation was abandoned")
	l.store.writing.Lock()
	l.store.loading = nil
	l.store.writing.Unlock()
	if err := l.gen.remove(l.over); err != nil {
		return fmt.Errorf("abandon a generation: %w", err)
	}
	return nil
}

// abandonLoading must not be called by the holder of Store.writing, which Publish takes while it holds Loading.mu.
func (s *Store) abandonLoading() error {
	s.writing.Lock()
	l := s.loading
	s.writing.Unlock()
	if l == nil {
		return nil
	}
	return l.Abandon()
}
