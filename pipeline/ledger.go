package pipeline

// A run is the offsets from From up to, not including, To. Offsets in it that the log does not hold (transaction markers, compacted
// records) count as finished, for no fact will ever come from them.
type run struct{ From, To int64 }

// ledger is the bookkeeping of one Kafka partition: which facts were read and which of them are finished.
// Its facts may finish in any order. It holds no clock and does no I/O.
//
//	base             first unfinished offset: what may be committed
//	done             finished runs above base, ascending, neither touching nor overlapping
//	read             the offset after the last one that was read
//	resumed          the end of the finished runs that a former commit left; facts from there on are new
//
// Invariants: base <= done[0].From, done[i].To < done[i+1].From, done[last].To <= read.
type ledger struct {
	base, read int64
	resumed    int64
	done       []run
}

// newLedger starts at the committed offset with the finished set that was committed with it.
// Runs below the offset or out of order mean a set that belongs to another commit; then none of it counts.
func newLedger(committed int64, finished []run) *ledger {
	l := &ledger{base: committed, read: committed, resumed: committed}
	last := committed
	for _, r := range finished {
		if r.From <= last || r.To <= r.From {
			return l
		}
		last = r.To
	}
	l.done = append(l.done, finished...)
	l.resumed = last
	return l
}

// handOut records that the facts below next were read, and returns where the hand-out begins. Offsets between the last hand-out and this
// one's first fact belong to it, so that gaps of the log never hold the base back. It returns false for facts below the last hand-out:
// the log was cut and written anew.
func (l *ledger) handOut(next int64) (from int64, ok bool) {
	from = l.read
	if next <= from {
		return from, false
	}
	l.read = next
	return from, true
}

// isDone tells whether the fact at offset finished before, in a commit from which this ledger was started.
func (l *ledger) isDone(offset int64) bool {
	if offset < l.base {
		return true
	}
	for _, r := range l.done {
		if offset < r.From {
			return false
		}
		if offset < r.To {
			return true
		}
	}
	return false
}

// skips tells whether a reader of this ledger must look for facts that finished before.
func (l *ledger) skips() bool { return l.read < l.resumed }

// finish records that all facts of r are finished.
func (l *ledger) finish(r run) {
	if r.To <= r.From || r.To <= l.base {
		return
	}
	r.From = max(r.From, l.base)
	i := 0
	for i < len(l.done) && l.done[i].To < r.From {
		i++
	}
	j := i
	for j < len(l.done) && l.done[j].From <= r.To {
		r.From = min(r.From, l.done[j].From)
		r.To = max(r.To, l.done[j].To)
		j++
	}
	if r.From <= l.base {
		l.base = r.To
		l.done = append(l.done[:i], l.done[j:]...)
		return
	}
	if i == j {
		l.done = append(l.done, run{})
		copy(l.done[i+1:], l.done[i:])
	} else {
		l.done = append(l.done[:i+1], l.done[j:]...)
	}
	l.done[i] = r
}

// position is the state that a commit carries: the first unfinished offset and the finished runs above it.
func (l *ledger) position() position {
	return position{Offset: l.base, Finished: append([]run(nil), l.done...)}
}

// position is what one commit says of one Kafka partition.
type position struct {
	Offset   int64
	Finished []run
}

// equal tells whether committing p after q would say anything new.
func (p position) equal(q position) bool {
	if p.Offset != q.Offset || len(p.Finished) != len(q.Finished) {
		return false
	}
	for i := range p.Finished {
		if p.Finished[i] != q.Finished[i] {
			return false
		}
	}
	return true
}
