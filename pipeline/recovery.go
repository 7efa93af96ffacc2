package pipeline

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// again drops everything in flight, to be read again from the committed offsets, after the client was set back to them.
func (w *writer) again(refused map[origin]refusedRecord, failure error) error {
	w.learnRefused(refused)
	w.mu.Lock()
	for _, l := range w.lanes {
		l.drop()
	}
	w.mu.Unlock()
	if failure != nil {
		w.failed(failure)
		if errors.Is(failure, kerr.UnknownTopicID) || errors.Is(failure, kerr.UnknownTopicOrPartition) || w.failures > failuresMax {
			return failure // a new client forgets what it knew of the topics
		}
	}
	w.arm() // so that what is no longer read here does not count as waiting for a commit
	if w.txn != nil {
		if err := w.txn.Begin(); err != nil {
			return w.lost(fmt.Errorf("begin transaction: %w", err))
		}
	}
	return nil
}

// learnRefused makes the most of what the broker refused: what the topics' configuration explains is known, of the rest a part is looked for.
func (w *writer) learnRefused(refused map[origin]refusedRecord) {
	if len(refused) > 0 {
		rules := w.p.askRules(w.ctx, w.admin)
		w.rules.Store(rules)
		known, rest := rules.explained(refused, time.Now())
		for o, message := range known {
			w.refusals.learn(o, message)
		}
		if len(known) == 0 {
			w.refusals.refused(rest) // else they may have been refused with the others only
		}
		if w.searches++; w.searches%searchTold == 0 && len(rest) > 0 { // a few are over in no time
			w.p.remember(fmt.Errorf("%s: looking for all such facts, nothing else is committed until then", slices.Min(slices.Collect(maps.Values(rest)))))
		}
	}
	w.publishRefusals()
}

// failed notes an attempt that failed and waits before the next one.
func (w *writer) failed(err error) {
	w.p.remember(err)
	w.failures++
	w.failedAt = time.Now()
	pause(w.ctx, min(time.Duration(w.failures)*retryStep, retryMax))
}

// idle notes that nothing waits for a commit. What failed a moment ago may still be on its way back.
func (w *writer) idle() {
	if w.failures > 0 && time.Since(w.failedAt) < writesFailAfter {
		w.arm()
		return
	}
	w.failures = 0
	w.p.settled(nil, w.writing.Load() > 0)
}

// notSaved deals with a commit outside a transaction that failed: what it would have said is for the next one. Kafka partitions that went with the
// membership are taken away by the client's callbacks.
func (w *writer) notSaved(err error, done []*batch, refused map[origin]refusedRecord, failure error) error {
	if errors.Is(err, kerr.FencedInstanceID) {
		return w.p.fenced()
	}
	w.failed(err)
	if w.failures > failuresMax {
		return err
	}
	w.mu.Lock()
	w.acked = append(done, w.acked...)
	maps.Copy(w.refused, refused)
	if w.failure == nil {
		w.failure = failure
	}
	w.mu.Unlock()
	w.arm()
	return nil
}

// errUnclear says that a commit came through of which the broker said the opposite, or nothing.
var errUnclear = errors.New("the group has offsets whose commit was not confirmed")

// notCommitted asks the group whether a transaction that the client gave up as not committed left the offsets as they were. The client takes
// an unclear answer to the commit (UNKNOWN_SERVER_ERROR) for an abort; going on at the former offsets would then write facts twice.
func (w *writer) notCommitted() error {
	ctx, cancel := context.WithTimeout(kadm.RequireStable(w.ctx), w.o.TransactionTimeout)
	defer cancel()
	for {
		offsets, err := w.admin.FetchOffsets(ctx, w.o.Group)
		if err == nil {
			err = offsets.Error()
		}
		switch {
		case errors.Is(err, kerr.GroupIDNotFound):
		case errors.Is(err, kerr.UnstableOffsetCommit):
			pause(ctx, retryStep)
			if ctx.Err() == nil {
				continue
			}
			return fmt.Errorf("ask for the committed offsets: %w", err)
		case err != nil:
			return fmt.Errorf("ask for the committed offsets: %w", err)
		}
		return w.compare(offsets)
	}
}

// compare holds what the group knows against what this session believes.
func (w *writer) compare(offsets kadm.OffsetResponses) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, l := range w.lanes {
		at := int64(-1)
		if o, ok := offsets.Lookup(id.topic, id.partition); ok {
			at = o.At
		}
		if known := l.knownToGroup(); at != known {
			return fmt.Errorf("%w: topic %s, partition %d: %d, not %d", errUnclear, id.topic, id.partition, at, known)
		}
	}
	return nil
}

// publishRefusals shows the workers what is known. The map is never changed, only replaced.
func (w *writer) publishRefusals() {
	known := w.refusals.known
	w.refusing.Store(&known)
}

// searchTold is after how many attempts a person is told of a search for refused facts.
const searchTold = 20

// Pauses between attempts that fail, and after how many of them the client is given up.
const (
	failuresMax = 3
	retryStep   = 200 * time.Millisecond
	retryMax    = 5 * time.Second
)

// lost deals with a producer that can't go on. Whether its own past fenced it (the session is rebuilt) or a second owner of its id (the
// service ends) is what the group says: the second owner has taken this member's place there. The member's place may also have been taken by its
// own join whose answer is still on its way; then the client's next request tells, for a second owner answers that one with a fence, too.
func (w *writer) lost(err error) error {
	if cause := context.Cause(w.ctx); cause != nil {
		return cause
	}
	member, generation := w.client.GroupMetadata()
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.MemberID, req.Generation, req.InstanceID = w.o.Group, member, generation, &w.o.InstanceID
	ctx, cancel := context.WithTimeout(w.ctx, 2*time.Second)
	defer cancel()
	if resp, beatErr := req.RequestWith(ctx, w.client); beatErr == nil && errors.Is(kerr.ErrorForCode(resp.ErrorCode), kerr.FencedInstanceID) {
		pause(w.ctx, 2*w.o.heartbeat())
		if cause := context.Cause(w.ctx); cause != nil {
			return cause
		}
	}
	return err
}
