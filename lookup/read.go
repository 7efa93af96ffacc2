package lookup

import (
	"bytes"

	"enricher/record"
)

// read looks up every entry of the memo once.
func (b *Batch) read(s int) error {
	if len(b.memo.entries) == 0 {
		return nil
	}
	view, err := b.view(s)
	if err != nil {
		return err
	}
	st := &b.plan.steps[s]
	b.scanned = st
	for i := range b.memo.entries {
		e := &b.memo.entries[i]
		if b.full(int(e.fact), len(b.arena)+rowBytes*len(b.rows)+spanBytes*len(b.spans)) {
			break // the entries from here on belong to facts that are not taken
		}
		b.entry = e
		e.first = int32(len(b.rows))
		partition, key := b.arena[e.start:e.partition:e.partition], b.arena[e.partition:e.key:e.key]
		if st.prefix {
			err = b.readPrefix(view, partition, key)
		} else {
			err = b.readRow(view, partition, key)
		}
		if err != nil {
			return err
		}
		if e.count > 0 || e.failure != noFailure {
			continue
		}
		switch {
		case e.found:
			e.reason = MissCondition
		case st.partitionOps > 0 && !view.HasPartition(partition):
			e.reason = MissNoPartition
		default:
			e.reason = MissNoRow
		}
	}
	return nil
}

func (b *Batch) readRow(view View, partition, key []byte) error {
	r, ok, err := view.Get(partition, key)
	if err != nil || !ok {
		return err
	}
	b.scan(r)
	b.closeArray()
	return nil
}

func (b *Batch) readPrefix(view View, partition, prefix []byte) error {
	if err := view.Scan(partition, prefix, b.yield); err != nil {
		return err
	}
	b.closeArray()
	return nil
}

// scan takes one row of the current entry and tells whether it wants more.
func (b *Batch) scan(r record.Row) bool {
	st, e := b.scanned, b.entry
	e.found = true
	if !b.meets(st, e, r) {
		return true
	}
	switch st.rows {
	case rowsFirst:
		b.takeRow(st, r)
		e.count = 1
		return false
	case rowsArray:
		b.takeElement(st, r)
	case rowsEach:
		if int(e.count) >= b.plan.maxRows {
			e.failure = tooManyRows
			return false
		}
		b.takeRow(st, r)
		e.count++
	}
	if len(b.arena)-b.rows[e.first].fragment.start > b.plan.maxBytes {
		e.failure = tooLarge
		return false
	}
	return true
}

// meets tells whether a row fulfils the further conditions and where: whether
// its columns have the codes that are asked for. Codes end by themselves, so one
// comparison of all of them is a comparison of each.
func (b *Batch) meets(st *step, e *entry, r record.Row) bool {
	return (len(st.where) == 0 || b.equal(st.where, r, st.wanted)) &&
		(len(st.conditions) == 0 || b.equal(st.conditions, r, b.arena[e.key:e.end]))
}

func (b *Batch) equal(columns []columnRef, r record.Row, wanted []byte) bool {
	codes := b.codes[:0]
	for _, c := range columns {
		var err error
		if codes, err = record.AppendKey(codes, c.typ, r.Column(c.index)); err != nil {
			return false // null, or no value of the type: equals nothing
		}
	}
	b.codes = codes
	return bytes.Equal(codes, wanted)
}

// takeRow turns a row into its fragment.
func (b *Batch) takeRow(st *step, r record.Row) {
	start, values := len(b.arena), len(b.spans)
	if st.into == nil {
		b.takeColumns(st, r)
	} else {
		b.arena = append(b.arena, st.into...)
		whole := span{start: len(b.arena)}
		b.spans = append(b.spans, whole)
		b.arena = append(b.arena, '{')
		b.takeColumns(st, r)
		b.arena = append(b.arena, '}')
		b.spans[values].end = len(b.arena)
	}
	b.rows = append(b.rows, row{fragment: span{start, len(b.arena)}, values: int32(values)})
}

// takeColumns appends the members of the selected columns and their values' spans.
func (b *Batch) takeColumns(st *step, r record.Row) {
	for i := range st.selected {
		sel := &st.selected[i]
		b.arena = append(b.arena, sel.prefix...)
		start := len(b.arena)
		if v := r.Column(sel.column); v != nil {
			b.arena = append(b.arena, v...)
		} else {
			b.arena = append(b.arena, "null"...)
		}
		b.spans = append(b.spans, span{start, len(b.arena)})
	}
}

// takeElement appends a row to the array of the entry, which is one row to the
// branches.
func (b *Batch) takeElement(st *step, r record.Row) {
	if b.entry.count == 0 {
		b.entry.count = 1
		start := len(b.arena)
		b.arena = append(b.arena, st.into...)
		b.rows = append(b.rows, row{fragment: span{start: start}, values: int32(len(b.spans))})
		b.spans = append(b.spans, span{start: len(b.arena)})
		b.arena = append(b.arena, '[')
	} else {
		b.arena = append(b.arena, ',')
	}
	values := len(b.spans)
	b.arena = append(b.arena, '{')
	b.takeColumns(st, r)
	b.arena = append(b.arena, '}')
	b.spans = b.spans[:values] // paths into the array are found by a scan
}

// closeArray ends the array of the entry.
func (b *Batch) closeArray() {
	if b.scanned.rows != rowsArray || b.entry.count == 0 {
		return
	}
	b.arena = append(b.arena, ']')
	array := &b.rows[b.entry.first]
	array.fragment.end = len(b.arena)
	b.spans[array.values].end = len(b.arena)
}
