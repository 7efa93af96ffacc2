package changelog

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	requestTimeout = 10 * time.Second // of one look at the cluster
	lookBackoff    = 500 * time.Millisecond
	lookBackoffMax = 5 * time.Second
	repeatWaiting  = time.Minute // a start that waits says so again
)

// errMissing: the topic does not exist.
var errMissing = errors.New("the topic does not exist")

// topicMeta is the topic as metadata shows it.
type topicMeta struct {
	id      [16]byte
	leaders []leader // by Kafka partition
}

// leader is who leads a bucket and since which epoch; a request that carries the epoch is refused by a broker that no longer leads.
type leader struct {
	node  int32
	epoch int32
}

// metadata asks the brokers, not the client's cache, for the topic.
func metadata(ctx context.Context, cl *kgo.Client, topic string) (topicMeta, error) {
	req := kmsg.NewPtrMetadataRequest()
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = new(topic)
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return topicMeta{}, fmt.Errorf("ask for metadata: %w", err)
	}
	for _, t := range resp.Topics {
		if t.Topic == nil || *t.Topic != topic {
			continue
		}
		switch err := kerr.ErrorForCode(t.ErrorCode); {
		case errors.Is(err, kerr.UnknownTopicOrPartition):
			return topicMeta{}, errMissing
		case err != nil:
			return topicMeta{}, fmt.Errorf("ask for metadata: %w", err)
		}
		return readMeta(&t)
	}
	return topicMeta{}, errors.New("ask for metadata: the answer lacks the topic")
}

func readMeta(t *kmsg.MetadataResponseTopic) (topicMeta, error) {
	m := topicMeta{id: t.TopicID, leaders: make([]leader, len(t.Partitions))}
	for i := range m.leaders {
		m.leaders[i].node = -1
	}
	for _, p := range t.Partitions {
		if p.Partition < 0 || int(p.Partition) >= len(m.leaders) {
			return topicMeta{}, fmt.Errorf("ask for metadata: the answer has Kafka partition %d among %d", p.Partition, len(m.leaders))
		}
		m.leaders[p.Partition] = leader{node: p.Leader, epoch: p.LeaderEpoch}
	}
	if len(m.leaders) == 0 {
		return topicMeta{}, errors.New("ask for metadata: the topic has no Kafka partition yet")
	}
	return m, nil
}

// offsets is what the brokers say about one bucket at some moment.
type offsets struct {
	start, stable, high int64
	err                 error
}

// listOffsets asks for the start, the last stable offset and the high watermark of all buckets. The error of a bucket is in its place: a
// bucket that an answer leaves out has one, too.
func listOffsets(ctx context.Context, cl *kgo.Client, topic string, buckets int) ([]offsets, error) {
	adm := kadm.NewClient(cl)
	all := make([]offsets, buckets)
	for _, q := range []struct {
		what string
		list func(context.Context, ...string) (kadm.ListedOffsets, error)
		put  func(o *offsets, at int64)
	}{
		// The order matters: what is asked for later may only have moved up, so start <= stable <= high holds in what comes out.
		{"start", adm.ListStartOffsets, func(o *offsets, at int64) { o.start = at }},
		{"last stable offset", adm.ListCommittedOffsets, func(o *offsets, at int64) { o.stable = at }},
		{"high watermark", adm.ListEndOffsets, func(o *offsets, at int64) { o.high = at }},
	} {
		listed, err := q.list(ctx, topic)
		if err != nil {
			return nil, fmt.Errorf("ask for the %s: %w", q.what, err)
		}
		for i := range all {
			l, ok := listed.Lookup(topic, int32(i))
			switch {
			case !ok:
				all[i].err = fmt.Errorf("ask for the %s of bucket %d: the answer lacks it", q.what, i)
			case l.Err != nil:
				all[i].err = fmt.Errorf("ask for the %s of bucket %d: %w", q.what, i, l.Err)
			default:
				q.put(&all[i], l.Offset)
			}
		}
	}
	return all, nil
}

// look asks for everything that a start needs to know of the topic.
func (d *Dimension) look(ctx context.Context, cl *kgo.Client) (logTopic, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	meta, err := metadata(ctx, cl, d.o.Topic)
	if err != nil {
		return logTopic{}, err
	}
	log := logTopic{id: meta.id, askedAt: time.Now(), leaders: leaderNodes(meta)}
	all, err := listOffsets(ctx, cl, d.o.Topic, len(meta.leaders))
	if err != nil {
		return logTopic{}, err
	}
	for _, o := range all {
		if o.err != nil {
			return logTopic{}, o.err
		}
		log.buckets = append(log.buckets, logBucket{start: o.start, stable: o.stable, high: o.high})
	}
	c := d.configs(ctx, cl, d.o.Topic)[d.o.Topic]
	log.retention, log.policy = c.retention, c.policy
	return log, nil
}

