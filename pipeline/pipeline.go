package pipeline

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Pipeline is the way of the facts: poll, look up, produce, commit.
type Pipeline struct {
	o     Options
	slots chan *worker // the memory of the lookups, shared by all sessions

	session atomic.Pointer[session]
	state   state
}

// New checks the options and starts nothing.
func New(o Options) (*Pipeline, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	p := &Pipeline{o: o}
	n := max(2, 2*runtime.GOMAXPROCS(0))
	p.slots = make(chan *worker, n)
	for range n {
		p.slots <- newWorker(o.Plan)
	}
	p.state.init(&o)
	o.Metrics.observe(p)
	return p, nil
}

// transactionalID is the id of this instance's transactions: the same for every life of the instance, another one for every other.
func (p *Pipeline) transactionalID() string { return p.o.Group + "-" + p.o.InstanceID }

// Run joins the group and enriches until ctx ends, then drains within the grace and returns nil; or until an error that ends the service.
// What fails in the environment (brokers, topics, rights, a producer that its own past has fenced) ends a session, not the service: the next
// one begins at the committed offsets.
func (p *Pipeline) Run(ctx context.Context) error {
	cl, err := kgo.NewClient(p.o.Client...)
	if err != nil {
		return fmt.Errorf("make Kafka client: %w", err)
	}
	admin := kadm.NewClient(cl)
	defer admin.Close()
	var wg sync.WaitGroup
	watch, stop := context.WithCancel(ctx)
	wg.Go(func() { p.watch(watch, admin) })
	defer wg.Wait()
	defer stop()
	for failures := 0; ; failures++ {
		committed, err := p.runSession(ctx, admin)
		if ctx.Err() != nil {
			if err != nil && !errors.Is(err, context.Canceled) {
				p.o.Logger.WarnContext(ctx, "stopped before all in flight was committed, it will be read again", "event", "drain_incomplete", "error", err)
			}
			return nil
		}
		if fatal := (fatalError{}); errors.As(err, &fatal) {
			return fatal.error
		}
		p.remember(err)
		p.o.Logger.WarnContext(ctx, "session ended, going on at the committed offsets", "event", "session_rebuild", "error", err)
		if committed {
			failures = 0
		}
		pause(ctx, min(time.Duration(failures)*retryStep, retryMax))
	}
}

// runSession works through one session. It tells whether the session committed anything.
func (p *Pipeline) runSession(ctx context.Context, admin *kadm.Client) (committed bool, err error) {
	limits, err := p.awaitTopics(ctx, admin)
	if err != nil {
		return false, err
	}
	if err := p.claimStart(ctx, admin); err != nil {
		return false, err
	}
	s, err := newSession(ctx, p, admin, limits)
	if err != nil {
		return false, err
	}
	p.session.Store(s)
	defer p.session.Store(nil)
	err = s.run(ctx)
	s.close()
	if ctx.Err() != nil && p.o.LeaveOnStop { // after the close, for a living member would join again
		lctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		s.leaveGroup(lctx)
	}
	return s.progressed, err
}
