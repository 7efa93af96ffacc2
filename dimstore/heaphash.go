package dimstore

import (
	"hash/maphash"
	"sync/atomic"
)

// heapHash finds the ids of full keys by their hashes: open addressing with linear probing, a table per shard, so that a growing table holds up
// the writer for a moment only and takes little more memory than it needs. A slot is 8 bytes: 32 bits of the hash (where to begin, and what
// tells most other keys apart) and the id. One goroutine writes; readers probe beside it and never wait: a slot is one atomic word, nothing
// moves within a table, and a table that has grown takes the place of the old one in one step.
type heapHash struct {
	seed   maphash.Seed
	shards [heapShards]heapShard
	// Of the writer.
	taken int64 // bytes of all tables
	live  int   // ids
}

type heapShard struct {
	table atomic.Pointer[heapTable]
	// Of the writer.
	live int // slots with an id
	used int // and those whose id was removed
}

type heapTable struct{ slots []atomic.Uint64 }

const (
	heapShards = 256
	heapGone   = 1<<32 - 1 // id of a slot whose key was removed
	firstTable = 16        // slots
)

func newHeapHash() *heapHash { return &heapHash{seed: maphash.MakeSeed()} }

// of is the hash of a key in a partition.
func (h *heapHash) of(partition uint32, key []byte) uint64 {
	x := (maphash.Bytes(h.seed, key) ^ uint64(partition)*0x9E3779B97F4A7C15) * 0xBF58476D1CE4E5B9
	return x ^ x>>32
}

// heapProbe goes through the ids that may be those of a key.
type heapProbe struct {
	slots []atomic.Uint64
	tag   uint32
	at    int
}

func (h *heapHash) probe(hash uint64) heapProbe {
	t := h.shards[hash>>56].table.Load()
	if t == nil {
		return heapProbe{}
	}
	return t.probe(hash)
}

func (t *heapTable) probe(hash uint64) heapProbe {
	tag := uint32(hash)
	return heapProbe{slots: t.slots, tag: tag, at: int(uint64(tag) * uint64(len(t.slots)) >> 32)}
}

// next returns the next id, 0 when there is none.
func (p *heapProbe) next() uint32 {
	if len(p.slots) == 0 {
		return 0
	}
	for {
		slot := p.slots[p.at].Load()
		if slot == 0 {
			return 0
		}
		if p.at++; p.at == len(p.slots) {
			p.at = 0
		}
		if uint32(slot>>32) == p.tag && uint32(slot) != heapGone {
			return uint32(slot)
		}
	}
}

// add puts an id in.
func (h *heapHash) add(hash uint64, id uint32) {
	s := &h.shards[hash>>56]
	t := s.table.Load()
	if t == nil || 4*(s.used+1) > 3*len(t.slots) {
		t = h.grow(s, t)
	}
	p := t.probe(hash)
	for p.slots[p.at].Load() != 0 {
		if p.at++; p.at == len(p.slots) {
			p.at = 0
		}
	}
	p.slots[p.at].Store(uint64(p.tag)<<32 | uint64(id))
	s.live++
	s.used++
	h.live++
}

// remove takes an id out.
func (h *heapHash) remove(hash uint64, id uint32) {
	s := &h.shards[hash>>56]
	p := h.probe(hash)
	for {
		switch p.next() {
		case id:
			at := p.at - 1
			if at < 0 {
				at = len(p.slots) - 1
			}
			p.slots[at].Store(heapGone)
			s.live--
			h.live--
			return
		case 0:
			return
		}
	}
}

// grow makes a table that is a little more than half full, without the removed ids.
func (h *heapHash) grow(s *heapShard, old *heapTable) *heapTable {
	t := &heapTable{slots: make([]atomic.Uint64, max(firstTable, s.live*15/8))}
	h.taken += int64(8 * len(t.slots))
	if old != nil {
		h.taken -= int64(8 * len(old.slots))
		for i := range old.slots {
			slot := old.slots[i].Load()
			if slot == 0 || uint32(slot) == heapGone {
				continue
			}
			at := int(slot >> 32 * uint64(len(t.slots)) >> 32)
			for t.slots[at].Load() != 0 {
				if at++; at == len(t.slots) {
					at = 0
				}
			}
			t.slots[at].Store(slot)
		}
	}
	s.used = s.live
	s.table.Store(t)
	return t
}

// renumber replaces the ids, while nobody reads.
func (h *heapHash) renumber(ids []uint32) {
	for i := range h.shards {
		t := h.shards[i].table.Load()
		if t == nil {
			continue
		}
		for at := range t.slots {
			if slot := t.slots[at].Load(); slot != 0 && uint32(slot) != heapGone {
				t.slots[at].Store(slot>>32<<32 | uint64(ids[uint32(slot)]))
			}
		}
	}
}

// size is what the tables take with n more ids, whichever of them grow.
func (h *heapHash) size(n int) int64 { return max(h.taken, int64(h.live+n)*16+heapShards*8*firstTable) }

// heapIDs knows where the record of an id is. An id stands for a key as long as there is a row or a mark of it, so that a change, or a move of
// the record, is one word, and neither the hash nor the trees know of it. One goroutine writes; get may be called by any.
type heapIDs struct {
	segments atomic.Pointer[[]*heapSegment]
	// Of the writer.
	next uint32
	free []uint32
}

type heapSegment [1 << heapSegmentBits]atomic.Uint64

const heapSegmentBits = 12

func (i *heapIDs) init() {
	i.next = 1
	i.segments.Store(&[]*heapSegment{})
}

func (i *heapIDs) get(id uint32) heapRef {
	return heapRef((*i.segments.Load())[id>>heapSegmentBits][id&(1<<heapSegmentBits-1)].Load())
}

func (i *heapIDs) set(id uint32, ref heapRef) {
	(*i.segments.Load())[id>>heapSegmentBits][id&(1<<heapSegmentBits-1)].Store(uint64(ref))
}

// take returns an id without a record.
func (i *heapIDs) take() uint32 {
	if n := len(i.free); n > 0 {
		id := i.free[n-1]
		i.free = i.free[:n-1]
		return id
	}
	id := i.next
	if int(id>>heapSegmentBits) == len(*i.segments.Load()) {
		i.grow()
	}
	i.next++
	return id
}

func (i *heapIDs) grow() {
	segments := append(*i.segments.Load(), new(heapSegment)) // behind what readers know
	i.segments.Store(&segments)
}

// give takes an id back. No view is open that may still have it.
func (i *heapIDs) give(id uint32) {
	i.set(id, 0)
	i.free = append(i.free, id)
}

// size is what it takes once n more ids were taken.
func (i *heapIDs) size(n int) int64 {
	segments := len(*i.segments.Load())
	if fresh := n - len(i.free); fresh > 0 {
		segments = max(segments, (int(i.next)+fresh)>>heapSegmentBits+1)
	}
	return int64(segments)*8<<heapSegmentBits + 4*int64(cap(i.free))
}
