package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"enricher/changelog"
	"enricher/config"
	"enricher/dimstore"
	"enricher/pipeline"
)

// clientFor gives the connection options of one role, with metrics of its own.
func (a *app) clientFor(role string) []kgo.Opt {
	return append(slices.Clone(a.client), kgo.WithHooks(newClientMetrics(a.registry, role)))
}

// storeOptions are those that all dimensions share; openStore adds their own.
func (a *app) storeOptions() dimstore.Options {
	return dimstore.Options{
		Compression:   a.cfg.Store.Compression,
		MinFreeDisk:   uint64(a.cfg.Store.MinFreeDisk),
		MaxDisk:       uint64(a.cfg.Store.MaxDisk),
		DeleteMarkTTL: deleteMarkTTL,
		Logger:        a.log,
	}
}

// makeFeeds makes the changelogs of all dimensions; their stores are open.
func (a *app) makeFeeds(deadLetter deadLetterFunc) error {
	for _, d := range a.dimensions {
		o := d.changelogOptions(deadLetter)
		o.OnError = a.cfg.OnError(d.plan.OnError)
		o.Client = a.clientFor("dimension_" + d.plan.Name)
		o.FetchBytes = onTheWire(a.plan.Memory.DimensionFetch)
		o.MaxStaleness, o.OnStale = a.cfg.Processing.MaxStaleness, a.cfg.Processing.OnStale
		o.Metrics = a.changelogs
		o.Logger = a.log
		feed, err := changelog.New(o)
		if err != nil {
			return err
		}
		d.feed.Store(feed)
	}
	return nil
}

func (a *app) pipelineOptions(instance string) pipeline.Options {
	in, out, p := a.cfg.Input, a.cfg.Output, a.cfg.Processing
	return pipeline.Options{
		Topics:             in.Topics,
		Group:              in.Group,
		InstanceID:         instance,
		LeaveOnStop:        in.InstanceID == "",
		SessionTimeout:     in.SessionTimeout,
		Start:              pipeline.Start{Latest: in.Start.Latest, At: in.Start.Time},
		OnGap:              in.OnGap,
		OnError:            a.cfg.OnError(in.OnError),
		Plan:               a.plan.Lookup,
		Before:             a.beforeBatch(),
		OutputTopic:        out.Topic,
		Partition:          out.Partition,
		Compression:        out.Compression,
		MaxRecordSize:      int(out.MaxRecordSize),
		DeadLetterTopic:    a.cfg.DeadLetter.Topic,
		CreateTopics:       a.cfg.Kafka.CreateTopics,
		Delivery:           p.Delivery,
		Capacity:           p.Capacity,
		CommitInterval:     p.CommitInterval,
		TransactionTimeout: p.TransactionTimeout,
		Grace:              drainTime(p.ShutdownGrace),
		Client:             a.clientFor("facts"),
		FetchBytes:         onTheWire(a.plan.Memory.FactFetch),
		ProduceBytes:       a.plan.Memory.Produce,
		Metrics:            a.facts,
		Logger:             a.log.With("part", "pipeline"),
	}
}

// beforeBatch brings the dimensions that lookups read up to date before a batch of facts is looked up, and holds the facts while one of them says so. Those
// in mode async cost a look, those in mode sync a round trip to the brokers, all at the same time. Nil when there is no dimension.
func (a *app) beforeBatch() func(context.Context) error {
	var looks, trips []*changelog.Dimension
	for _, d := range a.dimensions {
		switch feed := d.feed.Load(); {
		case !slices.ContainsFunc(a.cfg.Lookups, func(l config.Lookup) bool { return l.Dimension == d.plan.Name }):
		case d.plan.Refresh.Mode == changelog.Sync:
			trips = append(trips, feed)
		default:
			looks = append(looks, feed)
		}
	}
	if len(looks)+len(trips) == 0 {
		return nil
	}
	return func(ctx context.Context) error {
		for _, feed := range looks {
			if err := feed.Refresh(ctx); err != nil {
				return err
			}
		}
		switch len(trips) {
		case 0:
			return nil
		case 1:
			return trips[0].Refresh(ctx)
		}
		return refreshAll(ctx, trips)
	}
}

// refreshAll refreshes dimensions at the same time. The first error ends it.
func refreshAll(ctx context.Context, feeds []*changelog.Dimension) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, len(feeds))
	for _, feed := range feeds {
		go func() { ended <- feed.Refresh(ctx) }()
	}
	var first error
	for range feeds {
		if err := <-ended; err != nil && first == nil {
			first = err
			cancel()
		}
	}
	return first
}

// awaitWarm waits until every dimension has been read up to the end that was seen at start, or until processing.warmup.timeout, which ends the service or
// lets it go on without the dimensions that are cold. It returns nil as well when ctx ends first.
func (a *app) awaitWarm(ctx context.Context) error {
	began := time.Now()
	w := a.cfg.Processing.Warmup
	var timeout <-chan time.Time // never
	if w.Timeout > 0 {
		timer := time.NewTimer(w.Timeout)
		defer timer.Stop()
		timeout = timer.C
	}
	for _, d := range a.dimensions {
		select {
		case <-d.feed.Load().Warm():
			continue
		case <-ctx.Done():
			return nil
		case <-timeout:
		}
		cold := a.chill()
		if len(cold) == 0 { // the last one became warm at the same moment
			break
		}
		if w.OnTimeout != "proceed" {
			return fmt.Errorf("warm-up: not done after %s: %s: raise processing.warmup.timeout, mend what the reasons say, or go on without with processing.warmup.on_timeout: proceed",
				w.Timeout, strings.Join(cold, "; "))
		}
		a.log.WarnContext(ctx, "going on before all dimensions are warm", "after", w.Timeout.String(), "cold", cold)
		return nil
	}
	a.log.InfoContext(ctx, "all dimensions are warm", "dimensions", len(a.dimensions), "after", time.Since(began).Round(time.Millisecond).String())
	return nil
}

// chill marks the dimensions that are not warm as cold and says what each waits for.
func (a *app) chill() []string {
	var cold []string
	for _, d := range a.dimensions {
		if d.warm() {
			continue
		}
		cold = append(cold, d.plan.Name+": "+warmupDetail(d.status()))
		d.cold.Store(true)
	}
	return cold
}
