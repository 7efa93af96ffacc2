package dimstore

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestHeapTree compares trees of up to four levels with a sorted list through random edits, and earlier trees with what they were.
func TestHeapTree(t *testing.T) {
	for name, heads := range map[string]uint64{"all heads differ": 1 << 40, "heads shared by some": 5000, "one head": 1} {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(heads, 1))
			// The order within a head is not that of the ids.
			order := treeOrder(func(a, b uint32) int { return cmp.Compare(a*0x9E3779B1, b*0x9E3779B1) })
			head := func(id uint32) uint64 { return uint64(id) * 0x9E3779B97F4A7C15 >> 20 % heads }
			ids := uint32(0)
			var want []treeEntry
			for range 20_000 {
				ids++
				want = append(want, treeEntry{head(ids), ids})
			}
			slices.SortFunc(want, order.compare)
			tree := buildTree(want)
			checkTree(t, tree, want)
			for round := range 25 {
				before, was := tree, want
				share := []float64{0.001, 0.01, 0.6, 0.97}[rng.IntN(4)]
				var edits []treeEdit
				kept := make([]treeEntry, 0, len(want))
				for _, e := range want {
					if rng.Float64() < share {
						edits = append(edits, treeEdit{e, true})
					} else {
						kept = append(kept, e)
					}
				}
				if round == 15 {
					for _, e := range kept {
						edits = append(edits, treeEdit{e, true})
					}
					kept = nil
				}
				for range []int{1, 10, 3000, 30_000}[rng.IntN(4)] * min(round%15, 1) {
					ids++
					e := treeEntry{head(ids), ids}
					kept = append(kept, e)
					edits = append(edits, treeEdit{e, false})
				}
				want = kept
				slices.SortFunc(want, order.compare)
				slices.SortFunc(edits, func(a, b treeEdit) int { return order.compare(a.treeEntry, b.treeEntry) })
				tree = tree.edited(edits, order)
				checkTree(t, tree, want)
				checkTree(t, before, was)
				for range 20 {
					checkSeek(t, tree, want, order, uint32(rng.IntN(int(ids)+1)), head)
				}
			}
		})
	}
}

func checkTree(t *testing.T, tree heapTree, want []treeEntry) {
	t.Helper()
	i := 0
	for c := tree.seek(0, nil); c.valid(); c.next() {
		if i == len(want) || c.entry() != want[i] {
			require.FailNow(t, "wrong entry", "%d of %d", i, len(want))
		}
		i++
	}
	require.Equal(t, len(want), i)
	if tree.root != nil {
		checkNode(t, tree.root)
	}
}

// checkNode returns how deep a node is; all its leaves must be so.
func checkNode(t *testing.T, n *treeNode) int {
	t.Helper()
	require.NotEmpty(t, n.ids)
	require.LessOrEqual(t, len(n.ids), treeMax)
	require.Len(t, n.heads, len(n.ids))
	if n.kids == nil {
		return 1
	}
	require.Len(t, n.kids, len(n.ids))
	depth := 0
	for i, kid := range n.kids {
		require.Equal(t, n.entry(i), kid.first())
		d := checkNode(t, kid)
		require.True(t, i == 0 || d == depth, "leaves on one level")
		depth = d
	}
	return depth + 1
}

func checkSeek(t *testing.T, tree heapTree, want []treeEntry, order treeOrder, id uint32, head func(id uint32) uint64) {
	t.Helper()
	e := treeEntry{head(id), id}
	for _, before := range []func(x uint32) bool{nil, func(x uint32) bool { return x != id && order(x, id) < 0 }} {
		i, _ := slices.BinarySearchFunc(want, e, func(a, e treeEntry) int {
			if before == nil && a.head == e.head {
				return 0
			}
			return order.compare(a, e)
		})
		c := tree.seek(e.head, before)
		require.Equal(t, i < len(want), c.valid())
		if c.valid() {
			require.Equal(t, want[i], c.entry())
		}
	}
}

// TestHeapHash compares the hash with a map, through growth and removal, with hashes that collide.
func TestHeapHash(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	h := newHeapHash()
	hash := func(id uint32) uint64 { return uint64(id%300)<<56 | uint64(id/3*0x9E3779B1) } // three ids have the same
	live := make(map[uint32]bool)
	found := func(id uint32) int {
		n := 0
		p := h.probe(hash(id))
		for got := p.next(); got != 0; got = p.next() {
			if got == id {
				n++
			}
		}
		return n
	}
	for range 200_000 {
		id := 1 + uint32(rng.IntN(20_000))
		if live[id] {
			h.remove(hash(id), id)
		} else {
			h.add(hash(id), id)
		}
		live[id] = !live[id]
	}
	for id := range uint32(20_000) {
		want := 0
		if live[id+1] {
			want = 1
		}
		require.Equal(t, want, found(id+1), "id %d", id+1)
	}
	var size int64
	for i := range h.shards {
		if table := h.shards[i].table.Load(); table != nil {
			size += int64(8 * len(table.slots))
		}
	}
	require.Equal(t, size, h.taken)
	require.LessOrEqual(t, size, h.size(0))
	require.Less(t, size, int64(10_000*8*3), "removed ids do not make it grow")
}
