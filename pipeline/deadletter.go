package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Headers that a dead letter carries besides those of its record. The prefix is Kafka Connect's with two more underscores, so that the
// two never mix.
const (
	HeaderPrefix    = "__enricher.errors."
	HeaderStage     = HeaderPrefix + "stage"
	HeaderClass     = HeaderPrefix + "class"
	HeaderMessage   = HeaderPrefix + "message"
	HeaderTopic     = HeaderPrefix + "topic"
	HeaderPartition = HeaderPrefix + "partition"
	HeaderOffset    = HeaderPrefix + "offset"
	HeaderTimestamp = HeaderPrefix + "timestamp" // milliseconds since the epoch
	HeaderDimension = HeaderPrefix + "dimension"
	HeaderInstance  = HeaderPrefix + "instance"
	HeaderTruncated = HeaderPrefix + "truncated" // "true" on a letter whose value was left out
)

// Stages at which a record fails, the values of HeaderStage.
const (
	StageInput     = "input"
	StageDimension = "dimension"
	StageLookup    = "lookup"
	StageOutput    = "output"
)

// Classes that the pipeline itself gives; others come from the lookup and from the changelog reader.
const (
	ClassTooLarge = "too_large"
	ClassRejected = "rejected"
)

// maxMessage bounds the error message in a dead letter, in bytes.
const maxMessage = 1024

// failure says why a record failed.
type failure struct {
	stage, class, message, dimension string
}

// origin is where a record came from.
type origin struct {
	topic     string
	partition int32
	offset    int64
}

func (o origin) compare(p origin) int {
	return cmp.Or(cmp.Compare(o.topic, p.topic), cmp.Compare(o.partition, p.partition), cmp.Compare(o.offset, p.offset))
}

// letterForm is how much of the record a dead letter keeps.
type letterForm uint8

const (
	letterWhole     letterForm = iota
	letterStamped              // stamped now: for a topic that refuses the record's timestamp, which the header has
	letterTruncated            // without the value
	letterBare                 // both
	letterRefused              // nothing is left to try
)

// deadLetter makes the dead letter of rec. A letter above maxSize loses its value.
func deadLetter(rec *kgo.Record, topic, instance string, from origin, f failure, form letterForm, maxSize int) *kgo.Record {
	message := f.message
	if len(message) > maxMessage {
		message = strings.ToValidUTF8(message[:maxMessage], "")
	}
	letter := &kgo.Record{Topic: topic, Key: rec.Key, Value: rec.Value, Timestamp: rec.Timestamp}
	letter.Headers = make([]kgo.RecordHeader, 0, len(rec.Headers)+10)
	letter.Headers = append(letter.Headers, rec.Headers...)
	add := func(key, value string) {
		letter.Headers = append(letter.Headers, kgo.RecordHeader{Key: key, Value: []byte(value)})
	}
	add(HeaderStage, f.stage)
	add(HeaderClass, f.class)
	add(HeaderMessage, message)
	add(HeaderTopic, from.topic)
	add(HeaderPartition, strconv.Itoa(int(from.partition)))
	add(HeaderOffset, strconv.FormatInt(from.offset, 10))
	add(HeaderTimestamp, strconv.FormatInt(rec.Timestamp.UnixMilli(), 10))
	if f.dimension != "" {
		add(HeaderDimension, f.dimension)
	}
	add(HeaderInstance, instance)
	if form == letterTruncated || form == letterBare || recordSize(letter) > maxSize {
		letter.Value = nil
		add(HeaderTruncated, "true")
	}
	if form == letterStamped || form == letterBare {
		letter.Timestamp = time.Time{} // the client stamps it
	}
	return letter
}

// recordSize is key + value + headers in bytes, uncompressed, as max_record_size counts.
func recordSize(r *kgo.Record) int {
	n := len(r.Key) + len(r.Value)
	for i := range r.Headers {
		n += len(r.Headers[i].Key) + len(r.Headers[i].Value)
	}
	return n
}

// DeadLetters writes dead letters of dimension records, each acknowledged on its own, outside any transaction.
type DeadLetters struct {
	client   *kgo.Client
	topic    string
	create   bool
	instance string
	maxSize  int

	mu    sync.Mutex
	found bool // the topic was there once; guarded by mu
}

// NewDeadLetters makes the client; nothing is connected before the first letter. client are the options of the connection, create says whether the
// topic may be created with the broker's defaults, maxRecordSize is the bound in bytes above which a letter goes without its value.
func NewDeadLetters(client []kgo.Opt, topic string, create bool, instance string, maxRecordSize int) (*DeadLetters, error) {
	opts := append([]kgo.Opt(nil), client...)
	opts = append(opts,
		kgo.RecordPartitioner(newPartitioner("")),
		kgo.ProducerBatchMaxBytes(batchMaxBytes(maxRecordSize)),
		kgo.UnknownTopicRetries(-1),
		kgo.ProducerLinger(0),
	)
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, fmt.Errorf("make dead-letter client: %w", err)
	}
	return &DeadLetters{client: cl, topic: topic, create: create, instance: instance, maxSize: maxRecordSize}, nil
}

// find makes sure that the topic exists before the first letter: letters of a first load come before the pipeline, which creates the topics that it
// writes, and hold it back.
func (d *DeadLetters) find(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.found {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	admin := kadm.NewClient(d.client)
	topics, err := admin.ListTopics(ctx, d.topic)
	if err == nil {
		err = topics[d.topic].Err
	}
	switch {
	case errors.Is(err, kerr.UnknownTopicOrPartition) && !d.create:
		return fmt.Errorf("dead-letter topic %s does not exist: create it, or set kafka.create_topics: true", d.topic)
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		err = createTopic(ctx, admin, d.topic)
	case err != nil:
		err = fmt.Errorf("look for dead-letter topic %s: %w", d.topic, err)
	}
	d.found = err == nil
	return err
}

// Dimension writes the record of a dimension's changelog that can't be read. It returns nil once the broker has acknowledged it. A letter
// that the broker refuses is tried again with the present time, without its value, and with both; what is refused even so is an error. Any other
// failure of the broker is retried until ctx ends.
func (d *DeadLetters) Dimension(ctx context.Context, dimension string, rec *kgo.Record, class, message string) error {
	if err := d.find(ctx); err != nil {
		return err
	}
	from := origin{rec.Topic, rec.Partition, rec.Offset}
	f := failure{stage: StageDimension, class: class, message: message, dimension: dimension}
	var err error
	for form := range letterRefused {
		letter := deadLetter(rec, d.topic, d.instance, from, f, form, d.maxSize)
		if err = d.client.ProduceSync(ctx, letter).FirstErr(); err == nil || !isRefusal(err) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("write dead letter of %s, partition %d, offset %d to topic %s: %w", from.topic, from.partition, from.offset, d.topic, err)
	}
	return nil
}

// Close gives up what is not acknowledged.
func (d *DeadLetters) Close() { d.client.Close() }
