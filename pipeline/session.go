package pipeline

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// session is one membership of the group with one client, from joining to the error or the drain that ends it. What it holds in flight dies
// with it: the next session begins at the committed offsets.
//
// Goroutines: the poller reads facts into lanes, one worker per batch looks it up, the writer (the goroutine of run) produces and
// commits. The client's callbacks add and take lanes.
type session struct {
	p      *Pipeline
	o      *Options
	client *kgo.Client
	txn    *kgo.GroupTransactSession // nil when at least once
	admin  *kadm.Client
	ctx    context.Context         //nolint:containedctx // ends with the session, which owns it
	cancel context.CancelCauseFunc // ends the session with a cause

	gate  *gate
	ready chan *batch
	slots chan *worker // bounds the lookups at work, and holds their memory

	member atomic.Bool // of the group, as this client knows
	shrunk atomic.Bool // lanes were taken away since the writer last looked

	mu         sync.Mutex
	lanes      map[laneID]*lane                   // guarded by mu
	owned      map[laneID]bool                    // the last assignment, guarded by mu
	ownedAt    time.Time                          // when it last changed; guarded by mu
	fetched    map[laneID]commitment              // commits of the last offset fetch, guarded by mu
	acked      []*batch                           // written and acknowledged, not committed; guarded by mu
	refused    map[origin]refusedRecord           // facts refused by the broker since the last begin; guarded by mu
	failure    error                              // the environment's first error since the last begin; guarded by mu
	rules      atomic.Pointer[topicRules]         // what explains the last refusal
	refusing   atomic.Pointer[map[origin]refusal] // what workers need of refusals
	refusals   refusals                           // the writer's own
	writing    atomic.Int64                       // batches written and not yet acknowledged
	inFlight   atomic.Int64                       // facts read and not yet acknowledged
	room       chan struct{}                      // signals that inFlight fell
	broken     chan struct{}                      // signals that a record was not taken
	assigned   chan struct{}                      // signals that the group gave or took lanes
	progressed bool                               // something was committed; the writer's own
}

// readyBatches is how many batches may wait for the writer: what is looked up while a transaction ends. With the bytes of a run it bounds their memory.
const readyBatches = 32

// fatalError ends the service. Everything else ends only the session.
type fatalError struct{ error }

func (e fatalError) Unwrap() error { return e.error }

var (
	errSecondOwner = errors.New("another process runs with this instance id and has taken its place in the group: give each instance an input.instance_id and a store.dir of its own")
	errFenced      = errors.New("this instance's place in the group was taken, by its own past or by a second owner of the instance id")
	errOutage      = errors.New("no commit within the transaction timeout")
	errGrace       = errors.New("the shutdown grace is over")
)

// newSession makes the client and joins the group. The transactional id is taken over at once, which ends a transaction that a former life
// of this instance left open, so that its readers and this session's own offset fetch do not wait for its timeout.
func newSession(ctx context.Context, p *Pipeline, admin *kadm.Client, limits batchLimits) (*session, error) {
	s := &session{
		p: p, o: &p.o, admin: admin, gate: newGate(), lanes: map[laneID]*lane{}, refused: map[origin]refusedRecord{},
		ready: make(chan *batch, readyBatches), room: make(chan struct{}, 1), broken: make(chan struct{}, 1), assigned: make(chan struct{}, 1),
		slots: p.slots,
	}
	s.ctx, s.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	opts := s.options(limits)
	var err error
	if p.o.Delivery == ExactlyOnce {
		if s.txn, err = kgo.NewGroupTransactSession(opts...); err == nil {
			s.client = s.txn.Client()
		}
	} else {
		s.client, err = kgo.NewClient(opts...)
	}
	if err != nil {
		return nil, fatalError{fmt.Errorf("make Kafka client: %w", err)}
	}
	if s.txn == nil {
		return s, nil
	}
	if _, _, err = s.client.ProducerID(ctx); err != nil {
		s.close()
		return nil, fmt.Errorf("take over transactional id %s: %w", p.transactionalID(), err)
	}
	if err := s.txn.Begin(); err != nil {
		s.close()
		return nil, fmt.Errorf("begin transaction: %w", err)
	}
	return s, nil
}

