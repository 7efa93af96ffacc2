package changelog

import (
	"context"
	"errors"
	"time"

	"enricher/dimstore"
)

// Sources of errors that last (feed.failures).
const (
	sourceFetch  = "fetch"  // the client's fetches
	sourceTopics = "topics" // what topics there are
	sourceEnds   = "ends"   // their ends
	sourceProbe  = "probe"
)

const (
	logProgress   = 5 * time.Second
	certainBefore = 500 * time.Millisecond // what has consequences is looked at twice: brokers learn of a topic at different times
	fetchesAgain  = 3 * lookBackoffMax     // fetches that fail do so again by then
	provesApart   = 100 * time.Millisecond // between proofs that facts ask for
)

// watcher looks at the cluster beside the reading: topics, buckets, ends, and what the client does not show.
type watcher struct {
	f       *feed
	meta    map[string]topicMeta // leaders, as last seen
	roster  roster
	probing []probing // by bucket
	probes  chan<- found
	probed  map[int]bool // buckets whose last probe failed
	endsAt  time.Time    // when ends were asked for last
}

// watch runs until ctx ends. Nothing that it meets is an error: it is shown, and asked again.
func (f *feed) watch(ctx context.Context, probes chan<- found) error {
	w := &watcher{f: f, probes: probes, probed: map[int]bool{}}
	f.d.state.mu.Lock()
	for name := range f.topics {
		w.roster.know(name)
	}
	f.d.state.mu.Unlock()

	ends := time.NewTicker(f.d.endsEvery())
	defer ends.Stop()
	topics := time.NewTicker(f.d.o.DiscoveryInterval)
	defer topics.Stop()
	progress := time.NewTicker(logProgress)
	defer progress.Stop()
	stuck := time.NewTimer(probeFirst)
	defer stuck.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-progress.C:
			f.logProgress(ctx)
		case <-f.haste:
			stuck.Reset(probeFirst)
		case <-stuck.C:
			w.probeStuck(ctx)
			stuck.Reset(f.pace())
		case <-ends.C:
			w.checkEnds(ctx)
		case <-topics.C:
			w.discover(ctx)
		case <-f.prove:
			if !sleep(ctx, provesApart-time.Since(w.endsAt)) {
				return ctx.Err()
			}
			w.checkEnds(ctx)
		case <-f.kick:
			if !sleep(ctx, certainBefore) { // not more often than that
				return ctx.Err()
			}
			w.discover(ctx)
			w.checkEnds(ctx)
		}
	}
}

// pace is how often buckets that stand are looked for: often while somebody waits for them.
func (f *feed) pace() time.Duration {
	s := &f.d.state
	s.mu.Lock()
	defer s.mu.Unlock()
	if !f.settled || s.refresh.running {
		return probeFirst
	}
	return time.Second
}

// endsEvery is how often the ends are looked at beside the refreshes of mode sync.
func (d *Dimension) endsEvery() time.Duration {
	if d.o.Refresh.Mode == Sync {
		return d.o.CheckInterval
	}
	return d.o.Refresh.Interval
}

func (f *feed) logProgress(ctx context.Context) {
	f.d.state.mu.Lock()
	settled, p := f.settled, f.track.progress(time.Now())
	f.d.state.mu.Unlock()
	if settled {
		return
	}
	f.log.InfoContext(ctx, "warming up", "rows", p.Rows, "bytes", p.Bytes, "percent", int(100*p.Ratio),
		"rows_per_second", int64(p.RowsPerSecond), "seconds_left", int64(p.SecondsLeft))
}

// outcome shows the errors of a look, or that they are over.
func (w *watcher) outcome(ctx context.Context, source string, problems []error) {
	switch err := errors.Join(problems...); {
	case ctx.Err() != nil:
	case err != nil:
		w.f.fail(ctx, source, err)
	default:
		w.f.succeed(source)
	}
}

// checkEnds takes in the ends: the lag, and the proof for the buckets that are at theirs. In mode async this is the refresh.
func (w *watcher) checkEnds(ctx context.Context) {
	f := w.f
	s := &f.d.state
	s.mu.Lock()
	places, ids := f.reading()
	s.mu.Unlock()
	w.endsAt = time.Now()
	problems := w.takeEnds(ctx, places, ids)
	if ctx.Err() != nil {
		return
	}
	w.outcome(ctx, sourceEnds, problems)
	s.mu.Lock()
	if len(problems) == 0 && time.Since(f.fetchAt) > fetchesAgain {
		delete(f.failures, sourceFetch) // where nothing is written, no fetch says that it is over
	}
	if f.d.o.Refresh.Mode != Sync && s.current == f && s.warm {
		if len(problems) == 0 {
			s.refresh.ok++
		} else {
			s.refresh.failed++
		}
	}
	s.wake()
	s.mu.Unlock()
	w.describeHolders(ctx)
}

func (w *watcher) takeEnds(ctx context.Context, places []int, ids []dimstore.BucketID) (problems []error) {
	f := w.f
	at := w.endsAt
	all, err := listEnds(ctx, f.cl, ids, false)
	if err != nil {
		return []error{err}
	}
	s := &f.d.state
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, e := range all {
		if e.err != nil {
			problems = append(problems, e.err)
			continue
		}
		if b := &f.track.buckets[places[i]]; b.live() && b.applied > e.high {
			signal(f.kick) // another log, or one that lost its end
		}
		f.track.observe(places[i], e.stable, e.high, at)
	}
	return problems
}

// reading are the buckets that are read. For the holder of the state.
func (f *feed) reading() (places []int, ids []dimstore.BucketID) {
	for i := range f.track.buckets {
		b := &f.track.buckets[i]
		if t := f.topics[b.id.Topic]; b.live() && t != nil && !t.missing {
			places, ids = append(places, i), append(ids, b.id)
		}
	}
	return places, ids
}

// probeStuck probes the buckets that stand short of their ends.
func (w *watcher) probeStuck(ctx context.Context) {
	now := time.Now()
	s := &w.f.d.state
	s.mu.Lock()
	var due []int
	var places []int
	if w.f.open() { // else what was fetched is held back, and nothing but a refresh moves on
		places, _ = w.f.reading()
	}
	for _, i := range places {
		b := &w.f.track.buckets[i]
		for len(w.probing) <= i {
			w.probing = append(w.probing, probing{})
		}
		if b.read >= b.end {
			delete(w.probed, i)
		} else if w.probing[i].ready(b.read, now) {
			due = append(due, i)
		}
	}
	s.mu.Unlock()
	for _, i := range due {
		w.probeOne(ctx, i)
	}
	if len(w.probed) == 0 {
		w.f.succeed(sourceProbe)
	}
}

func (w *watcher) probeOne(ctx context.Context, i int) {
	s := &w.f.d.state
	s.mu.Lock()
	b := w.f.track.buckets[i]
	s.mu.Unlock()
	if w.meta == nil || w.meta[b.id.Topic].err != nil || len(w.meta[b.id.Topic].leaders) == 0 {
		w.discover(ctx)
	}
	f, err := w.f.probe(ctx, w.meta[b.id.Topic], i, b.id, b.read)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		w.probed[i] = true
		w.meta = nil // the leader may be another one
		w.f.fail(ctx, sourceProbe, err)
		return
	}
	delete(w.probed, i)
	if f.to == f.from && !f.outOfRange {
		return
	}
	timer := time.NewTimer(probeFirst)
	defer timer.Stop()
	select {
	case w.probes <- f:
	case <-ctx.Done():
	case <-timer.C: // the reader waits for the store; it is probed again
	}
}
