package pipeline

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// setTxnOffsets replaces the offsets that the client would commit (everything polled) with those that are due, and their metadata.
func setTxnOffsets(req *kmsg.TxnOffsetCommitRequest, due map[laneID]offsetDue) error {
	ids := make(map[string][16]byte)
	for _, t := range req.Topics {
		ids[t.Topic] = t.TopicID
	}
	topics := make(map[string]*kmsg.TxnOffsetCommitRequestTopic)
	for id, d := range due {
		t := topics[id.topic]
		if t == nil {
			topic := kmsg.NewTxnOffsetCommitRequestTopic()
			t = &topic
			t.Topic, t.TopicID = id.topic, ids[id.topic]
			topics[id.topic] = t
		}
		p := kmsg.NewTxnOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = id.partition, d.Offset, d.epoch, &d.meta
		t.Partitions = append(t.Partitions, p)
	}
	req.Topics = req.Topics[:0]
	for _, t := range topics {
		req.Topics = append(req.Topics, *t)
	}
	return nil
}

// commitOffsets commits outside a transaction. That the group is rebalancing is no failure: the next commit says the same.
func (s *session) commitOffsets(due map[laneID]offsetDue) error {
	offsets := make(map[string]map[int32]kgo.EpochOffset)
	for id, d := range due {
		if offsets[id.topic] == nil {
			offsets[id.topic] = make(map[int32]kgo.EpochOffset)
		}
		offsets[id.topic][id.partition] = kgo.EpochOffset{Epoch: d.epoch, Offset: d.Offset}
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.o.SessionTimeout)
	defer cancel()
	ctx = kgo.PreCommitFnContext(ctx, func(req *kmsg.OffsetCommitRequest) error {
		for i := range req.Topics {
			t := &req.Topics[i]
			for j := range t.Partitions {
				meta := due[laneID{t.Topic, t.Partitions[j].Partition}].meta
				t.Partitions[j].Metadata = &meta
			}
		}
		return nil
	})
	var failure error
	s.client.CommitOffsetsSync(ctx, offsets, func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
		if err != nil {
			failure = err
			return
		}
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					failure = err
				}
			}
		}
	})
	if failure != nil {
		return fmt.Errorf("commit offsets: %w", failure)
	}
	return nil
}

// committedOffsets is where each lane begins again.
func (s *session) committedOffsets() map[string]map[int32]kgo.EpochOffset {
	s.mu.Lock()
	defer s.mu.Unlock()
	offsets := make(map[string]map[int32]kgo.EpochOffset)
	for id, l := range s.lanes {
		if offsets[id.topic] == nil {
			offsets[id.topic] = make(map[int32]kgo.EpochOffset)
		}
		offsets[id.topic][id.partition] = kgo.EpochOffset{Epoch: -1, Offset: l.status().Committed}
	}
	return offsets
}

// commitment is what the group knows of a Kafka partition: a committed position, or that there is none.
type commitment struct {
	position
	exists bool
}

// onOffsetsFetched keeps the commits of the Kafka partitions that were assigned, with their finished sets.
func (s *session) onOffsetsFetched(_ context.Context, _ *kgo.Client, resp *kmsg.OffsetFetchResponse) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fetched = make(map[laneID]commitment)
	for _, g := range resp.Groups {
		if err := kerr.ErrorForCode(g.ErrorCode); err != nil {
			return fmt.Errorf("fetch offsets: %w", err)
		}
		for _, t := range g.Topics {
			if t.Topic == "" { // the client resolves ids; without a name the commits would be taken for none
				return errors.New("fetch offsets: the answer names a topic by an unknown id")
			}
			for _, p := range t.Partitions {
				// The client would tell the error once and never read the Kafka partition; an error from here makes it join again.
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					return fmt.Errorf("fetch offset of topic %s, partition %d: %w", t.Topic, p.Partition, err)
				}
				c := commitment{exists: p.Offset >= 0}
				if c.exists {
					meta := ""
					if p.Metadata != nil {
						meta = *p.Metadata
					}
					c.position = position{Offset: p.Offset, Finished: decodeFinished(p.Offset, meta)}
				}
				s.fetched[laneID{t.Topic, p.Partition}] = c
			}
		}
	}
	for id := range s.owned {
		if _, told := s.fetched[id]; !told && s.lanes[id] == nil { // the client would leave it unread as well
			return fmt.Errorf("fetch offset of topic %s, partition %d: the answer does not name it", id.topic, id.partition)
		}
	}
	return nil
}

