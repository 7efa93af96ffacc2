package dimstore

import (
	"fmt"
	"slices"
)

// bucketNumber returns the number of a bucket, a new one for a new bucket. Its record goes into the transaction that first uses it.
func (b *batch) bucketNumber(id BucketID) uint32 {
	g := b.gen
	// Changes come in runs of one bucket.
	if n := len(b.touched); n > 0 && g.buckets[b.touched[n-1]].id == id {
		return b.touched[n-1]
	}
	number, ok := g.numbers[id]
	if !ok {
		number = uint32(len(g.buckets))
		g.mu.Lock()
		g.buckets = append(g.buckets, bucket{id: id})
		g.numbers[id] = number
		g.mu.Unlock()
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
		b.size += int64(len(b.gen.buckets[number].id.Topic)) + 64 + entryCost
		b.count++
	}
	b.next[number] = next
}

// commitPart commits a transaction that is not the last one of its Apply: with the positions that its own changes lead to.
func (b *batch) commitPart() error {
	for i := range b.positions {
		p := b.positions[i]
		number, ok := b.gen.numbers[p.Bucket]
		if !ok || int(number) >= len(b.next) || b.next[number] == 0 {
			continue
		}
		stored := b.gen.buckets[number]
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
	rec := b.gen.buckets[number]
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
	g := b.gen
	for _, number := range b.touched {
		if !g.buckets[number].stored && !b.recorded(number) {
			if err := b.putBucket(number, nil); err != nil {
				return err
			}
		}
	}
	if !b.wrote {
		b.show() // nothing to write; stale changes are counted
		return nil
	}
	edits, err := b.putPartitions()
	if err != nil {
		return err
	}
	g.announce(edits)
	if len(b.changed) > 0 {
		g.cache.removing(b.changed)
	}
	if err := g.commit(b.txn); err != nil {
		return err
	}
	if len(b.changed) > 0 {
		g.cache.complete()
	}
	g.settle()
	b.show()
	for _, p := range b.garbage {
		if err := g.removeParts(p); err != nil {
			return fmt.Errorf("remove the parts of a replaced row: %w", err)
		}
	}
	return nil
}

// recorded tells whether the open transaction writes the record of a bucket already.
func (b *batch) recorded(number uint32) bool {
	return slices.ContainsFunc(b.records, func(r bucketRecord) bool { return r.number == number })
}

// show brings what was committed into memory.
func (b *batch) show() {
	g := b.gen
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, r := range b.records {
		g.buckets[r.number] = r.bucket
	}
	b.showPartitions()
	b.done.Upserts += b.now.Upserts
	b.done.Deletes += b.now.Deletes
	b.done.Stale += b.now.Stale
	b.now = Applied{}
}
