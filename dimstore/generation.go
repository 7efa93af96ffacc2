package dimstore

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dgraph-io/badger/v4"
)

const spareHandles = 64 // for what a database opens besides the tables it has: logs, new tables

// errUnfinished is given by load for a generation that a crash interrupted before anything was written to it.
var errUnfinished = errors.New("generation was not begun")

// misfit is given by load for a generation that is whole, but not what is wanted.
type misfit string

func (m misfit) Error() string { return "generation does not fit: " + string(m) }

// formatVersion of what this package writes. A generation of another one is dropped. 1: keys of rows began with the partition's tuple; neither
// indexes nor versions of columns.
const formatVersion = 2

// meta is the record of a generation about itself, as JSON.
type meta struct {
	Format      int       `json:"format"`
	Fingerprint string    `json:"fingerprint"`
	Created     time.Time `json:"created"`
	Complete    bool      `json:"complete"`
}

// generation is one database: one complete loading of a dimension.
type generation struct {
	store   *Store
	path    string
	sizes   sizes
	db      *badger.DB
	readers *gate

	writing sync.Mutex
	// Of the holder of writing.
	meta          meta
	broken        error   // set when nothing may be written any more
	filter        *filter // keys written since the generation was empty; nil when not known
	nextPart      uint64  // number of the next payload that is stored in parts
	nextPartition uint32
	partitions    map[string]*partition // by tuple
	dropped       []droppedPartition    // whose rows are still there
	sweeping      bool                  // the goroutine that removes them runs
	batch         batch

	live atomic.Pointer[liveState] // written by the holder of writing

	cache *cache    // nil: none
	lent  sync.Pool // of *memory, for views

	mu      sync.RWMutex
	buckets []bucket // by number; written by the holder of writing
	numbers map[BucketID]uint32

	rows     atomic.Int64
	complete atomic.Bool
	damage   sync.Once

	closing    chan struct{} // closed when the background work is to end
	background sync.WaitGroup
	flattening sync.Mutex

	sizeMu sync.Mutex
	sizeAt time.Time
	size   int64
}

func (s *Store) newGeneration(path string, z sizes) *generation {
	g := &generation{
		store: s, path: path, sizes: z, readers: newGate(), nextPart: 1, nextPartition: 1,
		partitions: make(map[string]*partition), numbers: make(map[BucketID]uint32), closing: make(chan struct{}),
	}
	g.live.Store(&liveState{set: &liveSet{}})
	g.cache = newCache(s.options.CacheBytes, s.options.CacheKeys, &s.cacheCounters)
	return g
}

// create begins the next generation, empty, and makes sure that it survives; one that is loading only until the next open.
func (s *Store) create(loading bool) (*generation, error) {
	z := s.sizes
	if loading {
		z = s.loadingSizes
	}
	path, err := s.makeFolder(loading)
	if err != nil {
		return nil, err
	}
	g := s.newGeneration(path, z)
	if err := g.begin(); err != nil {
		if loading {
			err = errors.Join(err, removeGeneration(path))
		}
		return nil, err
	}
	g.readers.unlock()
	return g, nil
}

// begin makes the database in an empty folder.
func (g *generation) begin() error {
	if err := g.openDatabase(0); err != nil {
		return err
	}
	g.filter = newFilter(max(g.sizes.filter, 1<<20))
	fingerprint := g.store.options.Fingerprint
	err := g.writeMeta(meta{Format: formatVersion, Fingerprint: fingerprint, Created: time.Now().UTC().Truncate(time.Second)})
	if err == nil {
		err = g.db.Sync()
	}
	if err == nil {
		err = syncDir(g.store.root)
	}
	if err != nil {
		return errors.Join(err, g.db.Close())
	}
	return nil
}

func (g *generation) openDatabase(tables int) error {
	if err := handles(tables + spareHandles); err != nil {
		return err
	}
	db, err := badger.Open(databaseOptions(g.path, g.sizes, g.store.options.Compression, badgerLog{g.store.log}))
	if err != nil {
		return err
	}
	g.db = db
	return nil
}

// load opens an existing generation. Errors: misfit, errUnfinished, ErrDamaged, or one of the environment (see environment); whatever
// Badger can't open after the inspection counts as damage.
func (s *Store) load(path string) (*generation, error) {
	start := time.Now()
	in, err := inspect(path)
	if err != nil {
		return nil, err
	}
	if in.empty {
		return nil, errUnfinished
	}
	if in.dropped > 0 {
		s.log.Warn("the end of a store was lost, as after a power failure; it is read again",
			"dimension", s.options.Name, "logs", in.dropped)
	}
	z := s.sizes
	z.memtable = max(z.memtable, in.logMemory) // written with a greater store.memory: Badger dies when a log does not fit
	g := s.newGeneration(path, z)
	if err := g.openDatabase(in.tables); err != nil {
		return nil, err
	}
	if err := g.readState(); err != nil {
		return nil, errors.Join(err, g.db.Close())
	}
	g.readers.unlock()
	s.log.Debug("store opened", "dimension", s.options.Name, "folder", path, "tables", in.tables,
		"rows", g.rows.Load(), "complete", g.complete.Load(), "duration", time.Since(start))
	return g, nil
}

