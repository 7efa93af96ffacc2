package dimstore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/dgraph-io/badger/v4"
)

// Apply writes changes, in order, and positions, in one transaction. When Badger's limit forces more, each carries the positions of its own
// last changes (of the buckets that have one in positions, with the time of the last proof as stored), and positions go with the last one. A
// change that is not newer than what is stored is counted as stale and not written. Every position must be that behind the changes given
// with it and before. At return, all of it survives a kill of the process, and views opened from now on see it.
//
// Errors: ErrNoSpace (nothing is written, the call may be repeated), ErrDamaged, ErrClosed, others after which the store can't be written
// until the next start. Applied then counts what was committed all the same; repeating the whole call is always right.
func (s *Store) Apply(changes []Change, positions []Position) (Applied, error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	if err := s.writable(applySize(changes)); err != nil {
		return Applied{}, fmt.Errorf("apply: %w", err)
	}
	b := &s.batch
	b.begin(s, positions)
	defer b.end()
	for i := range changes {
		if err := b.change(&changes[i]); err != nil {
			return b.done, s.noteDamage(fmt.Errorf("apply %s/%d offset %d: %w",
				changes[i].Bucket.Topic, changes[i].Bucket.Partition, changes[i].Offset, err))
		}
	}
	if err := b.finish(positions); err != nil {
		return b.done, fmt.Errorf("apply: %w", err)
	}
	return b.done, nil
}

// applySize is what changes will take on disk soon: once in the log, once in a table.
func applySize(changes []Change) uint64 {
	size := uint64(0)
	for i := range changes {
		c := &changes[i]
		size += uint64(len(c.Partition)+len(c.Key)+len(c.Row)) + 64
	}
	return 2 * size
}

// entryCost is what Badger and this package add to a key and a value when they count towards the limit of a transaction, and some.
const entryCost = 48

// batch fills transactions one after the other. It belongs to the holder of Store.writing and is reused from Apply to Apply.
type batch struct {
	store     *Store
	positions []Position // given to Apply
	done      Applied    // committed
	now       Applied    // in the open transaction

	txn         *badger.Txn
	size, count int64 // of the open transaction, with what its end will add
	wrote       bool  // the open transaction holds something

	memory  memory
	entries entries

	deltas  map[string]*partitionDelta
	last    *partitionDelta // the one used last
	touched []uint32        // numbers of the buckets that have changes in the open transaction
	next    []int64         // by number: offset after its last change in the open transaction; 0: none
	garbage []parts         // of rows that the open transaction replaces
	records []bucketRecord  // that the open transaction writes
}

type bucketRecord struct {
	number uint32
	bucket bucket
}

type partitionDelta struct {
	name []byte
	rows int64
}

func (b *batch) begin(s *Store, positions []Position) {
	b.store, b.positions, b.done = s, positions, Applied{}
	if b.deltas == nil {
		b.deltas = make(map[string]*partitionDelta)
	}
	b.open()
}

// open starts a transaction.
func (b *batch) open() {
	b.txn = b.store.db.NewTransaction(true)
	b.now = Applied{}
	b.size, b.count, b.wrote = 2*entryCost, 4, false
	b.memory.reset()
	b.entries.reset()
	clear(b.deltas)
	b.last = nil
	for _, number := range b.touched {
		b.next[number] = 0
	}
	b.touched = b.touched[:0]
	b.garbage = b.garbage[:0]
	b.records = b.records[:0]
}

func (b *batch) end() {
	b.txn.Discard()
	b.txn, b.positions = nil, nil
}

// fits makes sure that count entries of size bytes in sum fit into the open transaction, if need be by committing it.
func (b *batch) fits(size, count int64) error {
	db := b.store.db
	if b.size+size < db.MaxBatchSize() && b.count+count < db.MaxBatchCount() {
		return nil
	}
	if err := b.commitPart(); err != nil {
		return err
	}
	b.open()
	return nil
}

// set puts an entry into the transaction; fits was called before.
func (b *batch) set(key, value []byte, expires uint64) error {
	b.size += int64(len(key)+len(value)) + entryCost
	b.count++
	b.wrote = true
	return b.txn.SetEntry(b.entries.next(key, value, expires))
}

