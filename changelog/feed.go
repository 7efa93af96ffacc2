package changelog

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"enricher/dimstore"
)

// target is what a feed writes to: the store's generation that answers, or one that is loaded beside it.
type target interface {
	Apply(changes []dimstore.Change, positions []dimstore.Position) (dimstore.Applied, error)
	DropPartition(partition []byte) error
	PartitionList() [][]byte
}

// feed reads the buckets of a dimension into one generation. There is one, and a second one while a generation is loaded beside the one that
// answers. Each has a client of its own.
type feed struct {
	d      *Dimension
	cl     *kgo.Client
	log    *slog.Logger
	beside Generation // what it loads; nil when it reads into the store

	// writing is held (one element) by whoever writes to the target. Holding it freezes the generation.
	writing chan struct{}
	target  target // of the holder of writing
	leaders int    // brokers that led a bucket when it began

	more  chan struct{} // the reader has to look at the topics
	todo  chan struct{} // the applier has to look at the drops
	kick  chan struct{} // asks for a look at the cluster before its time
	prove chan struct{} // the same for the ends alone
	haste chan struct{} // somebody waits for buckets that may stand
	ended chan error    // the error of run, once

	// Under d.state.mu.
	track    *tracker // nil until it is known what to read
	topics   map[string]*feedTopic
	departed map[[16]byte]bool // ids of topics that left
	edition  int               // raised with every change of topics, and of what is read of them
	fresh    bool              // one of topics is
	leaving  []drop            // partitions to drop
	broken   string            // why a new generation is needed; empty: none
	detail   string            // the same for people
	settled  bool              // its warm-up is over
	closing  bool              // it is published at the moment: see View
	reason   string            // why it loads
	paused   map[string]string // reason → the error behind it
	failures map[string]string // source → its last error, while it lasts
	fetchAt  time.Time         // when fetches failed last
}

// feedTopic is one topic that is read.
type feedTopic struct {
	id      [16]byte
	origin  *origin
	buckets []int // by Kafka partition: places in the tracker
	fresh   bool  // not yet read up to the end seen at its discovery
	missing bool  // the brokers do not know it at the moment
}

func (d *Dimension) newFeed(cl *kgo.Client) *feed {
	return &feed{
		d: d, cl: cl, log: d.log, target: d.o.Sink, writing: make(chan struct{}, 1),
		more: make(chan struct{}, 1), todo: make(chan struct{}, 1), kick: make(chan struct{}, 1), prove: make(chan struct{}, 1), haste: make(chan struct{}, 1),
		ended: make(chan error, 1), topics: map[string]*feedTopic{},
	}
}

// signal tells one goroutine, which may be busy, that there is something to do.
func signal(ch chan<- struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// begin takes in what is to be read.
func (f *feed) begin(p plan, askedAt time.Time, complete bool) {
	s := &f.d.state
	s.mu.Lock()
	defer s.mu.Unlock()
	f.track = newTracker(plan{loading: p.loading}, askedAt)
	for len(p.buckets) > 0 {
		n := 1
		for n < len(p.buckets) && p.buckets[n].id.Topic == p.buckets[0].id.Topic {
			n++
		}
		fresh := complete
		for _, b := range p.buckets[:n] {
			fresh = fresh && b.fresh
		}
		f.add(p.buckets[:n], p.loading, askedAt, fresh)
		p.buckets = p.buckets[n:]
	}
	s.wake()
}

// add begins to read buckets of one topic, which follow those that are read of it. For the holder of the state.
func (f *feed) add(buckets []planBucket, loading bool, askedAt time.Time, fresh bool) {
	if len(buckets) == 0 {
		return
	}
	name := buckets[0].id.Topic
	t := f.topics[name]
	if t == nil {
		t = &feedTopic{id: buckets[0].topicID, origin: f.d.route.origin(name), fresh: fresh}
		f.topics[name] = t
	}
	at := f.track.add(buckets, loading, askedAt)
	for i := range buckets {
		t.buckets = append(t.buckets, at+i)
	}
	f.fresh = f.fresh || fresh
	f.edition++
	f.arrive()
	signal(f.more)
}

// arrive takes in that buckets moved: the partitions of topics that were read to the end seen at their discovery are there. For the holder of the
// state.
func (f *feed) arrive() {
	if !f.fresh {
		return
	}
	f.fresh = false
	for _, t := range f.topics {
		if !t.fresh {
			continue
		}
		t.fresh = false
		for _, i := range t.buckets {
			t.fresh = t.fresh || !f.track.buckets[i].reached()
		}
		f.fresh = f.fresh || t.fresh
	}
	f.d.rehide()
}

// run reads until ctx ends or the generation can't be written any more.
func (f *feed) run(ctx context.Context) error {
	fetches := make(chan kgo.Fetches)
	probes := make(chan found)
	full := make(chan *batch)
	free := make(chan *batch, 2)
	free <- newBatch()

	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return f.poll(gctx, fetches) })
	g.Go(func() error { return newReader(f, full, free).run(gctx, fetches, probes) })
	g.Go(func() error { return f.apply(gctx, full, free) })
	g.Go(func() error { return f.watch(gctx, probes) })
	return g.Wait()
}

