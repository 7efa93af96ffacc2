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
	for {
		g := s.current.Load()
		if g.readers.enter() {
			v := &view{gen: g}
			v.cached.open(g)
			v.txn, v.live, v.err = g.snapshot()
			return v
		}
		if s.current.Load() == g {
			return &view{live: &liveSet{}, err: ErrClosed}
		}
		// Another generation took its place meanwhile.
	}
}

// view is one read transaction.
type view struct {
	gen  *generation // nil: the store was closed before
	txn  *badger.Txn
	live *liveSet
	err  error // that every method returns
	last *partition
	key  []byte

	rows    lentIterator
	entries lentIterator
	cached  cached
}

// lentIterator is an iterator of a view over one kind, made when it is first needed: making one costs more than a seek.
type lentIterator struct {
	it    *badger.Iterator
	inUse bool
}

func (v *view) Close() {
	if v.gen == nil {
		return
	}
	for _, l := range []*lentIterator{&v.rows, &v.entries} {
		if l.it != nil {
			l.it.Close()
		}
	}
	v.txn.Discard()
	v.cached.close(&v.gen.lent)
	v.gen.readers.leave()
	v.gen, v.txn, v.err = nil, nil, ErrClosed
}

// partition finds one that has a live row in the snapshot. Reads come in runs of one partition.
func (v *view) partition(tuple []byte) *partition {
	if v.last != nil && bytes.Equal(v.last.tuple, tuple) {
		return v.last
	}
	p, ok := v.live.find(tuple)
	if !ok {
		return nil
	}
	v.last = p
	return p
}

func (v *view) HasPartition(partition []byte) bool { return v.partition(partition) != nil }

func (v *view) Latest(n int) [][]byte {
	if n <= 0 {
		return nil
	}
	out := make([][]byte, 0, min(n, v.live.byTuple.length))
	for p := range v.live.byTuple.backward {
		out = append(out, p.tuple)
		if len(out) == n {
			break
		}
	}
	return out
}

func (v *view) Get(partition, key []byte) (record.Row, bool, error) {
	if v.err != nil {
		return nil, false, v.failed("get row", v.err)
	}
	p := v.partition(partition)
	if p == nil {
		return nil, false, nil
	}
	v.key = shorten(appendRowKey(v.key[:0], p.number, key), 0, maxInlineKey)
	row, ok, err := v.row(v.key)
	if err != nil {
		return nil, false, v.failed("get row", err)
	}
	return row, ok, nil
}

// failed notes damage and says what was done.
func (v *view) failed(what string, err error) error {
	err = fmt.Errorf("%s: %w", what, err)
	if v.gen == nil {
		return err
	}
	return v.gen.noteDamage(err)
}

// read returns what is under a stored key, if that is a row.
func (v *view) read(key []byte) (p payload, ok bool, err error) {
	item, err := v.txn.Get(key)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return p, false, nil
	}
	if err != nil {
		return p, false, err
	}
	var stored []byte
	// The slice is the item's own copy, and nobody else has the item: it lives as long as it is referred to.
	if err := item.Value(func(value []byte) error { stored = value; return nil }); err != nil {
		return p, false, err
	}
	h, rest, err := parseRow(key, stored)
	if err != nil || h.flags&flagMark != 0 {
		return p, false, err
	}
	p, err = v.payload(h, rest)
	return p, err == nil, err
}

// payload brings a payload together.
func (v *view) payload(h header, rest []byte) (payload, error) {
	if h.flags&flagParts != 0 {
		p, err := parseParts(rest)
		if err != nil {
			return payload{}, err
		}
		if rest, err = readParts(v.txn, p); err != nil {
			return payload{}, err
		}
	}
	return parsePayload(h, rest)
}

func (v *view) Scan(partition, prefix []byte, yield func(row record.Row) bool) error {
	if v.err != nil {
		return v.failed("scan rows", v.err)
	}
	p := v.partition(partition)
	if p == nil {
		return nil
	}
	scan := func(yield func(record.Row) bool) error {
		it, release := v.iterator(&v.rows, kindRow)
		defer release()
		return v.scan(it, appendRowKey(nil, p.number, prefix), yield)
	}
	var err error
	if len(prefix) > 0 && len(v.gen.store.options.KeyTypes) > 0 {
		v.cached.key = appendGroupKey(v.cached.key[:0], p.number, prefix)
		err = v.groupOf(v.cached.key, yield, scan)
	} else {
		err = scan(yield)
	}
	if err != nil {
		return v.failed("scan rows", err)
	}
	return nil
}

// iterator lends the view's own one, or makes one for a scan inside a scan.
func (v *view) iterator(l *lentIterator, kind byte) (it *badger.Iterator, release func()) {
	if l.inUse {
		it = v.newIterator(kind)
		return it, it.Close
	}
	if l.it == nil {
		l.it = v.newIterator(kind)
	}
	l.inUse = true
	return l.it, func() { l.inUse = false }
}

func (v *view) newIterator(kind byte) *badger.Iterator {
	return v.txn.NewIterator(badger.IteratorOptions{Prefix: []byte{kind}})
}

// run is rows that come one after the other with keys that are the same in all that is stored of them in order; the whole keys order them.
type run struct {
	head []byte // what the stored keys have in common, copied
	rows []longRow
}

type longRow struct {
	key []byte
	row record.Row
}

// add takes a row up, copied.
func (r *run) add(head, key []byte, row record.Row) {
	r.head = append(r.head[:0], head...)
	r.rows = append(r.rows, longRow{bytes.Clone(key), bytes.Clone(row)})
}

// endsBefore tells whether a stored key does not belong to the run any more. Long is the length of keys that were shortened, limit that of
// their common part.
func (r *run) endsBefore(key []byte, long, limit int) bool {
	return len(r.rows) > 0 && (len(key) != long || !bytes.Equal(r.head, key[:limit]))
}

// flush yields the rows in order and empties the run; false says that yield wants no more.
func (r *run) flush(yield func(row record.Row) bool) bool {
	slices.SortFunc(r.rows, func(a, b longRow) int { return bytes.Compare(a.key, b.key) })
	for _, l := range r.rows {
		if !yield(l.row) {
			return false
		}
	}
	r.rows = r.rows[:0]
	return true
}

func (v *view) scan(it *badger.Iterator, full []byte, yield func(row record.Row) bool) error {
	seek := full[:min(len(full), maxInlineKey)]
	var r run
	for it.Seek(seek); it.ValidForPrefix(seek); it.Next() {
		item := it.Item()
		key := item.Key()
		if r.endsBefore(key, longKey, maxInlineKey) && !r.flush(yield) {
			return nil
		}
		if len(key) < len(full) && len(key) != longKey {
			continue // as long as what is stored of the prefix, and shorter than the prefix
		}
		more := true
		err := item.Value(func(value []byte) error {
			h, rest, err := parseRow(key, value)
			if err != nil || h.flags&flagMark != 0 {
				return err
			}
			p, err := v.payload(h, rest)
			switch {
			case err != nil:
				return err
			case p.full == nil:
				more = yield(p.row)
			case bytes.HasPrefix(p.full, full):
				r.add(key[:maxInlineKey], p.full, p.row)
			}
			return nil
		})
		if err != nil || !more {
			return err
		}
	}
	r.flush(yield)
	return nil
}
