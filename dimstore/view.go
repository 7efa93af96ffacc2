package dimstore

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/dgraph-io/badger/v4"

	"enricher/record"
)

// Read opens a view of the store as it is now: every Apply that has returned is in it.
func (s *Store) Read() View {
	if !s.readers.enter() {
		return &view{store: s}
	}
	return &view{store: s, txn: s.db.NewTransaction(false)}
}

// view is one read transaction.
type view struct {
	store *Store
	txn   *badger.Txn // nil: the store was closed before
	key   []byte
	rows  *badger.Iterator // over all rows, made by the first Scan: making one costs more than a seek
	inUse bool             // a Scan is going on with it
}

func (v *view) Close() {
	if v.txn == nil {
		return
	}
	if v.rows != nil {
		v.rows.Close()
	}
	v.txn.Discard()
	v.txn = nil
	v.store.readers.leave()
}

func (v *view) HasPartition(partition []byte) bool {
	s := v.store
	name := partitionName(partition)
	s.mu.RLock()
	defer s.mu.RUnlock()
	_, ok := s.partitions[string(name)]
	return ok
}

// Latest looks through all partitions.
func (v *view) Latest(n int) [][]byte {
	all := v.store.PartitionList()
	slices.Reverse(all)
	return all[:min(max(n, 0), len(all))]
}

// ScanIndex finds nothing as long as no index is kept: OpenStore refuses Options.Indexes.
func (v *view) ScanIndex(index int, _ []byte, _ func(row record.Row) bool) error {
	return fmt.Errorf("scan index: BUG: there is no index %d", index)
}

func (v *view) Get(partition, key []byte) (record.Row, bool, error) {
	if v.txn == nil {
		return nil, false, ErrClosed
	}
	v.key = shorten(appendFullRowKey(v.key[:0], partition, key), 0)
	item, err := v.txn.Get(v.key)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("get row: %w", err)
	}
	var stored []byte
	// The slice is the item's own copy, and nobody else has the item: it lives as long as it is referred to.
	if err := item.Value(func(value []byte) error { stored = value; return nil }); err != nil {
		return nil, false, fmt.Errorf("get row: %w", err)
	}
	h, payload, err := parseRow(v.key, stored)
	if err == nil && h.flags&flagMark != 0 {
		return nil, false, nil
	}
	if err == nil {
		_, payload, err = v.row(h, payload)
	}
	if err != nil {
		return nil, false, v.store.noteDamage(fmt.Errorf("get row: %w", err))
	}
	return payload, true, nil
}

// row brings a payload together and splits it into the full key (of a long key only) and the row.
func (v *view) row(h header, payload []byte) (full []byte, row record.Row, err error) {
	if h.flags&flagParts != 0 {
		if payload, err = readParts(v.txn, payload); err != nil {
			return nil, nil, err
		}
	}
	if h.flags&flagLong != 0 {
		return splitLong(payload)
	}
	return nil, payload, nil
}

func (v *view) Scan(partition, prefix []byte, yield func(row record.Row) bool) error {
	if v.txn == nil {
		return ErrClosed
	}
	full := appendFullRowKey(nil, partition, prefix)
	it, release := v.iterator()
	defer release()
	if err := v.scan(it, full, yield); err != nil {
		return v.store.noteDamage(fmt.Errorf("scan rows: %w", err))
	}
	return nil
}

// iterator lends the view's own one, or makes one for a Scan inside a Scan.
func (v *view) iterator() (it *badger.Iterator, release func()) {
	if v.inUse {
		it = v.newIterator()
		return it, it.Close
	}
	if v.rows == nil {
		v.rows = v.newIterator()
	}
	v.inUse = true
	return v.rows, func() { v.inUse = false }
}

func (v *view) newIterator() *badger.Iterator {
	return v.txn.NewIterator(badger.IteratorOptions{Prefix: []byte{kindRow}})
}

// longRow is one of a run of rows whose keys are the same in all that is stored of them in order.
type longRow struct {
	key []byte
	row record.Row
}

func (v *view) scan(it *badger.Iterator, full []byte, yield func(row record.Row) bool) error {
	seek := full[:min(len(full), maxInlineKey)]
	var run []longRow
	var head []byte // of the run, copied
	flush := func() bool {
		slices.SortFunc(run, func(a, b longRow) int { return bytes.Compare(a.key, b.key) })
		for _, r := range run {
			if !yield(r.row) {
				return false
			}
		}
		run = run[:0]
		return true
	}
	for it.Seek(seek); it.ValidForPrefix(seek); it.Next() {
		item := it.Item()
		key := item.Key()
		if len(run) > 0 && (len(key) != longKey || !bytes.Equal(head, key[:maxInlineKey])) && !flush() {
			return nil
		}
		if len(key) < len(full) && len(key) != longKey {
			continue // as long as what is stored of the prefix, and shorter than the prefix
		}
		more := true
		err := item.Value(func(value []byte) error {
			h, payload, err := parseRow(key, value)
			if err != nil || h.flags&flagMark != 0 {
				return err
			}
			own, row, err := v.row(h, payload)
			if err != nil {
				return err
			}
			if h.flags&flagLong == 0 {
				more = yield(row)
				return nil
			}
			if bytes.HasPrefix(own, full) {
				head = append(head[:0], key[:maxInlineKey]...)
				run = append(run, longRow{bytes.Clone(own), bytes.Clone(row)})
			}
			return nil
		})
		if err != nil || !more {
			return err
		}
	}
	flush()
	return nil
}
