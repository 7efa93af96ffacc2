package record

import "slices"

// none is the absence of a slot, a list, a node or an index.
const none = -1

// Shape is a compiled set of paths to find and of top-level fields whose every occurrence is wanted. It does not change after Compile and is
// safe for concurrent use.
//
// The paths form a tree of names. Slots, where the values found are kept, are numbered in the order of a walk through the tree, so that the
// slots at and below a name are one range: it is cleared whenever the name occurs again, since of repeated parents only the last counts.
type Shape struct {
	nodes      []node // nodes[0] is the record itself
	pathSlots  []int  // path index → slot; none for a zero Path
	fieldLists []int  // field index → list of occurrences
	slots      int
	lists      int
}

// node is a place with names below it.
type node struct {
	children []child
	indexed  bool    // some child stands for an array index as well
	lengths  uint64  // the lengths that the names have, modulo 64
	first    []int16 // hash of a name → the child with which its chain begins; a power of two long
}

// child is one name below a node.
type child struct {
	name  string
	next  int // child of the same hash, or none
	twin  int // child of the same name that stands for another array index or for none, or none
	node  int // with the names below this one, or none
	slot  int // of the path that ends here, or none
	low   int // slots of the paths that end here or below: low to high-1
	high  int
	list  int // where occurrences are wanted, or none
	index int // the array index that the name stands for, or none
}

// Compile prepares paths to be found and fields to be watched: Doc.Value and Doc.Occurrences number them as given here. The same path or
// field may come several times.
func Compile(paths []Path, fields []string) *Shape {
	s := &Shape{nodes: make([]node, 1)}
	ends := make([][2]int, len(paths)) // node and child
	for i, p := range paths {
		ends[i] = s.insert(p.segments)
		if len(p.segments) > 0 {
			s.nodes[ends[i][0]].children[ends[i][1]].slot = 0 // numbered below
		}
	}
	for _, name := range fields {
		c := &s.nodes[0].children[s.childOf(0, segment{name: name, index: none})]
		if c.list == none {
			c.list = s.lists
			s.lists++
		}
		s.fieldLists = append(s.fieldLists, c.list)
	}
	s.number(0)
	for i, p := range paths {
		slot := none
		if len(p.segments) > 0 {
			slot = s.nodes[ends[i][0]].children[ends[i][1]].slot
		}
		s.pathSlots = append(s.pathSlots, slot)
	}
	for i := range s.nodes {
		s.nodes[i].build()
	}
	return s
}

// insert adds the names of a path to the tree and gives the node and the child of the last one.
func (s *Shape) insert(segments []segment) [2]int {
	var end [2]int
	at := 0
	for depth, step := range segments {
		k := s.childOf(at, step)
		end = [2]int{at, k}
		if depth == len(segments)-1 {
			break
		}
		if s.nodes[at].children[k].node == none {
			s.nodes[at].children[k].node = len(s.nodes)
			s.nodes = append(s.nodes, node{})
		}
		at = s.nodes[at].children[k].node
	}
	return end
}

// childOf finds or adds the child of a node.
func (s *Shape) childOf(at int, step segment) int {
	n := &s.nodes[at]
	k := slices.IndexFunc(n.children, func(c child) bool { return c.name == step.name && c.index == step.index })
	if k < 0 {
		k = len(n.children)
		n.children = append(n.children, child{
			name: step.name, index: step.index, next: none, twin: none, node: none, slot: none, list: none,
		})
	}
	return k
}

// number gives the slots below a node their numbers.
func (s *Shape) number(at int) {
	for k := range s.nodes[at].children {
		c := &s.nodes[at].children[k]
		c.low = s.slots
		if c.slot != none {
			c.slot = s.slots
			s.slots++
		}
		if c.node != none {
			s.number(c.node)
		}
		c.high = s.slots
	}
}

// build makes the table by which names are found.
func (n *node) build() {
	size := 4
	for size < 2*len(n.children) {
		size *= 2
	}
	n.first = slices.Repeat([]int16{none}, size)
	for k := range n.children {
		c := &n.children[k]
		n.indexed = n.indexed || c.index != none
		if same := n.find([]byte(c.name)); same != none {
			for n.children[same].twin != none {
				same = n.children[same].twin
			}
			n.children[same].twin = k
			continue
		}
		n.lengths |= 1 << (len(c.name) & 63)
		h := n.hash([]byte(c.name))
		c.next = int(n.first[h])
		n.first[h] = int16(k)
	}
}

// find gives the first child of a name (its escapes resolved), or none. Most names are turned away by their length.
func (n *node) find(name []byte) int {
	if n.lengths>>(len(name)&63)&1 == 0 {
		return none
	}
	for k := int(n.first[n.hash(name)]); k != none; k = n.children[k].next {
		if n.children[k].name == string(name) {
			return k
		}
	}
	return none
}

// hash mixes the length and three bytes of a name: fields of one record often begin or end alike, rarely all of it.
func (n *node) hash(name []byte) int {
	h := len(name)
	if h > 0 {
		h += 3*int(name[0]) + 7*int(name[h/2]) + 13*int(name[h-1])
	}
	return (h ^ h>>5) & (len(n.first) - 1)
}
