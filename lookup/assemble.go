package lookup

import (
	"cmp"
	"fmt"
	"slices"

	"enricher/record"
)

// assemble builds the output values of all branches that are left.
func (b *Batch) assemble() {
	b.records = extend(b.records, len(b.branches))[:0]
	b.expect = b.estimate()
	total, stride := 0, len(b.plan.steps)
	at := 0
	for fact := range b.facts[:b.taken] {
		if b.full(fact, total) {
			break
		}
		first := at
		for at < len(b.branches) && int(b.branches[at].fact) == fact {
			at++
		}
		out := &b.outcomes[fact]
		if out.Kind != Written {
			continue
		}
		if first == at {
			out.Kind, out.Dimension = Dropped, b.plan.steps[b.dropped[fact]].name
			continue
		}
		from, size := len(b.records), 0
		for i := first; i < at && size <= b.plan.maxBytes; i++ {
			size += b.record(fact, b.choices[i*stride:(i+1)*stride], b.plan.maxBytes-size)
		}
		if size > b.plan.maxBytes {
			clear(b.records[from:])
			b.records = b.records[:from]
			b.tooLarge(fact, at-first)
			continue
		}
		total += size
		out.Records = b.records[from:len(b.records):len(b.records)]
	}
	b.mean = 0
	if len(b.records) > 0 {
		b.mean = total/len(b.records) + 1
	}
}

func (b *Batch) tooLarge(fact, records int) {
	b.outcomes[fact] = Outcome{
		Kind: Failed, Class: ClassTooLarge,
		Message: fmt.Sprintf("the %d records of the fact are more than %d bytes together", records, b.plan.maxBytes),
	}
}

// estimate is about how many bytes the records will take, so that one buffer of
// the right size holds them: exact unless fields are overwritten, kept or projected.
func (b *Batch) estimate() int {
	if len(b.plan.outputs) > 0 {
		return b.mean * len(b.branches)
	}
	size, stride := 0, len(b.plan.steps)
	for i, br := range b.branches {
		size += len(b.facts[br.fact].Value)
		for s, choice := range b.choices[i*stride : (i+1)*stride] {
			size += 1 + len(b.fragment(s, choice))
		}
	}
	return size
}

// fragment is the members that a step adds to a branch.
func (b *Batch) fragment(s int, choice int32) []byte {
	if choice == noRow {
		return b.plan.steps[s].miss
	}
	at := b.rows[choice].fragment
	return b.arena[at.start:at.end]
}

// Sizes of the buffers that records are carved from: a batch of ordinary size
// has one of just its size, a huge one gets several so that they can be freed
// one by one.
const (
	leastBuffer = 4 << 10
	mostBuffer  = 8 << 20
)

// room makes sure that the buffer takes n more bytes.
func (b *Batch) room(n int) {
	if cap(b.out)-len(b.out) < n {
		b.out = make([]byte, 0, max(n, min(b.expect, mostBuffer), leastBuffer))
	}
	b.expect -= n
}

// record appends one output value, unless it is larger than most, and returns
// its size.
func (b *Batch) record(fact int, choices []int32, most int) int {
	if len(b.plan.outputs) > 0 {
		return b.projected(fact, choices, most)
	}
	doc := &b.docs[fact]
	members, edits := b.members(fact, choices)
	size := len(b.facts[fact].Value) + len(members)
	if len(members) > 0 && doc.Members() > 0 {
		size++
	}
	for _, e := range edits {
		size += len(e.Value) - (e.Span.End - e.Span.Start)
	}
	if size > most {
		return size
	}
	b.room(size)
	start := len(b.out)
	b.out = doc.AppendSpliced(b.out, members, edits)
	b.carve(start)
	return size
}

// carve makes a record of what was appended to the buffer.
func (b *Batch) carve(start int) {
	b.records = append(b.records, b.out[start:len(b.out):len(b.out)])
}

// members are the members to splice into a record, and the values to overwrite.
func (b *Batch) members(fact int, choices []int32) ([]byte, []record.Edit) {
	if b.has[fact] {
		return b.resolved(fact, choices)
	}
	if len(choices) == 1 {
		return b.fragment(0, choices[0]), nil
	}
	parts := b.parts[:0]
	for s, choice := range choices {
		fragment := b.fragment(s, choice)
		if len(fragment) > 0 && len(parts) > 0 {
			parts = append(parts, ',')
		}
		parts = append(parts, fragment...)
	}
	b.parts = parts
	return parts, nil
}

// resolved is members for a fact that has some of the fields already.
func (b *Batch) resolved(fact int, choices []int32) ([]byte, []record.Edit) {
	doc, parts, edits := &b.docs[fact], b.parts[:0], b.edits[:0]
	for f := range b.plan.fields {
		added := &b.plan.fields[f]
		choice, value := choices[added.step], added.miss
		if choice != noRow {
			at := b.spans[int(b.rows[choice].values)+added.value]
			value = b.arena[at.start:at.end]
		}
		there := doc.Occurrences(f)
		if len(there) == 0 {
			if len(parts) > 0 {
				parts = append(parts, ',')
			}
			parts = append(append(parts, added.prefix...), value...)
			continue
		}
		if added.conflict == conflictOverwrite && choice != noRow {
			for _, at := range there {
				edits = append(edits, record.Edit{Span: at, Value: value})
			}
		}
	}
	slices.SortFunc(edits, func(x, y record.Edit) int { return cmp.Compare(x.Span.Start, y.Span.Start) })
	b.parts, b.edits = parts, edits
	return parts, edits
}

// projected appends the projection of one record.
func (b *Batch) projected(fact int, choices []int32, most int) int {
	values, size := b.values[:0], len("{}")
	b.nested = b.nested[:0]
	for i := range b.plan.outputs {
		o := &b.plan.outputs[i]
		v := b.value(&o.value, fact, choices)
		if v == nil {
			v = b.null
		}
		values = append(values, v)
		size += len(o.prefix) + len(v)
	}
	b.values = values
	if size > most {
		return size
	}
	b.room(size)
	start := len(b.out)
	b.out = append(b.out, '{')
	for i, v := range values {
		b.out = append(append(b.out, b.plan.outputs[i].prefix...), v...)
	}
	b.out = append(b.out, '}')
	b.carve(start)
	return size
}
