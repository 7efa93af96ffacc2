package lookup

import (
	"bytes"
	"errors"
	"hash/maphash"
	"slices"

	"enricher/record"
)

// memo maps the keys of one step and one batch to entries: open addressing with
// linear probing, no pointers, reused from step to step.
type memo struct {
	seed    maphash.Seed
	slots   []int32 // index of an entry + 1; 0 = free; a power of two, at most half full
	entries []entry
}

// entry is one distinct key and, after the read, what it found.
type entry struct {
	hash uint64
	// The key is arena[start:end]; the codes of the partition end at partition,
	// those of the key at key, those of the further conditions at end.
	start, partition, key, end int

	first, count int32      // its rows; with rows: array count is 0 or 1
	reason       MissReason // when count is 0 and failure is none
	failure      failure
	fact         int32 // the first that asks for it
	found        bool  // the store had a row, whatever the conditions said
}

// failure is why the facts of an entry fail.
type failure uint8

const (
	noFailure failure = iota
	tooManyRows
	tooLarge
)

// reset makes room for n keys.
func (m *memo) reset(n int) {
	size := 16
	for size < 2*n {
		size *= 2
	}
	m.entries = again(m.entries)
	m.slots = extend(again(m.slots), size)
	clear(m.slots)
}

// find gives the entry of the key, a new one when it is the first of its kind.
func (m *memo) find(arena []byte, e entry) (index int32, known bool) {
	key := arena[e.start:e.end]
	e.hash = maphash.Bytes(m.seed, key)
	mask := uint64(len(m.slots) - 1)
	for i := e.hash & mask; ; i = (i + 1) & mask {
		at := m.slots[i]
		if at == 0 {
			m.entries = append(m.entries, e)
			m.slots[i] = int32(len(m.entries))
			return int32(len(m.entries) - 1), false
		}
		if old := &m.entries[at-1]; old.hash == e.hash && bytes.Equal(arena[old.start:old.end], key) {
			return at - 1, true
		}
	}
}

// keys gives every branch the entry of its key at this step, or its miss.
func (b *Batch) keys(s int) {
	st := &b.plan.steps[s]
	b.memo.reset(len(b.branches))
	stride := len(b.plan.steps)
	for i := range b.branches {
		br := &b.branches[i]
		start := len(b.arena)
		e, miss, ok := b.key(st, int(br.fact), b.choices[i*stride:(i+1)*stride])
		if !ok {
			b.arena = b.arena[:start]
			br.entry = -1 - int32(miss)
			continue
		}
		var known bool
		br.entry, known = b.memo.find(b.arena, e)
		if known {
			b.arena = b.arena[:start]
		}
	}
}

// key appends the codes of the step's operands to the arena. An operand that is
// null outweighs one that does not convert.
func (b *Batch) key(st *step, fact int, choices []int32) (entry, MissReason, bool) {
	e := entry{start: len(b.arena), fact: int32(fact)}
	mismatch := false
	for k := range st.operands {
		if k == st.partitionOps {
			e.partition = len(b.arena)
		}
		if k == st.keyOps {
			e.key = len(b.arena)
		}
		err := b.code(&st.operands[k], fact, choices)
		if err == nil {
			continue
		}
		if errors.Is(err, record.ErrNull) {
			return e, MissNullKey, false
		}
		mismatch = true
	}
	if mismatch {
		return e, MissTypeMismatch, false
	}
	e.end = len(b.arena)
	if st.partitionOps == len(st.operands) {
		e.partition = e.end
	}
	if st.keyOps == len(st.operands) {
		e.key = e.end
	}
	return e, 0, true
}

// code appends the code of one operand to the arena.
func (b *Batch) code(op *operand, fact int, choices []int32) (err error) {
	if op.constant != nil {
		b.arena = append(b.arena, op.constant...)
		return nil
	}
	f := &b.facts[fact]
	switch op.meta {
	case noMetadata:
		b.nested = b.nested[:0]
		b.arena, err = record.AppendKey(b.arena, op.typ, b.value(&op.value, fact, choices))
	case metaKey:
		err = b.text(op.typ, f.Key)
	case metaTopic:
		b.codes = append(b.codes[:0], f.Topic...)
		b.arena, err = record.AppendKeyText(b.arena, op.typ, b.codes)
	case metaHeader:
		err = b.text(op.typ, lastHeader(f.Headers, op.header))
	case metaPartition:
		b.arena, err = record.AppendKeyInt(b.arena, op.typ, int64(f.Partition))
	case metaOffset:
		b.arena, err = record.AppendKeyInt(b.arena, op.typ, f.Offset)
	case metaTimestamp:
		b.arena, err = record.AppendKeyInt(b.arena, op.typ, f.Timestamp)
	}
	return err
}

func (b *Batch) text(t record.Type, text []byte) (err error) {
	if text == nil {
		return record.ErrNull
	}
	b.arena, err = record.AppendKeyText(b.arena, t, text)
	return err
}

// lastHeader is the value of the last header of the name, nil when it is null
// or there is none.
func lastHeader(headers []Header, name string) []byte {
	for _, h := range slices.Backward(headers) {
		if h.Key == name {
			return h.Value
		}
	}
	return nil
}

// value is the JSON of a path in the record as the branch has it so far; nil
// when it is absent.
func (b *Batch) value(r *ref, fact int, choices []int32) []byte {
	doc := &b.docs[fact]
	if r.field < 0 {
		return doc.Value(r.path)
	}
	added := &b.plan.fields[r.field]
	present := b.has[fact] && len(doc.Occurrences(r.field)) > 0
	choice := choices[added.step]
	switch {
	case present && (added.conflict == conflictKeep || choice == noRow):
		return doc.Value(r.path)
	case choice == noRow && r.whole:
		return added.miss
	case choice == noRow || r.value < 0:
		return nil
	}
	at := b.spans[int(b.rows[choice].values)+r.value]
	if r.sub != nil {
		return b.below(r.sub, b.arena[at.start:at.end])
	}
	return b.arena[at.start:at.end]
}

// below finds a value inside another one, wrapped into an object so that any
// kind of value can be looked into. The result lies in b.nested, which only its
// users empty.
func (b *Batch) below(sub *record.Shape, value []byte) []byte {
	start := len(b.nested)
	b.nested = append(b.nested, `{"`+wrapName+`":`...)
	b.nested = append(b.nested, value...)
	b.nested = append(b.nested, '}')
	if err := sub.Scan(&b.wraps, b.nested[start:]); err != nil {
		return nil // deeper than a record may be: nothing is found there
	}
	return b.wraps.Value(0)
}