func (s *session) options(limits batchLimits) []kgo.Opt {
	o := s.o
	manual := ""
	if o.Partition == PartitionInput {
		manual = o.OutputTopic
	}
	opts := append([]kgo.Opt(nil), o.Client...)
	opts = append(opts,
		kgo.ConsumerGroup(o.Group), kgo.ConsumeTopics(o.Topics...), kgo.InstanceID(o.InstanceID), kgo.SessionTimeout(o.SessionTimeout),
		kgo.HeartbeatInterval(o.heartbeat()),
		kgo.BlockRebalanceOnPoll(), kgo.DisableAutoCommit(),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()), kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.FetchMaxBytes(int32(o.FetchBytes)), kgo.FetchMaxPartitionBytes(int32(max(o.FetchBytes/4, min(1<<20, o.FetchBytes)))), kgo.MaxConcurrentFetches(2),
		kgo.MetadataMaxAge(30*time.Second), kgo.MetadataMinAge(250*time.Millisecond),
		kgo.OnOffsetsFetched(s.onOffsetsFetched), kgo.AdjustFetchOffsetsFn(s.onAdjustOffsets),
		kgo.RecordPartitioner(newPartitioner(manual)), kgo.ProducerBatchCompression(codec(o.Compression)),
		kgo.ProducerBatchMaxBytesFn(limits.of), kgo.ProducerLinger(2*time.Millisecond),
		kgo.MaxBufferedRecords(max(4*o.Capacity, 1000)), kgo.MaxBufferedBytes(max(o.ProduceBytes, 2*o.MaxRecordSize)),
	)
	opts = append(opts, s.membership()...)
	if o.Delivery == ExactlyOnce {
		opts = append(opts, kgo.TransactionalID(s.p.transactionalID()), kgo.TransactionTimeout(o.TransactionTimeout))
	}
	return opts
}

func codec(name string) kgo.CompressionCodec {
	switch name {
	case "gzip":
		return kgo.GzipCompression()
	case "lz4":
		return kgo.Lz4Compression()
	case "zstd":
		return kgo.ZstdCompression()
	case "snappy":
		return kgo.SnappyCompression()
	default:
		return kgo.NoCompression()
	}
}

// run works until ctx ends, when it drains and returns nil, or until an error.
func (s *session) run(ctx context.Context) error {
	polling, stopPolling := context.WithCancel(ctx) // ends with ctx, or with the session
	defer context.AfterFunc(s.ctx, stopPolling)()   //nolint:contextcheck // the session outlives ctx, to drain
	defer stopPolling()
	var wg sync.WaitGroup
	polled := make(chan struct{})
	wg.Go(func() {
		defer close(polled)
		s.poll(polling, &wg)
	})
	ended := make(chan struct{})
	wg.Go(func() { s.watchGrace(ctx, ended) })
	err := s.writeAll(ctx, polled)
	close(ended)
	s.cancel(err)
	s.gate.open()
	<-polled
	wg.Wait()
	return err
}

// watchGrace ends the session when the grace after the end of ctx is over. The writer can't: a commit may hold it, for a rebalance say, when ctx ends.
func (s *session) watchGrace(ctx context.Context, ended <-chan struct{}) {
	select {
	case <-ctx.Done():
	case <-ended:
		return
	}
	grace := time.NewTimer(s.o.Grace)
	defer grace.Stop()
	select {
	case <-grace.C:
		s.cancel(errGrace)
	case <-ended:
	}
}

// close gives the client up. A client whose broker is away can take long over it, so the wait is bounded; what it holds was never committed.
func (s *session) close() {
	s.cancel(nil)
	s.member.Store(false)
	done := make(chan struct{})
	go func() {
		s.client.CloseAllowingRebalance()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(closeTimeout):
		s.o.Logger.Warn("client is slow to close, going on without it", "event", "close_slow")
	}
}

// closeTimeout bounds closing a client.
const closeTimeout = 3 * time.Second

// leaveGroup leaves by name: closing a static member's client does not leave.
func (s *session) leaveGroup(ctx context.Context) {
	if _, err := s.admin.LeaveGroup(ctx, kadm.LeaveGroup(s.o.Group).InstanceIDs(s.o.InstanceID).Reason("shutdown")); err != nil {
		s.o.Logger.WarnContext(ctx, "leaving the group failed, its members wait for the session timeout", "event", "leave_failed", "error", err)
	}
}

