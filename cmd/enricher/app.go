package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"

	"enricher/admin"
	"enricher/changelog"
	"enricher/config"
	"enricher/dimstore"
	"enricher/lookup"
	"enricher/pipeline"
)

// closeMargin is what closing may take beyond processing.shutdown_grace before the process ends without it. Stores and transactions survive that: it is a
// crash, and they are made for one.
const closeMargin = time.Second

// drainTime is the pipeline's share of the shutdown grace: the rest is for closing clients and leaving the group, which takes seconds when no broker answers.
func drainTime(grace time.Duration) time.Duration { return grace - min(grace/4, 8*time.Second) }

// app is the running service: the only place where the parts meet.
//
// Order of start: the admin server (alive, not ready), the store directory and the stores, the changelogs of all dimensions at the same time, and once all
// are warm the pipeline, which joins the group. Order of stop: the pipeline drains within the grace, the changelogs end, what was opened is closed in
// reverse, the admin server last. The first error of any part stops the others.
type app struct {
	cfg        *config.Config
	plan       servicePlan
	client     []kgo.Opt
	version    versionInfo
	log        *slog.Logger
	registry   *prometheus.Registry
	admin      *admin.Server
	dimensions []*dimension
	changelogs *changelog.Metrics
	facts      *pipeline.Metrics
	startedAt  time.Time

	phase      atomic.Int32                      // a phase
	instanceID atomic.Pointer[string]            // nil before the store directory is open
	pipeline   atomic.Pointer[pipeline.Pipeline] // nil before the dimensions are warm
	listening  chan struct{}                     // closed once admin has its address
}

// newApp makes the service and starts nothing. The error is a *config.InvalidError.
func newApp(cfg *config.Config, v versionInfo, log *slog.Logger) (*app, error) {
	a := &app{cfg: cfg, version: v, log: log, listening: make(chan struct{})}
	tables := map[string]lookup.Table{}
	for _, c := range cfg.Dimensions {
		d := &dimension{}
		a.dimensions = append(a.dimensions, d)
		tables[c.Name] = d
	}
	plan, planErr := newPlan(cfg, func(name string) lookup.Table { return tables[name] })
	client, problems := clientOptions(cfg, log)
	if err := joinInvalid(planErr, problems); err != nil {
		return nil, err
	}
	for i, d := range a.dimensions {
		d.plan = plan.Dimensions[i]
	}
	a.plan, a.client = plan, client
	a.registry = newRegistry(v, func() bool { return len(a.reasons()) == 0 })
	a.registry.MustRegister(newCacheMetrics(a.dimensions))
	a.changelogs = changelog.NewMetrics(a.registry)
	a.facts = pipeline.NewMetrics(a.registry)
	a.admin = admin.New(admin.Options{
		Address: cfg.Admin.Listen, Ready: a.reasons, Status: func() any { return a.status() }, Gatherer: a.registry, Logger: log.With("part", "admin"),
		TokenFile: cfg.Admin.TokenFile, Pprof: cfg.Admin.Pprof,
	})
	return a, nil
}

// joinInvalid adds problems to those of err.
func joinInvalid(err error, problems []config.Problem) error {
	if invalid, ok := errors.AsType[*config.InvalidError](err); ok {
		return config.NewInvalidError(append(problems, invalid.Problems...))
	}
	if err != nil {
		return err
	}
	return config.NewInvalidError(problems)
}

// Run is the service from start to stop. It returns nil after a stop that ctx asked for, else the first error. It does not outlast the shutdown grace by
// more than closeMargin: what hangs then is left behind, and the process has to end. Nothing is lost by that, so it is no error of a stop that was asked for.
func (a *app) Run(ctx context.Context) error {
	a.startedAt = time.Now()
	run, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stopping := make(chan struct{}) // closed when the stop begins, whatever its cause
	context.AfterFunc(run, func() {
		a.phase.Store(int32(phaseStopping)) // unready at once
		close(stopping)
	})
	done := make(chan error, 1)
	go func() { done <- a.serve(run, cancel) }()
	patience := a.cfg.Processing.ShutdownGrace + closeMargin
	ended, err := awaitEnd(done, stopping, patience)
	if !ended {
		a.log.WarnContext(ctx, "ended before all was closed, the next start goes on at the last commit; raise processing.shutdown_grace if this comes again",
			"event", "close_incomplete", "after", patience.String())
	}
	if cause := context.Cause(run); cause != nil && !errors.Is(context.Cause(ctx), cause) && !errors.Is(err, cause) {
		err = errors.Join(cause, err) // what made a part stop the others
	}
	return err
}

