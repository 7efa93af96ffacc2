package lookup

import "fmt"

// advance gives the branches the rows of their entries: one stays, several
// multiply it, none is a miss or, with inner, the end of the branch.
func (b *Batch) advance(s int) {
	st, stats, stride := &b.plan.steps[s], &b.stats[s], len(b.plan.steps)
	b.nextBranches, b.nextChoices = b.nextBranches[:0], b.nextChoices[:0]
	size := branchBytes + 4*stride
	fact, first := int32(-1), 0 // the current fact and its first new branch
	for i, br := range b.branches {
		if br.fact != fact {
			if int(br.fact) >= b.taken || b.full(int(br.fact), size*len(b.nextBranches)) {
				break
			}
			fact, first = br.fact, len(b.nextBranches)
		}
		if b.outcomes[fact].Kind == Failed {
			continue
		}
		choices := b.choices[i*stride : (i+1)*stride]
		miss := MissReason(-1 - br.entry)
		if br.entry >= 0 {
			e := &b.memo.entries[br.entry]
			if e.failure != noFailure {
				b.failEntry(int(fact), s, e)
				b.cut(first)
				continue
			}
			if e.count > 0 {
				stats.Matches++
				if len(b.nextBranches)-first+int(e.count) > b.plan.maxRows {
					b.failRows(int(fact), s)
					b.cut(first)
					continue
				}
				for r := e.first; r < e.first+e.count; r++ {
					b.keep(fact, s, choices, r)
				}
				continue
			}
			miss = e.reason
		}
		stats.Misses[miss]++
		if st.inner {
			b.dropped[fact] = int32(s)
			continue
		}
		if len(b.nextBranches)-first >= b.plan.maxRows {
			b.failRows(int(fact), s)
			b.cut(first)
			continue
		}
		b.keep(fact, s, choices, noRow)
	}
	b.branches, b.nextBranches = b.nextBranches, b.branches
	b.choices, b.nextChoices = b.nextChoices, b.choices
}

// keep adds a branch with its choice at step s.
func (b *Batch) keep(fact int32, s int, choices []int32, row int32) {
	b.nextBranches = append(b.nextBranches, branch{fact: fact})
	at := len(b.nextChoices)
	b.nextChoices = append(b.nextChoices, choices...)
	b.nextChoices[at+s] = row
}

// cut takes the new branches of a fact that failed away.
func (b *Batch) cut(first int) {
	b.nextBranches = b.nextBranches[:first]
	b.nextChoices = b.nextChoices[:first*len(b.plan.steps)]
}

func (b *Batch) failEntry(fact, s int, e *entry) {
	if e.failure == tooManyRows {
		b.failRows(fact, s)
		return
	}
	b.fail(fact, s, ClassTooLarge, fmt.Sprintf("the rows that lookups[%d] matches are more than %d bytes", s, b.plan.maxBytes))
}

func (b *Batch) failRows(fact, s int) {
	b.fail(fact, s, ClassTooManyRows, fmt.Sprintf("the fact becomes more than %d records at lookups[%d]", b.plan.maxRows, s))
}
