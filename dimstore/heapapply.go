package dimstore

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"time"
)

// apply is Store.Apply for one generation: all of it is one commit.
func (g *heapGeneration) apply(changes []Change, positions []Position) (Applied, error) {
	g.writing.Lock()
	defer g.writing.Unlock()
	if g.closed != nil {
		return Applied{}, fmt.Errorf("apply: %w", g.closed)
	}
	need, err := g.need(changes)
	if err == nil {
		err = g.makeRoom(need)
	}
	if err != nil {
		return Applied{}, fmt.Errorf("apply: %w", err)
	}
	b := &g.batch
	b.begin(g, len(changes))
	for i := range changes {
		b.change(&changes[i])
	}
	b.finish()
	g.setPositions(positions)
	g.measure()
	return b.done, nil
}

// heapBatch is the changes of one Apply. It belongs to the holder of heapGeneration.writing and is reused.
type heapBatch struct {
	gen     *heapGeneration
	done    Applied
	ordered bool
	now     int64 // seconds since the epoch
	ttl     time.Duration

	last       *heapPartition   // the one used last
	lastBucket uint32           // and the bucket
	partitions []*heapPartition // touched
	touched    []heapTouch      // rows, when there are views to tell what they were
	places     []uint32         // by hash of the id: place in touched, from 1
	was, is    indexValues
	indexEdits [][]treeEdit // by index
}

const (
	largeBatch = 1 << 16 // changes; what a larger one needed is not kept
	noBucket   = math.MaxUint32
)

func (b *heapBatch) begin(g *heapGeneration, changes int) {
	b.gen, b.done, b.last, b.lastBucket = g, Applied{}, nil, noBucket
	b.ordered = g.ordered.Load()
	b.ttl = time.Duration(g.store.markTTL.Load())
	b.now = time.Now().Unix()
	b.partitions, b.touched = b.partitions[:0], b.touched[:0]
	if !b.ordered {
		return
	}
	size := 16
	for size < 2*changes {
		size *= 2
	}
	if len(b.places) < size || len(b.places) > 2*largeBatch && size < largeBatch {
		b.places = make([]uint32, size)
	} else {
		clear(b.places)
	}
}

// place finds the row among those touched; 0: it is not one of them.
func (b *heapBatch) place(id uint32) (slot *uint32) {
	mask := uint32(len(b.places) - 1)
	for i := id * 0x9E3779B1 >> 7 & mask; ; i = (i + 1) & mask {
		if at := b.places[i]; at == 0 || b.touched[at-1].id == id {
			return &b.places[i]
		}
	}
}

// ref is where the record of an id is, changes of this batch included.
func (b *heapBatch) ref(id uint32) heapRef {
	if b.ordered {
		if at := *b.place(id); at > 0 {
			return b.touched[at-1].is
		}
	}
	return b.gen.ids.get(id)
}

// set replaces the record of an id.
func (b *heapBatch) set(id uint32, ref heapRef) {
	if !b.ordered {
		b.gen.ids.set(id, ref)
		return
	}
	slot := b.place(id)
	if *slot > 0 {
		b.touched[*slot-1].is = ref
		return
	}
	b.touched = append(b.touched, heapTouch{id: id, was: b.gen.ids.get(id), is: ref})
	*slot = uint32(len(b.touched))
}

// find looks a key up.
func (b *heapBatch) find(hash uint64, partition uint32, key []byte) (id uint32, ref heapRef) {
	for p := b.gen.hash.probe(hash); ; {
		if id = p.next(); id == 0 {
			return 0, 0
		}
		ref = b.ref(id)
		if k := parseHeapKey(b.gen.arena.at(ref)); k.partition == partition && bytes.Equal(k.key, key) {
			return id, ref
		}
	}
}

// change does one change.
func (b *heapBatch) change(c *Change) {
	g := b.gen
	r := heapRecord{key: c.Key, bucket: b.bucket(c.Bucket), offset: c.Offset, timestamp: c.Timestamp}
	p := b.partition(c.Partition, !c.Delete || b.ttl > 0)
	if p == nil {
		b.done.Deletes++
		return
	}
	r.partition = p.number
	hash := g.hash.of(p.number, c.Key)
	id, ref := b.find(hash, p.number, c.Key)
	var old heapRecord
	if id != 0 {
		old = parseHeapRecord(g.arena.at(ref))
	}
	found := id != 0 && (!old.mark || old.expires > b.now)
	if !c.Delete {
		r.row = c.Row
	}
	if g.store.options.Version == VersionColumn {
		r.version = c.Version
		if c.Delete {
			r.version = nil
			if found {
				r.version = old.version
			}
		}
	}
	if found && !newer(g.store.options.Version, g.buckets, r.stamp(), old.stamp()) {
		b.done.Stale++
		return
	}
	if c.Delete {
		b.done.Deletes++
		if !found && b.ttl <= 0 {
			return
		}
		r.mark, r.commit = true, g.present.Load().number+1
		if b.ttl > 0 {
			r.expires = time.Now().Add(b.ttl + time.Second).Unix()
		}
	} else {
		b.done.Upserts++
	}
	b.count(p, found && !old.mark, !r.mark)
	b.write(id, ref, hash, &r, old.size)
}

