package changelog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"
)

// Dimension keeps one dimension's rows up to date from its changelog.
type Dimension struct {
	o         Options
	log       *slog.Logger
	route     *route
	version   int // number of the version column; -1: none
	retention *Retention
	state     state
	hidden    atomic.Pointer[hiddenPartitions]
	warm      chan struct{}
	ask       chan struct{} // asks for a refresh
	ran       atomic.Bool
}

// New checks the options; it starts nothing.
func New(o Options) (*Dimension, error) {
	d := &Dimension{warm: make(chan struct{}), ask: make(chan struct{}, 1), version: -1}
	if err := o.finalize(d); err != nil {
		return nil, err
	}
	d.o, d.log = o, o.Logger.With("dimension", o.Name)
	d.hidden.Store(&hiddenPartitions{})
	o.Metrics.add(d)
	return d, nil
}

// Warm is closed once every bucket was read up to the end that was seen at start and the store is complete.
func (d *Dimension) Warm() <-chan struct{} { return d.warm }

// Retention tells the age of the dimension's partitions; nil without auto_partition.
func (d *Dimension) Retention() *Retention { return d.retention }

// Run warms the dimension up and then follows its changelog until ctx ends, which is no error. Brokers that are away or refuse, a missing
// topic and a full disk are waited for; where rows can't be gone on from, a new generation is loaded. An error ends the process: the store
// failed, or a record can't be read with `on_error: fail` (ErrRecord). Run is called once.
func (d *Dimension) Run(ctx context.Context) error {
	if d.ran.Swap(true) {
		return errors.New("BUG: Run of a dimension is called twice")
	}
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return d.generations(gctx) })
	if d.o.Refresh.Mode == Sync {
		g.Go(func() error { return d.refreshes(gctx) })
	}
	err := g.Wait()
	if err == nil || ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return fmt.Errorf("topic %s: %w", d.route.name(), err)
}

// openClient opens a client for one feed, with a part of the memory for fetches.
func (d *Dimension) openClient() (*kgo.Client, error) {
	most := int32(min(d.o.FetchBytes, maxFetchBytes))
	cl, err := kgo.NewClient(append(append([]kgo.Opt{}, d.o.Client...),
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
	)...)
	if err != nil {
		return nil, fmt.Errorf("open the Kafka client: %w", err)
	}
	return cl, nil
}

// maxFetchBytes keeps one fetch far below what the client takes from a broker (100 MiB).
const maxFetchBytes = 64 << 20

// share bounds the fetches of a feed. Each broker that leads a bucket has a fetch of its own in memory, so they share the bound, and so do two
// generations.
func (d *Dimension) share(cl *kgo.Client, leaders, feeds int) {
	each := int32(max(1<<20, min(d.o.FetchBytes, maxFetchBytes)/max(1, leaders)/feeds))
	cl.UpdateFetchMaxBytes(each, each)
}
