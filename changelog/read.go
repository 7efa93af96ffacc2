package changelog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
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
func (f *feed) poll(ctx context.Context, out chan<- kgo.Fetches) error {
	wait := lookBackoff / 2
	for {
		fetches := f.cl.PollRecords(ctx, batchChanges)
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
	f       *feed
	dec     *decoder
	cur     *batch
	topics  map[string]*readTopic
	gone    map[[16]byte]bool // topics that left
	edition int               // of the feed's topics
	read    []int64           // by bucket: next offset to take
	over    []bool            // by bucket: it is not fetched any more
	full    chan<- *batch
	free    <-chan *batch
	quiet   bool // nothing came for a moment

	records, bytes int64     // not yet in the state
	stored         time.Time // the proof that was handed on last
}

// readTopic is what the reader knows of a topic.
type readTopic struct {
	id      [16]byte
	origin  *origin
	buckets []int // by Kafka partition: places in the tracker
}

func newReader(f *feed, full chan<- *batch, free <-chan *batch) *reader {
	d := f.d
	return &reader{
		f: f, dec: newDecoder(d.o.Schema, d.o.KeyFormat, d.version, d.retention), cur: newBatch(), full: full, free: free, edition: -1,
	}
}

// follow takes in which buckets there are to read: it begins to fetch those that came and stops it for those that can't be read on.
func (r *reader) follow() {
	add := map[string]map[int32]kgo.Offset{}
	remove := map[string][]int32{}
	s := &r.f.d.state
	s.mu.Lock()
	if r.edition == r.f.edition {
		s.mu.Unlock()
		return
	}
	r.edition = r.f.edition
	r.gone = maps.Clone(r.f.departed)
	r.topics = make(map[string]*readTopic, len(r.f.topics))
	for name, t := range r.f.topics {
		r.topics[name] = &readTopic{id: t.id, origin: t.origin, buckets: slices.Clone(t.buckets)}
	}
	for i := range r.f.track.buckets {
		b := &r.f.track.buckets[i]
		if i == len(r.read) {
			r.read, r.over = append(r.read, b.read), append(r.over, false)
			if add[b.id.Topic] == nil {
				add[b.id.Topic] = map[int32]kgo.Offset{}
			}
			add[b.id.Topic][b.id.Partition] = kgo.NoResetOffset().At(b.read)
		}
		if !b.live() && !r.over[i] {
			r.over[i] = true
			if !b.left { // a topic that left is purged
				remove[b.id.Topic] = append(remove[b.id.Topic], b.id.Partition)
			}
		}
	}
	s.mu.Unlock()
	if len(add) > 0 {
		r.f.cl.AddConsumePartitions(add)
	}
	if len(remove) > 0 {
		r.f.cl.RemoveConsumePartitions(remove)
	}
}

func (r *reader) run(ctx context.Context, fetches <-chan kgo.Fetches, probes <-chan found) error {
	quiet := time.NewTimer(quietAfter)
	defer quiet.Stop()
	proofs := time.NewTicker(storeProofs)
	defer proofs.Stop()
	r.follow()
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
			r.found(ctx, f)
		case <-r.f.more:
			r.follow()
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
	s := &r.f.d.state
	s.mu.Lock()
	defer s.mu.Unlock()
	return r.f.settled || r.f.track.allRead()
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
	s := &r.f.d.state
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := r.f.track.provedAt(); at.After(r.stored) {
		r.stored = at
		r.cur.proofs = true
	}
}

// take decodes what was fetched. Errors come first: after one of them records of another log may follow.
func (r *reader) take(ctx context.Context, fetches kgo.Fetches) error {
	r.dec.now = time.Now()
	failed := false
	for i := range fetches {
		for j := range fetches[i].Topics {
			t := &fetches[i].Topics[j]
			topic := r.topics[t.Topic]
			if topic == nil || r.gone[t.TopicID] {
				topic = &readTopic{} // of an error that concerns no topic, or of one that left
			}
			r.check(ctx, t, topic)
			for k := range t.Partitions {
				p := &t.Partitions[k]
				if p.Err == nil {
					continue
				}
				failed = true
				if err := r.fetchFailed(ctx, t.Topic, topic, p); err != nil {
					return err
				}
			}
		}
	}
	if !failed {
		r.f.succeed(sourceFetch)
	}
	for i := range fetches {
		for j := range fetches[i].Topics {
			t := &fetches[i].Topics[j]
			topic := r.topics[t.Topic]
			if topic == nil || r.gone[t.TopicID] {
				continue
			}
			for k := range t.Partitions {
				if err := r.takePartition(ctx, topic, &t.Partitions[k]); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// check makes sure that what was fetched is of the topic whose offsets we hold: else nothing of it is read any more.
func (r *reader) check(ctx context.Context, t *kgo.FetchTopic, topic *readTopic) {
	if none := ([16]byte{}); t.TopicID == none || topic.id == none || t.TopicID == topic.id {
		return
	}
	r.stop(ctx, topic.buckets, reasonRecreated, recreated(t.Topic, t.TopicID, topic.id))
}

func recreated(topic string, id, was [16]byte) string {
	return fmt.Sprintf("topic %q was deleted and created again (id %x, was %x)", topic, id, was)
}

// stop is feed.stop that holds for the reader at once.
func (r *reader) stop(ctx context.Context, buckets []int, reason, detail string) {
	r.f.stop(ctx, buckets, reason, detail)
	r.follow()
}

// fetchFailed sorts out an error of a fetch: nil when it is waited for, or ends the reading of a bucket.
func (r *reader) fetchFailed(ctx context.Context, name string, topic *readTopic, p *kgo.FetchPartition) error {
	i := topic.place(p.Partition)
	if loss, ok := errors.AsType[*kgo.ErrDataLoss](p.Err); ok && i >= 0 {
		r.stop(ctx, []int{i}, reasonLost, fmt.Sprintf("%s lost records that were read before (up to %d, read up to %d)",
			r.f.d.route.bucket(name, p.Partition), loss.ResetTo, loss.ConsumedTo))
		return r.f.spoil(ctx, i)
	}
	if errors.Is(p.Err, kerr.OffsetOutOfRange) && i >= 0 {
		r.outOfRange(ctx, i)
		return nil
	}
	if errors.Is(p.Err, context.Canceled) || i < 0 && name != "" {
		return nil
	}
	if i >= 0 && r.over[i] {
		return nil
	}
	r.f.fail(ctx, sourceFetch, fmt.Errorf("fetch %s: %w", r.f.d.route.bucket(name, p.Partition), p.Err))
	signal(r.f.kick)
	return nil
}

func (r *reader) outOfRange(ctx context.Context, i int) {
	s := &r.f.d.state
	s.mu.Lock()
	id := r.f.track.buckets[i].id
	s.mu.Unlock()
	r.stop(ctx, []int{i}, reasonOutOfRange, fmt.Sprintf(
		"%s was read up to %d, which lies outside its log (records were removed before they were read)",
		r.f.d.route.bucket(id.Topic, id.Partition), r.read[i]))
}

// place is that of a Kafka partition in the tracker, -1 when it is not read.
func (t *readTopic) place(partition int32) int {
	if partition < 0 || int(partition) >= len(t.buckets) {
		return -1
	}
	return t.buckets[partition]
}

func (r *reader) takePartition(ctx context.Context, topic *readTopic, p *kgo.FetchPartition) error {
	i := topic.place(p.Partition)
	if i < 0 || r.over[i] {
		return nil
	}
	for _, rec := range p.Records {
		if rec.Offset < r.read[i] {
			continue // known already
		}
		if !rec.Attrs.IsControl() {
			r.records++
			r.bytes += int64(len(rec.Key) + len(rec.Value))
			if bad := r.dec.decode(r.cur, rec, topic.origin); bad != nil {
				if err := r.refuse(rec, bad); err != nil {
					return err
				}
			}
		}
		r.read[i] = rec.Offset + 1
		if r.cur.full() {
			r.cur.touch(i, r.read[i], r.dec.now)
			r.account(i, p)
			if err := r.hand(ctx); err != nil {
				return err
			}
		}
	}
	if len(p.Records) > 0 {
		r.cur.touch(i, r.read[i], r.dec.now)
	}
	r.account(i, p)
	return nil
}

// account brings the state up to what was read.
func (r *reader) account(i int, p *kgo.FetchPartition) {
	s := &r.f.d.state
	s.mu.Lock()
	defer s.mu.Unlock()
	t := r.f.track
	t.buckets[i].read = r.read[i]
	s.records += r.records
	t.records += r.records
	t.bytes += r.bytes
	r.records, r.bytes = 0, 0
	if p != nil && p.Err == nil {
		t.seen(i, p.LastStableOffset, p.HighWatermark)
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
	where := fmt.Sprintf("%s, offset %d", r.f.d.route.bucket(rec.Topic, rec.Partition), rec.Offset)
	s := &r.f.d.state
	s.mu.Lock()
	s.errors++
	s.lastError, s.lastAt = fmt.Sprintf("%s: %v", where, bad), time.Now()
	s.mu.Unlock()
	switch r.f.d.o.OnError {
	case Skip:
		return nil
	case DeadLetter:
		r.cur.bad = append(r.cur.bad, badRecord{rec, bad})
		return nil
	}
	return fmt.Errorf("%s: %w: %w", where, ErrRecord, bad)
}

// found moves the position to where a probe found the next record or the end, unless the client was faster.
func (r *reader) found(ctx context.Context, f found) {
	if f.bucket >= len(r.read) || r.read[f.bucket] != f.from || r.over[f.bucket] {
		return
	}
	if f.outOfRange {
		r.outOfRange(ctx, f.bucket)
		return
	}
	if f.to > f.from {
		r.read[f.bucket] = f.to
		r.cur.touch(f.bucket, f.to, time.Now())
		r.account(f.bucket, nil)
	}
}
