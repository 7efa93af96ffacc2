package changelog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"enricher/dimstore"
)

// The modes of a refresh (Refresh.Mode).
const (
	Async = "async" // changes are applied as they come
	Sync  = "sync"  // changes are applied at a refresh
)

// Refresh is when changes become visible.
type Refresh struct {
	Mode string // async (as is the empty string) | sync
	// Interval is, in mode sync, how old the start of the last refresh may be when facts are looked up; 0: every batch of facts has its own. In
	// mode async, how often each bucket is proved to be read to its end; 0 means CheckInterval.
	Interval time.Duration
	// MaxPending is how many changes may be outstanding before facts wait, in mode async; 0: any number.
	MaxPending int
}

const (
	idleRefresh   = 10 * time.Second // between refreshes without facts when the interval is 0
	refreshStalls = 10 * time.Second // a refresh that does not move for so long has failed
)

// refreshes is the state of the refreshes in mode sync.
type refreshes struct {
	begun   uint64    // number of the last that began
	done    uint64    // number of the last that succeeded
	begunAt time.Time // when the last began
	doneOf  time.Time // when the last that succeeded had begun
	running bool      // changes are applied
	feed    *feed     // by this one
	targets []target64
	ok      int64
	failed  int64
	failure string // of the last, empty when it succeeded
}

// target64 is the end up to which a refresh brings one bucket.
type target64 struct {
	place int
	end   int64
}

// errSuperseded: the generation changed under a refresh.
var errSuperseded = errors.New("another generation answers")

// Refresh is called by whoever looks facts up, before each batch of them, by many at once. It returns nil when they may be looked up now:
//
//   - mode sync: the rows are those of a refresh that began less than Refresh.Interval before the call (with 0: after the call), so they hold
//     everything that was committed in the buckets that are known before it began. It ends whatever is written meanwhile;
//   - mode async: not more than Refresh.MaxPending changes are outstanding;
//   - the dimension is not staler than Options.MaxStaleness, or Options.OnStale lets facts go on all the same.
//
// Until then it waits; what it waits for is in Status and Ready. New buckets and topics, and buckets that wait for a new generation, are not
// waited for, nor are changes for which the store has no space: facts go on with the rows there are. Errors: ErrStale with `on_stale: fail`, that of ctx.
func (d *Dimension) Refresh(ctx context.Context) error {
	s := &d.state
	arrived := time.Now()
	s.mu.Lock()
	number := s.refresh.begun
	for {
		st := d.standing(number, arrived, time.Now())
		v, after := st.decide()
		if v == pass {
			s.mu.Unlock()
			return nil
		}
		if v == fail {
			reasons := strings.Join(s.lasting(), "; ")
			s.mu.Unlock()
			return fmt.Errorf("dimension %s was last known to be up to date %s ago, max_staleness is %s (%s): %w",
				d.o.Name, st.freshness.Round(time.Millisecond), st.maxStaleness, reasons, ErrStale)
		}
		changed, current := s.wait(), s.current
		s.mu.Unlock()
		if d.o.Refresh.Mode == Sync {
			signal(d.ask)
		} else if st.maxStaleness > 0 && st.freshness > st.maxStaleness {
			signal(current.prove)
		}
		if !waitFor(ctx, changed, after) {
			return ctx.Err()
		}
		s.mu.Lock()
	}
}

// waitFor waits for a channel, or some time (0: for ever); false when ctx ended.
func waitFor(ctx context.Context, changed <-chan struct{}, after time.Duration) bool {
	var timeout <-chan time.Time
	if after > 0 {
		timer := time.NewTimer(after)
		defer timer.Stop()
		timeout = timer.C
	}
	select {
	case <-ctx.Done():
		return false
	case <-changed:
	case <-timeout:
	}
	return true
}

// standing is that of facts that arrived when the number-th refresh had begun. For the holder of the state.
func (d *Dimension) standing(number uint64, arrived, now time.Time) standing {
	s := &d.state
	st := standing{
		warm: s.warm && s.current != nil && s.current.track != nil, refreshed: true, maxStaleness: d.o.MaxStaleness, onStale: d.o.OnStale,
	}
	if !st.warm {
		return st
	}
	st.freshness, _ = s.freshness(now)
	if s.current.full() { // nobody knows for how long
		return st
	}
	switch {
	case d.o.Refresh.Mode != Sync:
		st.maxPending = int64(d.o.Refresh.MaxPending)
		st.outstanding = s.current.track.outstanding()
	case d.o.Refresh.Interval == 0:
		st.refreshed = s.refresh.done > number
	default:
		st.refreshed = s.refresh.done > 0 && arrived.Sub(s.refresh.doneOf) < d.o.Refresh.Interval
	}
	return st
}

// refreshes makes the refreshes of mode sync: those that are asked for, and without facts one every interval.
func (d *Dimension) refreshes(ctx context.Context) error {
	select {
	case <-d.warm:
	case <-ctx.Done():
		return ctx.Err()
	}
	every := d.o.Refresh.Interval
	if every == 0 {
		every = idleRefresh
	}
	for {
		if err := d.refreshUntilDone(ctx); err != nil {
			return err
		}
		for due := false; !due; {
			d.state.mu.Lock()
			left := every - time.Since(d.state.refresh.begunAt)
			d.state.mu.Unlock()
			if left <= 0 {
				break
			}
			timer := time.NewTimer(left)
			select {
			case <-ctx.Done():
				timer.Stop()
				return ctx.Err()
			case <-timer.C:
				due = true
			case <-d.ask:
				timer.Stop()
				due = d.o.Refresh.Interval == 0 // else it was asked for before the last one was done
			}
		}
	}
}

