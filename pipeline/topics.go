package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	topicWait = time.Second
	topicLog  = time.Minute
)

// awaitTopics waits until the topics that are written exist and at least one that is read, creating the former where that is allowed.
// It returns the greatest batch that each topic takes which is written.
func (p *Pipeline) awaitTopics(ctx context.Context, admin *kadm.Client) (batchLimits, error) {
	logged := time.Now() // remember logs the first time
	waited := false
	for {
		missing, err := p.checkTopics(ctx, admin)
		if err == nil && !missing.blocks(p.o.Topics) {
			if waited {
				p.o.Logger.InfoContext(ctx, "topics are there, going on", "event", "topics_found")
			}
			return p.batchLimits(ctx, admin), nil
		}
		if fatal := (fatalError{}); errors.As(err, &fatal) {
			return nil, err
		}
		if err == nil {
			err = missing.err()
		}
		if err != nil { // else they were created and are not seen yet
			waited = true
			p.remember(err)
			if time.Since(logged) >= topicLog {
				logged = time.Now()
				p.o.Logger.WarnContext(ctx, "still waiting for topics", "event", "topics_missing", "error", err)
			}
		}
		pause(ctx, topicWait)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

// missingTopics are those that do not exist.
type missingTopics struct {
	input   []string
	output  string
	letters string
	created bool // one that is written was created a moment ago and is not seen yet
}

// blocks tells whether the service can't work at all.
func (m missingTopics) blocks(inputs []string) bool {
	return m.output != "" || m.letters != "" || m.created || len(m.input) == len(inputs)
}

// err names each with the remedy; nil when nothing is missing for long.
func (m missingTopics) err() error {
	var errs []error
	create := func(what, topic, or string) {
		if topic != "" {
			errs = append(errs, fmt.Errorf("%s %s does not exist: create it, for example kafka-topics.sh --create --topic %s%s", what, topic, topic, or))
		}
	}
	for _, t := range m.input {
		create("input topic", t, "")
	}
	create("output topic", m.output, ", or set kafka.create_topics: true")
	create("dead-letter topic", m.letters, ", or set kafka.create_topics: true")
	return errors.Join(errs...)
}

// checkTopics looks which topics are missing, creates those that it may, and checks that partition: input can work.
func (p *Pipeline) checkTopics(ctx context.Context, admin *kadm.Client) (missingTopics, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	names := append(p.written(), p.o.Topics...)
	details, err := admin.ListTopics(ctx, names...)
	if err != nil {
		return missingTopics{}, fmt.Errorf("look for topics: %w", err)
	}
	var missing missingTopics
	for _, name := range names {
		d := details[name]
		switch {
		case d.Err == nil && len(d.Partitions) > 0:
			continue
		case d.Err != nil && !errors.Is(d.Err, kerr.UnknownTopicOrPartition):
			return missingTopics{}, fmt.Errorf("look for topic %s: %w", name, d.Err)
		}
		if err := p.missingTopic(ctx, admin, name, &missing); err != nil {
			return missingTopics{}, err
		}
	}
	p.setMissing(missing)
	p.setPartitions(details)
	if p.o.Partition == PartitionInput && missing.output == "" && !missing.created {
		return missing, p.checkPartitions(details)
	}
	return missing, nil
}

// createTopic creates a topic with the broker's defaults, unless somebody else just has.
func createTopic(ctx context.Context, admin *kadm.Client, name string) error {
	if _, err := admin.CreateTopic(ctx, -1, -1, nil, name); err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		return fmt.Errorf("create topic %s: %w", name, err)
	}
	return nil
}

// missingTopic notes a topic that does not exist, or creates it.
func (p *Pipeline) missingTopic(ctx context.Context, admin *kadm.Client, name string, missing *missingTopics) error {
	switch {
	case slices.Contains(p.o.Topics, name):
		missing.input = append(missing.input, name)
	case p.o.CreateTopics:
		if err := createTopic(ctx, admin, name); err != nil {
			return err
		}
		p.o.Logger.InfoContext(ctx, "topic created", "event", "topic_created", "topic", name)
		missing.created = true
	case name == p.o.OutputTopic:
		missing.output = name
	default:
		missing.letters = name
	}
	return nil
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

// written are the topics that are written.
func (p *Pipeline) written() []string {
	if p.o.DeadLetterTopic == "" {
		return []string{p.o.OutputTopic}
	}
	return []string{p.o.OutputTopic, p.o.DeadLetterTopic}
}

// writtenConfigs asks for the configuration of the topics that are written.
func (p *Pipeline) writtenConfigs(ctx context.Context, admin *kadm.Client) (kadm.ResourceConfigs, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	configs, err := admin.DescribeTopicConfigs(ctx, p.written()...)
	if err != nil {
		return nil, fmt.Errorf("ask for the configuration of the output topics: %w", err)
	}
	return configs, nil
}

// batchLimits asks for the limits of the topics that are written. Without the right to read their configuration it is the default.
func (p *Pipeline) batchLimits(ctx context.Context, admin *kadm.Client) batchLimits {
	limits := batchLimits{}
	configs, err := p.writtenConfigs(ctx, admin)
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
