package changelog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Sources of errors that last (state.failures).
const (
	sourceFetch = "fetch" // the client's fetches
	sourceLook  = "look"  // topic, ends, probes
)

const (
	logProgress   = 5 * time.Second
	certainBefore = 500 * time.Millisecond // another topic id is looked at twice: brokers learn of a topic at different times
)

// watcher looks at the cluster beside the reading: ends, topic id, buckets, and what the client does not show.
type watcher struct {
	d       *Dimension
	cl      *kgo.Client
	meta    topicMeta // leaders; empty: to be asked for
	probing []probing
	probes  chan<- found
	probed  map[int]string // bucket → why its last probe failed
}

// watch runs until ctx ends or something has changed that needs a new start.
func (d *Dimension) watch(ctx context.Context, cl *kgo.Client, probes chan<- found) error {
	d.state.mu.Lock()
	n := len(d.state.track.buckets)
	d.state.mu.Unlock()
	w := &watcher{d: d, cl: cl, probing: make([]probing, n), probes: probes, probed: map[int]string{}}

	check := time.NewTicker(d.o.CheckInterval)
	defer check.Stop()
	progress := time.NewTicker(logProgress)
	defer progress.Stop()
	stuck := time.NewTicker(probeFirst)
	defer stuck.Stop()
	warm := d.warm
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-warm:
			warm = nil
			progress.Stop()
			stuck.Reset(max(probeFirst, min(time.Second, d.o.CheckInterval/4)))
		case <-progress.C:
			d.logProgress(ctx)
		case <-stuck.C:
			if err := w.probeStuck(ctx); err != nil {
				return err
			}
		case <-check.C:
			if err := w.check(ctx); err != nil {
				return err
			}
		case <-d.kick:
			if !sleep(ctx, certainBefore) { // not more often than that
				return ctx.Err()
			}
			if err := w.check(ctx); err != nil {
				return err
			}
		}
	}
}

// lookSoon asks for a check before its time.
func (d *Dimension) lookSoon() {
	select {
	case d.kick <- struct{}{}:
	default:
	}
}

// failed shows an error that is waited for, and logs it when it is news.
func (d *Dimension) failed(ctx context.Context, source string, err error) {
	if d.state.fail(source, err) {
		d.log.WarnContext(ctx, "the dimension can't be read at the moment", "error", err)
	}
}

func (d *Dimension) logProgress(ctx context.Context) {
	d.state.mu.Lock()
	p := d.state.track.progress(time.Now())
	d.state.mu.Unlock()
	d.log.InfoContext(ctx, "warming up", "rows", p.Rows, "bytes", p.Bytes, "percent", int(100*p.Ratio),
		"rows_per_second", int64(p.RowsPerSecond), "seconds_left", int64(p.SecondsLeft))
}

// check looks at the topic and its ends once. What does not answer is shown and asked again the next time.
func (w *watcher) check(ctx context.Context) error {
	err := w.checkTopic(ctx)
	switch {
	case err == nil:
		w.d.state.missing(false)
	case errors.Is(err, ErrRestart) || ctx.Err() != nil:
		return err
	default:
		w.d.state.missing(errors.Is(err, errMissing))
		w.d.failed(ctx, sourceLook, err)
		return nil
	}
	if err := w.checkEnds(ctx); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		w.d.failed(ctx, sourceLook, err)
		return nil
	}
	if len(w.probed) == 0 {
		w.d.state.succeed(sourceLook)
	}
	return nil
}

// checkTopic looks whether it is the topic that is read, with the buckets that are read.
func (w *watcher) checkTopic(ctx context.Context) error {
	mine, none := w.d.state.topicID, [16]byte{}
	for again := false; ; again = true {
		meta, err := w.metadata(ctx)
		if err != nil {
			return err
		}
		if meta.id != mine && meta.id != none && mine != none {
			if !again {
				if !sleep(ctx, certainBefore) {
					return ctx.Err()
				}
				continue
			}
			return fmt.Errorf("the topic was deleted and created again (id %x, was %x): %w", meta.id, mine, ErrRestart)
		}
		if n := len(w.probing); len(meta.leaders) > n {
			return fmt.Errorf("the topic got new Kafka partitions (%d, was %d), which are read from their beginning at a start: %w",
				len(meta.leaders), n, ErrRestart)
		} else if len(meta.leaders) < n {
			return fmt.Errorf("ask for metadata: the answer has %d Kafka partitions of %d", len(meta.leaders), n)
		}
		w.meta = meta
		return nil
	}
}

func (w *watcher) metadata(ctx context.Context) (topicMeta, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return metadata(ctx, w.cl, w.d.o.Topic)
}

// checkEnds takes in the ends: the lag, and the proof for the buckets that are at theirs.
func (w *watcher) checkEnds(ctx context.Context) error {
	at := time.Now()
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	all, err := listOffsets(ctx, w.cl, w.d.o.Topic, len(w.probing))
	if err != nil {
		return err
	}
	var problems []error
	w.d.state.mu.Lock()
	defer w.d.state.mu.Unlock()
	for i, o := range all {
		if o.err != nil {
			problems = append(problems, o.err)
			continue
		}
		w.d.state.track.observe(i, o.stable, o.high, at)
	}
	return errors.Join(problems...)
}

// probeStuck probes the buckets that stand short of their ends.
func (w *watcher) probeStuck(ctx context.Context) error {
	now := time.Now()
	for i := range w.probing {
		w.d.state.mu.Lock()
		b := w.d.state.track.buckets[i]
		w.d.state.mu.Unlock()
		if b.read >= b.end {
			delete(w.probed, i)
			continue
		}
		if !w.probing[i].ready(b.read, now) {
			continue
		}
		if err := w.probeOne(ctx, i, b.read); err != nil {
			return err
		}
	}
	return nil
}

func (w *watcher) probeOne(ctx context.Context, i int, from int64) error {
	var f found
	err := w.checkTopicOnce(ctx)
	if err == nil {
		f, err = w.d.probe(ctx, w.cl, w.meta, i, from)
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, ErrRestart):
		return err
	case err != nil:
		w.probed[i] = err.Error()
		w.meta = topicMeta{} // the leader may be another one
		w.d.failed(ctx, sourceLook, err)
		return nil
	}
	delete(w.probed, i)
	if f.to == f.from && !f.outOfRange {
		return nil
	}
	select {
	case w.probes <- f:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// checkTopicOnce makes sure that the leaders are known.
func (w *watcher) checkTopicOnce(ctx context.Context) error {
	if len(w.meta.leaders) > 0 {
		return nil
	}
	return w.checkTopic(ctx)
}
