package pipeline

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// membership are the options that join the group and follow what it assigns.
//
// GroupTransactSession calls OnPartitionsRevoked and OnPartitionsLost only for the first time since the last end of a transaction. What the later
// calls would have said is made up for: the balancer sees each whole assignment, and what it does not name is taken away.
func (s *session) membership() []kgo.Opt {
	return []kgo.Opt{
		kgo.Balancers(assignments{kgo.CooperativeStickyBalancer(), s}),
		kgo.OnPartitionsAssigned(func(context.Context, *kgo.Client, map[string][]int32) {
			s.takeUnassigned()
			s.joined()
			s.wake()
		}),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, lost map[string][]int32) { s.takeAway(lost) }),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, lost map[string][]int32) {
			s.member.Store(false)
			s.takeAway(lost)
		}),
		kgo.WithHooks(groupErrors{s}),
	}
}

// assignments is a balancer that shows the session every assignment as a whole.
type assignments struct {
	kgo.GroupBalancer
	s *session
}

// ParseSyncAssignment implements kgo.GroupBalancer.
func (a assignments) ParseSyncAssignment(raw []byte) (map[string][]int32, error) {
	assigned, err := a.GroupBalancer.ParseSyncAssignment(raw)
	if err != nil {
		return nil, fmt.Errorf("parse assignment: %w", err)
	}
	owned := make(map[laneID]bool)
	for topic, partitions := range assigned {
		for _, partition := range partitions {
			owned[laneID{topic, partition}] = true
		}
	}
	a.s.mu.Lock()
	if !maps.Equal(a.s.owned, owned) {
		a.s.owned, a.s.ownedAt = owned, time.Now()
	}
	a.s.mu.Unlock()
	return assigned, nil
}

// groupErrors is told what ended a membership.
type groupErrors struct{ s *session }

// OnGroupManageError implements kgo.HookGroupManageError.
func (g groupErrors) OnGroupManageError(err error) {
	g.s.member.Store(false)
	if errors.Is(err, kerr.FencedInstanceID) {
		g.s.cancel(g.s.p.fenced())
		return
	}
	g.s.p.remember(fmt.Errorf("group %s: %w", g.s.o.Group, err))
}

// fencedAgain is how soon after one fence another one proves a second owner.
const fencedAgain = time.Minute

// fenced is the error of a session whose place in the group was taken. The first time it may have been this instance's own past: a join of a
// former session that the broker got to late. Then the next session has its place. A second owner takes it again.
func (p *Pipeline) fenced() error {
	p.state.mu.Lock()
	defer p.state.mu.Unlock()
	before := p.state.fencedAt
	p.state.fencedAt = time.Now()
	if !before.IsZero() && time.Since(before) < fencedAgain {
		return fatalError{errSecondOwner}
	}
	return errFenced
}

// joined notes an assignment, and tells a person when it is the first of this membership.
func (s *session) joined() {
	if s.member.Swap(true) {
		return
	}
	s.mu.Lock()
	n := len(s.owned)
	s.mu.Unlock()
	s.o.Logger.InfoContext(s.ctx, "joined the group", "event", "group_joined", "group", s.o.Group, "instance_id", s.o.InstanceID, "kafka_partitions", n)
}

// unplaced counts the assigned Kafka partitions that are not read though they were assigned a while ago: the group does not say where they begin.
// That is so while their committed offsets are part of a transaction that has not ended.
func (s *session) unplaced() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.ownedAt) < unplacedAfter {
		return 0
	}
	n := 0
	for id := range s.owned {
		if s.lanes[id] == nil {
			n++
		}
	}
	return n
}

// unplacedAfter is for how long an assignment may take to be read.
const unplacedAfter = 10 * time.Second

// takeAway drops the lanes of Kafka partitions that this instance no longer reads.
func (s *session) takeAway(lost map[string][]int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for topic, partitions := range lost {
		for _, partition := range partitions {
			s.dropLane(laneID{topic, partition})
		}
	}
}

// takeUnassigned drops the lanes that the last assignment does not name.
func (s *session) takeUnassigned() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.lanes {
		if !s.owned[id] {
			s.dropLane(id)
		}
	}
}

// dropLane takes one lane away. The caller holds mu.
func (s *session) dropLane(id laneID) {
	if l := s.lanes[id]; l != nil {
		l.leave()
		delete(s.lanes, id)
		s.shrunk.Store(true)
		s.wake()
	}
}

// wake lets the writer look, within a commit interval, at what the group changed.
func (s *session) wake() {
	select {
	case s.assigned <- struct{}{}:
	default:
	}
}
