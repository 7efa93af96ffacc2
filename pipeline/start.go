package pipeline

import "fmt"

// logBounds are the offsets that a Kafka partition holds: first is the log start, end the high watermark.
type logBounds struct{ first, end int64 }

// gap is a committed offset that lies outside the log: facts are gone that were never read.
type gap struct {
	laneID
	committed int64
	bounds    logBounds
}

// missing is how many offsets lie between the commit and the log.
func (g gap) missing() int64 {
	if g.committed < g.bounds.first {
		return g.bounds.first - g.committed
	}
	return g.committed - g.bounds.end
}

// resume is where reading goes on when it may: below the log at its start, beyond it at its end.
func (g gap) resume() int64 {
	return min(max(g.committed, g.bounds.first), g.bounds.end)
}

// Error makes a gap the error that ends the service under on_gap: fail.
func (g gap) Error() string {
	return fmt.Sprintf("committed offset %d of topic %s, partition %d lies outside the log (%d to %d): %d facts are gone or were never there; "+
		"set input.on_gap: continue to go on at %d, or reset the group's offset",
		g.committed, g.topic, g.partition, g.bounds.first, g.bounds.end, g.missing(), g.resume())
}

// noteCut remembers that the log of a Kafka partition was cut at an offset and written anew from there: what was committed beyond it is about other
// facts. The broker's epochs tell, not the bounds of the log, which may have grown past the commit since.
func (p *Pipeline) noteCut(id laneID, at int64) {
	p.state.mu.Lock()
	defer p.state.mu.Unlock()
	if p.state.cuts == nil {
		p.state.cuts = make(map[laneID]int64)
	}
	p.state.cuts[id] = at
}

// cutEnd is the end of the log as far as it is the one that was read. It forgets the cut: the client tells of it again where it still matters.
func (p *Pipeline) cutEnd(id laneID, end int64) int64 {
	p.state.mu.Lock()
	defer p.state.mu.Unlock()
	if at, ok := p.state.cuts[id]; ok {
		delete(p.state.cuts, id)
		return min(end, at)
	}
	return end
}

// findGap tells whether a committed offset lies outside the log.
func findGap(id laneID, committed int64, b logBounds) (gap, bool) {
	return gap{id, committed, b}, committed < b.first || committed > b.end
}
