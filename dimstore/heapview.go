package dimstore

import (
	"bytes"
	"fmt"

	"enricher/record"
)

// heapView reads the state of one commit.
type heapView struct {
	store  *HeapStore
	gen    *heapGeneration // nil: the store was closed before, or the view
	commit *heapCommit
	last   *heapLive
	codes  []byte
}

// Read opens a view of the store as it is now: every Apply that has returned is in it. No reader or writer waits for it. The first view of a
// store that is not complete builds what keeps the rows in order.
func (s *HeapStore) Read() View {
	if !s.readers.enter() {
		return &heapView{}
	}
	g := s.current.Load()
	if !g.ordered.Load() {
		g.writing.Lock()
		g.order()
		g.writing.Unlock()
	}
	return &heapView{store: s, gen: g, commit: g.enter()}
}

func (v *heapView) Close() {
	if v.gen == nil {
		return
	}
	v.commit.leave()
	v.store.readers.leave()
	v.gen, v.commit, v.last = nil, nil, nil
}

// partition finds one that has a live row. Reads come in runs of one partition.
func (v *heapView) partition(tuple []byte) *heapLive {
	if v.last != nil && bytes.Equal(v.last.tuple, tuple) {
		return v.last
	}
	if v.gen == nil {
		return nil
	}
	p, ok := v.commit.live.find(tuple)
	if !ok {
		return nil
	}
	v.last = p
	return p
}

func (v *heapView) HasPartition(partition []byte) bool { return v.partition(partition) != nil }

func (v *heapView) Latest(n int) [][]byte {
	if n <= 0 || v.gen == nil {
		return nil
	}
	all := &v.commit.live.list
	out := make([][]byte, 0, min(n, all.length))
	for p := range all.backward {
		out = append(out, p.tuple)
		if len(out) == n {
			break
		}
	}
	return out
}

// was tells where the record of an id was at the commit of the view, given where it is. Whoever replaced what was read has said so before.
func (v *heapView) was(id uint32, is heapRef) heapRef {
	for c := v.commit.next.Load(); c != nil; c = c.next.Load() {
		if ref, replaced := c.replaced(id); replaced {
			return ref
		}
	}
	return is
}

func (v *heapView) Get(partition, key []byte) (record.Row, bool, error) {
	if v.gen == nil {
		return nil, false, fmt.Errorf("get row: %w", ErrClosed)
	}
	p := v.partition(partition)
	if p == nil {
		return nil, false, nil
	}
	for probe := v.gen.hash.probe(v.gen.hash.of(p.number, key)); ; {
		id := probe.next()
		if id == 0 {
			return nil, false, nil
		}
		ref := v.was(id, v.gen.ids.get(id))
		if ref == 0 {
			continue
		}
		k := parseHeapKey(v.gen.arena.at(ref))
		if k.partition != p.number || !bytes.Equal(k.key, key) {
			continue
		}
		if k.mark {
			return nil, false, nil
		}
		return k.row(), true, nil
	}
}

// heapWindow is some rows that a scan reads next. Their references are read in one go, and then the beginnings of their records: each is a
// cache miss, and those of several rows that do not depend on each other take hardly longer than one.
type heapWindow struct {
	refs    [maxHeapWindow]heapRef
	records [maxHeapWindow][]byte
	touched [maxHeapWindow]byte
	n       int
	size    int // the next time
}

const (
	minHeapWindow = 4 // to begin with when the heads don't tell where the prefix ends
	maxHeapWindow = 16
)

// fill takes the next entries whose heads are head in the bits of mask; false: there is none.
func (v *heapView) fill(w *heapWindow, c *treeCursor, head, mask uint64) bool {
	var ids [maxHeapWindow]uint32
	for w.n = 0; w.n < w.size && c.valid(); w.n++ {
		e := c.entry()
		if e.head&mask != head {
			c.depth = -1
			break
		}
		ids[w.n] = e.id
		w.refs[w.n] = v.gen.ids.get(e.id)
		c.next()
	}
	for i, id := range ids[:w.n] {
		w.refs[i] = v.was(id, w.refs[i])
		w.records[i] = v.gen.arena.at(w.refs[i])
		w.touched[i] = w.records[i][heapIDSize]
	}
	w.size = maxHeapWindow
	return w.n > 0
}

func (v *heapView) Scan(partition, prefix []byte, yield func(row record.Row) bool) error {
	if v.gen == nil {
		return fmt.Errorf("scan rows: %w", ErrClosed)
	}
	p := v.partition(partition)
	if p == nil {
		return nil
	}
	// Heads decide where to begin when they hold the whole prefix, and a key that is shorter can't have the same head.
	var before func(id uint32) bool
	if n := len(prefix); n > 8 || n > 0 && prefix[n-1] == 0 {
		before = func(id uint32) bool {
			k := v.gen.key(id)
			return bytes.Compare(k.key, prefix) < 0
		}
	}
	head := keyHead(prefix)
	mask := ^uint64(0) << (8 * (8 - min(len(prefix), 8)))
	c := p.tree.seek(head, before)
	w := heapWindow{size: maxHeapWindow}
	if len(prefix) > 8 {
		w.size = minHeapWindow
	}
	for v.fill(&w, &c, head, mask) {
		for _, record := range w.records[:w.n] {
			k := parseHeapKey(record)
			if !bytes.HasPrefix(k.key, prefix) || !yield(k.row()) {
				return nil
			}
		}
	}
	return nil
}

func (v *heapView) ScanIndex(index int, key []byte, yield func(row record.Row) bool) error {
	if v.gen == nil {
		return fmt.Errorf("scan index: %w", ErrClosed)
	}
	if index < 0 || index >= len(v.commit.trees) {
		return fmt.Errorf("scan index: BUG: there is no index %d", index)
	}
	head := v.gen.codesHead(key)
	c := v.commit.trees[index].seek(head, nil)
	for w := (heapWindow{size: maxHeapWindow}); v.fill(&w, &c, head, ^uint64(0)); {
		for _, record := range w.records[:w.n] {
			k := parseHeapKey(record)
			row := k.row()
			if v.in(index, row, key) && !yield(row) {
				return nil
			}
		}
	}
	return nil
}

// in tells whether a row has the codes of a key in an index: those of other keys may have the same hash.
func (v *heapView) in(index int, row record.Row, key []byte) bool {
	codes, in := appendIndexCodes(v.codes[:0], &v.gen.store.options.Indexes[index], row)
	v.codes = codes
	return in && bytes.Equal(codes, key)
}
