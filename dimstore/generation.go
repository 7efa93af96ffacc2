package dimstore

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/dgraph-io/badger/v4"
)

const (
	damagedFolder  = "damaged"
	removingPrefix = ".removing-"
	spareHandles   = 64 // for what a database opens besides the tables it has: logs, new tables
)

// errUnfinished is given by load for a generation that a crash interrupted before anything was written to it.
var errUnfinished = errors.New("generation was not begun")

// misfit is given by load for a generation that is whole, but not what is wanted.
type misfit string

func (m misfit) Error() string { return "generation does not fit: " + string(m) }

// OpenStore opens the generation of a dimension, or begins an empty one: when there is none, when the one there does not fit or is damaged
// (Discarded tells). Errors, with nothing set aside: ErrNoSpace (less than half of MinFreeDisk is free: a restart of a store that stopped
// applying still works), ErrUnusable, and others of the environment.
func (d *Dir) OpenStore(o Options) (*Store, error) {
	if o.Name == "" {
		return nil, errors.New("open store: a dimension needs a name")
	}
	switch o.Version {
	case "", VersionOffset:
	default:
		return nil, fmt.Errorf("open store of %s: version %q is not known", o.Name, o.Version)
	}
	if len(o.Indexes) > 0 {
		return nil, fmt.Errorf("open store of %s: indexes are not kept yet", o.Name)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if !d.opening(o.Name) {
		return nil, fmt.Errorf("open store of %s: it is open already", o.Name)
	}
	s := &Store{
		dir: d, options: o, log: o.Logger, root: filepath.Join(d.path, folderName(o.Name)), readers: newGate(),
		space: &space{path: d.path, statfs: d.statfs},
	}
	s.SetDeleteMarkTTL(o.DeleteMarkTTL)
	if err := s.open(); err != nil {
		d.closed(o.Name)
		return nil, openError("open store of "+o.Name, err)
	}
	s.readers.unlock()
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

// folderName makes a file name of a dimension's name, different for different names.
func folderName(name string) string {
	var b strings.Builder
	for i := range len(name) {
		c := name[i]
		plain := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.' && i > 0
		if plain {
			b.WriteByte(c)
			continue
		}
		fmt.Fprintf(&b, "%%%02X", c)
	}
	switch out := b.String(); {
	case out == lockFile || out == instanceFile || out == instanceFile+".tmp":
		return fmt.Sprintf("%%%02X%s", out[0], out[1:])
	case len(out) > 200:
		return fmt.Sprintf("%s%%%x", out[:150], shortSum(name))
	default:
		return out
	}
}

// open brings the store to a generation, whatever it finds.
func (s *Store) open() error {
	_, total, err := s.dir.statfs(s.dir.path)
	if err != nil {
		return err
	}
	compressed := s.options.Compression == "snappy" || s.options.Compression == "zstd"
	s.sizes = sizesFor(s.options.Memory, compressed, total)
	if err := s.space.take(s.options.MinFreeDisk/2+s.margin(), 0); err != nil {
		return err
	}
	if err := os.MkdirAll(s.root, 0o750); err != nil {
		return err
	}
	number, err := s.lastGeneration()
	if err != nil {
		return err
	}
	s.path = s.generation(number)
	if number == 0 {
		return s.create()
	}
	return s.resume()
}

// resume loads the generation at s.path, or replaces it.
func (s *Store) resume() error {
	err := s.load()
	fit, misfits := errors.AsType[misfit](err)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errUnfinished):
	case misfits:
		s.discarded = string(fit)
		s.log.Info("stored rows are dropped", "dimension", s.options.Name, "reason", s.discarded, "folder", s.path)
	case environment(err) && !errors.Is(err, ErrDamaged):
		return err
	default:
		return s.replaceDamaged(err)
	}
	if err := removeGeneration(s.path); err != nil {
		return err
	}
	return s.create()
}

// replaceDamaged moves the generation aside, keeping the last one only, and begins an empty one.
func (s *Store) replaceDamaged(why error) error {
	aside := filepath.Join(s.root, damagedFolder)
	if err := removeGeneration(aside); err != nil {
		return err
	}
	if err := os.Rename(s.path, aside); err != nil {
		return err
	}
	if err := syncDir(s.root); err != nil {
		return err
	}
	s.discarded = "damaged"
	_ = os.WriteFile(filepath.Join(aside, damagedMark), []byte(why.Error()+"\n"), 0o640) // for people; the log has it too
	s.log.Error("stored rows are damaged; the dimension is loaded anew",
		"dimension", s.options.Name, "moved_to", aside, "error", why)
	return s.create()
}

func (s *Store) generation(number int) string {
	return filepath.Join(s.root, fmt.Sprintf("%06d", number))
}

// lastGeneration finds the generation to use, 0 for none. It finishes removals, also of earlier generations.
func (s *Store) lastGeneration() (int, error) {
	entries, err := os.ReadDir(s.root)
	if err != nil {
		return 0, err
	}
	last := 0
	var earlier []int
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), removingPrefix) {
			if err := os.RemoveAll(filepath.Join(s.root, e.Name())); err != nil {
				return 0, err
			}
			continue
		}
		number, err := strconv.Atoi(e.Name())
		if err != nil || !e.IsDir() || number <= 0 {
			continue
		}
		if last > 0 {
			earlier = append(earlier, last)
		}
		last = number // in order of the names
	}
	for _, number := range earlier {
		if err := removeGeneration(s.generation(number)); err != nil {
			return 0, err
		}
	}
	return last, nil
}

