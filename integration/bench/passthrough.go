package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Settings that the configurations of the cases and the passthrough share. Those of the client are the ones that the service chooses with its default
// capacity and store.memory.
const (
	compression    = "snappy"
	commitInterval = 100 * time.Millisecond
	sessionTimeout = 45 * time.Second

	pollRecords       = 4096
	linger            = 2 * time.Millisecond
	fetchBytes        = 8 << 20
	fetchPartition    = fetchBytes / 4
	concurrentFetches = 2
	bufferedRecords   = 40_000
	bufferedBytes     = 33 << 20
	batchBytes        = 1 << 20
)

// passthrough is the yardstick: it consumes a topic and writes its records as they are into another one.
type passthrough struct {
	broker, group, input, output, delivery string

	client *kgo.Client
	failed atomic.Pointer[error] // of the first record that was not taken
}

// servePassthrough is the role of the passthrough; it runs until ctx ends.
func servePassthrough(ctx context.Context, args []string) error {
	p := &passthrough{}
	flags := flag.NewFlagSet("passthrough", flag.ContinueOnError)
	flags.StringVar(&p.broker, "broker", "", "address")
	flags.StringVar(&p.group, "group", "", "group")
	flags.StringVar(&p.input, "input", "", "topic")
	flags.StringVar(&p.output, "output", "", "topic")
	flags.StringVar(&p.delivery, "delivery", "", "exactly_once or at_least_once")
	if err := flags.Parse(args); err != nil {
		return err
	}
	run := p.atLeastOnce
	if p.delivery == exactlyOnce {
		run = p.exactlyOnce
	}
	if err := run(ctx); err != nil && ctx.Err() == nil {
		return fmt.Errorf("passthrough, %s: %w", p.delivery, err)
	}
	return nil
}

func (p *passthrough) options() []kgo.Opt {
	return []kgo.Opt{
		kgo.SeedBrokers(p.broker), kgo.ConsumerGroup(p.group), kgo.ConsumeTopics(p.input), kgo.SessionTimeout(sessionTimeout),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.Balancers(kgo.CooperativeStickyBalancer()), kgo.BlockRebalanceOnPoll(), kgo.DisableAutoCommit(),
		kgo.FetchMaxBytes(fetchBytes), kgo.FetchMaxPartitionBytes(fetchPartition), kgo.MaxConcurrentFetches(concurrentFetches),
		kgo.ProducerBatchCompression(kgo.SnappyCompression()), kgo.ProducerLinger(linger), kgo.ProducerBatchMaxBytes(batchBytes),
		kgo.MaxBufferedRecords(bufferedRecords), kgo.MaxBufferedBytes(bufferedBytes),
	}
}

// exactlyOnce puts what is read within a commit interval, and its offsets, into one transaction.
func (p *passthrough) exactlyOnce(ctx context.Context) error {
	session, err := kgo.NewGroupTransactSession(append(p.options(), kgo.TransactionalID(p.group), kgo.TransactionTimeout(10*time.Second))...)
	if err != nil {
		return err
	}
	p.client = session.Client()
	defer p.client.CloseAllowingRebalance()
	for {
		if err := session.Begin(); err != nil {
			return err
		}
		interval, cancel := context.WithTimeout(ctx, commitInterval)
		for interval.Err() == nil {
			err = p.forward(ctx, session.PollRecords(interval, pollRecords), nil)
			p.client.AllowRebalance()
			if err != nil {
				break
			}
		}
		cancel()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return err
		}
		if _, err := session.End(ctx, kgo.TryCommit); err != nil {
			return err
		}
	}
}

// polled is one poll of the plain passthrough on its way.
type polled struct {
	pending atomic.Int64 // records that are not acknowledged
	offsets map[int32]kgo.EpochOffset
}

// polls are those that are not committed, in order.
type polls struct {
	mu      sync.Mutex
	waiting []*polled // guarded by mu
}

func (q *polls) add(p *polled) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, p)
}

// take gives the offsets of all polls that are acknowledged and have none before them that is not.
func (q *polls) take() map[int32]kgo.EpochOffset {
	q.mu.Lock()
	defer q.mu.Unlock()
	due := map[int32]kgo.EpochOffset{}
	for len(q.waiting) > 0 && q.waiting[0].pending.Load() == 0 {
		maps.Copy(due, q.waiting[0].offsets)
		q.waiting = q.waiting[1:]
	}
	return due
}

// atLeastOnce commits at every interval the offsets of what is acknowledged, and stops for nothing.
func (p *passthrough) atLeastOnce(ctx context.Context) error {
	client, err := kgo.NewClient(p.options()...)
	if err != nil {
		return err
	}
	p.client = client
	defer client.CloseAllowingRebalance()
	ctx, cancel := context.WithCancelCause(ctx)
	var q polls
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel(nil)
	wg.Go(func() {
		tick := time.NewTicker(commitInterval)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			if err := p.commit(ctx, q.take()); err != nil {
				cancel(err)
				return
			}
		}
	})
	for ctx.Err() == nil {
		poll := &polled{offsets: map[int32]kgo.EpochOffset{}}
		err := p.forward(ctx, client.PollRecords(ctx, pollRecords), poll)
		q.add(poll)
		client.AllowRebalance()
		if err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

func (p *passthrough) commit(ctx context.Context, due map[int32]kgo.EpochOffset) error {
	if len(due) == 0 {
		return nil
	}
	var failure error
	p.client.CommitOffsetsSync(ctx, map[string]map[int32]kgo.EpochOffset{p.input: due},
		func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
			failure = err
			if resp == nil {
				return
			}
			for _, t := range resp.Topics {
				for _, part := range t.Partitions {
					failure = errors.Join(failure, kerr.ErrorForCode(part.ErrorCode))
				}
			}
		})
	return failure
}

// forward produces what was polled. poll, when not nil, learns what was read and when all of it is acknowledged.
func (p *passthrough) forward(ctx context.Context, fetches kgo.Fetches, poll *polled) error {
	if err := p.failed.Load(); err != nil {
		return *err
	}
	for _, e := range fetches.Errors() {
		if ctx.Err() == nil && !errors.Is(e.Err, context.DeadlineExceeded) {
			return e.Err
		}
	}
	done := func(_ *kgo.Record, err error) {
		if err != nil {
			p.failed.CompareAndSwap(nil, &err)
			return // never done: it is not committed
		}
		if poll != nil {
			poll.pending.Add(-1)
		}
	}
	if poll != nil {
		poll.pending.Store(int64(fetches.NumRecords()))
	}
	fetches.EachPartition(func(part kgo.FetchTopicPartition) {
		if n := len(part.Records); n > 0 && poll != nil {
			last := part.Records[n-1]
			poll.offsets[part.Partition] = kgo.EpochOffset{Epoch: last.LeaderEpoch, Offset: last.Offset + 1}
		}
		for _, r := range part.Records {
			*r = kgo.Record{Topic: p.output, Key: r.Key, Value: r.Value, Headers: r.Headers, Timestamp: r.Timestamp}
			p.client.Produce(ctx, r, done)
		}
	})
	return nil
}
