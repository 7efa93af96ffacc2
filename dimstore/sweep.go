package dimstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dgraph-io/badger/v4"
)

// A partition is dropped in two steps. One transaction takes its record away and notes its number: from there on no view finds it, and if it
// comes back, it has another number. A goroutine then removes rows, marks and index entries of that number in small transactions between those
// of Apply, and in the end the note. What a crash leaves is removed after the next open.

// droppedPartition is one whose rows are not all removed.
type droppedPartition struct {
	number uint32
	from   []byte // key to go on at: what is before it is removed. Badger would have to walk over it again otherwise
}

const (
	sweepMost  = 1000             // rows of one transaction
	sweepPause = 10 * time.Second // when there is no space to write that something is removed

	// Space comes back when Badger compacts, which it does as more is written. When what was removed is a reclaimPart of the disk space or more,
	// the tables are merged at once: not when there are so few that all may be in level 0, where Badger leaves them, nor when there are so many
	// that Close would have to wait long for it.
	reclaimPart  = 8
	reclaimMost  = 2 << 30
	reclaimLeast = 5 // memtables
)

// DropPartition removes a partition with all its rows. When it returns, views opened from now on don't have it; the rows are removed from disk
// in the background, after a restart if need be. If there is no such partition, it does nothing. A change of a key of it that is applied later
// makes a new partition: what must not come back has to be left out by the caller.
//
// It writes while half of Options.MinFreeDisk is free, since it makes room. Errors: ErrNoSpace, ErrClosed, others after which the store can't be
// written until the next start.
func (s *Store) DropPartition(partition []byte) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	return s.current.Load().dropPartition(partition)
}

func (g *generation) dropPartition(tuple []byte) error {
	g.writing.Lock()
	defer g.writing.Unlock()
	p := g.partitions[string(tuple)]
	if p == nil && g.broken == nil {
		return nil
	}
	if err := g.sweepable(uint64(len(tuple))); err != nil {
		return fmt.Errorf("drop a partition: %w", err)
	}
	if p.rows > 0 {
		g.announce([]edit[*partition]{{item: p, out: true}})
	}
	indexed := g.caching() && len(g.store.options.Indexes) > 0
	if indexed {
		g.cache.removingKind(kindIndex)
	}
	err := g.transaction(func(txn *badger.Txn) error {
		key := droppedKey(p.number)
		if err := txn.Set(key, appendChecksum(nil, key)); err != nil {
			return err
		}
		return txn.Delete(partitionKey(p.tuple))
	})
	if err != nil {
		return fmt.Errorf("drop a partition: %w", err)
	}
	if indexed {
		g.cache.complete()
	}
	g.settle()
	delete(g.partitions, string(tuple))
	g.rows.Add(-p.rows)
	g.dropped = append(g.dropped, droppedPartition{number: p.number})
	if err := g.removeParts(p.parts); err != nil {
		return fmt.Errorf("drop a partition: %w", err)
	}
	g.startSweep()
	return nil
}

// sweepable is writable for what makes room in the end.
func (g *generation) sweepable(size uint64) error {
	if g.broken != nil {
		return g.broken
	}
	return g.store.space.take(g.store.options.MinFreeDisk/2+g.margin(), size)
}

// readDropped reads which partitions are to be removed.
func (g *generation) readDropped(txn *badger.Txn) error {
	return each(txn, kindDropped, func(key, _ []byte) error {
		if len(key) != 1+partitionNumberSize {
			return fmt.Errorf("%w: number of a dropped partition", ErrDamaged)
		}
		number := binary.BigEndian.Uint32(key[1:])
		g.dropped = append(g.dropped, droppedPartition{number: number})
		g.nextPartition = max(g.nextPartition, number+1)
		return nil
	})
}

// startSweep is called by the holder of writing.
func (g *generation) startSweep() {
	if len(g.dropped) == 0 || g.sweeping || g.broken != nil {
		return
	}
	g.sweeping = true
	g.background.Go(g.sweep)
}

// sweep removes what was dropped, until there is nothing left.
func (g *generation) sweep() {
	var swept int64
	for {
		d, ok := g.firstDropped()
		switch {
		case ok:
		case swept > 0:
			g.reclaim(swept)
			swept = 0
			continue
		case g.endSweep():
			return
		default:
			continue
		}
		n, err := g.sweepSome(d)
		swept += n
		switch {
		case err == nil:
		case errors.Is(err, ErrNoSpace):
			select {
			case <-g.closing:
				return
			case <-time.After(sweepPause):
			}
		default:
			select {
			case <-g.closing:
			default:
				err = g.noteDamage(err)
				g.store.log.Error("the rows of a dropped partition stay on disk until the next start", "dimension", g.store.options.Name, "error", err)
			}
			return
		}
	}
}

func (g *generation) firstDropped() (d droppedPartition, ok bool) {
	g.writing.Lock()
	defer g.writing.Unlock()
	if len(g.dropped) == 0 {
		return d, false
	}
	return g.dropped[0], true
}

// endSweep reports whether nothing was dropped meanwhile.
func (g *generation) endSweep() bool {
	g.writing.Lock()
	defer g.writing.Unlock()
	g.sweeping = len(g.dropped) > 0
	return !g.sweeping
}

// removal is what one transaction of a sweep removes.
type removal struct {
	keys  [][]byte
	parts []parts
	size  int64  // of the keys
	swept int64  // on disk, about
	from  []byte // where to go on; nil: nothing is left
}

