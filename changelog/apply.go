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
	deadLettersOnce = 32 // dead letters under way at the same time
)

// apply writes batches to the store, each after its dead letters are acknowledged, and notices when the dimension is warm.
func (d *Dimension) apply(ctx context.Context, full <-chan *batch, free chan<- *batch) error {
	var positions []dimstore.Position
	for {
		if err := d.settle(ctx); err != nil {
			return err
		}
		var b *batch
		select {
		case b = <-full:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := d.admit(ctx, b); err != nil {
			return err
		}
		if err := d.deadLetters(ctx, b.bad); err != nil {
			return err
		}
		positions = d.state.positions(positions[:0], d.o.Topic, b)
		applied, err := d.applyPatiently(ctx, b.changes, positions)
		if err != nil {
			return fmt.Errorf("store %d changes: %w", len(b.changes), err)
		}
		d.state.applied(b, applied)
		b.reset()
		free <- b // has room for both batches
	}
}

// admit keeps out what was read too late; a first load has to come to an end and only says so.
func (d *Dimension) admit(ctx context.Context, b *batch) error {
	slow, err := d.state.admit(b, time.Now())
	if slow {
		d.log.WarnContext(ctx, "the first load takes longer than tombstones stay: deletes made meanwhile may be missed; raise delete.retention.ms",
			"topic", d.o.Topic)
	}
	return err
}

// settle notices when every bucket is applied up to the end seen at start.
func (d *Dimension) settle(ctx context.Context) error {
	d.state.mu.Lock()
	done := !d.state.warm && d.state.track.warm()
	d.state.mu.Unlock()
	if !done {
		return nil
	}
	if !d.o.Sink.Complete() {
		err := d.patiently(ctx, d.o.Sink.MarkComplete)
		if err != nil {
			return fmt.Errorf("mark the first load as complete: %w", err)
		}
	}
	now := time.Now()
	d.state.mu.Lock()
	d.state.warm = true
	p := d.state.track.progress(now)
	records, took := d.state.track.records, now.Sub(d.state.track.began)
	d.state.mu.Unlock()
	d.log.InfoContext(ctx, "the dimension is warm", "rows", d.o.Sink.Rows(), "records_read", records, "bytes_read", p.Bytes,
		"rows_per_second", int64(p.RowsPerSecond), "took", took)
	close(d.warm)
	return nil
}

// applyPatiently is Apply that waits for space.
func (d *Dimension) applyPatiently(ctx context.Context, changes []dimstore.Change, positions []dimstore.Position) (dimstore.Applied, error) {
	var applied dimstore.Applied
	err := d.patiently(ctx, func() error {
		var err error
		applied, err = d.o.Sink.Apply(changes, positions)
		return err
	})
	return applied, err
}

// patiently repeats a write until there is space for it. Nothing is skipped: the rows that are there stay, and everything behind waits.
func (d *Dimension) patiently(ctx context.Context, write func() error) error {
	wait := pauseFirst
	for {
		err := write()
		if !errors.Is(err, dimstore.ErrNoSpace) {
			if d.state.resume(pausedDisk) {
				d.log.InfoContext(ctx, "there is space again, changes are applied")
			}
			return err
		}
		if d.state.pause(pausedDisk, err) {
			d.log.ErrorContext(ctx, "changes are not applied until there is space", "error", err)
		}
		if !sleep(ctx, wait) {
			return ctx.Err()
		}
		wait = min(2*wait, pauseMost)
	}
}

// deadLetters writes the dead letters of a batch; it returns when all are acknowledged, or ctx ends.
func (d *Dimension) deadLetters(ctx context.Context, bad []badRecord) error {
	if len(bad) == 0 {
		return nil
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(deadLettersOnce)
	for _, b := range bad {
		g.Go(func() error { return d.deadLetter(gctx, b) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	if d.state.resume(pausedDeadLetter) {
		d.log.InfoContext(ctx, "dead letters are written again")
	}
	return nil
}

func (d *Dimension) deadLetter(ctx context.Context, b badRecord) error {
	wait := pauseFirst
	for {
		err := d.o.DeadLetter(ctx, b.rec, b.err.class, b.err.message)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		err = fmt.Errorf("write the dead letter of bucket %d, offset %d: %w", b.rec.Partition, b.rec.Offset, err)
		if d.state.pause(pausedDeadLetter, err) {
			d.log.ErrorContext(ctx, "changes are not applied until dead letters can be written", "error", err)
		}
		if !sleep(ctx, wait) {
			return ctx.Err()
		}
		wait = min(2*wait, pauseMost)
	}
}
