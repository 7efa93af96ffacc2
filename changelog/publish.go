package changelog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"enricher/dimstore"
)

// publish makes the generation that r has loaded the one that answers. A reason says that it can't be.
//
// Nothing may go back in time: what the old generation has applied, of buckets that both read, the new one has to have as well. So the old one is
// held still meanwhile; not while there is no space, though.
func (d *Dimension) publish(ctx context.Context, old *feed, r *runner) (reason, detail string, err error) {
	wait := pauseFirst
	for {
		reason, detail, err = d.publishOnce(ctx, old, r)
		if !errors.Is(err, dimstore.ErrNoSpace) {
			if r.resumeSpace() {
				r.log.InfoContext(ctx, "there is space again")
			}
			return reason, detail, err
		}
		if r.pause(spaceReason(err), err) {
			r.log.ErrorContext(ctx, "the new generation is not published until there is space", "error", err)
		}
		if !sleep(ctx, wait) {
			return "", "", ctx.Err()
		}
		wait = min(2*wait, pauseMost)
	}
}

func (d *Dimension) publishOnce(ctx context.Context, old *feed, r *runner) (reason, detail string, err error) {
	if old != nil {
		if err := old.freeze(ctx); err != nil {
			return "", "", err
		}
		defer old.release()
		if reason, detail, err = d.catchUp(ctx, old, r); err != nil || reason != "" {
			return reason, detail, err
		}
	}
	if err := r.freeze(ctx); err != nil {
		return "", "", err
	}
	defer r.release()
	d.closing(r.feed, true)
	if err := r.beside.Publish(); err != nil {
		d.closing(r.feed, false)
		return "", "", fmt.Errorf("publish a generation: %w", err)
	}
	r.target = d.o.Sink
	d.state.mu.Lock()
	r.closing, r.reason = false, ""
	d.state.current, d.state.next = r.feed, nil
	d.rehide()
	first := d.becomeWarm()
	d.state.wake()
	d.state.mu.Unlock()
	d.log.InfoContext(ctx, "the new generation answers", "rows", d.o.Sink.Rows())
	if first {
		close(d.warm)
	}
	d.share(r.cl, r.leaders, 1)
	return "", "", nil
}

// closing says that views of the old generation and of the new one are opened from now on.
func (d *Dimension) closing(f *feed, is bool) {
	d.state.mu.Lock()
	defer d.state.mu.Unlock()
	f.closing = is
	d.rehide()
}

// catchUp waits until the new generation holds what the old one holds of the buckets that are still read.
func (d *Dimension) catchUp(ctx context.Context, old *feed, r *runner) (reason, detail string, err error) {
	for {
		d.state.mu.Lock()
		behind := old.ahead(r.feed)
		broken, detail, changed := r.broken, r.detail, d.state.wait()
		d.state.mu.Unlock()
		switch {
		case broken != "":
			return broken, detail, nil
		case !behind:
			return "", "", nil
		}
		signal(r.kick) // for buckets that it does not know yet
		select {
		case <-ctx.Done():
			return "", "", ctx.Err()
		case err := <-r.ended:
			return "", "", err
		case <-changed:
		case <-time.After(time.Second):
		}
	}
}

// ahead reports whether f has applied more than next of a bucket that is still read. For the holder of the state.
func (f *feed) ahead(next *feed) bool {
	for i := range f.track.buckets {
		b := &f.track.buckets[i]
		if !b.live() {
			continue
		}
		at := next.place(b.id)
		if at < 0 || next.track.buckets[at].topicID == b.topicID && next.track.buckets[at].applied < b.applied {
			return true
		}
	}
	return false
}

// place is that of a bucket that is read in the tracker, -1 when it is not. For the holder of the state.
func (f *feed) place(id dimstore.BucketID) int {
	t := f.topics[id.Topic]
	if t == nil || int(id.Partition) >= len(t.buckets) {
		return -1
	}
	return t.buckets[id.Partition]
}