// leaderNodes is the number of brokers that lead a bucket.
func leaderNodes(meta topicMeta) int {
	nodes := map[int32]bool{}
	for _, l := range meta.leaders {
		nodes[l.node] = true
	}
	return len(nodes)
}

// topicConfig is what a changelog's configuration says.
type topicConfig struct {
	retention time.Duration // delete.retention.ms, Kafka's default where it can't be read
	policy    string        // cleanup.policy; empty where it can't be read
}

// configs are the configurations of topics. Where they can't be read (the right to describe them is one that a reader often lacks) Kafka's
// defaults hold.
func (d *Dimension) configs(ctx context.Context, cl *kgo.Client, topics ...string) map[string]topicConfig {
	described, err := kadm.NewClient(cl).DescribeTopicConfigs(ctx, topics...)
	out := make(map[string]topicConfig, len(topics))
	for _, topic := range topics {
		c := topicConfig{retention: defaultRetention}
		why := err
		if why == nil {
			var rc kadm.ResourceConfig
			if rc, why = described.On(topic, nil); why == nil {
				if why = rc.Err; why == nil {
					c = readConfig(rc.Configs)
				}
			}
		}
		if why != nil {
			d.log.InfoContext(ctx, "the topic's configuration can't be read, taking Kafka's defaults", "topic", topic,
				"delete_retention", defaultRetention, "reason", why)
		}
		out[topic] = c
	}
	return out
}

func readConfig(configs []kadm.Config) topicConfig {
	c := topicConfig{retention: defaultRetention}
	for _, e := range configs {
		switch {
		case e.Value == nil:
		case e.Key == "cleanup.policy":
			c.policy = *e.Value
		case e.Key == "delete.retention.ms":
			if ms, err := strconv.ParseInt(*e.Value, 10, 64); err == nil && ms >= 0 {
				c.retention = time.Duration(min(ms, int64(time.Duration(1<<62)/time.Millisecond))) * time.Millisecond
			}
		}
	}
	return c
}

// policyWarning says what is wrong with the cleanup.policy of a changelog; empty when nothing is, or when it is not known.
func policyWarning(topic, policy string) string {
	var compact, remove bool
	for p := range strings.SplitSeq(policy, ",") {
		switch strings.TrimSpace(p) {
		case "compact":
			compact = true
		case "delete":
			remove = true
		}
	}
	switch {
	case remove:
		return fmt.Sprintf("cleanup.policy of topic %q is %q: rows that are older than its retention are gone from the topic, so a new generation "+
			"lacks them; set it to compact", topic, policy)
	case policy != "" && !compact:
		return fmt.Sprintf("cleanup.policy of topic %q is %q, without compact: the topic, and the first load, grow with every change; set it to compact",
			topic, policy)
	}
	return ""
}

// discover looks until the topic is there and all its buckets answer. What it waits for is in the status, and in the log every minute.
// The error is that of ctx.
func (d *Dimension) discover(ctx context.Context, cl *kgo.Client) (logTopic, error) {
	var (
		said   string
		saidAt time.Time
		wait   = lookBackoff
	)
	for {
		log, err := d.look(ctx, cl)
		if err == nil {
			d.state.waitFor("")
			d.state.missing(false)
			return log, nil
		}
		if ctx.Err() != nil {
			return logTopic{}, ctx.Err()
		}
		waiting := d.remedy(err)
		d.state.waitFor(waiting)
		d.state.missing(errors.Is(err, errMissing))
		if now := time.Now(); waiting != said || now.Sub(saidAt) >= repeatWaiting {
			d.log.WarnContext(ctx, "the dimension waits", "topic", d.o.Topic, "waiting_for", waiting)
			said, saidAt = waiting, now
		}
		if !sleep(ctx, wait) {
			return logTopic{}, ctx.Err()
		}
		wait = min(2*wait, lookBackoffMax)
	}
}

// remedy says what a start waits for and what a person can do about it.
func (d *Dimension) remedy(err error) string {
	switch {
	case errors.Is(err, errMissing):
		return fmt.Sprintf("topic %q does not exist: create it, or correct the topic of dimension %q", d.o.Topic, d.o.Name)
	case isRefused(err):
		return fmt.Sprintf("the brokers refuse topic %q (%v): grant READ, DESCRIBE and DESCRIBE_CONFIGS on it", d.o.Topic, err)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("no answer about topic %q within %s: check kafka.brokers and the network", d.o.Topic, requestTimeout)
	}
	return fmt.Sprintf("topic %q can't be read yet: %v", d.o.Topic, err)
}

// isRefused reports whether rights are missing.
func isRefused(err error) bool {
	if _, ok := errors.AsType[*kadm.AuthError](err); ok {
		return true
	}
	return errors.Is(err, kerr.TopicAuthorizationFailed) || errors.Is(err, kerr.ClusterAuthorizationFailed) || errors.Is(err, kerr.SaslAuthenticationFailed)
}

// sleep waits for t; false when ctx ended first.
func sleep(ctx context.Context, t time.Duration) bool {
	timer := time.NewTimer(t)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
