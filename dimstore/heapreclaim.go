package dimstore

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Memory comes back as part of what writes: before each Apply a bounded piece of what is due, and all of it when the budget would not suffice
// otherwise. Nothing is taken away that an open view may read: what a commit made superfluous goes when no view of an earlier one is open.

const (
	purgeStep   = 4096    // marks
	sweepStep   = 16384   // rows of dropped partitions
	compactStep = 4 << 20 // bytes to move
	// hardPart: short of memory, a chunk is compacted when this part of it is dead.
	hardPart = 8
)

// heapMarks are the marks of deleted rows in the order in which they were made.
type heapMarks struct {
	queue []heapMarkRef
	head  int
}

type heapMarkRef struct {
	id      uint32
	expires uint32 // seconds since the epoch
}

func (m *heapMarks) add(id uint32, expires int64) {
	if m.head > 1024 && m.head > len(m.queue)/2 {
		m.queue = append(m.queue[:0], m.queue[m.head:]...)
		m.head = 0
	}
	m.queue = append(m.queue, heapMarkRef{id, uint32(min(expires, math.MaxUint32))})
}

// size is what it takes with n more marks: the queue doubles when it grows.
func (m *heapMarks) size(n int) int64 {
	return 8 * int64(max(cap(m.queue), 2*(len(m.queue)+n)))
}

// heapDropped is a dropped partition whose rows are not all removed.
type heapDropped struct {
	commit uint64 // that dropped it
	rows   treeCursor
}

// heapRetired is a chunk that nothing refers to but older views.
type heapRetired struct {
	commit uint64 // the first without it
	chunk  *heapChunk
}

// reclaim does a step of all that is due, or with hard all of it. It is called by the holder of writing.
func (g *heapGeneration) reclaim(hard bool) {
	oldest := g.forget()
	g.releaseRetired(oldest)
	g.purgeMarks(oldest, hard)
	for more := true; more; {
		more = g.sweep(oldest) && hard
	}
	for g.compact() {
		g.releaseRetired(g.forget())
		if !hard {
			break
		}
	}
	g.measure()
}

func (g *heapGeneration) releaseRetired(oldest uint64) {
	n := 0
	for n < len(g.retired) && g.retired[n].commit <= oldest {
		g.arena.release(g.retired[n].chunk)
		n++
	}
	g.retired = slices.Delete(g.retired, 0, n)
}

// purgeMarks removes marks that have expired.
func (g *heapGeneration) purgeMarks(oldest uint64, hard bool) {
	m := &g.marks
	now := time.Now().Unix()
	for n := 0; m.head < len(m.queue) && (hard || n < purgeStep); n++ {
		ref := m.queue[m.head]
		if int64(ref.expires) > now {
			return
		}
		at := g.ids.get(ref.id)
		if at != 0 {
			// The id may be that of another key by now, or the key have a row again, or a mark that has its own place in the queue.
			if r := parseHeapRecord(g.arena.at(at)); r.mark && r.expires <= now {
				if r.commit > oldest {
					return // a view may be open that sees the row
				}
				g.purge(&r, at)
			}
		}
		m.head++
	}
}

// purge removes a row or a mark that no view sees.
func (g *heapGeneration) purge(r *heapRecord, ref heapRef) {
	g.hash.remove(g.hash.of(r.partition, r.key), r.id)
	g.arena.kill(ref, r.size)
	g.ids.give(r.id)
	p := g.numbered[r.partition]
	if p == nil {
		return // dropped
	}
	if p.ids--; p.ids == 0 {
		delete(g.numbered, p.number)
		delete(g.partitions, string(p.tuple))
	}
}

// sweep removes some rows of dropped partitions; more says that it can go on.
func (g *heapGeneration) sweep(oldest uint64) (more bool) {
	for n := 0; len(g.dropped) > 0 && g.dropped[0].commit <= oldest; {
		rows := &g.dropped[0].rows
		for ; rows.valid() && n < sweepStep; n++ {
			ref := g.ids.get(rows.entry().id)
			r := parseHeapRecord(g.arena.at(ref))
			g.purge(&r, ref)
			rows.next()
		}
		if rows.valid() {
			return true
		}
		g.dropped = slices.Delete(g.dropped, 0, 1)
	}
	return false
}

