package lookup

import (
	"bytes"
	"errors"

	"enricher/record"
)

// view is the one view of a dimension in a Run, and what it can do beside.
type view struct {
	View
	indexes    IndexView     // nil when it is none
	partitions PartitionView // nil when it is none
	latest     [][]byte      // the greatest partitions, as many as any step looks into
}

// The plan asks for what the caller has not built.
var (
	errNoTable      = errors.New("BUG: the plan was compiled without a table")
	errNoIndexes    = errors.New("BUG: a lookup joins by an index, and the view is no IndexView")
	errNoPartitions = errors.New("BUG: a lookup joins in the latest partition, and the view is no PartitionView")
)

// view is the one view of a step's dimension in this Run.
func (b *Batch) view(s int) (*view, error) {
	d := b.plan.steps[s].dimension
	v := &b.views[d]
	if v.View != nil {
		return v, nil
	}
	table, needs := b.plan.dimensions[d].Table, b.plan.needs[d]
	if table == nil {
		return nil, errNoTable
	}
	v.View = table.Read()
	v.indexes, _ = v.View.(IndexView)
	v.partitions, _ = v.View.(PartitionView)
	switch {
	case needs.index && v.indexes == nil:
		return nil, errNoIndexes
	case needs.latest > 0 && v.partitions == nil:
		return nil, errNoPartitions
	case needs.latest > 0:
		v.latest = v.partitions.Latest(needs.latest)
	}
	return v, nil
}

// read looks up every entry of the memo once.
func (b *Batch) read(s int) error {
	if len(b.memo.entries) == 0 {
		return nil
	}
	v, err := b.view(s)
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
		switch {
		case st.kind == joinIndex:
			err = v.indexes.ScanIndex(st.index, key, b.yield)
		case st.latest > 0:
			err = b.readLatest(v, st, key)
		default:
			err = b.readPartition(v, st, partition, key)
		}
		if err != nil {
			return err
		}
		b.closeArray()
		if e.count == 0 && e.failure == noFailure {
			e.reason = v.reason(st, e, partition)
		}
	}
	return nil
}

// readLatest reads in the greatest partitions, the greatest first.
func (b *Batch) readLatest(v *view, st *step, key []byte) error {
	for _, partition := range v.latest[:min(st.latest, len(v.latest))] {
		if err := b.readPartition(v, st, partition, key); err != nil {
			return err
		}
		if e := b.entry; e.failure != noFailure || st.rows == rowsFirst && e.count > 0 {
			return nil // as scan has told the partition before
		}
	}
	return nil
}

// readPartition reads the rows of one partition with the key, or with the prefix
// of it.
func (b *Batch) readPartition(v *view, st *step, partition, key []byte) error {
	if st.kind == joinPrefix {
		return v.Scan(partition, key, b.yield)
	}
	r, ok, err := v.Get(partition, key)
	if err == nil && ok {
		b.scan(r)
	}
	return err
}

// reason is why an entry found nothing.
func (v *view) reason(st *step, e *entry, partition []byte) MissReason {
	switch {
	case st.latest > 0 && len(v.latest) == 0:
		return MissNoPartition
	case e.found && st.kind != joinIndex:
		return MissCondition // of a row in the partition
	case st.partitionOps > 0 && !v.HasPartition(partition):
		if v.partitions != nil && v.partitions.Expired(partition) {
			return MissExpiredPartition
		}
		return MissNoPartition
	case e.found:
		return MissCondition
	default:
		return MissNoRow
	}
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