// onAdjustOffsets decides where each assigned Kafka partition begins, and makes its lane.
func (s *session) onAdjustOffsets(ctx context.Context, offsets map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	var topics []string
	for topic := range offsets {
		topics = append(topics, topic)
	}
	if len(topics) == 0 {
		return offsets, nil
	}
	starts, err := s.admin.ListStartOffsets(ctx, topics...)
	if err != nil {
		return nil, s.unlisted(err)
	}
	ends, err := s.admin.ListEndOffsets(ctx, topics...)
	if err != nil {
		return nil, s.unlisted(err)
	}
	s.mu.Lock()
	fetched := s.fetched
	s.mu.Unlock()
	var fresh []laneID
	begin := make(map[laneID]position)
	for topic, partitions := range offsets {
		for partition := range partitions {
			id := laneID{topic, partition}
			commit, known := fetched[id]
			if !known { // taking it for a commit that does not exist would read all again
				return nil, s.unlisted(fmt.Errorf("partition %d of topic %s: the group told no offset", partition, topic))
			}
			at := commit.position
			bounds, err := listed(starts, ends, id)
			if err != nil {
				if !commit.exists {
					return nil, s.unlisted(err)
				}
				begin[id] = at // a gap will show when it is read
				continue
			}
			if !commit.exists {
				begin[id] = position{Offset: bounds.first}
				fresh = append(fresh, id)
				continue
			}
			bounds.end = s.p.cutEnd(id, bounds.end)
			if g, out := findGap(id, at.Offset, bounds); out {
				if s.o.OnGap != OnGapContinue {
					s.cancel(fatalError{g})
					return nil, g
				}
				s.o.Logger.ErrorContext(ctx, "facts are missing, going on as input.on_gap says", "event", "input_gap",
					"topic", topic, "kafka_partition", partition, "committed", at.Offset, "log_start", bounds.first, "log_end", bounds.end, "resume", g.resume())
				s.o.Metrics.gap(topic, g.missing())
				at = position{Offset: g.resume()}
			}
			begin[id] = at
		}
	}
	if err := s.placeFresh(ctx, fresh, begin, ends); err != nil {
		return nil, s.unlisted(err)
	}
	s.addLanes(offsets, begin, fetched)
	return offsets, nil
}

// listed are the bounds of one Kafka partition. One that the answer does not name (the client's knowledge of the topic is old, the topic is going)
// is an error, not an empty log.
func listed(starts, ends kadm.ListedOffsets, id laneID) (logBounds, error) {
	first, known := starts.Lookup(id.topic, id.partition)
	end, knownToo := ends.Lookup(id.topic, id.partition)
	err := errors.Join(first.Err, end.Err)
	if err == nil && (!known || !knownToo) {
		err = errors.New("the bounds of the log are not known")
	}
	if err != nil {
		return logBounds{}, fmt.Errorf("partition %d of topic %s: %w", id.partition, id.topic, err)
	}
	return logBounds{first.Offset, end.Offset}, nil
}

