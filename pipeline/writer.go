package pipeline

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// writeAll produces what the workers hand over and commits every commit interval, until ctx ends and all in flight is committed, or until an
// error. It is the only goroutine that touches the transaction.
//
//nolint:contextcheck // the writer goes on after the end of ctx, to drain: its context is the session's
func (s *session) writeAll(ctx context.Context, polled <-chan struct{}) error {
	w := &writer{session: s, tick: time.NewTimer(time.Hour)}
	w.tick.Stop()
	defer w.tick.Stop()
	drain := ctx.Done()
	var fell <-chan struct{} // once nobody polls, the writer wants to know that facts in flight became fewer
	for {
		var err error
		select {
		case b := <-s.ready:
			err = w.write(b)
		case <-w.tick.C:
			err = w.commit()
		case <-s.broken:
			err = w.commit()
		case <-s.assigned:
			w.arm()
		case <-drain:
			<-polled
			drain, fell, w.draining = nil, s.room, true
		case <-fell:
		case <-s.ctx.Done():
		}
		if err == nil {
			err = context.Cause(s.ctx)
		}
		if err != nil {
			return err
		}
		if w.draining && s.inFlight.Load() == 0 && len(s.ready) == 0 {
			return w.commit()
		}
	}
}

// writer is the state of the writing goroutine.
type writer struct {
	*session
	tick     *time.Timer // of the next commit
	armed    bool
	draining bool
	outage   *time.Timer // ends the session when the open transaction has outlived its timeout
	failures int         // commits that failed in a row
	searches int         // transactions in a row that were given up to find facts whose records are refused
	failedAt time.Time   // when the last of them failed
}

// arm starts the clock of the next commit.
func (w *writer) arm() {
	if w.armed {
		return
	}
	w.armed = true
	w.tick.Reset(w.o.CommitInterval)
	w.p.dirty()
}

// write produces the records of a batch. Its acknowledgements are awaited by the commit.
func (w *writer) write(b *batch) error {
	if b.lane.stale(b) {
		w.releaseAll([]*batch{b})
		return nil
	}
	if b.fatal != nil {
		if err := w.commit(); err != nil { // what came before it is done
			return err
		}
		if !b.lane.stale(b) {
			return fatalError{b.fatal}
		}
		w.releaseAll([]*batch{b}) // the commit came to nothing: it is read again
		return nil
	}
	w.arm()
	b.sent = true
	w.writing.Add(1)
	start := time.Now()
	if w.txn != nil && w.outage == nil { // the broker ends a transaction that takes longer, so nothing is gained by waiting
		w.outage = time.AfterFunc(w.o.TransactionTimeout, func() { w.cancel(errOutage) })
	}
	if len(b.out) == 0 {
		w.taken(b)
		return nil
	}
	acknowledged := func(rec *kgo.Record, err error) { w.acknowledged(b, rec, err) }
	if len(w.refusals.groups) > 0 {
		if err := w.writeGrouped(b, acknowledged); err != nil {
			return err
		}
	} else {
		for _, rec := range b.out {
			w.client.Produce(w.ctx, rec, acknowledged)
		}
	}
	w.o.Metrics.phase(phaseProduce, time.Since(start))
	return nil
}

// writeGrouped produces a batch that may hold facts whose records the broker refuses: each group goes alone in its requests.
func (w *writer) writeGrouped(b *batch, acknowledged func(*kgo.Record, error)) error {
	group := 0
	for i, rec := range b.out {
		if g := w.refusals.groups[b.origin(int(b.owner[i]))]; g != group {
			if err := w.client.Flush(w.ctx); err != nil {
				return context.Cause(w.ctx)
			}
			if w.wasRefused() { // the transaction is lost: the rest need not be tried
				w.abandon(b, i)
				return nil
			}
			group = g
		}
		w.client.Produce(w.ctx, rec, acknowledged)
	}
	if group != 0 {
		if err := w.client.Flush(w.ctx); err != nil {
			return context.Cause(w.ctx)
		}
	}
	return nil
}

// abandon counts the records of b from i on as not taken.
func (w *writer) abandon(b *batch, i int) {
	b.refused.Store(true)
	if b.pending.Add(int32(i-len(b.out))) == 0 {
		w.releaseAll([]*batch{b})
	}
}

func (s *session) wasRefused() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.refused) > 0 || s.failure != nil
}

// acknowledged is called by the client for every record, in one goroutine.
func (s *session) acknowledged(b *batch, rec *kgo.Record, err error) {
	if err != nil {
		b.refused.Store(true)
		s.notTaken(b, rec, err)
	}
	if b.pending.Add(-1) == 0 {
		if b.refused.Load() {
			s.releaseAll([]*batch{b})
		} else {
			s.taken(b)
		}
	}
}

// taken notes a batch all of whose records the broker has.
func (s *session) taken(b *batch) {
	b.out, b.owner = nil, nil
	s.mu.Lock()
	s.acked = append(s.acked, b)
	s.mu.Unlock()
	s.releaseAll([]*batch{b})
}

