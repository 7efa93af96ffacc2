package dimstore

import (
	"slices"

	"github.com/dgraph-io/badger/v4"
)

// memory gives out byte slices that live until reset, without a heap allocation each. Badger refers to keys and values until a transaction is
// committed, and copies them then.
type memory struct {
	blocks [][]byte
	at     int // the block in use
}

const (
	memoryBlock = 256 << 10
	memoryKept  = 8 << 20 // blocks beyond that are given back
)

// grab returns an empty slice of capacity n at least; keep must follow with what of it is used, before the next grab.
func (m *memory) grab(n int) []byte {
	for ; m.at < len(m.blocks); m.at++ {
		if b := m.blocks[m.at]; cap(b)-len(b) >= n {
			return b[len(b):len(b):cap(b)]
		}
	}
	m.blocks = append(m.blocks, make([]byte, 0, max(n, memoryBlock)))
	return m.blocks[m.at][:0]
}

// keep ends what grab began and returns it, closed to further appends.
func (m *memory) keep(b []byte) []byte {
	block := &m.blocks[m.at]
	*block = (*block)[:len(*block)+len(b)]
	return slices.Clip(b)
}

func (m *memory) reset() {
	size := 0
	for i := range m.blocks {
		size += cap(m.blocks[i])
		if size > memoryKept {
			clear(m.blocks[i:])
			m.blocks = m.blocks[:i]
			break
		}
		m.blocks[i] = m.blocks[i][:0]
	}
	m.at = 0
}

// entries gives out Badger's entries, and takes all of them back at once.
type entries struct {
	blocks [][]badger.Entry
	n      int
}

const entryBlock = 512

func (e *entries) next(key, value []byte, expires uint64) *badger.Entry {
	if e.n == len(e.blocks)*entryBlock {
		e.blocks = append(e.blocks, make([]badger.Entry, entryBlock))
	}
	entry := &e.blocks[e.n/entryBlock][e.n%entryBlock]
	e.n++
	*entry = badger.Entry{Key: key, Value: value, ExpiresAt: expires}
	return entry
}

func (e *entries) reset() { e.n = 0 }