// writeMeta writes the generation's record about itself.
func (g *generation) writeMeta(m meta) error {
	value, err := json.Marshal(m)
	if err != nil {
		return err
	}
	key := []byte{kindMeta}
	err = g.transaction(func(txn *badger.Txn) error {
		return txn.Set(key, appendChecksum(value, key))
	})
	if err != nil {
		return err
	}
	g.meta = m
	return nil
}

// transaction commits what fill writes. After a commit that failed the state of the database is not known, so nothing is written any more
// until a restart has replayed the log.
func (g *generation) transaction(fill func(*badger.Txn) error) error {
	txn := g.db.NewTransaction(true)
	defer txn.Discard()
	if err := fill(txn); err != nil {
		return err
	}
	return g.commit(txn)
}

// commit closes every transaction of this package: the entry "s" keeps the highest number visible in the tables.
func (g *generation) commit(txn *badger.Txn) error {
	key := []byte{kindCommit}
	if err := txn.Set(key, appendChecksum(nil, key)); err != nil {
		return err
	}
	if err := txn.Commit(); err != nil {
		g.broken = fmt.Errorf("the store can't be written until the next start, after: %w", err)
		return g.broken
	}
	return nil
}

func (g *generation) margin() uint64 { return g.sizes.margin() }

// writable is called by the holder of writing before it writes size bytes.
func (g *generation) writable(size uint64) error {
	if g.broken != nil {
		return g.broken
	}
	if err := g.store.dir.usage.take(g.store.options.MaxDisk, size); err != nil {
		return err
	}
	return g.store.space.take(g.store.options.MinFreeDisk+g.margin(), size)
}

// markComplete is Store.MarkComplete for one generation.
func (g *generation) markComplete() error {
	g.writing.Lock()
	defer g.writing.Unlock()
	if g.meta.Complete && g.broken == nil {
		return nil
	}
	if err := g.writable(0); err != nil {
		return err
	}
	g.flatten("after the load")
	m := g.meta
	m.Complete = true
	// The first sync is for the rows, so that the mark is never there without them; the second for the mark.
	err := g.db.Sync()
	if err == nil {
		err = g.writeMeta(m)
	}
	if err == nil {
		err = g.db.Sync()
	}
	if err != nil {
		return err
	}
	g.filter = nil
	g.complete.Store(true)
	return nil
}

// flatten brings all tables to one level. It is for speed and space only: it is left out when there is no room for it, and its errors are
// nobody's misfortune.
func (g *generation) flatten(when string) {
	g.flattening.Lock()
	defer g.flattening.Unlock()
	s := g.store
	if err := s.space.take(s.options.MinFreeDisk+g.margin(), uint64(diskUsage(g.path))); err != nil {
		s.log.Warn("tables are not merged", "dimension", s.options.Name, "when", when, "error", err)
		return
	}
	start := time.Now()
	if err := g.db.Flatten(1); err != nil {
		s.log.Warn("tables are not merged", "dimension", s.options.Name, "when", when, "error", err)
		return
	}
	s.log.Debug("tables merged", "dimension", s.options.Name, "when", when, "duration", time.Since(start))
}

// positions returns them as stored.
func (g *generation) positions() []Position {
	g.mu.RLock()
	defer g.mu.RUnlock()
	out := make([]Position, 0, len(g.buckets))
	for i := range g.buckets {
		if g.buckets[i].hasPosition {
			out = append(out, g.buckets[i].position)
		}
	}
	return out
}

// bytes is the space on disk. The answer is up to a second old.
func (g *generation) bytes() int64 {
	g.sizeMu.Lock()
	defer g.sizeMu.Unlock()
	if now := time.Now(); g.sizeAt.IsZero() || now.Sub(g.sizeAt) > time.Second {
		g.size, g.sizeAt = diskUsage(g.path), now
	}
	return g.size
}

// stop lets nothing be written any more, for the reason given, and waits for the background work. It returns the reason that was there
// before.
func (g *generation) stop(why error) (before error) {
	g.writing.Lock()
	before, g.broken = g.broken, why
	select {
	case <-g.closing:
	default:
		close(g.closing)
	}
	g.writing.Unlock()
	g.background.Wait()
	return before
}

// close waits until all views are closed, writes out what is in memory and closes the files. Stop was called before.
func (g *generation) close() error {
	g.readers.shut()
	if g.db.IsClosed() {
		return nil
	}
	return g.db.Close()
}

// remove is close for a generation that nobody needs any more; its folder goes too.
func (g *generation) remove(why error) error {
	_ = g.stop(why)
	if err := g.close(); err != nil {
		g.store.log.Warn("close of a generation that is dropped", "dimension", g.store.options.Name, "error", err)
	}
	return removeGeneration(g.path)
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
func (g *generation) noteDamage(err error) error {
	if errors.Is(err, ErrDamaged) {
		g.damage.Do(func() {
			note := os.WriteFile(filepath.Join(g.path, damagedMark), []byte(err.Error()+"\n"), 0o640)
			g.store.log.Error("stored data is damaged; the next start loads the dimension anew",
				"dimension", g.store.options.Name, "folder", g.path, "error", errors.Join(err, note))
		})
	}
	return err
}
