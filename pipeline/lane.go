package pipeline

import (
	"errors"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

// laneID names a Kafka partition of a fact topic.
type laneID struct {
	topic     string
	partition int32
}

// lane is one Kafka partition that this instance reads. Its batches are looked up beside each other and handed to the writer one after the other, in
// the order of the facts: each waits for the one before it. One lane alone must be able to use all cores, for the client gives the facts of one
// Kafka partition out before it turns to the next.
type lane struct {
	laneID

	mu sync.Mutex
	// All below is guarded by mu.
	ledger    *ledger
	committed position      // as last committed, or as fetched from the group
	inGroup   int64         // the offset that the group knows of it, -1 for none
	unsaved   bool          // the group has no commit for it yet: the start that was resolved must be committed
	gen       uint64        // raised when everything in flight is dropped
	gone      bool          // taken away
	last      chan struct{} // closed once the last batch that was read is handed over; nil before the first
	ends      []epochEnd
	end       int64 // high watermark as last seen, -1 before the first fetch
}

// epochEnd is the end of a batch that was read, with the leader epoch of its last fact. The epoch of a commit must be that of the fact before it: with an
// older one the log would seem to have been cut there.
type epochEnd struct {
	to    int64
	epoch int32
}

func newLane(id laneID, start position, saved bool) *lane {
	return &lane{laneID: id, ledger: newLedger(start.Offset, start.Finished), committed: start, inGroup: start.Offset, unsaved: !saved, end: -1}
}

// errRewound says that the log was cut below facts that were read: what is in flight does not exist any more.
var errRewound = errors.New("the log of a fact topic was cut and written anew below facts that were read")

// read takes polled records in and cuts them into batches. Facts that a former commit says are finished are left out.
func (l *lane) read(recs []*kgo.Record, end int64) (batches []*batch, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end = max(l.end, end)
	if l.gone || len(recs) == 0 {
		return nil, nil
	}
	if l.ledger.skips() {
		recs = slices.DeleteFunc(recs, func(r *kgo.Record) bool { return l.ledger.isDone(r.Offset) })
	}
	for len(recs) > 0 {
		n := min(len(recs), maxBatch)
		last := recs[n-1]
		from, ok := l.ledger.handOut(last.Offset + 1)
		if !ok {
			return nil, errRewound
		}
		l.ends = append(l.ends, epochEnd{last.Offset + 1, last.LeaderEpoch})
		b := &batch{
			lane: l, gen: l.gen, recs: recs[:n:n], facts: n, span: run{from, last.Offset + 1}, before: l.last, handed: make(chan struct{}),
		}
		l.last = b.handed
		batches = append(batches, b)
		recs = recs[n:]
	}
	return batches, nil
}

// stale tells whether b was read before everything in flight was dropped.
func (l *lane) stale(b *batch) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.gone || b.gen != l.gen
}

// drop forgets everything in flight, back to what was committed. Batches on their way find themselves stale.
func (l *lane) drop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gen++
	l.ends = nil
	l.ledger = newLedger(l.committed.Offset, l.committed.Finished)
}

// leave marks the lane as taken away and drops what is in flight.
func (l *lane) leave() {
	l.mu.Lock()
	l.gone = true
	l.mu.Unlock()
	l.drop()
}

// finish records a batch whose records are all acknowledged.
func (l *lane) finish(b *batch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.gone && b.gen == l.gen {
		l.ledger.finish(b.span)
	}
}

// due returns what a commit should say of the lane, with the leader epoch, -1 when it is not known; false when the group knows it already.
func (l *lane) due() (p position, epoch int32, news bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gone {
		return position{}, -1, false
	}
	p, epoch = l.ledger.position(), -1
	for _, e := range l.ends {
		if e.to == p.Offset {
			epoch = e.epoch
		}
	}
	return p, epoch, l.unsaved || !p.equal(l.committed)
}

// saved records that p is committed.
func (l *lane) saved(p position) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.committed = p
	l.ends = slices.DeleteFunc(l.ends, func(e epochEnd) bool { return e.to <= p.Offset })
	l.inGroup = p.Offset
	l.unsaved = false
}

// knownToGroup is the offset that the group has, as far as this session knows; -1 for none.
func (l *lane) knownToGroup() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.inGroup
}

// status is the lane for /status.
func (l *lane) status() InputStatus {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := InputStatus{Topic: l.topic, Partition: l.partition, Committed: l.committed.Offset, Read: l.ledger.read, End: l.end}
	if l.end > l.committed.Offset {
		s.Lag = l.end - l.committed.Offset
		for _, r := range l.committed.Finished {
			s.Lag -= r.To - r.From
		}
	}
	return s
}
