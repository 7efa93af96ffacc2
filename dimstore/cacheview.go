package dimstore

import (
	"encoding/binary"
	"fmt"
	"sync"

	"enricher/record"
)

// What is in the cache: under the stored key of a row that row; under kindGroup, the number of a partition and a prefix the rows that Scan yields for
// it; under kindIndex, the number of an index and the codes of its columns those of ScanIndex. Rows of a group stand one after the other, each
// after its length. A key that is missing below one of these is kept too.
const kindGroup = 'g' // never stored

const (
	maxGroup  = 32 << 10 // bytes of a group in the cache
	groupTail = 16       // rows that a group is read on for when the caller wants no more, so that it can be kept
)

// cached is what a view needs for the cache.
type cached struct {
	*cache // nil: the view does not use it

	of            *cache // what note is told to
	seq           uint64 // number of a commit that the view has at least
	lookups, hits int64
	memory        *memory // rows that were copied out of the cache
	key, group    []byte
}

// open is called before the view's snapshot is taken.
func (c *cached) open(g *generation) {
	if !g.caching() {
		return
	}
	c.of = g.cache
	if !g.cache.worthwhile() {
		return
	}
	c.cache, c.seq = g.cache, g.cache.completed.Load()
	c.memory, _ = g.lent.Get().(*memory)
	if c.memory == nil {
		c.memory = new(memory)
	}
}

func (c *cached) close(lent *sync.Pool) {
	if c.of == nil {
		return
	}
	c.of.note(c.cache != nil, c.lookups, c.hits)
	if c.memory != nil {
		c.memory.reset()
		lent.Put(c.memory)
	}
	*c = cached{}
}

// caching tells whether views use the cache and commits keep it right: not before the first load is complete. Asked by the holder of writing, or
// before a snapshot is taken: what was committed before it began is then in that.
func (g *generation) caching() bool {
	return g.cache != nil && (g.complete.Load() || g.store.cacheEarly)
}

// look returns what is kept under a key.
func (c *cached) look(hash uint64, key []byte) (value []byte, present, known bool) {
	value, present, known = c.shard(hash).get(hash, key, c.seq, c.memory)
	if known {
		c.hits++
	}
	return value, present, known
}

// row is view.read through the cache.
func (v *view) row(key []byte) (record.Row, bool, error) {
	c := &v.cached
	c.lookups++
	if c.cache == nil {
		content, ok, err := v.read(key)
		return content.row, ok, err
	}
	hash := c.hash(key)
	if row, present, known := c.look(hash, key); known {
		return row, present, nil
	}
	content, ok, err := v.read(key)
	if err == nil {
		c.shard(hash).put(hash, key, content.row, ok, c.seq)
	}
	return content.row, ok, err
}

// groupOf yields the rows that scan yields, from the cache when they are there. The key is the view's own until scan is called.
func (v *view) groupOf(key []byte, yield func(record.Row) bool, scan func(yield func(record.Row) bool) error) error {
	c := &v.cached
	c.lookups++
	if c.cache == nil {
		return scan(yield)
	}
	hash := c.hash(key)
	if group, present, known := c.look(hash, key); known {
		if present {
			return yieldGroup(group, yield)
		}
		return nil
	}
	// Yield may use the view, so a scan inside this one finds nothing of these.
	key, group := append([]byte(nil), key...), c.group
	c.group = nil
	defer func() { c.group = group[:0] }()
	group = group[:0]
	left, whole := -1, true // left: rows to go on for, once yield wants no more
	err := scan(func(row record.Row) bool {
		if whole = whole && len(group)+len(row)+binary.MaxVarintLen64 <= maxGroup; whole {
			group = binary.AppendUvarint(group, uint64(len(row)))
			group = append(group, row...)
		}
		switch {
		case left < 0 && yield(row):
			return true
		case left < 0:
			left = groupTail
		}
		left--
		whole = whole && left >= 0
		return whole
	})
	if err == nil && whole {
		c.shard(hash).put(hash, key, group, len(group) > 0, c.seq)
	}
	return err
}

func yieldGroup(group []byte, yield func(record.Row) bool) error {
	for len(group) > 0 {
		size, n := binary.Uvarint(group)
		if n <= 0 || size > uint64(len(group)-n) {
			return fmt.Errorf("%w: BUG: a group of rows in the cache", ErrDamaged)
		}
		if !yield(record.Row(group[n : n+int(size)])) {
			return nil
		}
		group = group[n+int(size):]
	}
	return nil
}

// appendGroupKey appends the key of the rows of a partition whose key tuples begin with prefix.
func appendGroupKey(dst []byte, partition uint32, prefix []byte) []byte {
	start := len(dst)
	dst = appendRowKey(dst, partition, prefix)
	dst[start] = kindGroup
	return dst
}

// uncache notes everything that the change at hand may change in the cache, for the open transaction.
func (b *batch) uncache(p *partition, key []byte) error {
	if !b.gen.caching() {
		return nil
	}
	c := b.gen.cache
	row := b.full
	if len(row) > maxInlineKey {
		row = b.short
	}
	b.changed = append(b.changed, c.hash(row))
	for i := range b.gen.store.options.Indexes {
		for _, v := range []*indexValues{&b.old, &b.new} {
			if codes, ok := v.of(i); ok {
				b.entry = appendIndexPrefix(b.entry[:0], i, codes)
				b.changed = append(b.changed, c.hash(b.entry))
			}
		}
	}
	types, rest := b.gen.store.options.KeyTypes, key
	for i := 0; i+1 < len(types); i++ {
		var err error
		if b.decoded, rest, err = record.DecodeKey(b.decoded[:0], types[i], rest); err != nil {
			return fmt.Errorf("BUG: Options.KeyTypes: %w", err)
		}
		b.entry = appendGroupKey(b.entry[:0], p.number, key[:len(key)-len(rest)])
		b.changed = append(b.changed, c.hash(b.entry))
	}
	return nil
}
