package dimstore

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/dgraph-io/badger/v4"
)

// partition is one partition of a dimension. All keys of its rows begin with its number, which is never used again: a partition that is dropped
// and comes back has another one, and what is left of the first is not its own. It is kept without live rows as well, for the marks of its
// deleted rows.
type partition struct {
	number uint32
	tuple  []byte
	parts  parts // of a tuple that is too long for a key; count 0: none

	// Of the holder of generation.writing.
	rows    int64 // live rows, committed
	delta   int64 // live rows that the open transaction adds
	touched bool  // by the open transaction
	stored  bool  // its record is in the database
}

// liveSet is the partitions with a live row at some moment; it never changes.
type liveSet struct {
	byTuple  list[*partition]
	byNumber list[*partition]
}

func byTuple(a, b *partition) int  { return bytes.Compare(a.tuple, b.tuple) }
func byNumber(a, b *partition) int { return cmp.Compare(a.number, b.number) }

func (l *liveSet) find(tuple []byte) (*partition, bool) {
	return l.byTuple.find(func(p *partition) int { return bytes.Compare(p.tuple, tuple) })
}

func (l *liveSet) numbered(number uint32) (*partition, bool) {
	return l.byNumber.find(func(p *partition) int { return cmp.Compare(p.number, number) })
}

// tuples lists the partitions in order.
func (l *liveSet) tuples() [][]byte {
	out := make([][]byte, 0, l.byTuple.length)
	for p := range l.byTuple.all {
		out = append(out, p.tuple)
	}
	return out
}

// edited returns the set after partitions came or went.
func (l *liveSet) edited(edits []edit[*partition]) *liveSet {
	return &liveSet{byTuple: l.byTuple.edited(byTuple, edits), byNumber: l.byNumber.edited(byNumber, edits)}
}

// liveState is what readers need to know which partitions have a live row in their snapshot. A commit that changes the set announces it before
// it begins (after is set then) and puts the set alone in its place when it is done. A reader whose snapshot was taken in between, that is
// while one and the same state stood there, sees by one look into its snapshot on which side of the commit it is.
type liveState struct {
	set   *liveSet
	after *liveSet // nil: no commit is under way that changes the set
	probe *partition
}

// snapshot opens a read transaction and the set of partitions with a live row in it.
func (g *generation) snapshot() (*badger.Txn, *liveSet, error) {
	for {
		state := g.live.Load()
		txn := g.db.NewTransaction(false)
		if g.live.Load() != state {
			txn.Discard() // a commit that changes the set began or ended meanwhile
			continue
		}
		if state.after == nil {
			return txn, state.set, nil
		}
		live, err := state.committed(txn)
		if err != nil || !live {
			return txn, state.set, err
		}
		return txn, state.after, nil
	}
}

// committed tells whether a snapshot has the commit that the state announces.
func (s *liveState) committed(txn *badger.Txn) (bool, error) {
	rec, ok, err := getPartition(txn, partitionKey(s.probe.tuple))
	if err != nil {
		return false, err
	}
	_, comes := s.after.numbered(s.probe.number)
	live := ok && rec.number == s.probe.number && rec.rows > 0
	return live == comes, nil
}

// announce says that the transaction which is about to be committed changes the set. Settle must follow once it is committed. After a commit
// that failed nobody knows, and the state stays: every snapshot tells for itself.
func (g *generation) announce(edits []edit[*partition]) {
	if len(edits) == 0 {
		return
	}
	set := g.live.Load().set
	g.live.Store(&liveState{set: set, after: set.edited(edits), probe: edits[0].item})
}

func (g *generation) settle() {
	if state := g.live.Load(); state.after != nil {
		g.live.Store(&liveState{set: state.after})
	}
}

// partitionRecord is what is stored of a partition.
type partitionRecord struct {
	number uint32
	rows   int64
	parts  parts
}

func (p partitionRecord) append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(p.number))
	dst = binary.AppendUvarint(dst, uint64(p.rows))
	if p.parts.count > 0 {
		dst = p.parts.append(dst)
	}
	return dst
}

func parsePartition(value []byte) (partitionRecord, error) {
	r := reader{b: value}
	number, rows := r.uvarint(), r.uvarint()
	if r.bad || number == 0 || number > math.MaxUint32 || rows > math.MaxInt64 {
		return partitionRecord{}, fmt.Errorf("%w: record of a partition", ErrDamaged)
	}
	p := partitionRecord{number: uint32(number), rows: int64(rows)}
	if len(r.b) > 0 {
		var err error
		if p.parts, err = parseParts(r.b); err != nil {
			return p, err
		}
	}
	return p, nil
}

// getPartition reads the record of a partition, given its stored key.
func getPartition(txn *badger.Txn, key []byte) (p partitionRecord, ok bool, err error) {
	item, err := txn.Get(key)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return p, false, nil
	}
	if err != nil {
		return p, false, err
	}
	err = item.Value(func(value []byte) error {
		if value, err = checked(key, value); err == nil {
			p, err = parsePartition(value)
		}
		return err
	})
	return p, err == nil, err
}

