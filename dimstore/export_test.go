package dimstore

import (
	"encoding/binary"
	"fmt"

	"github.com/dgraph-io/badger/v4"
)

// SetSpace lets tests say what the file system has; it holds for stores opened later as well.
func (d *Dir) SetSpace(statfs func(path string) (free, total uint64, err error)) { d.statfs = statfs }

// Path is the folder of the generation.
func (s *Store) Path() string { return s.current.Load().path }

// DirError is dirError.
func DirError(dir string, err error) error { return dirError(dir, err) }

// OpenError is openError.
func OpenError(what string, err error) error { return openError(what, err) }

// Environment is environment.
func Environment(err error) bool { return environment(err) }

// FolderName is folderName.
func FolderName(name string) string { return folderName(name) }

// SetSweepRows is how many rows a transaction removes of a dropped partition, in stores opened later.
func (d *Dir) SetSweepRows(n int) { d.sweepRows = n }

// AwaitSweep waits until nothing is left of dropped partitions and their space is given back, as far as that is done.
func (s *Store) AwaitSweep() { s.current.Load().background.Wait() }

// SetFormat makes the generation one of another version of this package.
func (s *Store) SetFormat(format int) error {
	g := s.current.Load()
	g.writing.Lock()
	defer g.writing.Unlock()
	m := g.meta
	m.Format = format
	return g.writeMeta(m)
}

// Audit reads everything and says what does not belong together. Swept says that nothing may be left of dropped partitions.
func (s *Store) Audit(swept bool) error {
	g := s.current.Load()
	txn, live, err := g.snapshot()
	defer txn.Discard()
	if err != nil {
		return err
	}
	rows := make(map[uint32]int64)
	entries := make(map[string]bool)
	var values indexValues
	it := txn.NewIterator(badger.IteratorOptions{})
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		key := it.Item().KeyCopy(nil)
		value, err := it.Item().ValueCopy(nil)
		if err != nil {
			return err
		}
		switch key[0] {
		case kindDropped:
			if swept {
				return fmt.Errorf("partition %d is still being removed", binary.BigEndian.Uint32(key[1:]))
			}
		case kindPart:
			named, err := namesParts(txn, it.Item(), binary.BigEndian.Uint64(key[1:]))
			if err != nil || !named {
				return fmt.Errorf("a part that nothing names: %w", err)
			}
		case kindIndex:
			entries[string(key)] = true
		case kindRow:
			h, rest, err := parseRow(key, value)
			if err != nil {
				return err
			}
			number := binary.BigEndian.Uint32(key[1:])
			if h.flags&flagMark != 0 {
				rows[number] += 0
				continue
			}
			rows[number]++
			p, err := (&view{txn: txn}).payload(h, rest)
			if err != nil {
				return err
			}
			if p.full == nil {
				p.full = key
			}
			values.fill(s.options.Indexes, p.row)
			for i := range s.options.Indexes {
				codes, ok := values.of(i)
				if !ok {
					continue
				}
				entry := appendIndexKey(nil, i, codes, number, p.full[5:])
				if !entries[string(entry)] { // "i" is before "r"
					return fmt.Errorf("row %.40q is missing in index %d", key, i)
				}
				delete(entries, string(entry))
			}
		}
	}
	if swept && len(entries) > 0 {
		return fmt.Errorf("%d index entries without a row", len(entries))
	}
	known := make(map[uint32]*partition)
	for _, p := range g.partitions {
		known[p.number] = p
	}
	for number, n := range rows {
		p, ok := live.numbered(number)
		switch {
		case ok && p.rows != n:
			return fmt.Errorf("partition %q: %d rows, counted %d", p.tuple, p.rows, n)
		case !ok && swept && known[number] == nil:
			return fmt.Errorf("%d rows of partition %d, which was dropped", n, number)
		case !ok && swept && n > 0:
			return fmt.Errorf("%d rows of partition %d, which has none", n, number)
		}
		delete(known, number)
	}
	for _, p := range known {
		if p.rows > 0 {
			return fmt.Errorf("partition %q has none of its %d rows", p.tuple, p.rows)
		}
	}
	return nil
}

// Known is how many partitions are kept in memory, those without rows included.
func (s *Store) Known() int { return len(s.current.Load().partitions) }

// CacheEarly has the cache used in the first load too. It is called before anything else.
func (s *Store) CacheEarly() { s.cacheEarly = true }
