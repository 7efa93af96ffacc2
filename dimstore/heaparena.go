package dimstore

import (
	"encoding/binary"
	"sync/atomic"

	"enricher/record"
)

// The records of a heap store lie one behind the other in chunks of bytes and are named by where they begin, so the garbage collector sees a
// few large pieces without pointers instead of millions of small ones. What is written is never changed: a change writes another record, and
// the old one is dead. A chunk goes when everything in it is dead and no view is open that may still read from it.

// heapRef is where a record begins: the number of the chunk in the upper half, the place in it in the lower one. 0 is no record.
type heapRef uint64

func makeHeapRef(chunk uint32, at int) heapRef { return heapRef(chunk)<<32 | heapRef(uint32(at)) }

func (r heapRef) chunk() uint32 { return uint32(r >> 32) }
func (r heapRef) at() int       { return int(uint32(r)) }

const (
	maxHeapChunk = 1 << 20
	minHeapChunk = 64 << 10
	// A record beyond this part of a chunk gets a chunk of its own, so that little is lost at the ends of chunks.
	largeRecord = 8
)

// heapChunk is a piece of an arena. Readers know only buf, and of that only what they have references to.
type heapChunk struct {
	buf    []byte
	number uint32
	used   int // bytes of records
	dead   int // of these, in records that are dead
	listed bool
}

// heapArena holds the records. One goroutine writes; at may be called by any.
type heapArena struct {
	chunks atomic.Pointer[[]*heapChunk] // by number; nil: free, as 0 always is

	// Of the writer.
	chunkSize int
	open      *heapChunk   // where records are appended
	free      []uint32     // numbers
	sparse    []*heapChunk // at least half dead, and full
	size      int64        // of all chunks
}

// heapChunkSize is the size of chunks for a budget, so that what is free at the end of one does not count.
func heapChunkSize(memory int64) int {
	if memory <= 0 {
		return maxHeapChunk
	}
	return int(min(max(memory/64, minHeapChunk), maxHeapChunk))
}

func (a *heapArena) init(chunkSize int) {
	a.chunkSize = chunkSize
	a.chunks.Store(&[]*heapChunk{nil})
}

// at returns the bytes of a chunk from the beginning of a record on.
func (a *heapArena) at(r heapRef) []byte { return (*a.chunks.Load())[r.chunk()].buf[r.at():] }

// add writes a record.
func (a *heapArena) add(r *heapRecord) heapRef {
	c := a.room(r.bound())
	record := r.append(c.buf[c.used:c.used])
	ref := makeHeapRef(c.number, c.used)
	c.used += len(record)
	return ref
}

// copy writes a record that is encoded already.
func (a *heapArena) copy(record []byte) heapRef {
	c := a.room(len(record))
	ref := makeHeapRef(c.number, c.used)
	c.used += copy(c.buf[c.used:], record)
	return ref
}

// room finds a chunk with n free bytes at its end.
func (a *heapArena) room(n int) *heapChunk {
	if n > a.chunkSize/largeRecord {
		return a.newChunk(n)
	}
	if a.open == nil || len(a.open.buf)-a.open.used < n {
		full := a.open
		a.open = a.newChunk(a.chunkSize)
		if full != nil {
			a.list(full)
		}
	}
	return a.open
}

func (a *heapArena) newChunk(size int) *heapChunk {
	c := &heapChunk{buf: make([]byte, size)}
	chunks := *a.chunks.Load()
	if n := len(a.free); n > 0 {
		c.number = a.free[n-1]
		a.free = a.free[:n-1]
		chunks = append(make([]*heapChunk, 0, cap(chunks)), chunks...)
		chunks[c.number] = c
	} else {
		c.number = uint32(len(chunks))
		chunks = append(chunks, c) // behind what readers know
	}
	a.chunks.Store(&chunks)
	a.size += int64(size)
	return c
}

// kill notes that a record is dead.
func (a *heapArena) kill(r heapRef, size int) {
	c := (*a.chunks.Load())[r.chunk()]
	c.dead += size
	a.list(c)
}

// list puts a chunk that is full and at least half dead among those to be compacted.
func (a *heapArena) list(c *heapChunk) {
	if c == a.open || c.listed || 2*c.dead < c.used {
		return
	}
	c.listed = true
	a.sparse = append(a.sparse, c)
}