// partition returns a partition, a new one for a new tuple. Its record goes into the transaction that first uses it.
func (b *batch) partition(tuple []byte) (*partition, error) {
	if p := b.known(tuple); p != nil {
		return p, nil
	}
	g := b.gen
	if g.nextPartition == math.MaxUint32 {
		return nil, errors.New("BUG: no number is left for a partition")
	}
	p := &partition{number: g.nextPartition, tuple: bytes.Clone(tuple)}
	if p.tuple == nil {
		p.tuple = []byte{}
	}
	if len(tuple) >= maxInlineKey {
		var err error
		if p.parts, err = g.writeParts(partitionKey(tuple), tuple); err != nil {
			return nil, err
		}
	}
	g.nextPartition++
	g.partitions[string(tuple)] = p
	b.last = p
	return p, nil
}

// known returns a partition if there is one. Changes come in runs of one partition.
func (b *batch) known(tuple []byte) *partition {
	if b.last != nil && bytes.Equal(b.last.tuple, tuple) {
		return b.last
	}
	p := b.gen.partitions[string(tuple)]
	if p != nil {
		b.last = p
	}
	return p
}

// touchPartition notes that the open transaction writes into a partition and changes its number of live rows.
func (b *batch) touchPartition(p *partition, delta int64) {
	p.delta += delta
	if p.touched {
		return
	}
	p.touched = true
	b.size += partitionCost(p.tuple)
	b.count++
	b.partitions = append(b.partitions, p)
}

// partitionCost is what the record of a partition takes of a transaction.
func partitionCost(tuple []byte) int64 { return int64(min(len(tuple), longKey)) + 40 + entryCost }

// putPartitions writes the records of the partitions that the open transaction changes, and returns which ones get their first live row or
// lose their last.
func (b *batch) putPartitions() (edits []edit[*partition], err error) {
	for _, p := range b.partitions {
		if p.stored && p.delta == 0 {
			continue
		}
		rows := p.rows + p.delta
		if rows < 0 {
			return nil, fmt.Errorf("%w: fewer rows than none in a partition", ErrDamaged)
		}
		if (rows > 0) != (p.rows > 0) {
			edits = append(edits, edit[*partition]{item: p, out: rows == 0})
		}
		key := partitionKey(p.tuple)
		value := partitionRecord{p.number, rows, p.parts}.append(nil)
		if err := b.txn.SetEntry(badger.NewEntry(key, appendChecksum(value, key))); err != nil {
			return nil, err
		}
	}
	return edits, nil
}

// showPartitions brings the committed numbers of rows into memory.
func (b *batch) showPartitions() {
	total := int64(0)
	for _, p := range b.partitions {
		p.rows += p.delta
		p.stored = true
		total += p.delta
	}
	b.forgetPartitions()
	b.gen.rows.Add(total)
}

// forgetPartitions lets go of what the open transaction would have changed.
func (b *batch) forgetPartitions() {
	for _, p := range b.partitions {
		p.delta, p.touched = 0, false
	}
	b.partitions = b.partitions[:0]
}

// readPartitions reads the records of all partitions, and removes those without any row or mark: their marks have expired.
func (g *generation) readPartitions(txn *badger.Txn) error {
	set := &liveSet{}
	var edits []edit[*partition]
	var empty []*partition
	err := each(txn, kindPartition, func(key, value []byte) error {
		rec, err := parsePartition(value)
		if err != nil {
			return err
		}
		p := &partition{number: rec.number, parts: rec.parts, rows: rec.rows, stored: true}
		if rec.parts.count > 0 {
			p.tuple, err = readParts(txn, rec.parts)
		} else {
			p.tuple = append([]byte{}, key[1:]...)
		}
		if err != nil {
			return err
		}
		g.nextPartition = max(g.nextPartition, p.number+1)
		g.partitions[string(p.tuple)] = p
		g.rows.Add(p.rows)
		if p.rows > 0 {
			edits = append(edits, edit[*partition]{item: p})
		} else if !hasRows(txn, p.number) {
			empty = append(empty, p)
		}
		return nil
	})
	if err != nil {
		return err
	}
	g.live.Store(&liveState{set: set.edited(edits)})
	return g.removeEmpty(empty)
}

// hasRows tells whether a partition has a row or a mark.
func hasRows(txn *badger.Txn, number uint32) bool {
	it := txn.NewIterator(badger.IteratorOptions{Prefix: appendRowKey(nil, number, nil)})
	defer it.Close()
	it.Rewind()
	return it.Valid()
}

func (g *generation) removeEmpty(empty []*partition) error {
	for _, p := range empty {
		err := g.transaction(func(txn *badger.Txn) error { return txn.Delete(partitionKey(p.tuple)) })
		if err != nil {
			return err
		}
		if err := g.removeParts(p.parts); err != nil {
			return err
		}
		delete(g.partitions, string(p.tuple))
	}
	return nil
}
