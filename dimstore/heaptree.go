package dimstore

import (
	"cmp"
	"encoding/binary"
	"slices"
	"sort"
)

// heapTree is an ordered set of ids that never changes: edits make another tree, which shares with it all nodes that they leave alone. So a view
// keeps the tree it began with, and readers never wait. An entry is 12 bytes without pointers: an id, and the first 8 bytes of what it is
// ordered by, which decide most comparisons without a look at the record.
type heapTree struct{ root *treeNode }

// treeNode is a leaf with entries, or an inner node with kids and the first entry of each.
type treeNode struct {
	heads []uint64
	ids   []uint32
	kids  []*treeNode // nil: a leaf
}

const (
	treeMax  = 128 // entries of a node
	treeMin  = treeMax / 4
	treeFill = treeMax - 16 // of a tree that is built at once, so that not every edit splits
	treeDeep = 10           // more than ids suffice for
)

type treeEntry struct {
	head uint64
	id   uint32
}

// treeEdit puts an entry into a tree or takes it out.
type treeEdit struct {
	treeEntry
	out bool
}

// treeOrder compares two ids whose heads are equal.
type treeOrder func(a, b uint32) int

func (o treeOrder) compare(a, b treeEntry) int {
	if c := cmp.Compare(a.head, b.head); c != 0 || a.id == b.id {
		return c
	}
	return o(a.id, b.id)
}

// keyHead is the head of a key, or of the beginning of one.
func keyHead(key []byte) uint64 {
	if len(key) >= 8 {
		return binary.BigEndian.Uint64(key)
	}
	var b [8]byte
	copy(b[:], key)
	return binary.BigEndian.Uint64(b[:])
}

func (n *treeNode) first() treeEntry       { return treeEntry{n.heads[0], n.ids[0]} }
func (n *treeNode) entry(i int) treeEntry  { return treeEntry{n.heads[i], n.ids[i]} }
func (n *treeNode) put(i int, e treeEntry) { n.heads[i], n.ids[i] = e.head, e.id }

func newTreeNode(size int, leaf bool) *treeNode {
	n := &treeNode{heads: make([]uint64, size), ids: make([]uint32, size)}
	if !leaf {
		n.kids = make([]*treeNode, size)
	}
	return n
}

// buildTree makes a tree of entries that are in order.
func buildTree(entries []treeEntry) heapTree {
	var level []*treeNode
	for part := range slices.Chunk(entries, treeFill) {
		n := newTreeNode(len(part), true)
		for i, e := range part {
			n.put(i, e)
		}
		level = append(level, n)
	}
	return heapTree{treeRoot(level)}
}

// treeRoot puts as many levels over some nodes as it takes.
func treeRoot(level []*treeNode) *treeNode {
	for len(level) > 1 {
		level = treeParents(level)
	}
	if len(level) == 0 {
		return nil
	}
	root := level[0]
	for len(root.kids) == 1 {
		root = root.kids[0]
	}
	return root
}

// treeParents puts nodes under as few parents as possible, all of about the same size.
func treeParents(kids []*treeNode) []*treeNode {
	var out []*treeNode
	for size := range treeSizes(len(kids)) {
		n := newTreeNode(size, false)
		for i, kid := range kids[:size] {
			n.put(i, kid.first())
			n.kids[i] = kid
		}
		kids = kids[size:]
		out = append(out, n)
	}
	return out
}

// treeSizes divides n into parts that fit into a node.
func treeSizes(n int) func(yield func(size int) bool) {
	return func(yield func(size int) bool) {
		for parts := (n + treeMax - 1) / treeMax; parts > 0; parts-- {
			size := n / parts
			n -= size
			if !yield(size) {
				return
			}
		}
	}
}

// edited returns the tree after edits, which are in order, one at most per id. What is taken out is in the tree, what is put in is not.
func (t heapTree) edited(edits []treeEdit, order treeOrder) heapTree {
	if len(edits) == 0 {
		return t
	}
	if t.root == nil {
		return heapTree{treeRoot((&treeNode{}).editedLeaf(edits, order))}
	}
	return heapTree{treeRoot(t.root.edited(edits, order))}
}

