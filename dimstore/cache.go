package dimstore

import (
	"encoding/binary"
	"hash/maphash"
	"math/bits"
	"sync"
	"sync/atomic"
)

// cache keeps what views of one generation found: rows under their stored keys, groups of rows under a prefix or the codes of an index, and
// that there is none. It holds no pointers, so it costs the garbage collector nothing.
//
// A view gets from it what its own snapshot has, never anything older or newer. Commits are numbered. One that changes keys first removes what
// is kept under them and notes its number in the epochs of their classes (removing), then commits, then counts as completed. A view takes the
// number of the last completed commit before it opens its snapshot, so it knows at least how old that is:
//
//   - What is kept under a key has not changed from the commit that it was filled at to now, for every commit in any snapshot has removed what it
//     changes. So a view may take what was filled at a commit not later than its own.
//   - A view may fill in what it read when no commit after its own has changed the class of the key: what it read is then what is there now.
//     That closes the race between a fill and a change.
//
// Filling begins when the first load is complete; until then commits don't look at the cache.
type cache struct {
	seed      maphash.Seed
	shards    []cacheShard
	completed atomic.Uint64 // number of the last commit that every view opened from now on has
	begun     uint64        // of the holder of generation.writing
	pace      pace
	counters  *cacheCounters
}

// cacheCounters outlive a generation.
type cacheCounters struct{ hits, misses atomic.Uint64 }

const (
	cacheShards    = 64
	leastShard     = 64 << 10 // bytes; with less than that there are fewer shards
	cacheClasses   = 64
	cacheHeader    = 24
	firstRing      = 16 << 10
	secondChances  = 4 // of entries that were used, for one that comes
	cacheAlignment = 8
)

// newCache makes a cache of at most limit bytes and keys entries (0: as many as fit); nil for a limit of 0.
func newCache(limit, keys int64, counters *cacheCounters) *cache {
	if limit < leastShard {
		return nil
	}
	n := int64(1) << (bits.Len64(uint64(min(limit/leastShard, cacheShards))) - 1)
	c := &cache{seed: maphash.MakeSeed(), shards: make([]cacheShard, n), counters: counters}
	for i := range c.shards {
		s := &c.shards[i]
		// An eighth is for the slots, which are at most three quarters full.
		s.most = int(limit/n) * 7 / 8 &^ (cacheAlignment - 1)
		s.mostSlots = 1 << (bits.Len64(uint64(limit/n/8/8)) - 1)
		s.mostKeys = s.mostSlots * 3 / 4
		if keys > 0 {
			s.mostKeys = max(1, min(s.mostKeys, int(keys/n)))
		}
	}
	return c
}

func (c *cache) hash(key []byte) uint64 { return maphash.Bytes(c.seed, key) }

func (c *cache) shard(hash uint64) *cacheShard { return &c.shards[hash%uint64(len(c.shards))] }

// removing begins the next commit: of what it changes nothing is in the cache from now on, and no view that was opened before its end fills it in.
// Completed must follow; after a commit that failed nothing does.
func (c *cache) removing(changed []uint64) {
	c.begun++
	for _, h := range changed {
		s := c.shard(h)
		s.mu.Lock()
		s.epochs[class(h)] = c.begun
		s.remove(tag(h))
		s.mu.Unlock()
	}
}

// removingKind is removing for all keys of one kind.
func (c *cache) removingKind(kind byte) {
	c.begun++
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		for j := range s.epochs {
			s.epochs[j] = c.begun
		}
		s.removeKind(kind)
		s.mu.Unlock()
	}
}

func (c *cache) complete() { c.completed.Store(c.begun) }

// size is the number of keys and the bytes that are reserved for them.
func (c *cache) size() (keys, bytes int64) {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		keys += int64(s.count)
		bytes += int64(len(s.ring) + 8*len(s.slots))
		s.mu.Unlock()
	}
	return keys, bytes
}

// class is the epoch counter of a key, tag what its slot tells of it. They and the number of the shard are different bits of the hash.
func class(hash uint64) int  { return int(hash>>8) % cacheClasses }
func tag(hash uint64) uint32 { return uint32(hash >> 32) }

