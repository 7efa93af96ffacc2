package dimstore

import (
	"errors"
	"fmt"
	"time"

	"github.com/dgraph-io/badger/v4"
)

// apply is Store.Apply for one generation.
func (g *generation) apply(changes []Change, positions []Position) (Applied, error) {
	g.writing.Lock()
	defer g.writing.Unlock()
	if err := g.writable(applySize(changes)); err != nil {
		return Applied{}, fmt.Errorf("apply: %w", err)
	}
	b := &g.batch
	b.begin(g, positions)
	defer b.end()
	for i := range changes {
		b.step = 1
		if i+1 < len(changes) && changes[i+1].Bucket == changes[i].Bucket && changes[i+1].Offset == changes[i].Offset {
			b.step = 0 // one record may be several changes: the position passes it with the last of them
		}
		if err := b.change(&changes[i]); err != nil {
			return b.done, g.noteDamage(fmt.Errorf("apply %s/%d offset %d: %w",
				changes[i].Bucket.Topic, changes[i].Bucket.Partition, changes[i].Offset, err))
		}
	}
	if err := b.finish(positions); err != nil {
		return b.done, fmt.Errorf("apply: %w", err)
	}
	return b.done, nil
}

// applySize is what changes will take on disk soon: once in the log, once in a table. Index entries are part of the margin.
func applySize(changes []Change) uint64 {
	size := uint64(0)
	for i := range changes {
		c := &changes[i]
		size += uint64(len(c.Partition)+len(c.Key)+len(c.Row)+len(c.Version)) + 64
	}
	return 2 * size
}

// entryCost is what Badger and this package add to a key and a value when they count towards the limit of a transaction, and some.
const entryCost = 48

// batch fills transactions one after the other. It belongs to the holder of generation.writing and is reused from Apply to Apply.
type batch struct {
	gen       *generation
	positions []Position // given to Apply
	done      Applied    // committed
	now       Applied    // in the open transaction

	txn         *badger.Txn
	size, count int64 // of the open transaction, with what its end will add
	wrote       bool  // the open transaction holds something

	memory  memory // what the open transaction refers to
	entries entries

	last       *partition   // the one used last
	partitions []*partition // touched by the open transaction
	touched    []uint32     // numbers of the buckets that have changes in the open transaction
	next       []int64      // by number: offset after its last change in the open transaction; 0: none
	garbage    []parts      // of rows that the open transaction replaces
	records    []bucketRecord

	// Of the change at hand.
	step               int64  // from its offset to the next one to read
	full, short, entry []byte // keys
	oldVersion         []byte
	old, new           indexValues
	decoded            []byte

	changed []uint64 // hashes of what the open transaction changes in the cache
}

// bucketRecord is one that the open transaction writes.
type bucketRecord struct {
	number uint32
	bucket bucket
}

func (b *batch) begin(g *generation, positions []Position) {
	b.gen, b.positions, b.done, b.last = g, positions, Applied{}, nil
	b.open()
}

// open starts a transaction.
func (b *batch) open() {
	b.txn = b.gen.db.NewTransaction(true)
	b.now = Applied{}
	b.size, b.count, b.wrote = 2*entryCost, 4, false
	b.memory.reset()
	b.entries.reset()
	b.forgetPartitions()
	for _, number := range b.touched {
		b.next[number] = 0
	}
	b.touched = b.touched[:0]
	b.garbage = b.garbage[:0]
	b.records = b.records[:0]
	b.changed = b.changed[:0]
}

func (b *batch) end() {
	b.txn.Discard()
	b.forgetPartitions()
	b.txn, b.positions, b.last = nil, nil, nil
}

// fits makes sure that count entries of size bytes in sum fit into the open transaction, if need be by committing it.
func (b *batch) fits(size, count int64) error {
	db := b.gen.db
	if b.size+size < db.MaxBatchSize() && b.count+count < db.MaxBatchCount() {
		return nil
	}
	if err := b.commitPart(); err != nil {
		return err
	}
	b.open()
	return nil
}

// set puts an entry into the transaction; fits was called before, and key and value stay until it is committed.
func (b *batch) set(key, value []byte, expires uint64) error {
	b.size += int64(len(key)+len(value)) + entryCost
	b.count++
	b.wrote = true
	return b.txn.SetEntry(b.entries.next(key, value, expires))
}

// remove takes an entry out; fits was called before, and key stays until the transaction is committed.
func (b *batch) remove(key []byte) error {
	b.size += int64(len(key)) + entryCost
	b.count++
	b.wrote = true
	return b.txn.Delete(key)
}

// keep copies what the open transaction refers to.
func (b *batch) keep(data []byte) []byte {
	return b.memory.keep(append(b.memory.grab(len(data)), data...))
}

