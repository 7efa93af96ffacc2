package changelog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"enricher/dimstore"
)

var (
	errMissing = errors.New("the topic does not exist")
	errNoMatch = errors.New("no topic matches")
)

// topicMeta is a topic as metadata shows it.
type topicMeta struct {
	id      [16]byte
	leaders []leader // by Kafka partition
	err     error    // why it is not known
}

// leader is who leads a bucket and since which epoch; a request that carries the epoch is refused by a broker that no longer leads.
type leader struct {
	node  int32
	epoch int32
}

// metadata asks the brokers, not the client's cache, for topics, or for all that match the route.
func (d *Dimension) metadata(ctx context.Context, cl *kgo.Client, topics []string) (map[string]topicMeta, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	req := kmsg.NewPtrMetadataRequest()
	for _, name := range topics {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = new(name)
		req.Topics = append(req.Topics, t)
	}
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return nil, fmt.Errorf("ask for metadata: %w", err)
	}
	metas := map[string]topicMeta{}
	for i := range resp.Topics {
		t := &resp.Topics[i]
		if t.Topic == nil || topics == nil && (t.IsInternal || !d.route.matches(*t.Topic)) {
			continue
		}
		metas[*t.Topic] = readMeta(t)
	}
	for _, name := range topics {
		if _, ok := metas[name]; !ok {
			metas[name] = topicMeta{err: errors.New("ask for metadata: the answer lacks the topic")}
		}
	}
	return metas, nil
}

func readMeta(t *kmsg.MetadataResponseTopic) topicMeta {
	switch err := kerr.ErrorForCode(t.ErrorCode); {
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		return topicMeta{err: errMissing}
	case err != nil:
		return topicMeta{err: fmt.Errorf("ask for metadata: %w", err)}
	}
	m := topicMeta{id: t.TopicID, leaders: make([]leader, len(t.Partitions))}
	for i := range m.leaders {
		m.leaders[i].node = -1
	}
	for _, p := range t.Partitions {
		if p.Partition < 0 || int(p.Partition) >= len(m.leaders) {
			return topicMeta{err: fmt.Errorf("ask for metadata: the answer has Kafka partition %d among %d", p.Partition, len(m.leaders))}
		}
		m.leaders[p.Partition] = leader{node: p.Leader, epoch: p.LeaderEpoch}
	}
	if len(m.leaders) == 0 {
		return topicMeta{err: errors.New("ask for metadata: the topic has no Kafka partition yet")}
	}
	return m
}

// list asks for the topics of the route and for those that are known. What is not known to the brokers has errMissing; a topic that a listing of all
// lacks is asked for by its name, for one that may not be described is not in it either.
func (d *Dimension) list(ctx context.Context, cl *kgo.Client, known []string) (map[string]topicMeta, error) {
	if d.route.pattern == nil {
		return d.metadata(ctx, cl, []string{d.route.topic})
	}
	metas, err := d.metadata(ctx, cl, nil)
	if err != nil {
		return nil, err
	}
	var lacking []string
	for _, name := range known {
		if _, ok := metas[name]; !ok {
			lacking = append(lacking, name)
		}
	}
	if len(lacking) == 0 {
		return metas, nil
	}
	more, err := d.metadata(ctx, cl, lacking)
	if err != nil {
		return nil, err
	}
	maps.Copy(metas, more)
	return metas, nil
}