// claimStart commits where a new group begins, for all Kafka partitions, before its first member joins: instances that start together then
// agree, whichever of them gets a Kafka partition first. Where the group has commits, or members that began without, there is nothing to
// claim; placeFresh decides then.
func (p *Pipeline) claimStart(ctx context.Context, admin *kadm.Client) error {
	if !p.o.Start.Latest && p.o.Start.At.IsZero() {
		return nil // the start of the log is the same for everybody
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	commits, err := p.groupCommits(ctx, admin)
	if errors.Is(err, kerr.UnstableOffsetCommit) {
		return nil // somebody commits: the group is not new
	}
	if err != nil || hasCommits(commits, p.o.Topics) {
		return err
	}
	at, err := p.startOffsets(ctx, admin, p.o.Topics)
	if err != nil {
		return err
	}
	var begin kadm.Offsets
	at.Each(func(o kadm.ListedOffset) { begin.AddOffset(o.Topic, o.Partition, o.Offset, -1) })
	if err := admin.CommitAllOffsets(ctx, p.o.Group, begin); err != nil {
		if errors.Is(err, kerr.UnknownMemberID) || errors.Is(err, kerr.IllegalGeneration) || errors.Is(err, kerr.RebalanceInProgress) {
			return nil // it has members
		}
		return fmt.Errorf("commit where the group starts: %w", err)
	}
	p.o.Logger.InfoContext(ctx, "new group, its start is committed", "event", "group_start", "group", p.o.Group)
	return nil
}

// groupCommits asks for the group's commits, none where it does not exist.
func (p *Pipeline) groupCommits(ctx context.Context, admin *kadm.Client) (kadm.OffsetResponses, error) {
	commits, err := admin.FetchOffsets(kadm.RequireStable(ctx), p.o.Group)
	if err == nil {
		err = commits.Error()
	}
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return nil, fmt.Errorf("look for the group's offsets: %w", err)
	}
	return commits, nil
}

// startOffsets are the offsets that input.start means, the end or a time.
func (p *Pipeline) startOffsets(ctx context.Context, admin *kadm.Client, topics []string) (at kadm.ListedOffsets, err error) {
	if p.o.Start.Latest {
		at, err = admin.ListEndOffsets(ctx, topics...)
	} else {
		at, err = admin.ListOffsetsAfterMilli(ctx, p.o.Start.At.UnixMilli(), topics...)
	}
	if err == nil {
		err = at.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("list offsets to start at: %w", err)
	}
	return at, nil
}

func hasCommits(commits kadm.OffsetResponses, topics []string) bool {
	for _, topic := range topics {
		for _, c := range commits[topic] {
			if c.At >= 0 {
				return true
			}
		}
	}
	return false
}

// placeFresh decides where Kafka partitions without a commit begin: by input.start in a group that has none at all, at the log start else, for then
// they are new and nothing of them may be left out.
func (s *session) placeFresh(ctx context.Context, fresh []laneID, begin map[laneID]position, ends kadm.ListedOffsets) error {
	if len(fresh) == 0 || !s.o.Start.Latest && s.o.Start.At.IsZero() {
		return nil
	}
	commits, err := s.p.groupCommits(ctx, s.admin)
	if err != nil {
		return err
	}
	if hasCommits(commits, s.o.Topics) {
		for _, id := range fresh { // another instance may have committed the beginning meanwhile
			if c, ok := commits.Lookup(id.topic, id.partition); ok && c.At >= 0 {
				begin[id] = position{Offset: c.At, Finished: decodeFinished(c.At, c.Metadata)}
			}
		}
		return nil
	}
	at := ends // asked for a moment ago
	if !s.o.Start.Latest {
		var topics []string
		for _, id := range fresh {
			topics = append(topics, id.topic)
		}
		if at, err = s.p.startOffsets(ctx, s.admin, topics); err != nil {
			return err
		}
	}
	for _, id := range fresh {
		o, ok := at.Lookup(id.topic, id.partition)
		if !ok {
			return fmt.Errorf("partition %d of topic %s: the offset to start at is not known", id.partition, id.topic)
		}
		begin[id] = position{Offset: o.Offset}
	}
	return nil
}

// addLanes makes the lanes and tells the client where they begin. A lane whose beginning the group does not know is committed soon, so that
// whoever reads it next begins at the same fact.
func (s *session) addLanes(offsets map[string]map[int32]kgo.Offset, begin map[laneID]position, fetched map[laneID]commitment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, at := range begin {
		commit := fetched[id]
		saved := commit.exists && commit.Offset == at.Offset
		if !saved {
			offsets[id.topic][id.partition] = kgo.NewOffset().At(at.Offset)
		}
		if old := s.lanes[id]; old != nil {
			old.leave()
		}
		l := newLane(id, at, saved)
		if l.inGroup = -1; commit.exists {
			l.inGroup = commit.Offset
		}
		s.lanes[id] = l
	}
	s.wake()
}

// unlisted remembers why the beginning of the Kafka partitions is not known; the client joins again.
func (s *session) unlisted(err error) error {
	err = fmt.Errorf("list offsets of input topics: %w", err)
	s.p.remember(err)
	return err
}