// change does one change.
func (b *batch) change(c *Change) error {
	if c.Offset < 0 {
		return errors.New("BUG: a negative offset")
	}
	s := b.store
	keySize := min(fullRowKeySize(c.Partition, c.Key), longKey)
	valueSize := min(len(c.Row)+2*maxHeader+len(c.Partition)+len(c.Key), s.inlineLimit()+maxHeader)
	ends := min(len(c.Partition), longKey) + len(c.Bucket.Topic) + 2*entryCost + 64
	if err := b.fits(int64(keySize+valueSize+ends+entryCost), 3); err != nil {
		return err
	}
	number := b.bucketNumber(c.Bucket)
	b.touch(number, c.Offset+1)

	full := b.memory.keep(appendFullRowKey(b.memory.grab(fullRowKeySize(c.Partition, c.Key)), c.Partition, c.Key))
	key := full
	if len(full) > maxInlineKey {
		key = shorten(bytes.Clone(full), 0)
	}
	old, err := b.stored(key)
	if err != nil {
		return err
	}
	h := header{bucket: number, offset: c.Offset, timestamp: c.Timestamp}
	if old.found && !b.newer(h, old.header) {
		b.now.Stale++
		return nil
	}
	if old.flags&flagParts != 0 {
		b.garbage = append(b.garbage, old.parts)
	}
	b.countRow(c, old)
	if c.Delete {
		return b.remove(key, h, old)
	}
	return b.upsert(key, full, h, c.Row)
}

// countRow keeps the counters.
func (b *batch) countRow(c *Change, old storedRow) {
	live := old.found && old.flags&flagMark == 0
	delta := int64(0)
	switch {
	case c.Delete:
		b.now.Deletes++
		if live {
			delta = -1
		}
	default:
		b.now.Upserts++
		if !live {
			delta = 1
		}
	}
	if delta == 0 {
		return
	}
	name := partitionName(c.Partition)
	if b.last == nil || !bytes.Equal(b.last.name, name) {
		d, ok := b.deltas[string(name)]
		if !ok {
			d = &partitionDelta{name: bytes.Clone(name)}
			b.deltas[string(name)] = d
			b.size += int64(len(name)) + entryCost
			b.count++
		}
		b.last = d
	}
	b.last.rows += delta
}

// remove leaves a mark, so that an older upsert from another bucket does not bring the row back.
func (b *batch) remove(key []byte, h header, old storedRow) error {
	ttl := time.Duration(b.store.markTTL.Load())
	if ttl <= 0 {
		if !old.found {
			return nil
		}
		b.size += int64(len(key)) + entryCost
		b.count++
		b.wrote = true
		return b.txn.Delete(key)
	}
	h.flags = flagMark
	value := b.memory.keep(appendChecksum(h.append(b.memory.grab(maxHeader+checksumSize)), key))
	return b.set(key, value, uint64(time.Now().Add(ttl+time.Second).Unix()))
}

// upsert writes the row, in parts when it is large. full is the key before it was shortened.
func (b *batch) upsert(key, full []byte, h header, row []byte) error {
	size := len(row)
	if len(key) == longKey {
		h.flags |= flagLong
		size += binary.MaxVarintLen32 + len(full)
	}
	if size > b.store.inlineLimit() {
		return b.upsertParts(key, full, h, row)
	}
	value := h.append(b.memory.grab(maxHeader + size + checksumSize))
	value = appendPayload(value, h, full, row)
	return b.set(key, b.memory.keep(appendChecksum(value, key)), 0)
}

// upsertParts writes a row that is too large for one entry.
func (b *batch) upsertParts(key, full []byte, h header, row []byte) error {
	p, err := b.store.writeParts(key, appendPayload(nil, h, full, row))
	if err != nil {
		return err
	}
	h.flags |= flagParts
	return b.set(key, appendChecksum(p.append(h.append(nil)), key), 0)
}

func appendPayload(dst []byte, h header, full, row []byte) []byte {
	if h.flags&flagLong != 0 {
		dst = appendBytes(dst, full)
	}
	return append(dst, row...)
}

func appendBytes(dst, b []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(b))), b...)
}

// storedRow is what the version check and the counters need of what is under a key: a row or a mark.
type storedRow struct {
	header
	found bool
	parts parts
}

// stored looks up what is under a key, changes in the open transaction included.
func (b *batch) stored(key []byte) (out storedRow, err error) {
	if f := b.store.filter; f != nil {
		known, full := f.add(key)
		if full {
			b.store.filter = nil
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
		h, payload, err := parseRow(key, value)
		if err != nil {
			return err
		}
		if int(h.bucket) >= len(b.store.buckets) {
			return fmt.Errorf("%w: bucket %d of a row is not known", ErrDamaged, h.bucket)
		}
		out.header = h
		if h.flags&flagParts != 0 {
			out.parts, err = parseParts(payload)
		}
		return err
	})
	return out, err
}

// newer decides between two changes of one key.
func (b *batch) newer(a, old header) bool {
	switch {
	case a.bucket == old.bucket:
		return a.offset > old.offset
	case a.timestamp != old.timestamp:
		return a.timestamp > old.timestamp
	default:
		return b.store.buckets[a.bucket].id.higher(b.store.buckets[old.bucket].id)
	}
}
