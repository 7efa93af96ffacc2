package dimstore

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// What an entry of a tree takes, about: 12 bytes in nodes that are three quarters full.
const heapTreeEntry = 16

// bytes is what the rows take.
func (g *heapGeneration) bytes() int64 { return g.taken.Load() }

// measure is called by the holder of writing after a change of what is taken. What grows in steps counts with the step that is next; the trees
// count before they are built.
func (g *heapGeneration) measure() {
	g.taken.Store(g.arena.size + g.overhead(g.rows.Load(), 0, 0))
}

// overhead is what is taken besides the arena with a number of rows, more ids and more marks.
func (g *heapGeneration) overhead(rows int64, ids, marks int) int64 {
	return g.hash.size(ids) + g.ids.size(ids) + g.marks.size(marks) + rows*heapTreeEntry*int64(1+len(g.store.options.Indexes))
}

// heapNeed is what an Apply may take at most.
type heapNeed struct {
	records    int64 // bytes
	large      int64 // bytes of records that get chunks of their own
	ids, marks int
}

func (g *heapGeneration) need(changes []Change) (n heapNeed, err error) {
	n.ids = len(changes)
	for i := range changes {
		c := &changes[i]
		size := int64(len(c.Key)) + int64(len(c.Row)) + int64(len(c.Version)) + heapRecordMax
		if c.Offset < 0 || size > math.MaxInt32 {
			return n, fmt.Errorf("BUG: %s/%d offset %d: a negative offset, or 2 GiB of a row", c.Bucket.Topic, c.Bucket.Partition, c.Offset)
		}
		if size > int64(g.arena.chunkSize/largeRecord) {
			n.large += size
		} else {
			n.records += size
		}
		if c.Delete {
			n.marks++
		}
	}
	return n, nil
}

// growth is how much more will be taken.
func (g *heapGeneration) growth(n heapNeed) int64 {
	rows := g.rows.Load()
	more := n.large + g.overhead(rows+int64(n.ids), n.ids, n.marks) - g.overhead(rows, 0, 0)
	a := &g.arena
	if a.open == nil && n.records > 0 || a.open != nil && int64(len(a.open.buf)-a.open.used) < n.records {
		// What is left at the ends of chunks is less than a largeRecord part of each.
		more += n.records*largeRecord/(largeRecord-1) + int64(a.chunkSize)
	}
	return more
}

// makeRoom makes sure that what is needed is within the budget. It is called by the holder of writing.
func (g *heapGeneration) makeRoom(n heapNeed) error {
	g.reclaim(false)
	limit := g.store.options.Memory
	over := func() bool { return limit > 0 && g.store.total()+g.growth(n) > limit }
	if !over() {
		return nil
	}
	g.reclaim(true)
	a := &g.arena
	var chunks []*heapChunk
	for _, c := range *a.chunks.Load() {
		if c != nil && c != a.open && !c.listed && hardPart*c.dead >= c.used {
			chunks = append(chunks, c)
		}
	}
	slices.SortFunc(chunks, func(a, b *heapChunk) int { return cmp.Compare(b.dead, a.dead) })
	for _, c := range chunks {
		if !over() {
			return nil
		}
		c.listed = true
		a.sparse = append(a.sparse, c)
		g.reclaim(true)
	}
	if !over() {
		return nil
	}
	return &memoryError{
		dimension: g.store.options.Name, rows: g.rows.Load(), have: g.store.total(), need: g.growth(n), limit: limit,
	}
}

// memoryError is ErrNoMemory, and ErrNoSpace, with the numbers.
type memoryError struct {
	dimension               string
	rows, have, need, limit int64
}

func (e *memoryError) Error() string {
	const mib = 1 << 20
	return fmt.Sprintf("%v: %d rows of dimension %s take %d MiB, %d MiB more are needed, and it may take %d MiB: raise store.memory, or keep it on disk (store: badger)",
		ErrNoMemory, e.rows, e.dimension, e.have/mib, e.need/mib+1, e.limit/mib)
}

// Is makes callers that know only ErrNoSpace do the right thing.
func (e *memoryError) Is(target error) bool { return target == ErrNoMemory || target == ErrNoSpace }