// change does one change. It reads first: what follows may begin another transaction, and nothing of this change is in the one before then.
func (b *batch) change(c *Change) error {
	if c.Offset < 0 {
		return errors.New("BUG: a negative offset")
	}
	number := b.bucketNumber(c.Bucket)
	ttl := time.Duration(b.gen.store.markTTL.Load())
	var old storedRow
	p := b.known(c.Partition)
	if p != nil || !c.Delete || ttl > 0 {
		var err error
		if p, err = b.partition(c.Partition); err != nil {
			return err
		}
		if old, err = b.stored(b.rowKey(p, c.Key)); err != nil {
			return err
		}
	}
	bucketCost := int64(len(c.Bucket.Topic)) + 64 + 2*entryCost
	h := header{bucket: number, offset: c.Offset, timestamp: c.Timestamp}
	content := b.content(c)
	if stale := old.found && !newer(b.gen.store.options.Version, b.gen.buckets, h.stamp(content.version), old.stamp(b.oldVersion)); stale || p == nil {
		if err := b.fits(bucketCost, 1); err != nil {
			return err
		}
		b.touch(number, c.Offset+b.step)
		if stale {
			b.now.Stale++
		} else {
			b.now.Deletes++
		}
		return nil
	}
	b.new.reset()
	if !c.Delete {
		b.new.fill(b.gen.store.options.Indexes, c.Row)
	}
	size, count := b.indexCost(len(c.Key))
	size += bucketCost + partitionCost(c.Partition) + int64(min(len(b.full), longKey)) + entryCost
	size += int64(min(content.size(), b.gen.inlineLimit())) + 2*maxHeader + checksumSize
	if err := b.fits(size, count+4); err != nil {
		return err
	}
	if err := b.uncache(p, c.Key); err != nil {
		return err
	}
	b.touch(number, c.Offset+b.step)
	if old.flags&flagParts != 0 {
		b.garbage = append(b.garbage, old.parts)
	}
	if err := b.write(c, p, h, content, old, ttl); err != nil {
		return err
	}
	return b.putIndexes(p, c.Key)
}

// rowKey makes the key of the row at hand, whole and as it is stored, and returns the latter.
func (b *batch) rowKey(p *partition, key []byte) []byte {
	b.full = appendRowKey(b.full[:0], p.number, key)
	if len(b.full) <= maxInlineKey {
		return b.full
	}
	b.short = shorten(append(b.short[:0], b.full...), 0, maxInlineKey)
	return b.short
}

// content is what a change writes.
func (b *batch) content(c *Change) (p payload) {
	if !c.Delete {
		p.row = c.Row
		if len(b.full) > maxInlineKey {
			p.full = b.full
		}
	}
	if b.gen.store.options.Version == VersionColumn {
		p.version = c.Version
		if c.Delete {
			p.version = b.oldVersion
		}
	}
	return p
}

// write puts the row or the mark into the transaction and counts.
func (b *batch) write(c *Change, p *partition, h header, content payload, old storedRow, ttl time.Duration) error {
	key := b.full
	if len(key) > maxInlineKey {
		key = b.short
	}
	key = b.keep(key)
	live := old.found && old.flags&flagMark == 0
	if !c.Delete {
		b.now.Upserts++
		delta := int64(1)
		if live {
			delta = 0
		}
		b.touchPartition(p, delta)
		return b.put(key, h, content, 0)
	}
	b.now.Deletes++
	delta := int64(0)
	if live {
		delta = -1
	}
	if ttl > 0 {
		// So that an older upsert from another bucket does not bring the row back.
		b.touchPartition(p, delta)
		h.flags = flagMark
		return b.put(key, h, content, uint64(time.Now().Add(ttl+time.Second).Unix()))
	}
	if !old.found {
		return nil
	}
	b.touchPartition(p, delta)
	return b.remove(key)
}

// put writes a row or a mark, in parts when it is large.
func (b *batch) put(key []byte, h header, content payload, expires uint64) error {
	if len(content.version) > 0 {
		h.flags |= flagVersion
	}
	if content.full != nil {
		h.flags |= flagLong
	}
	if content.size() > b.gen.inlineLimit() {
		p, err := b.gen.writeParts(key, content.append(nil, h))
		if err != nil {
			return err
		}
		h.flags |= flagParts
		return b.set(key, appendChecksum(p.append(h.append(nil)), key), expires)
	}
	value := content.append(h.append(b.memory.grab(maxHeader+content.size()+checksumSize)), h)
	return b.set(key, b.memory.keep(appendChecksum(value, key)), expires)
}

// storedRow is what the version check and the counters need of what is under a key: a row or a mark. Its version and its columns in the
// indexes are in the batch.
type storedRow struct {
	header
	found bool
	parts parts
}

// stored looks up what is under a key, changes in the open transaction included.
func (b *batch) stored(key []byte) (out storedRow, err error) {
	b.oldVersion = b.oldVersion[:0]
	b.old.reset()
	if f := b.gen.filter; f != nil {
		known, full := f.add(key)
		if full {
			b.gen.filter = nil
		}
		if !known {
			return out, nil
		}
	}
	item, err := b.txn.Get(key)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return out, nil
	}
	if err != nil {
		return out, err
	}
	out.found = true
	err = item.Value(func(value []byte) error {
		h, rest, err := parseRow(key, value)
		if err != nil {
			return err
		}
		if int(h.bucket) >= len(b.gen.buckets) {
			return fmt.Errorf("%w: bucket %d of a row is not known", ErrDamaged, h.bucket)
		}
		out.header = h
		if h.flags&flagParts != 0 {
			if out.parts, err = parseParts(rest); err != nil {
				return err
			}
		}
		return b.keepOld(out, rest)
	})
	return out, err
}

// keepOld copies the version of a stored row, and its columns in the indexes.
func (b *batch) keepOld(old storedRow, rest []byte) error {
	indexes := b.gen.store.options.Indexes
	if old.flags&flagMark != 0 {
		indexes = nil
	}
	if old.flags&flagVersion == 0 && len(indexes) == 0 {
		return nil
	}
	if old.flags&flagParts != 0 {
		// They may be younger than the open transaction, of a change before in it.
		txn := b.gen.db.NewTransaction(false)
		defer txn.Discard()
		var err error
		if rest, err = readParts(txn, old.parts); err != nil {
			return err
		}
	}
	p, err := parsePayload(old.header, rest)
	if err != nil {
		return err
	}
	b.oldVersion = append(b.oldVersion, p.version...)
	b.old.fill(indexes, p.row)
	return nil
}
