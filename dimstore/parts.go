package dimstore

import (
	"errors"
	"fmt"

	"github.com/dgraph-io/badger/v4"
)

// A payload too large for one entry is stored in parts before the row that names them, each in a transaction of its own. A part carries the
// key of its row, so that an open after a crash in between finds out that no row names it. They are removed after the row that named them
// was replaced. The same goes for a mark with a large version, whose parts stay until an open after it has expired, and for the tuple of a
// partition and its record.

// inlineLimit is the greatest payload that is stored whole: four of them fit into a transaction, and none goes to the value log.
func (g *generation) inlineLimit() int { return min(int(g.db.MaxBatchSize()/4), 768<<10) }

// writeParts stores a payload and returns its name.
func (g *generation) writeParts(rowKey, payload []byte) (parts, error) {
	p := parts{id: g.nextPart, size: len(payload)}
	g.nextPart++
	step := g.inlineLimit() - len(rowKey) - 64
	for len(payload) > 0 {
		n := min(step, len(payload))
		key := partKey(p.id, p.count)
		value := make([]byte, 0, n+len(rowKey)+16)
		value = appendBytes(value, rowKey)
		value = append(value, payload[:n]...)
		value = appendChecksum(value, key)
		err := g.transaction(func(txn *badger.Txn) error { return txn.Set(key, value) })
		if err != nil {
			return p, err
		}
		payload = payload[n:]
		p.count++
	}
	return p, nil
}

// readParts brings a payload together.
func readParts(txn *badger.Txn, p parts) ([]byte, error) {
	var out []byte
	for i := range p.count {
		key := partKey(p.id, i)
		item, err := txn.Get(key)
		if errors.Is(err, badger.ErrKeyNotFound) {
			return nil, fmt.Errorf("%w: part %d of a row is missing", ErrDamaged, i)
		}
		if err != nil {
			return nil, err
		}
		err = item.Value(func(value []byte) error {
			value, err := checked(key, value)
			if err != nil {
				return err
			}
			r := reader{b: value}
			r.bytes()
			if r.bad {
				return fmt.Errorf("%w: part %d of a row", ErrDamaged, i)
			}
			out = append(out, r.b...)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	if len(out) != p.size {
		return nil, fmt.Errorf("%w: parts of a row: %d bytes of %d", ErrDamaged, len(out), p.size)
	}
	return out, nil
}

// removeParts removes what no row names any more. What a crash leaves of it goes at the next open.
func (g *generation) removeParts(p parts) error {
	const step = 256 // entries of one transaction
	for first := uint32(0); first < p.count; first += step {
		err := g.transaction(func(txn *badger.Txn) error {
			for i := first; i < min(first+step, p.count); i++ {
				if err := txn.Delete(partKey(p.id, i)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// removeOrphans looks through the keys of all parts and removes those that their rows do not name.
func (g *generation) removeOrphans(txn *badger.Txn) error {
	it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{kindPart}})
	defer it.Close()
	var orphans []parts
	var last parts
	named := false
	for it.Rewind(); it.Valid(); it.Next() {
		item := it.Item()
		id, part, ok := parsePartKey(item.Key())
		if !ok {
			return fmt.Errorf("%w: key of a part of a row", ErrDamaged)
		}
		if id != last.id {
			last = parts{id: id}
			g.nextPart = max(g.nextPart, id+1)
			var err error
			if named, err = namesParts(txn, item, id); err != nil {
				return err
			}
		}
		last.count = part + 1
		if named {
			continue
		}
		if n := len(orphans); n > 0 && orphans[n-1].id == id {
			orphans[n-1] = last
		} else {
			orphans = append(orphans, last)
		}
	}
	for _, p := range orphans {
		if err := g.removeParts(p); err != nil {
			return err
		}
	}
	return nil
}

// namesParts tells whether the row that a part belongs to names it.
func namesParts(txn *badger.Txn, part *badger.Item, id uint64) (bool, error) {
	value, err := part.ValueCopy(nil)
	if err != nil {
		return false, err
	}
	if value, err = checked(part.Key(), value); err != nil {
		return false, err
	}
	r := reader{b: value}
	rowKey := r.bytes()
	if r.bad || len(rowKey) == 0 {
		return false, fmt.Errorf("%w: part of a row", ErrDamaged)
	}
	if rowKey[0] == kindPartition {
		p, ok, err := getPartition(txn, rowKey)
		return ok && p.parts.count > 0 && p.parts.id == id, err
	}
	item, err := txn.Get(rowKey)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	named := false
	err = item.Value(func(value []byte) error {
		h, payload, err := parseRow(rowKey, value)
		if err != nil || h.flags&flagParts == 0 {
			return err
		}
		p, err := parseParts(payload)
		named = p.id == id
		return err
	})
	return named, err
}
