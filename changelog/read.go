package changelog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	batchChanges = 10_000  // changes of one Apply, at most
	batchBytes   = 8 << 20 // their bytes, about
	batchBad     = 256     // records that wait for a dead letter
	quietAfter   = 20 * time.Millisecond
	storeProofs  = time.Minute // how often proofs are stored when nothing else is
)

// poll fetches until ctx ends. It only waits for the client, so that the reader can wait for more than that.
func (d *Dimension) poll(ctx context.Context, cl *kgo.Client, out chan<- kgo.Fetches) error {
	wait := lookBackoff / 2
	for {
		fetches := cl.PollRecords(ctx, batchChanges)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if fetches.IsClientClosed() {
			return errors.New("poll: the Kafka client is closed")
		}
		failed := fetches.NumRecords() == 0
		select {
		case out <- fetches:
		case <-ctx.Done():
			return ctx.Err()
		}
		if !failed {
			wait = lookBackoff / 2
			continue
		}
		if !sleep(ctx, wait) { // a broker that refuses answers at once
			return ctx.Err()
		}
		wait = min(2*wait, lookBackoffMax)
	}
}

// reader turns fetches into batches. It owns the offsets up to which buckets are read. While the first load goes on a batch is filled before
// it is handed on; after that it goes as soon as the store is free, and grows only meanwhile.
type reader struct {
	d     *Dimension
	dec   *decoder
	cur   *batch
	read  []int64 // by bucket: next offset to take
	full  chan<- *batch
	free  <-chan *batch
	quiet bool // nothing came for a moment

	records, bytes int64     // not yet in the state
	stored         time.Time // the proof that was handed on last
}

func newReader(d *Dimension, full chan<- *batch, free <-chan *batch, first *batch) *reader {
	r := &reader{d: d, dec: newDecoder(d.o.Topic, d.o.Schema, d.o.KeyFormat), cur: first, full: full, free: free}
	d.state.mu.Lock()
	defer d.state.mu.Unlock()
	for i := range d.state.track.buckets {
		r.read = append(r.read, d.state.track.buckets[i].read)
	}
	return r
}

func (r *reader) run(ctx context.Context, fetches <-chan kgo.Fetches, probes <-chan found) error {
	quiet := time.NewTimer(quietAfter)
	defer quiet.Stop()
	proofs := time.NewTicker(storeProofs)
	defer proofs.Stop()
	for {
		var out chan<- *batch
		if r.due() {
			out = r.full
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case f := <-fetches:
			if err := r.take(ctx, f); err != nil {
				return err
			}
			r.quiet = false
			quiet.Reset(quietAfter)
		case f := <-probes:
			if err := r.found(f); err != nil {
				return err
			}
		case <-quiet.C:
			r.quiet = true
		case <-proofs.C:
			r.proofs()
		case out <- r.cur:
			if err := r.next(ctx); err != nil {
				return err
			}
		}
	}
}

// due reports whether the batch in hand goes to the store as soon as that is free.
func (r *reader) due() bool {
	if r.cur.empty() {
		return false
	}
	if r.quiet || r.cur.full() {
		return true
	}
	s := &r.d.state
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.warm || s.track.allRead()
}

func (b *batch) full() bool {
	return len(b.changes) >= batchChanges || len(b.arena) >= batchBytes || len(b.bad) >= batchBad
}

