package dimstore

import (
	"bytes"
	"cmp"
	"slices"
	"sync/atomic"
)

// heapCommit is a state of a generation that views can have: what one Apply leaves. Commits form a list from the oldest that a view may have to
// the present one; a view refers to its own and sees:
//
//   - the partitions and trees of its commit, which never change;
//   - through the hash and the ids what is there now, unless a later commit has changed the row: each commit brings the references of the rows
//     that it replaces, and is linked into the list before it replaces them. The first commit behind that of the view that names a row says
//     what it was.
//
// So a view is a snapshot, and neither it nor the writer ever waits for the other; what it holds back is memory.
type heapCommit struct {
	number uint64
	live   heapLiveSet
	trees  []heapTree // by index

	replacedIDs  []uint32  // in order
	replacedRefs []heapRef // of replacedIDs: what they were; 0: not there

	next  atomic.Pointer[heapCommit]
	views atomic.Int64
}

// heapLive is a partition with a live row, as one commit has it.
type heapLive struct {
	number uint32
	tuple  []byte
	tree   heapTree
}

// heapLiveSet is the partitions with a live row, in the order of their tuples.
type heapLiveSet struct{ list list[*heapLive] }

func (s *heapLiveSet) find(tuple []byte) (*heapLive, bool) {
	return s.list.find(func(p *heapLive) int { return bytes.Compare(p.tuple, tuple) })
}

func byLiveTuple(a, b *heapLive) int { return bytes.Compare(a.tuple, b.tuple) }

func (s *heapLiveSet) tuples() [][]byte {
	out := make([][]byte, 0, s.list.length)
	for p := range s.list.all {
		out = append(out, p.tuple)
	}
	return out
}

// replaced tells what an id was before this commit, if the commit changed it.
func (c *heapCommit) replaced(id uint32) (heapRef, bool) {
	i, ok := slices.BinarySearch(c.replacedIDs, id)
	if !ok {
		return 0, false
	}
	return c.replacedRefs[i], true
}

// enter takes hold of the present commit; leave must follow.
func (g *heapGeneration) enter() *heapCommit {
	for {
		c := g.present.Load()
		c.views.Add(1)
		// A commit that is not the present one may be forgotten any moment. While it was the present one after views was raised, it won't be.
		if g.present.Load() == c {
			return c
		}
		c.views.Add(-1)
	}
}

func (c *heapCommit) leave() { c.views.Add(-1) }

// forget drops the commits at the beginning of the list that no view has, and returns the number of the first that is left: nothing that was
// replaced or removed by it, or before, is seen by anyone any more.
func (g *heapGeneration) forget() uint64 {
	for present := g.present.Load(); g.oldest != present && g.oldest.views.Load() == 0; {
		g.oldest = g.oldest.next.Load()
	}
	return g.oldest.number
}

// commit makes a new state the present one. Touched are the rows that change, none of them twice.
func (g *heapGeneration) commit(live heapLiveSet, trees []heapTree, touched []heapTouch) {
	last := g.present.Load()
	c := &heapCommit{number: last.number + 1, live: live, trees: trees}
	if len(touched) > 0 {
		slices.SortFunc(touched, func(a, b heapTouch) int { return cmp.Compare(a.id, b.id) })
		c.replacedIDs = make([]uint32, len(touched))
		c.replacedRefs = make([]heapRef, len(touched))
		for i := range touched {
			c.replacedIDs[i], c.replacedRefs[i] = touched[i].id, touched[i].was
		}
	}
	last.next.Store(c) // from here on views of the commits before know what is replaced
	for i := range touched {
		g.ids.set(touched[i].id, touched[i].is)
	}
	g.present.Store(c)
}

// heapTouch is a row that a commit changes.
type heapTouch struct {
	id  uint32
	was heapRef // 0: not there
	is  heapRef
}