// refreshUntilDone repeats a refresh until it succeeds. It goes on at the positions that the one before has reached.
func (d *Dimension) refreshUntilDone(ctx context.Context) error {
	wait := lookBackoff
	for {
		err := d.refreshOnce(ctx)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, errSuperseded):
			continue
		}
		d.refreshFailed(ctx, err)
		if !sleep(ctx, wait) {
			return ctx.Err()
		}
		wait = min(2*wait, lookBackoffMax)
	}
}

func (d *Dimension) refreshFailed(ctx context.Context, err error) {
	s := &d.state
	s.mu.Lock()
	s.refresh.running, s.refresh.targets = false, nil
	s.refresh.failed++
	news := s.refresh.failure == ""
	s.refresh.failure = err.Error()
	s.lastError, s.lastAt = "refresh: "+err.Error(), time.Now()
	current := s.current
	s.mu.Unlock()
	signal(current.kick)
	if news {
		d.log.WarnContext(ctx, "a refresh failed and is repeated", "error", err)
	}
}

// refreshOnce brings the dimension to the ends of the moment at which it begins.
func (d *Dimension) refreshOnce(ctx context.Context) error {
	s := &d.state
	s.mu.Lock()
	f := s.current
	s.refresh.begun++
	s.refresh.begunAt = time.Now()
	begunAt := s.refresh.begunAt
	places, ids := f.followed()
	s.mu.Unlock()

	ends, err := listStable(ctx, f.cl, ids)
	if err != nil {
		return err
	}
	for i := range ends {
		if ends[i].err != nil {
			return ends[i].err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current != f {
		return errSuperseded
	}
	s.refresh.running, s.refresh.feed = true, f
	s.refresh.targets = s.refresh.targets[:0]
	for i, end := range ends {
		b := &f.track.buckets[places[i]]
		if end.at < b.applied && end.at < b.high {
			signal(f.kick) // another log, or one that lost its end
		}
		f.track.observe(places[i], end.at, max(end.at, b.high), begunAt)
		s.refresh.targets = append(s.refresh.targets, target64{place: places[i], end: end.at})
	}
	d.reached()
	if s.refresh.running {
		signal(f.haste)
	}
	s.wake()
	return d.awaitRefresh(ctx, f)
}

// followed are the buckets that facts are kept up with: those that can be read on and were read to the end seen at their discovery. For the holder
// of the state.
func (f *feed) followed() (places []int, ids []dimstore.BucketID) {
	for _, t := range f.topics {
		if t.missing {
			continue
		}
		for _, i := range t.buckets {
			if b := &f.track.buckets[i]; b.live() && b.reached() {
				places, ids = append(places, i), append(ids, b.id)
			}
		}
	}
	return places, ids
}

// awaitRefresh waits until the running refresh is done, holding the state between.
func (d *Dimension) awaitRefresh(ctx context.Context, f *feed) error {
	s := &d.state
	moved, at := f.appliedSum(), time.Now()
	for {
		d.reached()
		if !s.refresh.running {
			return nil
		}
		if s.current != f {
			s.refresh.running, s.refresh.targets = false, nil
			return errSuperseded
		}
		if now := f.appliedSum(); now != moved {
			moved, at = now, time.Now()
		}
		left := refreshStalls - time.Since(at)
		if left <= 0 {
			return d.stalled(f)
		}
		changed := s.wait()
		s.mu.Unlock()
		ok := waitFor(ctx, changed, left)
		s.mu.Lock()
		if !ok {
			return ctx.Err()
		}
	}
}

func (d *Dimension) stalled(f *feed) error {
	var behind int64
	for _, t := range d.state.refresh.targets {
		behind += max(0, t.end-f.track.buckets[t.place].applied)
	}
	reasons := d.state.lasting()
	for reason, err := range d.state.paused() {
		reasons = append(reasons, reason+": "+err)
	}
	if len(reasons) == 0 {
		reasons = []string{"no error known"}
	}
	return fmt.Errorf("%d changes are still to be read, and none came for %s: %s", behind, refreshStalls, strings.Join(reasons, "; "))
}

func (f *feed) appliedSum() int64 {
	var n int64
	for i := range f.track.buckets {
		n += f.track.buckets[i].applied
	}
	return n
}

// reached ends the running refresh when its buckets are where it brings them. For the holder of the state.
func (d *Dimension) reached() {
	r := &d.state.refresh
	if !r.running || d.state.current != r.feed || len(r.feed.leaving) > 0 {
		return
	}
	for _, t := range r.targets {
		b := &r.feed.track.buckets[t.place]
		if topic := r.feed.topics[b.id.Topic]; b.live() && b.applied < t.end && topic != nil && !topic.missing {
			return
		}
	}
	r.running, r.targets = false, nil
	r.done, r.doneOf = r.begun, r.begunAt
	r.ok++
	r.failure = ""
	d.state.wake()
}

// admission waits until changes may become visible: in mode sync only at a refresh, or while new buckets are read to the end seen at their
// discovery, for which no fact waits.
func (f *feed) admission(ctx context.Context) error {
	if f.d.o.Refresh.Mode != Sync {
		return nil
	}
	for {
		s := &f.d.state
		s.mu.Lock()
		open, changed := f.open(), s.wait()
		s.mu.Unlock()
		if open {
			return nil
		}
		if !waitFor(ctx, changed, 0) {
			return ctx.Err()
		}
	}
}

// open reports whether changes may be applied. For the holder of the state.
func (f *feed) open() bool {
	s := &f.d.state
	if f.d.o.Refresh.Mode != Sync || !s.warm || s.current != f || s.refresh.running || !f.settled {
		return true
	}
	for i := range f.track.buckets {
		if b := &f.track.buckets[i]; b.live() && !b.reached() {
			return true
		}
	}
	return false
}