// next takes an empty batch; the applier gives one back before it takes another.
func (r *reader) next(ctx context.Context) error {
	select {
	case r.cur = <-r.free:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// proofs stores the proofs when they moved.
func (r *reader) proofs() {
	s := &r.d.state
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := s.track.provedAt(); at.After(r.stored) {
		r.stored = at
		r.cur.proofs = true
	}
}

// take decodes what was fetched. Errors come first: after one of them records of another log may follow.
func (r *reader) take(ctx context.Context, fetches kgo.Fetches) error {
	failed := false
	for i := range fetches {
		for j := range fetches[i].Topics {
			t := &fetches[i].Topics[j]
			if err := r.check(t); err != nil {
				return err
			}
			for k := range t.Partitions {
				p := &t.Partitions[k]
				if p.Err == nil {
					continue
				}
				failed = true
				if err := r.fetchFailed(ctx, p); err != nil {
					return err
				}
			}
		}
	}
	if !failed {
		r.d.state.succeed(sourceFetch)
	}
	for i := range fetches {
		for j := range fetches[i].Topics {
			for k := range fetches[i].Topics[j].Partitions {
				if err := r.takePartition(ctx, &fetches[i].Topics[j].Partitions[k]); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// check makes sure that what was fetched is of the topic whose offsets we hold.
func (r *reader) check(t *kgo.FetchTopic) error {
	if none := ([16]byte{}); t.TopicID == none || r.d.state.topicID == none || t.TopicID == r.d.state.topicID || t.Topic == "" {
		return nil
	}
	return fmt.Errorf("the topic was deleted and created again (id %x, was %x): %w", t.TopicID, r.d.state.topicID, ErrRestart)
}

// fetchFailed sorts out an error of a fetch: nil when it is waited for.
func (r *reader) fetchFailed(ctx context.Context, p *kgo.FetchPartition) error {
	if loss, ok := errors.AsType[*kgo.ErrDataLoss](p.Err); ok {
		return &spoiledError{fmt.Errorf("bucket %d lost records that were read before (up to %d, read up to %d): %w",
			p.Partition, loss.ResetTo, loss.ConsumedTo, ErrRestart)}
	}
	if errors.Is(p.Err, kerr.OffsetOutOfRange) {
		at := int64(-1)
		if p.Partition >= 0 && int(p.Partition) < len(r.read) {
			at = r.read[p.Partition]
		}
		return outOfRange(int(p.Partition), at)
	}
	if errors.Is(p.Err, context.Canceled) {
		return nil
	}
	r.d.failed(ctx, sourceFetch, fmt.Errorf("fetch bucket %d: %w", p.Partition, p.Err))
	r.d.lookSoon()
	return nil
}

func outOfRange(bucket int, at int64) error {
	return fmt.Errorf("bucket %d was read up to %d, which lies outside its log (records were removed before they were read): %w",
		bucket, at, ErrRestart)
}

func (r *reader) takePartition(ctx context.Context, p *kgo.FetchPartition) error {
	if p.Partition < 0 || int(p.Partition) >= len(r.read) {
		return nil // of an error that concerns no bucket
	}
	i := int(p.Partition)
	for _, rec := range p.Records {
		if rec.Offset < r.read[i] {
			continue // known already
		}
		if !rec.Attrs.IsControl() {
			r.records++
			r.bytes += int64(len(rec.Key) + len(rec.Value))
			if bad := r.dec.decode(r.cur, rec); bad != nil {
				if err := r.refuse(rec, bad); err != nil {
					return err
				}
			}
		}
		r.read[i] = rec.Offset + 1
		if r.cur.full() {
			r.cur.touch(p.Partition, r.read[i])
			r.account(i, p)
			if err := r.hand(ctx); err != nil {
				return err
			}
		}
	}
	if len(p.Records) > 0 {
		r.cur.touch(p.Partition, r.read[i])
	}
	r.account(i, p)
	return nil
}

// account brings the state up to what was read.
func (r *reader) account(i int, p *kgo.FetchPartition) {
	s := &r.d.state
	s.mu.Lock()
	defer s.mu.Unlock()
	s.track.buckets[i].read = r.read[i]
	s.track.records += r.records
	s.track.bytes += r.bytes
	r.records, r.bytes = 0, 0
	if p != nil && p.Err == nil {
		s.track.seen(i, p.LastStableOffset, p.HighWatermark)
	}
}

// hand waits until the store takes the batch.
func (r *reader) hand(ctx context.Context) error {
	select {
	case r.full <- r.cur:
		return r.next(ctx)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// refuse does with a record that can't be read what on_error says.
func (r *reader) refuse(rec *kgo.Record, bad *recordError) error {
	s := &r.d.state
	s.mu.Lock()
	s.errors++
	s.lastError, s.lastAt = fmt.Sprintf("bucket %d, offset %d: %v", rec.Partition, rec.Offset, bad), time.Now()
	s.mu.Unlock()
	switch r.d.o.OnError {
	case Skip:
		return nil
	case DeadLetter:
		r.cur.bad = append(r.cur.bad, badRecord{rec, bad})
		return nil
	}
	return fmt.Errorf("bucket %d, offset %d: %w: %w", rec.Partition, rec.Offset, ErrRecord, bad)
}

// found moves the position to where a probe found the next record or the end, unless the client was faster.
func (r *reader) found(f found) error {
	if r.read[f.bucket] != f.from {
		return nil
	}
	if f.outOfRange {
		return outOfRange(f.bucket, f.from)
	}
	if f.to > f.from {
		r.read[f.bucket] = f.to
		r.cur.touch(int32(f.bucket), f.to)
		r.account(f.bucket, nil)
	}
	return nil
}
