package lookup

import (
	"fmt"
	"hash/maphash"

	"enricher/record"
)

// Batch is the working memory of one goroutine, reused from Run to Run.
type Batch struct {
	plan   *Plan
	onStep func(step int) // nil, or told after each step
	facts  []Fact
	taken  int          // facts[taken:] are left to the next Run
	docs   []record.Doc // docs[i] is facts[i] scanned
	has    []bool       // facts[i] has a field that a step adds (and none that makes it fail)

	outcomes []Outcome
	stats    []StepStats
	views    []view // one per dimension of the plan, opened when it is needed

	// branches are what the facts have become so far, those of one fact side by
	// side and in the order of the facts. choices has one number per branch and
	// step: the row of the branch, or noRow.
	branches, nextBranches []branch
	choices, nextChoices   []int32
	dropped                []int32 // the step that dropped the last branch of facts[i]

	// arena holds all derived bytes of a Run; spans point into it.
	arena []byte
	memo  memo
	rows  []row
	spans []span

	// What the callback of a scan works on.
	yield   func(record.Row) bool
	scanned *step
	entry   *entry

	codes  []byte // scratch: codes of a row's columns
	nested []byte // scratch: wrapped values
	wraps  record.Doc
	null   []byte        // what an absent path projects to
	values [][]byte      // scratch: values of one projection
	parts  []byte        // scratch: members of one record
	edits  []record.Edit // scratch: overwritten values of one record

	records [][]byte // the output values of all facts, in order
	out     []byte   // the buffer that output values are carved from
	expect  int      // bytes still to come, an estimate
	mean    int      // bytes per record of the last Run, for the estimate
}

// branch is one record that a fact becomes.
type branch struct {
	fact  int32
	entry int32 // of the memo of the current step, or -1 - MissReason
}

// row is one matched row as a fragment that is ready to splice. The values of
// its fields and columns are spans[values:], as many as the step has.
type row struct {
	fragment span
	values   int32
}

type span struct{ start, end int }

// noRow is the choice of a branch that missed.
const noRow = -1

// NewBatch makes the working memory of one goroutine.
func (p *Plan) NewBatch() *Batch {
	b := &Batch{
		plan:  p,
		views: make([]view, len(p.dimensions)),
		stats: make([]StepStats, len(p.steps)),
		null:  []byte("null"),
		memo:  memo{seed: maphash.MakeSeed()},
	}
	b.yield = b.scan
	return b
}

// Stats are the counters of the last Run, one per step. Valid until the next Run.
func (b *Batch) Stats() []StepStats { return b.stats }

// OnStep has f called in Run after each step's reads, with the step's index, for callers that time them. This package knows no clock.
func (b *Batch) OnStep(f func(step int)) { b.onStep = f }

// Run takes all facts through the steps (with Options.BatchBytes: the first of
// them, as many as there are outcomes). There is one outcome per fact, in order,
// valid until the next Run; the bytes of the records are the caller's to
// keep. The facts must stay as they are until Run returns. An error is the
// store's, not a fact's: nothing was decided, and the same facts may be run again.
func (b *Batch) Run(facts []Fact) ([]Outcome, error) {
	b.reset(facts)
	defer b.release()
	for i := range facts {
		b.begin(i)
	}
	for s := range b.plan.steps {
		b.keys(s)
		if err := b.read(s); err != nil {
			return nil, fmt.Errorf("look up in dimension %q: %w", b.plan.steps[s].name, err)
		}
		b.advance(s)
		if b.onStep != nil {
			b.onStep(s)
		}
	}
	b.assemble()
	return b.outcomes[:b.taken], nil
}

// full tells whether the facts from this one on are left to the next Run,
// because those before it have led to this many bytes.
func (b *Batch) full(fact, size int) bool {
	if b.plan.batchBytes <= 0 || fact == 0 || size <= b.plan.batchBytes {
		return false
	}
	b.taken = fact
	return true
}

// What a row, a span and a branch without its choices take in memory.
const rowBytes, spanBytes, branchBytes = 24, 16, 8

func (b *Batch) reset(facts []Fact) {
	b.facts = facts
	n := len(facts)
	b.taken = n
	b.docs = extend(b.docs, n)
	b.has = extend(b.has, n)
	b.dropped = extend(b.dropped, n)
	b.outcomes = extend(b.outcomes, n)
	clear(b.has)
	clear(b.outcomes)
	clear(b.stats)
	clear(b.records)
	b.branches = again(b.branches)
	b.nextBranches = again(b.nextBranches)
	b.choices = again(b.choices)
	b.nextChoices = again(b.nextChoices)
	b.arena = again(b.arena)
	b.rows = again(b.rows)
	b.spans = again(b.spans)
	b.parts = again(b.parts)
	b.nested = again(b.nested)
	b.records = again(b.records)
}

// extend makes a slice n long and keeps what its elements have grown.
func extend[T any](s []T, n int) []T {
	if n > cap(s) {
		s = append(s[:cap(s)], make([]T, n-cap(s))...)
	}
	return s[:n]
}

// again empties a slice for the next Run. Memory that only an outsize batch
// needed is given back.
func again[T any](s []T) []T {
	const large = 1 << 20
	if cap(s) > large && len(s) < cap(s)/8 {
		return nil
	}
	return s[:0]
}

// release ends the views and lets go of the facts and the output. (The docs keep
// the bytes of their last fact until the next Run.)
func (b *Batch) release() {
	for i := range b.views {
		if v := b.views[i].View; v != nil {
			b.views[i] = view{}
			v.Close()
		}
	}
	b.facts, b.out, b.scanned, b.entry = nil, nil, nil, nil
}

// begin scans a fact and gives it its first branch, unless its end is decided.
func (b *Batch) begin(i int) {
	out := &b.outcomes[i]
	if b.facts[i].Value == nil {
		out.Kind = Passed
		return
	}
	doc := &b.docs[i]
	if err := b.plan.shape.Scan(doc, b.facts[i].Value); err != nil {
		out.Kind, out.Class, out.Message = Failed, ClassDecode, err.Error()
		return
	}
	for f := range b.plan.fields {
		if len(doc.Occurrences(f)) == 0 {
			continue
		}
		if added := &b.plan.fields[f]; added.conflict == conflictFail {
			b.fail(i, added.step, ClassConflict,
				fmt.Sprintf("the fact has the field %q already, which lookups[%d] adds (on_conflict: fail)", added.name, added.step))
			return
		}
		b.has[i] = true
	}
	b.branches = append(b.branches, branch{fact: int32(i)})
	for range b.plan.steps {
		b.choices = append(b.choices, noRow)
	}
}

// fail ends a fact at a step.
func (b *Batch) fail(i, s int, class, message string) {
	b.stats[s].Errors++
	b.outcomes[i] = Outcome{Kind: Failed, Class: class, Message: message, Dimension: b.plan.steps[s].name}
}
