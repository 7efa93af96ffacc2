package pipeline

import (
	"fmt"
	"time"

	"enricher/lookup"
)

// worker is the working memory of one goroutine that looks facts up.
type worker struct {
	facts  []lookup.Fact
	memory *lookup.Batch
	heads  []lookup.Header
	steps  []time.Duration // how long each lookup of the last run took
	last   time.Time
}

func newWorker(plan *lookup.Plan) *worker {
	w := &worker{memory: plan.NewBatch()}
	w.memory.OnStep(func(int) {
		now := time.Now()
		w.steps = append(w.steps, now.Sub(w.last))
		w.last = now
	})
	return w
}

// lookUp runs the plan over the batch and makes its output records. Where the plan bounds the memory of a run it may take only the first facts: the
// rest comes back as a batch of its own, nil else. The error is the store's.
func (w *worker) lookUp(b *batch, o *Options, v verdicts) (rest *batch, err error) {
	w.facts = w.facts[:0]
	w.heads = w.heads[:0]
	headers := o.Plan.NeedsHeaders()
	for _, rec := range b.recs {
		f := lookup.Fact{
			Value: rec.Value, Key: rec.Key, Topic: rec.Topic, Partition: rec.Partition, Offset: rec.Offset, Timestamp: rec.Timestamp.UnixMilli(),
		}
		if headers {
			from := len(w.heads)
			for _, h := range rec.Headers {
				w.heads = append(w.heads, lookup.Header(h))
			}
			f.Headers = w.heads[from:len(w.heads):len(w.heads)]
		}
		w.facts = append(w.facts, f)
	}
	start := time.Now()
	w.last, w.steps = start, w.steps[:0]
	outs, err := w.memory.Run(w.facts)
	if err != nil {
		return nil, err
	}
	b.lookedUp = time.Since(start)
	b.stepTimes = append(b.stepTimes[:0], w.steps...)
	b.lookups = append(b.lookups[:0], w.memory.Stats()...)
	rest = b.split(len(outs))
	b.build(outs, o, v)
	clear(w.facts)
	return rest, nil
}

// work looks a batch up and hands it to the writer after the one before it in its lane. The memory of the lookups is held only while they run; a batch
// that takes several runs is handed over run by run, so that what it becomes is never in memory as a whole. A batch that is not handed over because
// the session ends holds back those behind it.
func (s *session) work(b *batch) {
	handed := b.handed
	for b != nil {
		rest, ok := s.lookUp(b)
		if !ok {
			return
		}
		if b.before != nil {
			select {
			case <-b.before:
			case <-s.ctx.Done():
				return
			}
		}
		if b.out != nil {
			select {
			case s.ready <- b:
			case <-s.ctx.Done():
				return
			}
		}
		b = rest
	}
	close(handed)
}

// lookUp takes a batch through the lookups, and returns what is left of it for another run. A stale one is released. False means that the session ends.
func (s *session) lookUp(b *batch) (rest *batch, ok bool) {
	if !s.before() {
		return nil, false
	}
	var w *worker
	select {
	case w = <-s.slots:
	case <-s.ctx.Done():
		return nil, false
	}
	defer func() { s.slots <- w }()
	if b.lane.stale(b) {
		s.releaseAll([]*batch{b})
		return nil, true
	}
	rest, err := w.lookUp(b, s.o, s.verdicts())
	if err != nil {
		s.cancel(fatalError{fmt.Errorf("look up facts of topic %s, partition %d: %w", b.lane.topic, b.lane.partition, err)})
		return nil, false
	}
	s.o.Metrics.lookedUp(b)
	return rest, true
}

// before lets the dimensions be brought up to date for facts that were read. False means that the session ends.
func (s *session) before() bool {
	if s.o.Before == nil {
		return true
	}
	start := time.Now()
	err := s.o.Before(s.ctx)
	s.o.Metrics.phase(phaseRefresh, time.Since(start))
	if err != nil && s.ctx.Err() == nil {
		s.cancel(fatalError{err})
	}
	return err == nil
}

// verdicts is what is known of refusals at the moment.
func (s *session) verdicts() verdicts {
	v := verdicts{rules: s.rules.Load()}
	if m := s.refusing.Load(); m != nil {
		v.known = *m
	}
	if v.rules != nil {
		v.now = time.Now()
	}
	return v
}