// cacheShard is a ring of entries, the oldest at head, and an open hash table of where they are. An entry that has been used when its turn to go
// comes is put in again behind the new one. Entry:
//
//	size of the entry, of the value (4 bytes each), of the key (2), flags (2), tag (4), number of the commit it was filled at (8, from 16 on),
//	key, value, padding
type cacheShard struct {
	mu         sync.Mutex
	epochs     [cacheClasses]uint64
	slots      []uint64 // tag and place of an entry, in units of cacheAlignment, + 1; 0: free
	ring       []byte
	head, tail int
	used       int // bytes from head to tail
	count      int
	most       int // bytes of the ring
	mostSlots  int
	mostKeys   int
	evicted    bool   // since pace looked last
	again      []byte // entries that get another chance
}

const (
	entryLive    = 1 << iota // else it is garbage until its turn comes
	entryPresent             // else it says that there is nothing
	entryUsed
)

// get copies what a view of a commit may see to dst.
func (s *cacheShard) get(hash uint64, key []byte, seq uint64, dst *memory) (value []byte, present, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, _ := s.find(tag(hash), key)
	if at < 0 {
		return nil, false, false
	}
	e := s.ring[at:]
	if binary.LittleEndian.Uint64(e[16:]) > seq {
		return nil, false, false
	}
	e[10] |= entryUsed
	if e[10]&entryPresent == 0 {
		return nil, false, true
	}
	from := cacheHeader + len(key)
	stored := e[from : from+int(binary.LittleEndian.Uint32(e[4:]))]
	return dst.keep(append(dst.grab(len(stored)), stored...)), true, true
}

// put takes up what a view of a commit has read, unless a later commit has changed it.
func (s *cacheShard) put(hash uint64, key, value []byte, present bool, seq uint64) {
	size := (cacheHeader + len(key) + len(value) + cacheAlignment - 1) &^ (cacheAlignment - 1)
	if size > s.most/8 || len(key) > 1<<16-1 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.epochs[class(hash)] > seq {
		return
	}
	if at, _ := s.find(tag(hash), key); at >= 0 {
		return // another view was faster
	}
	at := s.allocate(size, secondChances)
	e := s.ring[at : at+size]
	binary.LittleEndian.PutUint32(e, uint32(size))
	binary.LittleEndian.PutUint32(e[4:], uint32(len(value)))
	binary.LittleEndian.PutUint16(e[8:], uint16(len(key)))
	e[10], e[11] = entryLive, 0
	if present {
		e[10] |= entryPresent
	}
	binary.LittleEndian.PutUint32(e[12:], tag(hash))
	binary.LittleEndian.PutUint64(e[16:], seq)
	copy(e[copy(e[cacheHeader:], key)+cacheHeader:], value)
	s.link(at, tag(hash))
	for again := s.again; len(again) > 0; {
		size := int(binary.LittleEndian.Uint32(again))
		at := s.allocate(size, 0)
		copy(s.ring[at:], again[:size])
		s.link(at, binary.LittleEndian.Uint32(again[12:]))
		again = again[size:]
	}
	s.again = s.again[:0]
}

// find returns where the entry of a key is, and its slot; -1 when there is none.
func (s *cacheShard) find(tag uint32, key []byte) (at, slot int) {
	if len(s.slots) == 0 {
		return -1, 0
	}
	mask := len(s.slots) - 1
	for i := int(tag) & mask; s.slots[i] != 0; i = (i + 1) & mask {
		if uint32(s.slots[i]>>32) != tag {
			continue
		}
		at := place(s.slots[i])
		e := s.ring[at:]
		n := int(binary.LittleEndian.Uint16(e[8:]))
		if n == len(key) && string(e[cacheHeader:cacheHeader+n]) == string(key) {
			return at, i
		}
	}
	return -1, 0
}

func place(slot uint64) int { return int(uint32(slot)-1) * cacheAlignment }

// link enters an entry into the table, which has room.
func (s *cacheShard) link(at int, tag uint32) {
	s.count++
	if 4*s.count > 3*len(s.slots) {
		s.rehash(max(64, 2*len(s.slots)))
		return // with this one
	}
	s.slot(at, tag)
}

func (s *cacheShard) slot(at int, tag uint32) {
	mask := len(s.slots) - 1
	i := int(tag) & mask
	for s.slots[i] != 0 {
		i = (i + 1) & mask
	}
	s.slots[i] = uint64(tag)<<32 | uint64(at/cacheAlignment+1)
}

// rehash makes the table anew from the ring.
func (s *cacheShard) rehash(n int) {
	s.slots = make([]uint64, n)
	s.each(func(at int, e []byte) {
		s.slot(at, binary.LittleEndian.Uint32(e[12:]))
	})
}