// present are the topics of a listing that are there, whether or not they can be read, in order.
func present(metas map[string]topicMeta) []string {
	var names []string
	for name, m := range metas {
		if !errors.Is(m.err, errMissing) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// offset is one answer to listOffsets.
type offset struct {
	at  int64
	err error
}

// The questions of listOffsets.
const (
	offsetStart = -2
	offsetEnd   = -1
)

// listOffsets asks the leaders for an offset of each bucket. The error of a bucket is in its place: a bucket that an answer leaves out has one, too.
func listOffsets(ctx context.Context, cl *kgo.Client, ids []dimstore.BucketID, what int64, isolation int8) ([]offset, error) {
	all := make([]offset, len(ids))
	if len(ids) == 0 {
		return all, nil
	}
	place := make(map[dimstore.BucketID]int, len(ids))
	topics := map[string]int{}
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID, req.IsolationLevel = -1, isolation
	for i, id := range ids {
		place[id] = i
		all[i].err = fmt.Errorf("ask for offsets of bucket %d of topic %q: the answer lacks it", id.Partition, id.Topic)
		n, ok := topics[id.Topic]
		if !ok {
			n = len(req.Topics)
			topics[id.Topic] = n
			t := kmsg.NewListOffsetsRequestTopic()
			t.Topic = id.Topic
			req.Topics = append(req.Topics, t)
		}
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.Timestamp = id.Partition, what
		req.Topics[n].Partitions = append(req.Topics[n].Partitions, p)
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	put := func(topic string, partition int32, at int64, err error) {
		if i, ok := place[dimstore.BucketID{Topic: topic, Partition: partition}]; ok {
			all[i] = offset{at: at}
			if err != nil {
				all[i].err = fmt.Errorf("ask for offsets of bucket %d of topic %q: %w", partition, topic, err)
			}
		}
	}
	for _, shard := range cl.RequestSharded(ctx, req) {
		if shard.Err != nil {
			asked, ok := shard.Req.(*kmsg.ListOffsetsRequest)
			if !ok || ctx.Err() != nil {
				return nil, fmt.Errorf("ask for offsets: %w", shard.Err)
			}
			for _, t := range asked.Topics {
				for _, p := range t.Partitions {
					put(t.Topic, p.Partition, 0, shard.Err)
				}
			}
			continue
		}
		for _, t := range shard.Resp.(*kmsg.ListOffsetsResponse).Topics {
			for _, p := range t.Partitions {
				put(t.Topic, p.Partition, p.Offset, kerr.ErrorForCode(p.ErrorCode))
			}
		}
	}
	return all, nil
}

// listStable asks for the last stable offsets.
func listStable(ctx context.Context, cl *kgo.Client, ids []dimstore.BucketID) ([]offset, error) {
	return listOffsets(ctx, cl, ids, offsetEnd, 1)
}

// ends is what the brokers say about one bucket at some moment.
type ends struct {
	logBucket

	err error
}

// listEnds asks for the last stable offsets and high watermarks, and where it is wanted for the starts.
func listEnds(ctx context.Context, cl *kgo.Client, ids []dimstore.BucketID, starts bool) ([]ends, error) {
	all := make([]ends, len(ids))
	ask := func(what int64, isolation int8, into func(*ends) *int64) error {
		got, err := listOffsets(ctx, cl, ids, what, isolation)
		if err != nil {
			return err
		}
		for i, o := range got {
			*into(&all[i]) = o.at
			all[i].err = cmp.Or(all[i].err, o.err)
		}
		return nil
	}
	// The order matters: what is asked for later may only have moved up, so start <= stable <= high holds in what comes out.
	if starts {
		if err := ask(offsetStart, 0, func(e *ends) *int64 { return &e.start }); err != nil {
			return nil, err
		}
	}
	if err := ask(offsetEnd, 1, func(e *ends) *int64 { return &e.stable }); err != nil {
		return nil, err
	}
	if err := ask(offsetEnd, 0, func(e *ends) *int64 { return &e.high }); err != nil {
		return nil, err
	}
	return all, nil
}

// lookAt asks for all that is to be known of topics that are there.
func (d *Dimension) lookAt(ctx context.Context, cl *kgo.Client, metas map[string]topicMeta, names []string) ([]logTopic, error) {
	var ids []dimstore.BucketID
	for _, name := range names {
		if err := metas[name].err; err != nil {
			return nil, fmt.Errorf("topic %q: %w", name, err)
		}
		for i := range metas[name].leaders {
			ids = append(ids, dimstore.BucketID{Topic: name, Partition: int32(i)})
		}
	}
	all, err := listEnds(ctx, cl, ids, true)
	if err != nil {
		return nil, err
	}
	configs := d.configs(ctx, cl, names...)
	topics := make([]logTopic, 0, len(names))
	for _, name := range names {
		n := len(metas[name].leaders)
		t := logTopic{name: name, id: metas[name].id, retention: configs[name].retention, policy: configs[name].policy}
		for _, e := range all[:n] {
			if e.err != nil {
				return nil, e.err
			}
			t.buckets = append(t.buckets, e.logBucket)
		}
		all = all[n:]
		topics = append(topics, t)
	}
	return topics, nil
}

// leaderNodes is the number of brokers that lead a bucket.
func leaderNodes(metas map[string]topicMeta) int {
	nodes := map[int32]bool{}
	for _, m := range metas {
		for _, l := range m.leaders {
			nodes[l.node] = true
		}
	}
	return len(nodes)
}