// start runs it in the background; stop ends that.
func (f *feed) start(ctx context.Context) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	result := make(chan error, 1)
	go func() {
		err := f.run(ctx)
		f.ended <- err
		result <- err
	}()
	return func() error {
		cancel()
		err := <-result
		f.cl.Close()
		return err
	}
}

// stop ends the reading of buckets that can't be gone on with in this generation.
func (f *feed) stop(ctx context.Context, buckets []int, reason, detail string) {
	s := &f.d.state
	s.mu.Lock()
	news := false
	for _, i := range buckets {
		if b := &f.track.buckets[i]; b.live() {
			b.stopped, news = detail, true
		}
	}
	if !news {
		s.mu.Unlock()
		return
	}
	f.edition++
	signal(f.more)
	s.mu.Unlock()
	f.breakDown(ctx, reason, detail)
}

// breakDown says that a new generation is needed.
func (f *feed) breakDown(ctx context.Context, reason, detail string) {
	s := &f.d.state
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastError, s.lastAt = detail, time.Now()
	if f.broken == "" {
		f.broken, f.detail = reason, detail
		f.log.WarnContext(ctx, "a new generation is needed", "reason", reason, "detail", detail)
	}
	s.wake()
}

// spoil makes a start load the dimension anew though the position of a bucket looks right: a position that lies outside of every log.
func (f *feed) spoil(ctx context.Context, bucket int) error {
	s := &f.d.state
	s.mu.Lock()
	b := &f.track.buckets[bucket]
	p := dimstore.Position{Bucket: b.id, TopicID: b.topicID, Next: math.MaxInt64}
	s.mu.Unlock()
	if err := f.write(ctx, func() error { _, err := f.target.Apply(nil, []dimstore.Position{p}); return err }); err != nil {
		return fmt.Errorf("mark the rows as unusable: %w", err)
	}
	return nil
}

// freeze waits until nobody writes, and keeps everyone from it until release.
func (f *feed) freeze(ctx context.Context) error {
	select {
	case f.writing <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f *feed) release() { <-f.writing }

// fail keeps the error of a source until it succeeds, and logs it when it is news.
func (f *feed) fail(ctx context.Context, source string, err error) {
	s := &f.d.state
	s.mu.Lock()
	text := err.Error()
	news := f.failures[source] != text
	if f.failures == nil {
		f.failures = map[string]string{}
	}
	f.failures[source] = text
	if source == sourceFetch {
		f.fetchAt = time.Now()
	}
	s.lastError, s.lastAt = text, time.Now()
	s.mu.Unlock()
	if news {
		f.log.WarnContext(ctx, "the dimension can't be read at the moment", "error", err)
	}
}

// succeed ends the trouble of a source.
func (f *feed) succeed(source string) {
	f.d.state.mu.Lock()
	defer f.d.state.mu.Unlock()
	delete(f.failures, source)
}

// pause says that nothing is applied because of err; true when that is news.
func (f *feed) pause(reason string, err error) bool {
	s := &f.d.state
	s.mu.Lock()
	defer s.mu.Unlock()
	_, known := f.paused[reason]
	if f.paused == nil {
		f.paused = map[string]string{}
	}
	f.paused[reason] = err.Error()
	s.lastError, s.lastAt = err.Error(), time.Now()
	if !known {
		s.wake() // facts that wait for changes
	}
	return !known
}

// resumeSpace ends the pauses of a store that was full; true when there was one.
func (f *feed) resumeSpace() bool {
	disk, memory := f.resume(pausedDisk), f.resume(pausedMemory)
	return disk || memory
}

// full tells whether changes wait for space. For the holder of the state.
func (f *feed) full() bool {
	_, disk := f.paused[pausedDisk]
	_, memory := f.paused[pausedMemory]
	return disk || memory
}

// resume ends a pause; true when there was one.
func (f *feed) resume(reason string) bool {
	f.d.state.mu.Lock()
	defer f.d.state.mu.Unlock()
	_, known := f.paused[reason]
	delete(f.paused, reason)
	return known
}
