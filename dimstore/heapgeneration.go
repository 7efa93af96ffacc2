package dimstore

import (
	"bytes"
	"sync"
	"sync/atomic"
	"time"
)

// heapGeneration is one complete loading of a dimension in the heap. While it is loaded nobody reads from it, so it has no trees and names no
// replaced rows; order ends that, at MarkComplete or with the first view, whichever comes first.
type heapGeneration struct {
	store *HeapStore

	arena heapArena
	ids   heapIDs
	hash  *heapHash

	present  atomic.Pointer[heapCommit] // written by the holder of writing
	rows     atomic.Int64
	taken    atomic.Int64 // bytes, see measure
	complete atomic.Bool
	ordered  atomic.Bool

	writing sync.Mutex
	// Of the holder of writing.
	closed        error
	oldest        *heapCommit
	nextPartition uint32
	partitions    map[string]*heapPartition // by tuple
	numbered      map[uint32]*heapPartition // by number
	marks         heapMarks
	dropped       []heapDropped
	retired       []heapRetired // in the order of their commits
	batch         heapBatch

	mu      sync.RWMutex
	buckets []bucket // by number; written by the holder of writing
	numbers map[BucketID]uint32
}

// heapPartition is one partition as the writer has it, without live rows as well, for the marks of its deleted rows.
type heapPartition struct {
	number  uint32
	tuple   []byte
	rows    int64 // live
	was     int64 // at the last commit
	ids     int64 // of rows and marks
	tree    heapTree
	touched bool // by the batch at hand
	edits   []treeEdit
}

func newHeapGeneration(s *HeapStore) *heapGeneration {
	g := &heapGeneration{
		store: s, hash: newHeapHash(), nextPartition: 1,
		partitions: make(map[string]*heapPartition), numbered: make(map[uint32]*heapPartition), numbers: make(map[BucketID]uint32),
	}
	g.arena.init(s.chunkSize)
	g.ids.init()
	g.oldest = &heapCommit{trees: make([]heapTree, len(s.options.Indexes))}
	g.present.Store(g.oldest)
	return g
}

// key returns the key of an id that has a record.
func (g *heapGeneration) key(id uint32) heapKey { return parseHeapKey(g.arena.at(g.ids.get(id))) }

// compareKeys orders the rows of a partition.
func (g *heapGeneration) compareKeys(a, b uint32) int {
	ka, kb := g.key(a), g.key(b)
	return bytes.Compare(ka.key, kb.key)
}

// comparePlaces orders rows of all partitions. Of the holder of writing.
func (g *heapGeneration) comparePlaces(a, b uint32) int { return g.placeOrder(g.key(a), g.key(b)) }

func (g *heapGeneration) placeOrder(a, b heapKey) int {
	if a.partition != b.partition {
		return bytes.Compare(g.numbered[a.partition].tuple, g.numbered[b.partition].tuple)
	}
	return bytes.Compare(a.key, b.key)
}

// positions returns them as stored.
func (g *heapGeneration) positions() []Position {
	g.mu.RLock()
	defer g.mu.RUnlock()
	out := make([]Position, 0, len(g.buckets))
	for i := range g.buckets {
		if g.buckets[i].hasPosition {
			out = append(out, g.buckets[i].position)
		}
	}
	return out
}

func (g *heapGeneration) setPositions(positions []Position) {
	if len(positions) == 0 {
		return
	}
	for i := range positions {
		g.bucketNumber(positions[i].Bucket)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range positions {
		if !p.ProvedAt.IsZero() {
			p.ProvedAt = time.Unix(0, p.ProvedAt.UnixNano()).UTC()
		}
		b := &g.buckets[g.numbers[p.Bucket]]
		b.hasPosition, b.position = true, p
	}
}

// bucketNumber returns the number of a bucket, a new one for a new bucket.
func (g *heapGeneration) bucketNumber(id BucketID) uint32 {
	number, ok := g.numbers[id]
	if !ok {
		g.mu.Lock()
		defer g.mu.Unlock()
		number = uint32(len(g.buckets))
		g.buckets = append(g.buckets, bucket{id: id})
		g.numbers[id] = number
	}
	return number
}

// markComplete is Store.MarkComplete for one generation.
func (g *heapGeneration) markComplete() error {
	g.writing.Lock()
	defer g.writing.Unlock()
	if g.closed != nil {
		return g.closed
	}
	g.order()
	g.complete.Store(true)
	return nil
}

// codesHead is the head of the entries of an index with certain codes: equal ones are found together, in no order that means anything.
func (g *heapGeneration) codesHead(codes []byte) uint64 { return g.hash.of(0, codes) }

// stop lets nothing be written any more, for the reason given.
func (g *heapGeneration) stop(why error) {
	g.writing.Lock()
	defer g.writing.Unlock()
	g.closed = why
}