// release gives a chunk back: no view reads from it any more.
func (a *heapArena) release(c *heapChunk) {
	old := *a.chunks.Load()
	chunks := append(make([]*heapChunk, 0, cap(old)), old...)
	chunks[c.number] = nil
	a.chunks.Store(&chunks)
	a.free = append(a.free, c.number)
	a.size -= int64(len(c.buf))
}

// heapRecord is a row, or the mark of a deleted one:
//
//	id (4 bytes) | partition | length of the key, flags | key |
//	row: length, row; mark: seconds since the epoch when it expires, number of its commit |
//	bucket | offset | record timestamp | under VersionColumn: length of the version, version
//
// All numbers but the id are varints.
type heapRecord struct {
	id        uint32
	partition uint32 // number
	key       []byte
	row       []byte
	mark      bool
	expires   int64
	commit    uint64
	bucket    uint32 // number
	offset    int64
	timestamp int64
	version   []byte
	size      int // set by parseHeapRecord
}

func (r *heapRecord) stamp() stamp {
	return stamp{r.bucket, r.offset, r.timestamp, r.version}
}

const (
	heapMark    = 1 << iota // it is a mark
	heapVersion             // it has a version
	heapFlags   = 2         // bits
)

const (
	heapIDSize    = 4
	heapRecordMax = heapIDSize + 5*binary.MaxVarintLen64 + 3*binary.MaxVarintLen32 // besides key, row and version
)

// bound is the greatest length that append adds.
func (r *heapRecord) bound() int { return heapRecordMax + len(r.key) + len(r.row) + len(r.version) }

func (r *heapRecord) append(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, r.id)
	dst = binary.AppendUvarint(dst, uint64(r.partition))
	flags := uint64(0)
	if r.mark {
		flags |= heapMark
	}
	if len(r.version) > 0 {
		flags |= heapVersion
	}
	dst = binary.AppendUvarint(dst, uint64(len(r.key))<<heapFlags|flags)
	dst = append(dst, r.key...)
	if r.mark {
		dst = binary.AppendUvarint(dst, uint64(r.expires))
		dst = binary.AppendUvarint(dst, r.commit)
	} else {
		dst = appendBytes(dst, r.row)
	}
	dst = binary.AppendUvarint(dst, uint64(r.bucket))
	dst = binary.AppendUvarint(dst, uint64(r.offset))
	dst = binary.AppendVarint(dst, r.timestamp)
	if len(r.version) > 0 {
		dst = appendBytes(dst, r.version)
	}
	return dst
}

// heapKey is what readers need of a record: whose it is, and what follows the key.
type heapKey struct {
	partition uint32
	key       []byte
	mark      bool
	versioned bool
	rest      []byte // of the record, from behind the key on
}

func parseHeapKey(b []byte) (k heapKey) {
	partition, n := heapUvarint(b[heapIDSize:])
	b = b[heapIDSize+n:]
	length, n := heapUvarint(b)
	end := n + int(length>>heapFlags)
	return heapKey{
		partition: uint32(partition), key: b[n:end:end],
		mark: length&heapMark != 0, versioned: length&heapVersion != 0, rest: b[end:],
	}
}

// row is the row of a record that is no mark.
func (k *heapKey) row() record.Row {
	length, n := heapUvarint(k.rest)
	end := n + int(length)
	return record.Row(k.rest[n:end:end])
}

// heapUvarint is binary.Uvarint, most of the time without a call.
func heapUvarint(b []byte) (v uint64, n int) {
	if b[0] < 0x80 {
		return uint64(b[0]), 1
	}
	return binary.Uvarint(b)
}

func heapRecordID(b []byte) uint32 { return binary.LittleEndian.Uint32(b) }

// parseHeapRecord reads a whole record from the beginning of b.
func parseHeapRecord(b []byte) (out heapRecord) {
	k := parseHeapKey(b)
	out.id, out.partition, out.key, out.mark = heapRecordID(b), k.partition, k.key, k.mark
	r := reader{b: k.rest}
	if k.mark {
		out.expires, out.commit = int64(r.uvarint()), r.uvarint()
	} else {
		out.row = r.bytes()
	}
	out.bucket = uint32(r.uvarint())
	out.offset = int64(r.uvarint())
	out.timestamp = r.varint()
	if k.versioned {
		out.version = r.bytes()
	}
	out.size = len(b) - len(r.b)
	return out
}