// write puts a record in place of an old one; id is 0 for a key without one.
func (b *heapBatch) write(id uint32, old heapRef, hash uint64, r *heapRecord, oldSize int) {
	g := b.gen
	if r.id = id; id == 0 {
		r.id = g.ids.take()
	}
	b.set(r.id, g.arena.add(r))
	if id == 0 {
		g.hash.add(hash, r.id)
		g.numbered[r.partition].ids++
	} else {
		g.arena.kill(old, oldSize)
	}
	if r.mark {
		g.marks.add(r.id, r.expires)
	}
}

// count keeps the number of live rows.
func (b *heapBatch) count(p *heapPartition, was, is bool) {
	if !p.touched {
		p.touched = true
		p.was = p.rows
		b.partitions = append(b.partitions, p)
	}
	switch {
	case is && !was:
		p.rows++
	case was && !is:
		p.rows--
	}
}

// bucket returns the number of a bucket. Changes come in runs of one bucket.
func (b *heapBatch) bucket(id BucketID) uint32 {
	if b.lastBucket == noBucket || b.gen.buckets[b.lastBucket].id != id {
		b.lastBucket = b.gen.bucketNumber(id)
	}
	return b.lastBucket
}

// partition returns a partition, one that is not there only when it is to be begun. Changes come in runs of one partition.
func (b *heapBatch) partition(tuple []byte, begin bool) *heapPartition {
	if b.last != nil && bytes.Equal(b.last.tuple, tuple) {
		return b.last
	}
	g := b.gen
	p := g.partitions[string(tuple)]
	if p == nil {
		if !begin {
			return nil
		}
		p = &heapPartition{number: g.nextPartition, tuple: append([]byte{}, tuple...)}
		g.nextPartition++
		g.partitions[string(tuple)] = p
		g.numbered[p.number] = p
	}
	b.last = p
	return p
}

// finish commits.
func (b *heapBatch) finish() {
	g := b.gen
	if len(b.partitions) == 0 {
		return // nothing was written
	}
	present := g.present.Load()
	trees := present.trees
	if b.ordered {
		trees = b.editTrees(trees)
	}
	var edits []edit[*heapLive]
	total := int64(0)
	for _, p := range b.partitions {
		total += p.rows - p.was
		was, is := p.was > 0, p.rows > 0
		if (was || is) && (was != is || len(p.edits) > 0) {
			edits = append(edits, edit[*heapLive]{item: &heapLive{p.number, p.tuple, p.tree}, out: !is})
		}
		p.touched = false
		p.edits = nil
	}
	live := present.live
	if len(edits) > 0 {
		live.list = live.list.edited(byLiveTuple, edits)
	}
	g.commit(live, trees, b.touched)
	g.rows.Add(total)
	if cap(b.touched) > largeBatch {
		b.touched = nil
	}
}

// editTrees brings the trees from what the touched rows were to what they are, and returns those of the indexes.
func (b *heapBatch) editTrees(trees []heapTree) []heapTree {
	g := b.gen
	indexes := g.store.options.Indexes
	b.indexEdits = b.indexEdits[:0]
	for range indexes {
		b.indexEdits = append(b.indexEdits, nil)
	}
	for i := range b.touched {
		t := &b.touched[i]
		k := parseHeapKey(g.arena.at(t.is))
		var was heapKey
		if had := t.was != 0; had {
			was = parseHeapKey(g.arena.at(t.was))
		} else {
			was.mark = true
		}
		if was.mark != k.mark {
			p := g.numbered[k.partition]
			p.edits = append(p.edits, treeEdit{treeEntry{keyHead(k.key), t.id}, k.mark})
		}
		b.was.reset()
		b.is.reset()
		if len(indexes) == 0 {
			continue
		}
		if !was.mark {
			b.was.fill(indexes, was.row())
		}
		if !k.mark {
			b.is.fill(indexes, k.row())
		}
		b.editIndexes(t.id)
	}
	for _, p := range b.partitions {
		p.tree = p.tree.edited(sortedEdits(p.edits, b.compareKeys))
	}
	out := slices.Clone(trees)
	for i, edits := range b.indexEdits {
		out[i] = out[i].edited(sortedEdits(edits, b.comparePlaces))
	}
	return out
}

// editIndexes notes how the entries of a row change.
func (b *heapBatch) editIndexes(id uint32) {
	for i := range b.indexEdits {
		was, had := b.was.of(i)
		is, has := b.is.of(i)
		if had && has && bytes.Equal(was, is) {
			continue
		}
		if had {
			b.indexEdits[i] = append(b.indexEdits[i], treeEdit{treeEntry{b.gen.codesHead(was), id}, true})
		}
		if has {
			b.indexEdits[i] = append(b.indexEdits[i], treeEdit{treeEntry{b.gen.codesHead(is), id}, false})
		}
	}
}

func sortedEdits(edits []treeEdit, order treeOrder) ([]treeEdit, treeOrder) {
	slices.SortFunc(edits, func(a, b treeEdit) int { return order.compare(a.treeEntry, b.treeEntry) })
	return edits, order
}

func (b *heapBatch) key(id uint32) heapKey { return parseHeapKey(b.gen.arena.at(b.ref(id))) }

func (b *heapBatch) compareKeys(x, y uint32) int {
	kx, ky := b.key(x), b.key(y)
	return bytes.Compare(kx.key, ky.key)
}

func (b *heapBatch) comparePlaces(x, y uint32) int { return b.gen.placeOrder(b.key(x), b.key(y)) }