// awaitEnd gives what comes out of done, but waits no longer than patience once stopping is closed.
func awaitEnd(done <-chan error, stopping <-chan struct{}, patience time.Duration) (ended bool, err error) {
	select {
	case err := <-done:
		return true, err
	case <-stopping:
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case err := <-done:
		return true, err
	case <-timer.C:
		return false, nil
	}
}

// serve runs the admin server around the rest.
func (a *app) serve(ctx context.Context, cancel context.CancelCauseFunc) error {
	if err := a.listen(ctx); err != nil {
		return err
	}
	adminCtx, stopAdmin := context.WithCancel(context.WithoutCancel(ctx)) // it answers until all else is closed
	defer stopAdmin()
	adminDone := make(chan error, 1)
	go func() {
		err := a.admin.Run(adminCtx)
		if err != nil {
			cancel(err)
		}
		adminDone <- err
	}()
	err := a.operate(ctx, cancel)
	stopAdmin()
	if adminErr := <-adminDone; !errors.Is(err, adminErr) {
		err = errors.Join(err, adminErr)
	}
	return err
}

// listen takes the admin server's address. Nobody but a person can mend it when it is taken.
func (a *app) listen(ctx context.Context) error {
	err := a.admin.Listen(ctx)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w: stop the process that listens there, or set admin.listen to a free address", err)
	}
	if err != nil {
		return fmt.Errorf("%w: set admin.listen to an address of this machine", err)
	}
	close(a.listening)
	a.log.InfoContext(ctx, "admin server listens", "address", a.admin.Addr().String())
	return nil
}

// operate opens the stores, warms the dimensions up, runs the pipeline, and closes all of it again.
func (a *app) operate(ctx context.Context, cancel context.CancelCauseFunc) (err error) {
	var open closers
	defer func() { err = errors.Join(err, open.close()) }()
	dir, err := dimstore.OpenDir(a.cfg.Store.Dir)
	if err != nil {
		return err
	}
	open.add(dir.Close)
	instance := a.cfg.InstanceID(dir.InstanceID())
	a.instanceID.Store(&instance)
	open.add(func() error { return closeStores(a.dimensions) })
	if err := openStores(dir, a.dimensions, a.storeOptions(), a.plan.Memory); err != nil {
		return err
	}
	deadLetter, err := a.deadLetters(instance, &open)
	if err != nil {
		return err
	}
	if err := a.makeFeeds(deadLetter); err != nil {
		return err
	}
	facts, err := pipeline.New(a.pipelineOptions(instance))
	if err != nil {
		return err
	}
	// Changes go on being applied while the pipeline drains: the feeds outlive ctx.
	feedCtx, stopFeeds := context.WithCancel(context.WithoutCancel(ctx))
	wait := follow(feedCtx, a.dimensions, func(err error) { cancel(err) })
	open.add(func() error { stopFeeds(); wait(); return nil })
	if ctx.Err() == nil {
		a.phase.CompareAndSwap(int32(phaseStarting), int32(phaseWarming))
	}
	if err := a.awaitWarm(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	return a.enrich(ctx, facts)
}

// enrich runs the pipeline until ctx ends.
func (a *app) enrich(ctx context.Context, facts *pipeline.Pipeline) error {
	a.pipeline.Store(facts)
	a.phase.CompareAndSwap(int32(phaseWarming), int32(phaseRunning))
	a.log.InfoContext(ctx, "joining the group", "group", a.cfg.Input.Group, "topics", a.cfg.Input.Topics)
	err := facts.Run(ctx)
	if err == nil && ctx.Err() == nil {
		err = errors.New("BUG: the pipeline ended without a reason")
	}
	return err
}

// closers are closed in reverse order, each with its own chance.
type closers struct{ fns []func() error }

func (c *closers) add(fn func() error) { c.fns = append(c.fns, fn) }

func (c *closers) close() error {
	var errs []error
	for _, fn := range slices.Backward(c.fns) {
		errs = append(errs, fn())
	}
	return errors.Join(errs...)
}