// poll reads facts into the lanes until ctx ends.
func (s *session) poll(ctx context.Context, wg *sync.WaitGroup) {
	for {
		limit := s.awaitRoom(ctx)
		if limit == 0 {
			return
		}
		pctx := s.gate.enter(ctx)
		if ctx.Err() != nil {
			s.gate.leave()
			return
		}
		start := time.Now()
		fetches := s.client.PollRecords(pctx, limit)
		s.o.Metrics.phase(phasePoll, time.Since(start))
		failed, err := s.pollErrors(fetches)
		if err == nil {
			err = s.dispatch(fetches, wg)
		}
		s.client.AllowRebalance()
		s.gate.leave()
		if err != nil {
			s.cancel(err)
			return
		}
		if failed && fetches.NumRecords() == 0 { // an error that only a person can mend comes back at once
			pause(ctx, pollPause)
		}
	}
}

// pollPause is the time between polls that bring nothing but errors.
const pollPause = 200 * time.Millisecond

// pause waits for d or for the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// maxPoll is how many facts one poll takes at most, over all Kafka partitions.
const maxPoll = 4096

// awaitRoom waits until facts may be read and returns how many; 0 ends the poller. It waits for an eighth of the capacity, so that a full
// pipeline does not poll fact by fact.
func (s *session) awaitRoom(ctx context.Context) int {
	for {
		if ctx.Err() != nil {
			return 0
		}
		if room := int64(s.o.Capacity) - s.inFlight.Load(); room > 0 && room >= int64(s.o.Capacity/8) {
			return int(min(room, maxPoll))
		}
		select {
		case <-s.room:
		case <-ctx.Done():
		}
	}
}

// pollErrors sorts the errors of a poll. The client itself retries what can be retried; what it tells is remembered, and ends the session
// where the client can't go on.
func (s *session) pollErrors(fetches kgo.Fetches) (failed bool, end error) {
	fetches.EachError(func(topic string, partition int32, err error) {
		var loss *kgo.ErrDataLoss
		switch {
		case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, kgo.ErrClientClosed):
			return
		case errors.Is(err, kerr.FencedInstanceID):
			return // the hook for the end of a membership deals with it
		case errors.As(err, &loss):
			s.p.noteCut(laneID{topic, partition}, loss.ResetTo)
			end = fmt.Errorf("read topic %s, partition %d: %w", topic, partition, err)
		case errors.Is(err, kerr.OffsetOutOfRange), errors.Is(err, kerr.UnknownTopicID), errors.Is(err, kerr.InconsistentTopicID):
			// The next session compares the committed offsets with the log and decides by on_gap.
			end = fmt.Errorf("read topic %s, partition %d: %w", topic, partition, err)
		default:
			if topic != "" {
				err = fmt.Errorf("read topic %s, partition %d: %w", topic, partition, err)
			}
			s.p.remember(err)
		}
		failed = true
	})
	return failed, end
}

// dispatch gives polled facts to their lanes and starts workers for idle ones.
func (s *session) dispatch(fetches kgo.Fetches, wg *sync.WaitGroup) error {
	var err error
	fetches.EachPartition(func(fp kgo.FetchTopicPartition) {
		s.mu.Lock()
		l := s.lanes[laneID{fp.Topic, fp.Partition}]
		s.mu.Unlock()
		if l == nil || err != nil {
			return // taken away: its next reader begins at the committed offset
		}
		batches, readErr := l.read(fp.Records, fp.HighWatermark)
		if readErr != nil {
			err = fmt.Errorf("read topic %s, partition %d: %w", fp.Topic, fp.Partition, readErr)
			return
		}
		for _, b := range batches {
			s.inFlight.Add(int64(b.facts))
			wg.Go(func() { s.work(b) })
		}
	})
	return err
}

// releaseAll ends the counting of batches as in flight. It takes no lock.
func (s *session) releaseAll(batches []*batch) {
	n := 0
	for _, b := range batches {
		if !b.released.Swap(true) {
			n += b.facts
			if b.sent {
				s.writing.Add(-1)
			}
		}
	}
	if n > 0 {
		s.inFlight.Add(int64(-n))
		select {
		case s.room <- struct{}{}:
		default:
		}
	}
}
