package changelog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"enricher/dimstore"
)

const (
	againFirst = time.Second // after a generation that could not be finished
	againMost  = time.Minute
)

// runner is a feed that runs.
type runner struct {
	*feed

	end func() error
}

// generations keeps a feed on the generation that answers, and loads a new one beside it when that one can't be gone on with.
func (d *Dimension) generations(ctx context.Context) error {
	type outcome struct {
		feed *runner
		err  error
	}
	replaced := make(chan outcome, 1)
	current, err := d.first(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	replacing := false
	defer func() {
		cancel()
		if replacing {
			if r := <-replaced; r.feed != nil {
				_ = r.feed.end() // the error that ends Run is another one
			}
		}
		_ = current.end()
	}()
	for {
		broken, detail, changed := d.brokenOf(current.feed)
		if broken != "" && !replacing {
			replacing = true
			old := current
			go func() {
				f, err := d.replace(ctx, old.feed, broken, detail)
				replaced <- outcome{f, err}
			}()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-current.ended:
			return err
		case r := <-replaced:
			replacing = false
			if r.err != nil {
				return r.err
			}
			_ = current.end() // nothing that it still holds matters: the new one has it
			current = r.feed
		case <-changed:
		}
	}
}

// brokenOf is why a feed can't be gone on with, and a channel that is closed when that may have changed.
func (d *Dimension) brokenOf(f *feed) (reason, detail string, changed <-chan struct{}) {
	d.state.mu.Lock()
	defer d.state.mu.Unlock()
	return f.broken, f.detail, d.state.wait()
}

// first brings the first generation to be warm and returns the feed that goes on with it.
func (d *Dimension) first(ctx context.Context) (*runner, error) {
	if why := d.o.Sink.Discarded(); why != "" {
		d.log.WarnContext(ctx, "what the store held was dropped, the dimension is loaded anew", "reason", why)
		d.state.rebuilt(why)
	}
	wait := againFirst
	for {
		r, beside, err := d.open(ctx)
		if err != nil {
			return nil, err
		}
		if beside.reason != "" {
			return d.replace(ctx, nil, beside.reason, beside.detail)
		}
		reason, detail, err := d.untilSettled(ctx, r)
		if err != nil {
			return nil, errors.Join(err, ignoreEnd(r.end()))
		}
		if reason == "" {
			return r, nil
		}
		if d.o.Sink.Complete() { // rows that were complete before are kept until there are new ones
			_ = r.end()
			return d.replace(ctx, nil, reason, detail)
		}
		_ = r.end()
		if err := d.reset(ctx, r.feed, reason, detail); err != nil {
			return nil, err
		}
		if !sleep(ctx, wait) {
			return nil, ctx.Err()
		}
		wait = min(2*wait, againMost)
	}
}

// ignoreEnd drops what says only that it was ended.
func ignoreEnd(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// reset drops what the store holds.
func (d *Dimension) reset(ctx context.Context, f *feed, reason, detail string) error {
	d.log.WarnContext(ctx, "the dimension is loaded anew", "reason", reason, "detail", detail)
	d.state.rebuilt(reason)
	if err := f.write(ctx, func() error { return d.o.Sink.Reset(reason) }); err != nil {
		return fmt.Errorf("drop the rows: %w", err)
	}
	return nil
}

// open starts a feed on what the store holds, or says why that has to be loaded anew beside it.
func (d *Dimension) open(ctx context.Context) (r *runner, beside plan, err error) {
	cl, err := d.openClient()
	if err != nil {
		return nil, plan{}, err
	}
	f := d.newFeed(cl)
	d.show(f, nil)
	log, err := d.discover(ctx, f, d.o.Sink.Positions())
	if err != nil {
		cl.Close()
		return nil, plan{}, err
	}
	p, err := d.prepare(ctx, f, log)
	if err != nil || p.beside {
		cl.Close()
		return nil, p, err
	}
	f.leaders = log.leaders
	d.share(cl, f.leaders, 1)
	return &runner{f, f.start(ctx)}, plan{}, nil
}

// show makes feeds visible to people.
func (d *Dimension) show(current, next *feed) {
	d.state.mu.Lock()
	defer d.state.mu.Unlock()
	d.state.current, d.state.next = current, next
	d.rehide()
	d.state.wake()
}

// prepare decides what to do with what the store holds, and makes it so: after it the store holds a position of every bucket.
func (d *Dimension) prepare(ctx context.Context, f *feed, log logView) (plan, error) {
	d.known(ctx, log.topics)
	p := makePlan(d.route, log, d.o.Sink.Positions(), d.o.Sink.Complete(), time.Now())
	if p.beside {
		return p, nil
	}
	if p.reason != "" {
		if err := d.reset(ctx, f, p.reason, p.detail); err != nil {
			return plan{}, err
		}
	}
	for _, drop := range p.drops {
		if err := f.drop(ctx, drop); err != nil {
			return plan{}, err
		}
	}
	f.begin(p, log.askedAt, d.o.Sink.Complete())
	if err := f.storeFirst(ctx, p.buckets); err != nil {
		return plan{}, err
	}
	d.log.InfoContext(ctx, "reading the dimension", "topic", d.route.name(), "topics", len(log.topics), "buckets", len(p.buckets),
		"read_already", f.ratio(), "rows", d.o.Sink.Rows())
	return p, nil
}

// storeFirst stores where buckets begin.
func (f *feed) storeFirst(ctx context.Context, buckets []planBucket) error {
	var positions []dimstore.Position
	for _, b := range buckets {
		if b.fresh {
			positions = append(positions, dimstore.Position{Bucket: b.id, TopicID: b.topicID, Next: b.next, ProvedAt: b.provedAt})
		}
	}
	if len(positions) == 0 {
		return nil
	}
	if err := f.write(ctx, func() error { _, err := f.target.Apply(nil, positions); return err }); err != nil {
		return fmt.Errorf("store the first positions: %w", err)
	}
	return nil
}

func (f *feed) ratio() float64 {
	f.d.state.mu.Lock()
	defer f.d.state.mu.Unlock()
	return f.track.ratio()
}

// untilSettled waits until the feed's warm-up is over; a reason says that it never will be.
func (d *Dimension) untilSettled(ctx context.Context, r *runner) (reason, detail string, err error) {
	for {
		d.state.mu.Lock()
		settled, broken, detail, changed := r.settled, r.broken, r.detail, d.state.wait()
		d.state.mu.Unlock()
		switch {
		case broken != "":
			return broken, detail, nil
		case settled:
			return "", "", nil
		}
		select {
		case <-ctx.Done():
			return "", "", ctx.Err()
		case err := <-r.ended:
			return "", "", err
		case <-changed:
		}
	}
}

// replace loads a new generation beside the old one, publishes it and returns its feed. old is nil when nothing is read into the old one.
func (d *Dimension) replace(ctx context.Context, old *feed, reason, detail string) (*runner, error) {
	wait := againFirst
	for {
		d.log.WarnContext(ctx, "the dimension is loaded anew beside the rows that are there", "reason", reason, "detail", detail)
		d.state.rebuilt(reason)
		r, err := d.load(ctx, old, reason)
		if err != nil {
			return nil, err
		}
		if r == nil { // dropped instead
			return d.first(ctx)
		}
		reason, detail, err = d.untilSettled(ctx, r)
		if err == nil && reason == "" {
			reason, detail, err = d.publish(ctx, old, r)
		}
		if err == nil && reason == "" {
			return r, nil
		}
		d.show(old, nil)
		if old != nil {
			d.share(old.cl, old.leaders, 1)
		}
		err = errors.Join(err, ignoreEnd(r.end()))
		if abandon := r.beside.Abandon(); abandon != nil {
			err = errors.Join(err, fmt.Errorf("abandon a generation: %w", abandon))
		}
		if err != nil {
			return nil, err
		}
		if !sleep(ctx, wait) {
			return nil, ctx.Err()
		}
		wait = min(2*wait, againMost)
	}
}

// load begins a generation and a feed into it. Without an old feed facts wait anyway, so where there is no room for both, the old rows are dropped:
// r is nil then.
func (d *Dimension) load(ctx context.Context, old *feed, reason string) (r *runner, err error) {
	cl, err := d.openClient()
	if err != nil {
		return nil, err
	}
	f := d.newFeed(cl)
	f.reason = reason
	defer func() {
		if r == nil {
			d.show(old, nil)
			cl.Close()
		}
	}()
	d.show(old, f)
	log, err := d.discover(ctx, f, nil)
	if err != nil {
		return nil, err
	}
	dropped := false
	begin := func() error {
		var err error
		f.beside, err = d.o.generation(reason)
		if errors.Is(err, dimstore.ErrNoSpace) && old == nil {
			dropped = true
			d.log.WarnContext(ctx, "there is no room for a new generation beside the old one, which is dropped", "error", err)
			return d.o.Sink.Reset(reason)
		}
		return err
	}
	if err := f.write(ctx, begin); err != nil {
		return nil, fmt.Errorf("begin a generation: %w", err)
	}
	if dropped {
		return nil, nil
	}
	f.target = f.beside
	d.known(ctx, log.topics)
	p := anew(log, time.Now(), reason, "")
	f.begin(p, log.askedAt, false)
	if err := f.storeFirst(ctx, p.buckets); err != nil {
		return nil, errors.Join(err, f.beside.Abandon())
	}
	f.leaders = log.leaders
	feeds := 1
	if old != nil {
		feeds = 2
		d.share(old.cl, old.leaders, feeds)
	}
	d.share(cl, f.leaders, feeds)
	return &runner{f, f.start(ctx)}, nil
}
