package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"enricher/changelog"
	"enricher/dimstore"
	"enricher/lookup"
	"enricher/record"
)

// deleteMarkTTL is how long delete marks stay: delete.retention.ms of a topic that does not set it. It can't be asked for here, for the stores are opened
// before any broker is.
const deleteMarkTTL = 24 * time.Hour

// dimension is one dimension of the running service: the store with its rows and the changelog that feeds it. It exists, and answers as empty, before its
// store is open.
type dimension struct {
	plan  dimensionPlan
	store atomic.Pointer[rowStore]            // nil before it is open
	feed  atomic.Pointer[changelog.Dimension] // nil before that
	cold  atomic.Bool                         // the service went on without it (processing.warmup.on_timeout: proceed)
}

// rowStore is the store of one dimension, on disk or in memory.
type rowStore struct {
	changelog.Sink

	read  func() dimstore.View
	close func() error
	cache func() dimstore.CacheStats // nil: there is none
}

// openStore opens the store of the kind that the plan says.
func openStore(dir *dimstore.Dir, d *dimensionPlan, o dimstore.Options, memory memorySplit) (*rowStore, error) {
	o.Name, o.Fingerprint, o.Indexes, o.Version = d.Name, d.Fingerprint, d.storeIndexes(), d.storeVersion()
	if d.Store == storeMemory {
		o.Memory = memory.Rows
		s, err := dir.OpenHeap(o)
		if err != nil {
			return nil, err
		}
		return &rowStore{Sink: s, read: s.Read, close: s.Close}, nil
	}
	o.Memory, o.KeyTypes = memory.Store, d.storeKeyTypes()
	cached := d.CacheKeys.Auto || d.CacheKeys.Count > 0
	if cached {
		o.Memory, o.CacheBytes = memory.withCache()
		o.CacheKeys = int64(d.CacheKeys.Count)
	}
	s, err := dir.OpenStore(o)
	if err != nil {
		return nil, err
	}
	store := &rowStore{Sink: s, read: s.Read, close: s.Close}
	if cached {
		store.cache = s.CacheStats
	}
	return store, nil
}

// Read opens a view on the rows for one batch of facts. A dimension without a complete generation answers as empty.
func (d *dimension) Read() lookup.View {
	feed, s := d.feed.Load(), d.store.Load()
	if feed == nil || s == nil || !s.Complete() {
		return emptyView{}
	}
	return feed.View(s.read)
}

// A view of a feed is all that lookups may ask for.
var (
	_ lookup.IndexView     = (*changelog.View)(nil)
	_ lookup.PartitionView = (*changelog.View)(nil)
	_ lookup.IndexView     = emptyView{}
	_ lookup.PartitionView = emptyView{}
)

// warm reports whether the dimension has been read up to the end that was seen at start.
func (d *dimension) warm() bool {
	feed := d.feed.Load()
	if feed == nil {
		return false
	}
	select {
	case <-feed.Warm():
		return true
	default:
		return false
	}
}

// emptyView is a table without rows.
type emptyView struct{}

func (emptyView) Get(_, _ []byte) (record.Row, bool, error)                { return nil, false, nil }
func (emptyView) Scan(_, _ []byte, _ func(record.Row) bool) error          { return nil }
func (emptyView) ScanIndex(_ int, _ []byte, _ func(record.Row) bool) error { return nil }
func (emptyView) HasPartition([]byte) bool                                 { return false }
func (emptyView) Latest(int) [][]byte                                      { return nil }
func (emptyView) Expired([]byte) bool                                      { return false }
func (emptyView) Close()                                                   {}

// openStores opens the stores of all dimensions at the same time: one that was not closed cleanly reads its last writes first. What was opened is in the
// dimensions even when there is an error.
func openStores(dir *dimstore.Dir, dimensions []*dimension, o dimstore.Options, memory memorySplit) error {
	errs := make([]error, len(dimensions))
	var wg sync.WaitGroup
	for i, d := range dimensions {
		wg.Go(func() {
			store, err := openStore(dir, &d.plan, o, memory)
			if err != nil {
				errs[i] = fmt.Errorf("dimension %s: %w", d.plan.Name, err)
				return
			}
			d.store.Store(store)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// closeStores closes what openStores opened.
func closeStores(dimensions []*dimension) error {
	var errs []error
	for _, d := range dimensions {
		if store := d.store.Load(); store != nil {
			if err := store.close(); err != nil {
				errs = append(errs, fmt.Errorf("dimension %s: close store: %w", d.plan.Name, err))
			}
		}
	}
	return errors.Join(errs...)
}

// follow runs the changelogs of all dimensions until ctx ends. fail is called with the first error of each that ends by itself. The function that is
// returned waits until all have ended.
func follow(ctx context.Context, dimensions []*dimension, fail func(error)) (wait func()) {
	var wg sync.WaitGroup
	for _, d := range dimensions {
		wg.Go(func() {
			err := d.feed.Load().Run(ctx)
			if err == nil && ctx.Err() == nil {
				err = errors.New("BUG: it ended without a reason")
			}
			if err != nil && ctx.Err() == nil {
				fail(fmt.Errorf("dimension %s: %w", d.plan.Name, err))
			}
		})
	}
	return wg.Wait
}

// changelogOptions are what the dimension itself says of its feed; its store is open.
func (d *dimension) changelogOptions(deadLetter deadLetterFunc) changelog.Options {
	o := changelog.Options{
		Name: d.plan.Name, Topic: d.plan.Topic, TopicPattern: d.plan.TopicPattern, Schema: d.plan.Schema, KeyFormat: d.plan.KeyFormat, Version: d.plan.Version,
		AutoPartition: autoPartition(d.plan.Dimension),
		Sink:          d.store.Load().Sink, DiscoveryInterval: d.plan.DiscoveryInterval,
		Refresh: changelog.Refresh(d.plan.Refresh),
	}
	if deadLetter != nil {
		o.DeadLetter = func(ctx context.Context, rec *kgo.Record, class, message string) error {
			return deadLetter(ctx, d.plan.Name, rec, class, message)
		}
	}
	return o
}
