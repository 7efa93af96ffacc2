package changelog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"enricher/dimstore"
)

// Dimension keeps one dimension's rows up to date from its changelog.
type Dimension struct {
	o     Options
	log   *slog.Logger
	state state
	warm  chan struct{}
	kick  chan struct{} // asks for a look at the cluster before its time
	ran   atomic.Bool
}

// New checks the options; it starts nothing.
func New(o Options) (*Dimension, error) {
	if err := o.finalize(); err != nil {
		return nil, err
	}
	d := &Dimension{
		o: o, log: o.Logger.With("dimension", o.Name),
		warm: make(chan struct{}), kick: make(chan struct{}, 1),
	}
	o.Metrics.add(d)
	return d, nil
}

// Warm is closed once every bucket was read up to the end that was seen at start and the store is complete.
func (d *Dimension) Warm() <-chan struct{} { return d.warm }

// Run warms the dimension up and then follows its changelog until ctx ends, which is no error. Brokers that are away or refuse, a missing
// topic and a full disk are waited for. An error ends the process: the store failed, a record can't be read with `on_error: fail`
// (ErrRecord), or what changed needs a new start (ErrRestart). Run is called once.
func (d *Dimension) Run(ctx context.Context) error {
	if d.ran.Swap(true) {
		return errors.New("BUG: Run of a dimension is called twice")
	}
	cl, err := kgo.NewClient(d.clientOptions()...)
	if err != nil {
		return fmt.Errorf("topic %s: open the Kafka client: %w", d.o.Topic, err)
	}
	defer cl.Close()
	err = d.run(ctx, cl)
	if err == nil || ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return fmt.Errorf("topic %s: %w", d.o.Topic, err)
}

// clientOptions are the caller's, and what reading a changelog wants.
func (d *Dimension) clientOptions() []kgo.Opt {
	most := int32(min(d.o.FetchBytes, maxFetchBytes))
	return append(append([]kgo.Opt{}, d.o.Client...),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(), // transaction markers move the position
		// Offsets are given exactly. A position outside the log must never be mended silently, at the start as later: both options, for
		// the reset option alone decides about OFFSET_OUT_OF_RANGE, and the start option falls back to it.
		kgo.ConsumeStartOffset(kgo.NoResetOffset().AtStart()),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.KeepRetryableFetchErrors(), // to show them
		kgo.FetchMaxBytes(most),
		kgo.FetchMaxPartitionBytes(most),
		kgo.FetchMaxWait(500*time.Millisecond), // probes wait behind it: they share the connection
		kgo.MetadataMinAge(500*time.Millisecond),
	)
}

// maxFetchBytes keeps one fetch far below what the client takes from a broker (100 MiB).
const maxFetchBytes = 64 << 20

// run is Run with an open client.
func (d *Dimension) run(ctx context.Context, cl *kgo.Client) error {
	log, err := d.discover(ctx, cl)
	if err != nil {
		return err
	}
	p, err := d.prepare(ctx, log)
	if err != nil {
		return err
	}
	d.assign(cl, log, p)

	n := len(log.buckets)
	fetches := make(chan kgo.Fetches)
	probes := make(chan found)
	full := make(chan *batch)
	free := make(chan *batch, 2)
	free <- newBatch(n)

	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return d.poll(gctx, cl, fetches) })
	g.Go(func() error { return newReader(d, full, free, newBatch(n)).run(gctx, fetches, probes) })
	g.Go(func() error { return d.apply(gctx, full, free) })
	g.Go(func() error { return d.watch(gctx, cl, probes) })
	err = g.Wait()
	if isSpoiled(err) {
		err = errors.Join(err, d.spoil())
	}
	return err
}

// prepare decides what to do with what the store holds, and makes it so: after it the store holds a position of every bucket.
func (d *Dimension) prepare(ctx context.Context, log logTopic) (plan, error) {
	d.o.Sink.SetDeleteMarkTTL(log.retention)
	if warning := policyWarning(d.o.Topic, log.policy); warning != "" {
		d.log.WarnContext(ctx, "the topic is not kept as a changelog should be", "warning", warning)
		d.state.warn(warning)
	}
	if why := d.o.Sink.Discarded(); why != "" {
		d.log.WarnContext(ctx, "what the store held was dropped, the dimension is loaded anew", "reason", why)
		d.state.rebuilt(why)
	}
	p := makePlan(d.o.Topic, log, d.o.Sink.Positions(), d.o.Sink.Complete(), time.Now())
	if p.reason != "" {
		d.log.WarnContext(ctx, "the dimension is loaded anew", "reason", p.reason, "detail", p.detail)
		d.state.rebuilt(p.reason)
		if err := d.patiently(ctx, func() error { return d.o.Sink.Reset(p.reason) }); err != nil {
			return plan{}, fmt.Errorf("drop the rows: %w", err)
		}
	}
	d.state.begin(newTracker(log, p), log.id)
	var positions []dimstore.Position
	for i, b := range p.buckets {
		if b.fresh {
			positions = append(positions, dimstore.Position{
				Bucket: dimstore.BucketID{Topic: d.o.Topic, Partition: int32(i)}, TopicID: log.id, Next: b.next, ProvedAt: b.provedAt,
			})
		}
	}
	if len(positions) > 0 {
		if _, err := d.applyPatiently(ctx, nil, positions); err != nil {
			return plan{}, fmt.Errorf("store the first positions: %w", err)
		}
	}
	d.log.InfoContext(ctx, "reading the dimension", "topic", d.o.Topic, "buckets", len(p.buckets), "read_already", d.ratio(),
		"rows", d.o.Sink.Rows())
	return p, nil
}

func (d *Dimension) ratio() float64 {
	d.state.mu.Lock()
	defer d.state.mu.Unlock()
	return d.state.track.ratio()
}

// assign begins to fetch all buckets at their positions. Each broker that leads one has a fetch of its own in memory, so they share the
// bound.
func (d *Dimension) assign(cl *kgo.Client, log logTopic, p plan) {
	each := int32(max(1<<20, min(d.o.FetchBytes, maxFetchBytes)/max(1, log.leaders)))
	cl.UpdateFetchMaxBytes(each, each)
	offsets := make(map[int32]kgo.Offset, len(p.buckets))
	for i, b := range p.buckets {
		offsets[int32(i)] = kgo.NoResetOffset().At(b.next)
	}
	cl.AddConsumePartitions(map[string]map[int32]kgo.Offset{d.o.Topic: offsets})
}

// spoil makes the next start load the dimension anew: a position that lies outside of every log.
func (d *Dimension) spoil() error {
	_, err := d.o.Sink.Apply(nil, []dimstore.Position{{
		Bucket: dimstore.BucketID{Topic: d.o.Topic, Partition: 0}, TopicID: d.state.topicID, Next: math.MaxInt64,
	}})
	if err != nil {
		return fmt.Errorf("mark the rows as unusable: %w", err)
	}
	return nil
}