// each yields the live entries, the oldest first.
func (s *cacheShard) each(yield func(at int, e []byte)) {
	for at, left := s.head, s.used; left > 0; {
		if len(s.ring)-at < cacheHeader { // too short for an entry
			left -= len(s.ring) - at
			at = 0
			continue
		}
		size := int(binary.LittleEndian.Uint32(s.ring[at:]))
		if s.ring[at+10]&entryLive != 0 {
			yield(at, s.ring[at:at+size])
		}
		left -= size
		if at += size; at == len(s.ring) {
			at = 0
		}
	}
}

// remove takes everything out whose tag is this one: a little more than needed never hurts.
func (s *cacheShard) remove(tag uint32) {
	if len(s.slots) == 0 {
		return
	}
	mask := len(s.slots) - 1
	for i := int(tag) & mask; s.slots[i] != 0; {
		if uint32(s.slots[i]>>32) != tag {
			i = (i + 1) & mask
			continue
		}
		s.ring[place(s.slots[i])+10] = 0
		s.free(i) // another slot may stand here now
	}
}

func (s *cacheShard) removeKind(kind byte) {
	s.each(func(_ int, e []byte) {
		if e[cacheHeader] == kind {
			e[10] = 0
			s.count--
		}
	})
	if len(s.slots) > 0 {
		s.rehash(len(s.slots))
	}
}

// free empties a slot, and moves up those behind it that would not be found any more.
func (s *cacheShard) free(i int) {
	s.count--
	mask := len(s.slots) - 1
	for j := (i + 1) & mask; s.slots[j] != 0; j = (j + 1) & mask {
		home := int(s.slots[j]>>32) & mask
		if (j-home)&mask >= (j-i)&mask {
			s.slots[i], i = s.slots[j], j
		}
	}
	s.slots[i] = 0
}

// allocate makes room for an entry of size bytes at the tail. Of the entries that go for it, so many that were used are kept in again.
func (s *cacheShard) allocate(size, chances int) (at int) {
	for s.count >= s.mostKeys {
		chances = s.evict(chances)
	}
	for {
		if s.used == 0 {
			s.head, s.tail = 0, 0
		}
		rest := len(s.ring) - s.tail
		full := s.used > 0 && s.tail <= s.head
		switch {
		case !full && rest >= size, full && s.head-s.tail >= size:
			at = s.tail
			s.used += size
			if s.tail += size; s.tail == len(s.ring) {
				s.tail = 0
			}
			return at
		case len(s.ring) < s.most:
			s.grow(size)
		case full:
			chances = s.evict(chances)
		default:
			s.skip(rest)
		}
	}
}

// skip leaves the end of the ring unused.
func (s *cacheShard) skip(rest int) {
	if rest >= cacheHeader {
		binary.LittleEndian.PutUint32(s.ring[s.tail:], uint32(rest))
		s.ring[s.tail+10] = 0
	}
	s.used += rest
	s.tail = 0
}

// grow doubles the ring.
func (s *cacheShard) grow(size int) {
	ring := make([]byte, min(s.most, max(2*len(s.ring), firstRing, 2*size)))
	used := 0
	s.each(func(_ int, e []byte) { used += copy(ring[used:], e) })
	s.ring, s.head, s.tail, s.used = ring, 0, used%len(ring), used
	s.rehash(len(s.slots))
}

// evict lets the oldest entry go. One that was used since it came is put aside to come in again, while there are chances.
func (s *cacheShard) evict(chances int) int {
	if len(s.ring)-s.head < cacheHeader {
		s.used -= len(s.ring) - s.head
		s.head = 0
		return chances
	}
	e := s.ring[s.head:]
	size := int(binary.LittleEndian.Uint32(e))
	e = e[:size]
	if e[10]&entryLive != 0 {
		n := int(binary.LittleEndian.Uint16(e[8:]))
		_, slot := s.find(binary.LittleEndian.Uint32(e[12:]), e[cacheHeader:cacheHeader+n])
		s.free(slot)
		if e[10]&entryUsed != 0 && chances > 0 {
			chances--
			e[10] &^= entryUsed
			s.again = append(s.again, e...)
		} else {
			s.evicted = true
		}
		e[10] = 0
	}
	s.used -= size
	if s.head += size; s.head == len(s.ring) {
		s.head = 0
	}
	return chances
}
