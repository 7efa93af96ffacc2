package dimstore

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/dgraph-io/badger/v4"
)

// bucketNumber returns the number of a bucket, a new one for a new bucket. Its record goes into the transaction that first uses it.
func (b *batch) bucketNumber(id BucketID) uint32 {
	s := b.store
	// Changes come in runs of one bucket.
	if n := len(b.touched); n > 0 && s.buckets[b.touched[n-1]].id == id {
		return b.touched[n-1]
	}
	number, ok := s.numbers[id]
	if !ok {
		number = uint32(len(s.buckets))
		s.mu.Lock()
		s.buckets = append(s.buckets, bucket{id: id})
		s.numbers[id] = number
		s.mu.Unlock()
	}
	return number
}

// touch notes that the open transaction has brought a bucket to next.
func (b *batch) touch(number uint32, next int64) {
	for int(number) >= len(b.next) {
		b.next = append(b.next, 0)
	}
	if b.next[number] == 0 {
		b.touched = append(b.touched, number)
		b.size += int64(len(b.store.buckets[number].id.Topic)) + 64 + entryCost
		b.count++
	}
	b.next[number] = next
}

// commitPart commits a transaction that is not the last one of its Apply: with the positions that its own changes lead to.
func (b *batch) commitPart() error {
	for i := range b.positions {
		p := b.positions[i]
		number, ok := b.store.numbers[p.Bucket]
		if !ok || int(number) >= len(b.next) || b.next[number] == 0 {
			continue
		}
		stored := b.store.buckets[number]
		if stored.hasPosition && stored.position.Next >= b.next[number] {
			continue
		}
		p.Next, p.ProvedAt = b.next[number], stored.position.ProvedAt
		if err := b.putBucket(number, &p); err != nil {
			return err
		}
	}
	return b.commit()
}

// finish writes the given positions and commits.
func (b *batch) finish(positions []Position) error {
	for i := range positions {
		p := &positions[i]
		if err := b.fits(int64(len(p.Bucket.Topic))+64+2*entryCost, 2); err != nil {
			return err
		}
		number := b.bucketNumber(p.Bucket)
		if err := b.putBucket(number, p); err != nil {
			return err
		}
	}
	return b.commit()
}

// putBucket writes the record of a bucket; p is nil for a bucket without a position.
func (b *batch) putBucket(number uint32, p *Position) error {
	rec := b.store.buckets[number]
	rec.stored = true
	if p != nil {
		rec.hasPosition, rec.position = true, *p
	}
	key := bucketKey(number)
	if err := b.set(key, appendChecksum(rec.append(nil), key), 0); err != nil {
		return err
	}
	b.records = append(b.records, bucketRecord{number, rec})
	return nil
}

// commit writes what belongs to the changes in the open transaction, commits it, and only then lets it show in memory.
func (b *batch) commit() error {
	s := b.store
	for _, number := range b.touched {
		if !s.buckets[number].stored && !b.recorded(number) {
			if err := b.putBucket(number, nil); err != nil {
				return err
			}
		}
	}
	if !b.wrote {
		b.show() // nothing to write; stale changes are counted
		return nil
	}
	for _, d := range b.deltas {
		if err := b.putCounter(d); err != nil {
			return err
		}
	}
	if err := s.commit(b.txn); err != nil {
		return err
	}
	b.show()
	for _, p := range b.garbage {
		if err := s.removeParts(p); err != nil {
			return fmt.Errorf("remove the parts of a replaced row: %w", err)
		}
	}
	return nil
}

// recorded tells whether the open transaction writes the record of a bucket already.
func (b *batch) recorded(number uint32) bool {
	return slices.ContainsFunc(b.records, func(r bucketRecord) bool { return r.number == number })
}

// putCounter writes the counter of a partition, or removes it with the last row.
func (b *batch) putCounter(d *partitionDelta) error {
	if d.rows == 0 {
		return nil
	}
	n := b.store.partitions[string(d.name)] + d.rows
	key := append([]byte{kindPartition}, d.name...)
	if n < 0 {
		return fmt.Errorf("%w: fewer rows than none in a partition", ErrDamaged)
	}
	if n == 0 {
		return b.txn.Delete(key)
	}
	value := binary.AppendUvarint(nil, uint64(n))
	return b.txn.SetEntry(badger.NewEntry(key, appendChecksum(value, key)))
}

// show brings what was committed into memory.
func (b *batch) show() {
	s := b.store
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range b.records {
		s.buckets[r.number] = r.bucket
	}
	total := int64(0)
	for _, d := range b.deltas {
		if d.rows == 0 {
			continue
		}
		total += d.rows
		if n := s.partitions[string(d.name)] + d.rows; n > 0 {
			s.partitions[string(d.name)] = n
		} else {
			delete(s.partitions, string(d.name))
		}
	}
	s.rows.Add(total)
	b.done.Upserts += b.now.Upserts
	b.done.Deletes += b.now.Deletes
	b.done.Stale += b.now.Stale
	b.now = Applied{}
}