// sweepSome removes some rows, and with the last of them the note. Nobody else writes under the number of a dropped partition, so it reads
// without holding up Apply.
func (g *generation) sweepSome(d droppedPartition) (swept int64, err error) {
	r, err := g.collect(d)
	if err != nil {
		return 0, err
	}
	g.writing.Lock()
	defer g.writing.Unlock()
	if err := g.sweepable(uint64(r.size)); err != nil {
		return 0, err
	}
	err = g.transaction(func(txn *badger.Txn) error {
		for _, key := range r.keys {
			if err := txn.Delete(key); err != nil {
				return err
			}
		}
		if r.from == nil {
			return txn.Delete(droppedKey(d.number))
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	if r.from == nil {
		g.dropped = g.dropped[1:]
	} else {
		g.dropped[0].from = r.from
	}
	for _, p := range r.parts {
		if err := g.removeParts(p); err != nil {
			return r.swept, err
		}
	}
	return r.swept, nil
}

// collect finds what to remove next.
func (g *generation) collect(d droppedPartition) (removal, error) {
	txn := g.db.NewTransaction(false)
	defer txn.Discard()
	prefix := appendRowKey(nil, d.number, nil)
	it := txn.NewIterator(badger.IteratorOptions{Prefix: prefix})
	defer it.Close()
	var r removal
	var values indexValues
	from := d.from
	if from == nil {
		from = prefix
	}
	rows := 0
	for it.Seek(from); it.Valid(); it.Next() {
		item := it.Item()
		// A row has so many index entries at most, and they are of about the size of its key.
		entries := int64(1 + len(g.store.options.Indexes))
		full := rows == g.store.sweepRows || r.size+entries*(longKey+entryCost) > g.db.MaxBatchSize() && rows > 0 ||
			int64(len(r.keys))+entries+8 > g.db.MaxBatchCount()
		if full {
			r.from = item.KeyCopy(nil)
			break
		}
		if err := r.add(txn, item, g.store.options.Indexes, &values); err != nil {
			return r, err
		}
		rows++
	}
	return r, nil
}

// add takes up a row or a mark with all that belongs to it.
func (r *removal) add(txn *badger.Txn, item *badger.Item, indexes []Index, values *indexValues) error {
	key := item.KeyCopy(nil)
	r.remove(key)
	r.swept += item.EstimatedSize()
	return item.Value(func(value []byte) error {
		h, rest, err := parseRow(key, value)
		if err != nil {
			return err
		}
		if h.flags&flagParts != 0 {
			p, err := parseParts(rest)
			if err != nil {
				return err
			}
			r.parts = append(r.parts, p)
			r.swept += int64(p.size)
			if h.flags&flagMark == 0 && len(indexes) > 0 {
				if rest, err = readParts(txn, p); err != nil {
					return err
				}
			}
		}
		if h.flags&flagMark != 0 || len(indexes) == 0 {
			return nil
		}
		content, err := parsePayload(h, rest)
		if err != nil {
			return err
		}
		if content.full == nil {
			content.full = key
		}
		number := binary.BigEndian.Uint32(key[partitionNumberAt:])
		values.fill(indexes, content.row)
		for i := range indexes {
			if codes, ok := values.of(i); ok {
				entry := appendIndexKey(nil, i, codes, number, content.full[partitionNumberAt+partitionNumberSize:])
				r.remove(entry)
				r.swept += int64(len(entry))
			}
		}
		return nil
	})
}

func (r *removal) remove(key []byte) {
	r.keys = append(r.keys, key)
	r.size += int64(len(key)) + entryCost
}

// reclaim gives the space of removed rows back when it is worth it.
func (g *generation) reclaim(swept int64) {
	usage := diskUsage(g.path)
	if swept < usage/reclaimPart || usage > reclaimMost || usage < reclaimLeast*g.sizes.memtable {
		return
	}
	if err := g.pushOut(); err != nil {
		select {
		case <-g.closing:
		default:
			g.store.log.Warn("the space of a dropped partition comes back later", "dimension", g.store.options.Name, "error", err)
		}
		return
	}
	g.flatten("after a partition was dropped")
}

// pushOut has the memtable written to a table, by filling it: only in tables do removals meet what they remove, and Badger has no other way
// that leaves readers and writers alone. It waits until that is done.
func (g *generation) pushOut() error {
	before, err := g.logs()
	if err != nil {
		return err
	}
	key := []byte{kindFiller}
	value := appendChecksum(make([]byte, g.inlineLimit()/2), key)
	for written := int64(0); written < 2*g.sizes.memtable; written += int64(len(value)) {
		if err := g.fill(key, value); err != nil {
			return err
		}
		now, err := g.logs()
		if err != nil {
			return err
		}
		if len(now) > 0 && !slices.Contains(before, now[len(now)-1]) {
			break
		}
	}
	for {
		now, err := g.logs()
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(now, func(name string) bool { return slices.Contains(before, name) }) {
			return g.fill(key, nil)
		}
		select {
		case <-g.closing:
			return ErrClosed
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// fill writes the filler, or removes it.
func (g *generation) fill(key, value []byte) error {
	g.writing.Lock()
	defer g.writing.Unlock()
	if err := g.sweepable(uint64(2 * len(value))); err != nil {
		return err
	}
	return g.transaction(func(txn *badger.Txn) error {
		if value == nil {
			return txn.Delete(key)
		}
		return txn.Set(key, value)
	})
}

// logs lists the logs of the memtables, the latest last.
func (g *generation) logs() ([]string, error) {
	entries, err := os.ReadDir(g.path)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if filepath.Ext(e.Name()) == logExt {
			names = append(names, e.Name())
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		if c := logNumber(a) - logNumber(b); c != 0 {
			return c
		}
		return strings.Compare(a, b)
	})
	return names, nil
}
