package changelog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"enricher/dimstore"
)

const (
	pauseFirst      = 500 * time.Millisecond
	pauseMost       = 10 * time.Second
	deadLettersOnce = 32          // dead letters under way at the same time
	sweepEvery      = time.Minute // how often partitions are looked through for those that leave
)

// apply writes batches to the generation, each after its dead letters are acknowledged, lets partitions leave, and notices when the dimension is
// warm.
func (f *feed) apply(ctx context.Context, full <-chan *batch, free chan<- *batch) error {
	sweep := time.NewTicker(sweepEvery)
	defer sweep.Stop()
	var positions []dimstore.Position
	for {
		if err := f.settle(ctx); err != nil {
			return err
		}
		var err error
		select {
		case <-ctx.Done():
			return ctx.Err()
		case b := <-full:
			if err = f.deadLetters(ctx, b.bad); err == nil {
				positions, err = f.applyBatch(ctx, b, positions[:0])
			}
			b.reset()
			free <- b // has room for both batches
		case <-f.todo:
			err = f.dropLeaving(ctx)
		case <-sweep.C:
			err = f.expire(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// applyBatch writes a batch, in sync mode at the next refresh.
func (f *feed) applyBatch(ctx context.Context, b *batch, positions []dimstore.Position) ([]dimstore.Position, error) {
	if len(b.changes) > 0 {
		if err := f.admission(ctx); err != nil {
			return positions, err
		}
	}
	err := f.write(ctx, func() error {
		f.admit(ctx, b)
		positions = f.positions(positions[:0], b)
		var applied dimstore.Applied
		var err error
		if len(b.changes)+len(positions) > 0 {
			applied, err = f.target.Apply(b.changes, positions)
		}
		if err == nil {
			f.applied(b, applied)
		}
		return err
	})
	if err != nil {
		return positions, fmt.Errorf("store %d changes: %w", len(b.changes), err)
	}
	return positions, nil
}

// admit takes out of a batch what must not be applied: of buckets that can't be gone on with, that left, or that were read too late. A first load
// has to come to an end and only says so.
func (f *feed) admit(ctx context.Context, b *batch) {
	s := &f.d.state
	s.mu.Lock()
	slow := f.track.slow
	out := map[dimstore.BucketID]bool{}
	var late []int
	for i, next := range b.next {
		if next < 0 {
			continue
		}
		t := &f.track.buckets[i]
		if t.live() && !f.track.admit(i, next, b.readAt) {
			late = append(late, i)
		} else if t.live() {
			continue
		}
		out[t.id] = true
		b.next[i] = -1
	}
	slow = !slow && f.track.slow
	var detail string
	if len(late) > 0 {
		t := &f.track.buckets[late[0]]
		detail = fmt.Sprintf("%s was not read to its end for longer than delete.retention.ms (%s), deletes may be gone",
			f.d.route.bucket(t.id.Topic, t.id.Partition), t.retention)
	}
	s.mu.Unlock()
	if slow {
		f.log.WarnContext(ctx, "the load takes longer than tombstones stay: deletes made meanwhile may be missed; raise delete.retention.ms")
	}
	if len(late) > 0 {
		f.stop(ctx, late, reasonTombstones, detail)
	}
	if len(out) == 0 {
		return
	}
	kept := b.changes[:0]
	for _, c := range b.changes {
		if !out[c.Bucket] {
			kept = append(kept, c)
		}
	}
	clear(b.changes[len(kept):])
	b.changes = kept
}

// positions are what goes into the store with b: those of the buckets it touches, or all of them.
func (f *feed) positions(dst []dimstore.Position, b *batch) []dimstore.Position {
	f.d.state.mu.Lock()
	defer f.d.state.mu.Unlock()
	for i := range f.track.buckets {
		t := &f.track.buckets[i]
		next := int64(-1)
		if i < len(b.next) {
			next = b.next[i]
		}
		if !t.live() || next < 0 && !b.proofs {
			continue
		}
		dst = append(dst, dimstore.Position{Bucket: t.id, TopicID: t.topicID, Next: max(next, t.applied), ProvedAt: t.provedAt})
	}
	return dst
}

// applied takes in what an Apply did.
func (f *feed) applied(b *batch, a dimstore.Applied) {
	s := &f.d.state
	s.mu.Lock()
	defer s.mu.Unlock()
	s.upserts += int64(a.Upserts)
	s.deletes += int64(a.Deletes)
	s.stale += int64(a.Stale)
	s.expired += int64(b.expired)
	f.track.rows += int64(len(b.changes))
	now := time.Now()
	for i, next := range b.next {
		if next >= 0 {
			f.track.advance(i, next, now)
		}
	}
	f.arrive()
	f.d.reached()
	s.wake()
}

// settle notices when every bucket is applied up to the end seen at start. A generation that is loaded beside another is published by others.
func (f *feed) settle(ctx context.Context) error {
	s := &f.d.state
	s.mu.Lock()
	done := !f.settled && f.track.warm()
	if done && f.beside != nil {
		f.settled = true
		s.wake()
	}
	s.mu.Unlock()
	if !done || f.beside != nil {
		return nil
	}
	if !f.d.o.Sink.Complete() {
		if err := f.write(ctx, f.d.o.Sink.MarkComplete); err != nil {
			return fmt.Errorf("mark the first load as complete: %w", err)
		}
	}
	s.mu.Lock()
	f.settled = true
	first := f.d.becomeWarm()
	p, records, took := f.track.progress(time.Now()), f.track.records, time.Since(f.track.began)
	s.wake()
	s.mu.Unlock()
	f.log.InfoContext(ctx, "the dimension is warm", "rows", f.d.o.Sink.Rows(), "records_read", records, "bytes_read", p.Bytes,
		"rows_per_second", int64(p.RowsPerSecond), "took", took)
	if first {
		close(f.d.warm)
	}
	return nil
}

// becomeWarm reports whether it was not; the caller then closes the channel. For the holder of the state.
func (d *Dimension) becomeWarm() bool {
	first := !d.state.warm
	d.state.warm = true
	return first
}

// write makes one write as the only writer, and repeats it until there is space. Nothing is skipped: the rows that are there stay, and everything
// behind waits.
func (f *feed) write(ctx context.Context, write func() error) error {
	wait := pauseFirst
	for {
		if err := f.freeze(ctx); err != nil {
			return err
		}
		err := write()
		f.release()
		if !errors.Is(err, dimstore.ErrNoSpace) {
			if f.resumeSpace() {
				f.log.InfoContext(ctx, "there is space again, changes are applied")
			}
			return err
		}
		if f.pause(spaceReason(err), err) {
			f.log.ErrorContext(ctx, "changes are not applied until there is space", "error", err)
		}
		if !sleep(ctx, wait) {
			return ctx.Err()
		}
		wait = min(2*wait, pauseMost)
	}
}

// dropLeaving lets the partitions of topics that left leave, in sync mode at the next refresh.
func (f *feed) dropLeaving(ctx context.Context) error {
	for {
		f.d.state.mu.Lock()
		var next *drop
		if len(f.leaving) > 0 {
			next = &f.leaving[0]
		}
		f.d.state.mu.Unlock()
		if next == nil {
			return nil
		}
		if err := f.admission(ctx); err != nil {
			return err
		}
		if err := f.drop(ctx, *next); err != nil {
			return err
		}
		f.log.InfoContext(ctx, "a topic left with its rows", "topic", next.topic)
		f.d.state.mu.Lock()
		f.leaving = f.leaving[1:]
		f.d.reached()
		f.d.state.wake()
		f.d.state.mu.Unlock()
	}
}

// drop removes a partition, and then says so in the positions: a crash between the two repeats it.
func (f *feed) drop(ctx context.Context, d drop) error {
	positions := make([]dimstore.Position, 0, len(d.buckets))
	for _, b := range d.buckets {
		positions = append(positions, dimstore.Position{Bucket: b, Next: positionLeft})
	}
	err := f.write(ctx, func() error {
		if err := f.target.DropPartition(d.partition); err != nil {
			return err
		}
		_, err := f.target.Apply(nil, positions)
		return err
	})
	if err != nil {
		return fmt.Errorf("drop the partition of topic %q: %w", d.topic, err)
	}
	return nil
}

// expire drops the partitions that are older than the retention.
func (f *feed) expire(ctx context.Context) error {
	if f.d.retention == nil {
		return nil
	}
	return f.write(ctx, func() error {
		for _, p := range f.target.PartitionList() {
			if !f.d.retention.Expired(p) {
				continue
			}
			if err := f.target.DropPartition(p); err != nil {
				return fmt.Errorf("drop a partition that is older than the retention: %w", err)
			}
		}
		return nil
	})
}

// deadLetters writes the dead letters of a batch; it returns when all are acknowledged, or ctx ends.
func (f *feed) deadLetters(ctx context.Context, bad []badRecord) error {
	if len(bad) == 0 {
		return nil
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(deadLettersOnce)
	for _, b := range bad {
		g.Go(func() error { return f.deadLetter(gctx, b) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	if f.resume(pausedDeadLetter) {
		f.log.InfoContext(ctx, "dead letters are written again")
	}
	return nil
}

func (f *feed) deadLetter(ctx context.Context, b badRecord) error {
	wait := pauseFirst
	for {
		err := f.d.o.DeadLetter(ctx, b.rec, b.err.class, b.err.message)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		err = fmt.Errorf("write the dead letter of %s, offset %d: %w", f.d.route.bucket(b.rec.Topic, b.rec.Partition), b.rec.Offset, err)
		if f.pause(pausedDeadLetter, err) {
			f.log.ErrorContext(ctx, "changes are not applied until dead letters can be written", "error", err)
		}
		if !sleep(ctx, wait) {
			return ctx.Err()
		}
		wait = min(2*wait, pauseMost)
	}
}