// notTaken sorts a record that was not written: refused for good, or a failure of the environment.
func (s *session) notTaken(b *batch, rec *kgo.Record, err error) {
	s.mu.Lock()
	if isRefusal(err) {
		for i, out := range b.out {
			if out == rec {
				s.refused[b.origin(int(b.owner[i]))] = refusedRecord{
					topic: rec.Topic, noKey: rec.Key == nil, at: rec.Timestamp, err: err, message: fmt.Sprintf("topic %s refused the record: %v", rec.Topic, err),
				}
			}
		}
	} else if s.failure == nil {
		s.failure = fmt.Errorf("write to topic %s: %w", rec.Topic, err)
	}
	s.mu.Unlock()
	select {
	case s.broken <- struct{}{}:
	default:
	}
}

// commit ends what was begun: everything written is awaited, then the offsets are committed, in the same transaction when exactly once.
// Where something was not taken, everything in flight is dropped and read again.
func (w *writer) commit() error {
	w.armed = false
	w.tick.Stop()
	start := time.Now()
	err := w.end()
	if w.outage != nil {
		w.outage.Stop()
		w.outage = nil
	}
	w.o.Metrics.phase(phaseCommit, time.Since(start))
	return err
}

func (w *writer) end() error {
	if w.txn == nil {
		return w.endPlain()
	}
	w.gate.close()
	defer w.gate.open()
	if err := w.client.Flush(w.ctx); err != nil {
		return context.Cause(w.ctx)
	}
	done, refused, failure := w.collect()
	if len(refused) > 0 || failure != nil {
		if _, err := w.txn.End(w.ctx, kgo.TryAbort); err != nil {
			return w.lost(fmt.Errorf("abort transaction: %w", err))
		}
		return w.again(refused, failure)
	}
	due := w.due(done)
	shrunk := w.shrunk.Swap(false)
	if len(due) == 0 && len(done) == 0 {
		if !shrunk {
			w.idle()
			return nil
		}
		// The client lets no transaction commit that was open while Kafka partitions were taken away. This one is empty: better now than later.
		if _, err := w.txn.End(w.ctx, kgo.TryAbort); err != nil {
			return w.lost(fmt.Errorf("abort transaction: %w", err))
		}
		return w.again(nil, nil)
	}
	ctx := kgo.PreTxnCommitFnContext(w.ctx, func(req *kmsg.TxnOffsetCommitRequest) error { return setTxnOffsets(req, due) })
	committed, err := w.txn.End(ctx, kgo.TryCommit)
	if err != nil {
		return w.lost(fmt.Errorf("commit transaction: %w", err))
	}
	if !committed { // a rebalance came between, or the broker gave no clear answer
		if err := w.notCommitted(); err != nil {
			return w.lost(err)
		}
		return w.again(nil, nil)
	}
	w.settle(due, done)
	if err := w.txn.Begin(); err != nil {
		return w.lost(fmt.Errorf("begin transaction: %w", err))
	}
	return nil
}

// endPlain commits the offsets of what is acknowledged. What is still on its way is for the next time, unless the writer drains.
func (w *writer) endPlain() error {
	if w.draining || w.wasRefused() {
		if err := w.client.Flush(w.ctx); err != nil {
			return context.Cause(w.ctx)
		}
	}
	done, refused, failure := w.collect()
	due := w.due(done)
	if len(due) > 0 {
		if err := w.commitOffsets(due); err != nil {
			return w.notSaved(err, done, refused, failure)
		}
	}
	lost := len(refused) > 0 || failure != nil
	switch {
	case len(due) > 0 || len(done) > 0:
		w.settle(due, done)
	case !lost && w.writing.Load() == 0:
		w.idle()
	}
	if lost {
		w.gate.close()
		defer w.gate.open()
		w.client.SetOffsets(w.committedOffsets())
		return w.again(refused, failure)
	}
	if w.writing.Load() > 0 || w.hasAcked() { // in this order: what is no longer being written was noted before
		w.arm()
	}
	return nil
}

// collect takes what was written, acknowledged or not taken since the last time.
func (s *session) collect() (done []*batch, refused map[origin]refusedRecord, failure error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	refused, failure, done = s.refused, s.failure, s.acked
	s.refused, s.failure, s.acked = map[origin]refusedRecord{}, nil, nil
	select {
	case <-s.broken:
	default:
	}
	return done, refused, failure
}

func (s *session) hasAcked() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.acked) > 0
}

// offsetDue is what a commit says of one lane.
type offsetDue struct {
	lane *lane
	position
	epoch int32
	meta  string
}

// due finishes the batches in the ledgers and lists what the group must be told.
func (s *session) due(done []*batch) map[laneID]offsetDue {
	for _, b := range done {
		b.lane.finish(b)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	due := make(map[laneID]offsetDue)
	for id, l := range s.lanes {
		p, epoch, news := l.due()
		if !news {
			continue
		}
		// In order, nothing finishes behind another, so the record is short; one that would not fit is left out, which repeats facts after
		// a crash and loses none.
		meta, fits := encodeFinished(p)
		if !fits {
			p.Finished, meta = nil, ""
		}
		due[id] = offsetDue{lane: l, position: p, epoch: epoch, meta: meta}
	}
	return due
}

// settle records a successful commit.
func (w *writer) settle(due map[laneID]offsetDue, done []*batch) {
	for _, d := range due {
		d.lane.saved(d.position)
		if !w.refusals.empty() {
			w.refusals.committed(d.lane.topic, d.lane.partition, d.Offset)
			w.publishRefusals()
		}
	}
	w.progressed = w.progressed || len(due) > 0
	w.failures, w.searches = 0, 0
	w.p.settled(done, w.writing.Load() > 0)
}
