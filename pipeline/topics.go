package pipeline

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// defaultBatchBytes is the client's own bound of a batch, and what a topic takes whose limit can't be read (message.max.bytes of the broker
// is 1,048,588 unless it is changed).
const (
	defaultBatchBytes = 1_000_012
	batchOverhead     = 512
)

// batchMaxBytes is the greatest batch of records before compression that holds a record of maxRecord bytes.
func batchMaxBytes(maxRecord int) int32 {
	return int32(min(max(defaultBatchBytes, maxRecord+batchOverhead), 1<<30))
}

// topicWait is how often topics that are missing are looked for, and topicLog how often the log says so.
const (
	topicWait  = time.Second
	topicLog   = time.Minute
	topicWatch = 10 * time.Second
)

// awaitTopics waits until the topics that are written exist and at least one that is read, creating the former where that is allowed.
// It returns the greatest batch that each topic takes which is written.
func (p *Pipeline) awaitTopics(ctx context.Context, admin *kadm.Client) (batchLimits, error) {
	var logged time.Time
	for {
		missing, err := p.checkTopics(ctx, admin)
		if err == nil && !missing.blocks(p.o.Topics) {
			return p.batchLimits(ctx, admin), nil
		}
		if fatal := (fatalError{}); errors.As(err, &fatal) {
			return nil, err
		}
		if err == nil {
			err = missing.err()
		}
		p.remember(err)
		if time.Since(logged) >= topicLog {
			logged = time.Now()
			p.o.Logger.WarnContext(ctx, "waiting for topics", "event", "topics_missing", "error", err)
		}
		pause(ctx, topicWait)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

// watchTopics keeps the state of the topics true while facts flow.
func (p *Pipeline) watchTopics(ctx context.Context, admin *kadm.Client) {
	for {
		pause(ctx, topicWatch)
		if ctx.Err() != nil {
			return
		}
		_, err := p.checkTopics(ctx, admin)
		if err == nil || ctx.Err() != nil {
			continue
		}
		if fatal := (fatalError{}); errors.As(err, &fatal) { // without a session, the next one finds it before it begins
			if s := p.session.Load(); s != nil {
				s.cancel(err)
			}
			continue
		}
		p.remember(err)
	}
}

// missingTopics are those that do not exist.
type missingTopics struct{ input, written []string }

// blocks tells whether the service can't work at all.
func (m missingTopics) blocks(inputs []string) bool {
	return len(m.written) > 0 || len(m.input) == len(inputs)
}

func (m missingTopics) err() error {
	var errs []error
	for _, t := range m.input {
		errs = append(errs, fmt.Errorf("input topic %s does not exist: create it, for example kafka-topics.sh --create --topic %s", t, t))
	}
	for _, t := range m.written {
		errs = append(errs, fmt.Errorf("topic %s does not exist: create it, for example kafka-topics.sh --create --topic %s, or set kafka.create_topics: true", t, t))
	}
	return errors.Join(errs...)
}

// checkTopics looks which topics are missing, creates those that it may, and checks that partition: input can work.
func (p *Pipeline) checkTopics(ctx context.Context, admin *kadm.Client) (missingTopics, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	names := append([]string{p.o.OutputTopic}, p.o.Topics...)
	if p.o.DeadLetterTopic != "" {
		names = append(names, p.o.DeadLetterTopic)
	}
	details, err := admin.ListTopics(ctx, names...)
	if err != nil {
		return missingTopics{}, fmt.Errorf("look for topics: %w", err)
	}
	var missing missingTopics
	for i, name := range names {
		d := details[name]
		switch {
		case d.Err == nil && len(d.Partitions) > 0:
			continue
		case d.Err != nil && !errors.Is(d.Err, kerr.UnknownTopicOrPartition):
			return missingTopics{}, fmt.Errorf("look for topic %s: %w", name, d.Err)
		}
		isInput := i >= 1 && i <= len(p.o.Topics)
		switch {
		case isInput:
			missing.input = append(missing.input, name)
		case p.o.CreateTopics:
			if _, err := admin.CreateTopic(ctx, -1, -1, nil, name); err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
				return missingTopics{}, fmt.Errorf("create topic %s: %w", name, err)
			}
			p.o.Logger.InfoContext(ctx, "topic created", "event", "topic_created", "topic", name)
			missing.written = append(missing.written, name) // until it is seen
		default:
			missing.written = append(missing.written, name)
		}
	}
	p.setMissing(missing)
	if p.o.Partition == PartitionInput && len(missing.written) == 0 {
		return missing, p.checkPartitions(details)
	}
	return missing, nil
}

// checkPartitions refuses an output topic with fewer Kafka partitions than an input topic under partition: input.
func (p *Pipeline) checkPartitions(details kadm.TopicDetails) error {
	out := len(details[p.o.OutputTopic].Partitions)
	for _, t := range p.o.Topics {
		if in := len(details[t].Partitions); in > out {
			return fatalError{fmt.Errorf("output.partition is input, but topic %s has %d Kafka partitions and output topic %s only %d: "+
				"add partitions to %s or set output.partition: key", t, in, p.o.OutputTopic, out, p.o.OutputTopic)}
		}
	}
	return nil
}

// batchLimits is the greatest batch of records that a topic takes, by topic. Each has its own: a dead-letter topic with a low limit must not
// turn facts away that the output topic takes.
type batchLimits map[string]int32

// of is the limit of a topic, the client's default where it is not known.
func (l batchLimits) of(topic string) int32 {
	if n, ok := l[topic]; ok {
		return n
	}
	return defaultBatchBytes
}

// batchLimits asks for the limits of the topics that are written. Without the right to read their configuration it is the default.
func (p *Pipeline) batchLimits(ctx context.Context, admin *kadm.Client) batchLimits {
	names := []string{p.o.OutputTopic}
	if p.o.DeadLetterTopic != "" {
		names = append(names, p.o.DeadLetterTopic)
	}
	limits := batchLimits{}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	configs, err := admin.DescribeTopicConfigs(ctx, names...)
	if err != nil {
		p.o.Logger.DebugContext(ctx, "sizes of the output topics are not known", "event", "topic_config", "error", err)
		return limits
	}
	for _, c := range configs {
		most := int64(defaultBatchBytes)
		for _, e := range c.Configs {
			if e.Key == "max.message.bytes" && e.Value != nil {
				if n, err := strconv.ParseInt(*e.Value, 10, 32); err == nil {
					most = n
				}
			}
		}
		limits[c.Name] = min(batchMaxBytes(p.o.MaxRecordSize), int32(max(most, batchOverhead)))
	}
	return limits
}