// removeGeneration removes a folder so that a crash leaves either all of it or nothing that is ever opened.
func removeGeneration(path string) error {
	root, name := filepath.Split(path)
	gone := filepath.Join(root, removingPrefix+name)
	if err := os.RemoveAll(gone); err != nil {
		return err
	}
	if err := os.Rename(path, gone); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	if err := syncDir(root); err != nil {
		return err
	}
	return os.RemoveAll(gone)
}

// create begins the next generation, empty, and makes sure that it survives.
func (s *Store) create() error {
	number, err := strconv.Atoi(filepath.Base(s.path))
	if err != nil {
		return fmt.Errorf("BUG: generation %s", s.path)
	}
	s.path = s.generation(number + 1)
	if err := os.Mkdir(s.path, 0o750); err != nil {
		return err
	}
	if err := s.openDatabase(s.sizes, 0); err != nil {
		return err
	}
	s.forget()
	s.filter = newFilter(max(s.options.Memory/16, 1<<20))
	err = s.writeMeta(meta{Format: formatVersion, Fingerprint: s.options.Fingerprint, Created: time.Now().UTC().Truncate(time.Second)})
	if err == nil {
		err = s.db.Sync()
	}
	if err == nil {
		err = syncDir(s.root)
	}
	if err != nil {
		return errors.Join(err, s.db.Close())
	}
	return nil
}

// forget brings everything in memory to that of an empty generation.
func (s *Store) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.partitions = make(map[string]int64)
	s.buckets = nil
	s.numbers = make(map[BucketID]uint32)
	s.rows.Store(0)
	s.complete.Store(false)
	s.meta, s.broken, s.filter, s.nextPart = meta{}, nil, nil, 1
}

func (s *Store) openDatabase(z sizes, tables int) error {
	if err := handles(tables + spareHandles); err != nil {
		return err
	}
	db, err := badger.Open(databaseOptions(s.path, z, s.options.Compression, badgerLog{s.log}))
	if err != nil {
		return err
	}
	s.db = db
	s.batch = batch{}
	return nil
}

// load opens an existing generation. Errors: misfit, errUnfinished, ErrDamaged, or one of the environment (see environment); whatever
// Badger can't open after the inspection counts as damage.
func (s *Store) load() error {
	start := time.Now()
	in, err := inspect(s.path)
	if err != nil {
		return err
	}
	if in.empty {
		return errUnfinished
	}
	if in.dropped > 0 {
		s.log.Warn("the end of a store was lost, as after a power failure; it is read again",
			"dimension", s.options.Name, "logs", in.dropped)
	}
	z := s.sizes
	z.memtable = max(z.memtable, in.logMemory) // written with a greater store.memory: Badger dies when a log does not fit
	if err := s.openDatabase(z, in.tables); err != nil {
		return err
	}
	s.forget()
	if err := s.readState(); err != nil {
		return errors.Join(err, s.db.Close())
	}
	s.log.Debug("store opened", "dimension", s.options.Name, "folder", s.path, "tables", in.tables,
		"rows", s.Rows(), "complete", s.Complete(), "duration", time.Since(start))
	return nil
}

// readState reads all that the store keeps in memory.
func (s *Store) readState() error {
	txn := s.db.NewTransaction(false)
	defer txn.Discard()
	if err := s.readMeta(txn); err != nil {
		return err
	}
	if err := s.readBuckets(txn); err != nil {
		return err
	}
	if err := s.readPartitions(txn); err != nil {
		return err
	}
	return s.removeOrphans(txn)
}

func (s *Store) readMeta(txn *badger.Txn) error {
	item, err := txn.Get([]byte{kindMeta})
	if errors.Is(err, badger.ErrKeyNotFound) {
		if s.db.MaxVersion() == 0 {
			return errUnfinished
		}
		return fmt.Errorf("%w: its description is missing", ErrDamaged)
	}
	if err != nil {
		return err
	}
	value, err := item.ValueCopy(nil)
	if err != nil {
		return err
	}
	if value, err = checked([]byte{kindMeta}, value); err != nil {
		return err
	}
	var m meta
	if err := json.Unmarshal(value, &m); err != nil {
		return fmt.Errorf("%w: its description: %w", ErrDamaged, err)
	}
	switch {
	case m.Format != formatVersion:
		return misfit("format")
	case m.Fingerprint != s.options.Fingerprint:
		return misfit("definition")
	}
	s.meta = m
	s.complete.Store(m.Complete)
	return nil
}

// each calls f with the checked value of every entry of a kind; key and value are valid in the call only.
func each(txn *badger.Txn, kind byte, f func(key, value []byte) error) error {
	it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{kind}})
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		item := it.Item()
		err := item.Value(func(value []byte) error {
			value, err := checked(item.Key(), value)
			if err != nil {
				return err
			}
			return f(item.Key(), value)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) readBuckets(txn *badger.Txn) error {
	return each(txn, kindBucket, func(key, value []byte) error {
		b, err := parseBucket(value)
		if err != nil {
			return err
		}
		number := uint32(len(s.buckets))
		if string(key) != string(bucketKey(number)) {
			return fmt.Errorf("%w: bucket %d is missing", ErrDamaged, number)
		}
		s.buckets = append(s.buckets, b)
		s.numbers[b.id] = number
		return nil
	})
}

func (s *Store) readPartitions(txn *badger.Txn) error {
	return each(txn, kindPartition, func(key, value []byte) error {
		r := reader{b: value}
		n := int64(r.uvarint())
		if r.bad || n <= 0 {
			return fmt.Errorf("%w: row counter of a partition", ErrDamaged)
		}
		s.partitions[string(key[1:])] = n
		s.rows.Add(n)
		return nil
	})
}
