package pipeline

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// topicWatch is how often the topics and the group are looked at while facts flow.
const topicWatch = 10 * time.Second

// releaseEvery is the least time between two attempts to release the group's offsets: where one does not help, they wait for somebody else.
const releaseEvery = 2 * time.Minute

// watch keeps the state of the topics true while facts flow, and sees that the group reads all of them.
func (p *Pipeline) watch(ctx context.Context, admin *kadm.Client) {
	var unread []laneID
	var released time.Time
	for {
		pause(ctx, topicWatch)
		if ctx.Err() != nil {
			return
		}
		p.watchTopics(ctx, admin)
		unread = p.watchGroup(ctx, admin, unread)
		if time.Since(released) > releaseEvery && p.watchPending(ctx) {
			released = time.Now()
		}
	}
}

// watchTopics looks which topics are missing.
func (p *Pipeline) watchTopics(ctx context.Context, admin *kadm.Client) {
	_, err := p.checkTopics(ctx, admin)
	if err == nil || ctx.Err() != nil {
		return
	}
	if fatal := (fatalError{}); errors.As(err, &fatal) { // without a session, the next one finds it before it begins
		if s := p.session.Load(); s != nil {
			s.cancel(err)
		}
		return
	}
	p.remember(err)
}

// watchGroup looks for Kafka partitions that no member of a stable group reads. That happens when a partition is added while the group's
// leader changes: the old leader assigned without it, and the new one has known it all along, so it sees nothing new. Found twice in a
// row, the group is asked for a new assignment, which only its leader's word brings about; every member gives it. It returns what was found.
func (p *Pipeline) watchGroup(ctx context.Context, admin *kadm.Client, before []laneID) []laneID {
	s := p.session.Load()
	if s == nil || !s.member.Load() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	groups, err := admin.DescribeGroups(ctx, p.o.Group)
	if err != nil {
		return nil // the group's own errors tell
	}
	group := groups[p.o.Group]
	if group.Err != nil || group.State != "Stable" {
		return nil
	}
	unread := p.unread(group.AssignedPartitions())
	if len(unread) == 0 || !slices.Equal(unread, before) {
		return unread
	}
	names := make([]string, len(unread))
	for i, id := range unread {
		names[i] = fmt.Sprintf("%s/%d", id.topic, id.partition)
	}
	p.remember(fmt.Errorf("Kafka partitions %s are assigned to no member of the group: asking for a new assignment", strings.Join(names, ", "))) //nolint:staticcheck // a name
	s.client.ForceRebalance()
	return nil
}

// unread lists the known Kafka partitions of the input topics that are not assigned, in order.
func (p *Pipeline) unread(assigned kadm.TopicsSet) []laneID {
	p.state.mu.Lock()
	partitions := maps.Clone(p.state.partitions)
	p.state.mu.Unlock()
	var unread []laneID
	for _, topic := range slices.Sorted(maps.Keys(partitions)) {
		for partition := range partitions[topic] {
			if !assigned.Lookup(topic, partition) {
				unread = append(unread, laneID{topic, partition})
			}
		}
	}
	return unread
}
