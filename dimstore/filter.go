package dimstore

import (
	"hash/maphash"
	"math/bits"
)

// filter tells keys that were never written from those that may have been, while a store is filled from empty: the version check then asks
// Badger, which costs more than the rest of a change, only for the latter. Blocked Bloom filters, each twice the size of the one before, 12
// bits per key, 512 bits per block (one cache line): about 1 % of the new keys are taken for known ones.
type filter struct {
	seed   maphash.Seed
	layers []filterLayer
	room   int   // keys until the last layer is full
	budget int64 // bytes left for further layers
}

type filterLayer [][8]uint64

const (
	firstLayer  = 1 << 18 // keys
	bitsPerKey  = 12
	filterBlock = 512 // bits
)

func newFilter(budget int64) *filter {
	return &filter{seed: maphash.MakeSeed(), budget: budget}
}

// add reports whether the key may have been added before, and adds it. When the budget is used up, full says that the filter can't take
// this key and is of no use any more.
func (f *filter) add(key []byte) (known, full bool) {
	h := maphash.Bytes(f.seed, key)
	for i := range max(len(f.layers)-1, 0) {
		if f.layers[i].has(h) {
			return true, false
		}
	}
	if f.room == 0 {
		if len(f.layers) > 0 && f.layers[len(f.layers)-1].has(h) {
			return true, false
		}
		if !f.grow() {
			return true, true
		}
	}
	if f.layers[len(f.layers)-1].set(h) {
		return true, false
	}
	f.room--
	return false, false
}

func (f *filter) grow() bool {
	keys := firstLayer << len(f.layers)
	blocks := keys * bitsPerKey / filterBlock
	size := int64(blocks) * filterBlock / 8
	if size > f.budget {
		return false
	}
	f.budget -= size
	f.layers = append(f.layers, make(filterLayer, blocks))
	f.room = keys
	return true
}

// place gives the block of a hash and the bits in it, 9 for each of 6 probes.
func (l filterLayer) place(h uint64) (block *[8]uint64, probes uint64) {
	i, _ := bits.Mul64(h, uint64(len(l)))
	return &l[i], h * 0x9E3779B97F4A7C15 >> 10
}

func (l filterLayer) has(h uint64) bool {
	b, p := l.place(h)
	for range 6 {
		if b[p>>6&7]&(1<<(p&63)) == 0 {
			return false
		}
		p >>= 9
	}
	return true
}

// set is has and sets the bits.
func (l filterLayer) set(h uint64) bool {
	b, p := l.place(h)
	had := true
	for range 6 {
		w, bit := &b[p>>6&7], uint64(1)<<(p&63)
		had = had && *w&bit != 0
		*w |= bit
		p >>= 9
	}
	return had
}