// edited returns what takes the place of a node.
func (n *treeNode) edited(edits []treeEdit, order treeOrder) []*treeNode {
	if n.kids == nil {
		return n.editedLeaf(edits, order)
	}
	kids := make([]*treeNode, 0, len(n.kids)+4)
	for i, kid := range n.kids {
		here := edits
		if i+1 < len(n.kids) {
			next := n.entry(i + 1)
			here = edits[:sort.Search(len(edits), func(j int) bool { return order.compare(edits[j].treeEntry, next) >= 0 })]
		}
		edits = edits[len(here):]
		if len(here) == 0 {
			kids = append(kids, kid)
			continue
		}
		kids = append(kids, kid.edited(here, order)...)
	}
	return treeParents(mergeSmall(kids))
}

func (n *treeNode) editedLeaf(edits []treeEdit, order treeOrder) []*treeNode {
	size := len(n.ids)
	for i := range edits {
		if edits[i].out {
			size--
		} else {
			size++
		}
	}
	var out []*treeNode
	w := treeMerge{leaf: n, edits: edits, order: order}
	for size := range treeSizes(size) {
		part := newTreeNode(size, true)
		for i := range size {
			part.put(i, w.next())
		}
		out = append(out, part)
	}
	return out
}

// treeMerge yields the entries of a leaf after edits.
type treeMerge struct {
	leaf  *treeNode
	at    int
	edits []treeEdit
	order treeOrder
}

func (m *treeMerge) next() treeEntry {
	for len(m.edits) > 0 {
		e := m.edits[0]
		if m.at < len(m.leaf.ids) {
			c := m.order.compare(m.leaf.entry(m.at), e.treeEntry)
			if c < 0 {
				break
			}
			if c == 0 { // to be taken out
				m.at++
				m.edits = m.edits[1:]
				continue
			}
		}
		m.edits = m.edits[1:]
		return e.treeEntry
	}
	m.at++
	return m.leaf.entry(m.at - 1)
}

// mergeSmall joins nodes of one parent that have become small.
func mergeSmall(nodes []*treeNode) []*treeNode {
	out := nodes[:0]
	for _, n := range nodes {
		if k := len(out) - 1; k >= 0 && min(len(out[k].ids), len(n.ids)) < treeMin && len(out[k].ids)+len(n.ids) <= treeMax {
			last := out[k]
			joined := &treeNode{heads: slices.Concat(last.heads, n.heads), ids: slices.Concat(last.ids, n.ids)}
			if last.kids != nil {
				joined.kids = slices.Concat(last.kids, n.kids)
			}
			out[k] = joined
			continue
		}
		out = append(out, n)
	}
	return out
}

// treeCursor walks through a tree in order.
type treeCursor struct {
	path  [treeDeep]treeStep
	depth int // of the leaf; -1: at the end
}

type treeStep struct {
	node *treeNode
	at   int
}

// seek returns a cursor on the first entry whose head is head or greater, and for which before is not true; before is asked about entries with
// that very head only, and may be nil.
func (t heapTree) seek(head uint64, before func(id uint32) bool) (c treeCursor) {
	c.depth = -1
	n := t.root
	for n != nil {
		at := n.search(head, before)
		c.depth++
		if n.kids == nil {
			c.path[c.depth] = treeStep{n, at}
			if at == len(n.ids) {
				c.up()
			}
			return c
		}
		at = max(at-1, 0)
		c.path[c.depth] = treeStep{n, at}
		n = n.kids[at]
	}
	return c
}

// search finds the first entry that is not before what seek looks for.
func (n *treeNode) search(head uint64, before func(id uint32) bool) int {
	from, to := 0, len(n.heads)
	for from < to {
		at := int(uint(from+to) >> 1)
		if n.heads[at] < head || n.heads[at] == head && before != nil && before(n.ids[at]) {
			from = at + 1
		} else {
			to = at
		}
	}
	return from
}

func (c *treeCursor) valid() bool { return c.depth >= 0 }

func (c *treeCursor) entry() treeEntry {
	s := &c.path[c.depth]
	return s.node.entry(s.at)
}

func (c *treeCursor) next() {
	s := &c.path[c.depth]
	if s.at++; s.at == len(s.node.ids) {
		c.up()
	}
}

// up goes from behind the end of a leaf to the beginning of the next one.
func (c *treeCursor) up() {
	for c.depth--; c.depth >= 0; c.depth-- {
		s := &c.path[c.depth]
		if s.at++; s.at == len(s.node.kids) {
			continue
		}
		for n := s.node.kids[s.at]; ; n = n.kids[0] {
			c.depth++
			c.path[c.depth] = treeStep{n, 0}
			if n.kids == nil {
				return
			}
		}
	}
}