// compact moves what is alive out of some sparse chunks and retires them. It reports whether it did. As long as views hold back much of what
// was retired before, it would only take more memory.
func (g *heapGeneration) compact() bool {
	a := &g.arena
	held := int64(0)
	for _, r := range g.retired {
		held += int64(len(r.chunk.buf))
	}
	if held > a.size/4 {
		return false
	}
	var emptied []*heapChunk
	for size := 0; len(a.sparse) > 0 && size < compactStep; {
		c := a.sparse[len(a.sparse)-1]
		a.sparse = a.sparse[:len(a.sparse)-1]
		size += c.used - c.dead
		g.moveOut(c)
		emptied = append(emptied, c)
	}
	if len(emptied) == 0 {
		return false
	}
	// Views of the present commit may be about to read from these chunks; those of the next one find the rows where they are now.
	present := g.present.Load()
	g.commit(present.live, present.trees, nil)
	for _, c := range emptied {
		g.retired = append(g.retired, heapRetired{present.number + 1, c})
	}
	return true
}

func (g *heapGeneration) moveOut(c *heapChunk) {
	for at := 0; at < c.used && c.dead < c.used; {
		r := parseHeapRecord(c.buf[at:])
		if g.ids.get(r.id) == makeHeapRef(c.number, at) {
			g.ids.set(r.id, g.arena.copy(c.buf[at:at+r.size]))
			c.dead += r.size
		}
		at += r.size
	}
}

// dropPartition is Store.DropPartition for one generation.
func (g *heapGeneration) dropPartition(tuple []byte) error {
	g.writing.Lock()
	defer g.writing.Unlock()
	if g.closed != nil {
		return fmt.Errorf("drop a partition: %w", g.closed)
	}
	p := g.partitions[string(tuple)]
	if p == nil {
		return nil
	}
	present := g.present.Load()
	live, trees := present.live, present.trees
	if p.rows > 0 {
		live.list = live.list.edited(byLiveTuple, []edit[*heapLive]{{item: &heapLive{p.number, p.tuple, p.tree}, out: true}})
	}
	ordered := g.ordered.Load()
	if ordered {
		trees = g.withoutEntries(trees, p)
	}
	g.commit(live, trees, nil)
	g.rows.Add(-p.rows)
	delete(g.partitions, string(tuple))
	delete(g.numbered, p.number)
	if ordered {
		g.dropped = append(g.dropped, heapDropped{present.number + 1, p.tree.seek(0, nil)})
		for more := true; more; {
			more = g.sweep(g.forget())
		}
	} else {
		g.purgePartition(p.number)
	}
	g.reclaim(false)
	return nil
}

// withoutEntries takes the rows of a partition out of the indexes.
func (g *heapGeneration) withoutEntries(trees []heapTree, p *heapPartition) []heapTree {
	indexes := g.store.options.Indexes
	edits := make([][]treeEdit, len(indexes))
	var values indexValues
	for c := p.tree.seek(0, nil); c.valid() && len(indexes) > 0; c.next() {
		id := c.entry().id
		k := g.key(id)
		values.fill(indexes, k.row())
		for i := range indexes {
			if codes, ok := values.of(i); ok {
				edits[i] = append(edits[i], treeEdit{treeEntry{g.codesHead(codes), id}, true})
			}
		}
	}
	out := slices.Clone(trees)
	for i := range out {
		out[i] = out[i].edited(sortedEdits(edits[i], g.comparePlaces))
	}
	return out
}

// purgePartition removes the rows and marks of a dropped partition of a generation that nobody reads from.
func (g *heapGeneration) purgePartition(number uint32) {
	for id := uint32(1); id < g.ids.next; id++ {
		ref := g.ids.get(id)
		if ref == 0 {
			continue
		}
		if r := parseHeapRecord(g.arena.at(ref)); r.partition == number {
			g.purge(&r, ref)
		}
	}
}
