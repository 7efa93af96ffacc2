package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"enricher/lookup"
)

// Delivery guarantees, the values of Options.Delivery.
const (
	ExactlyOnce = "exactly_once"
	AtLeastOnce = "at_least_once"
)

// What happens to a fact that fails at any stage, the values of Options.OnError.
const (
	OnErrorDeadLetter = "dead_letter"
	OnErrorSkip       = "skip"
	OnErrorFail       = "fail"
)

// What happens when a committed offset lies outside the log, the values of Options.OnGap.
const (
	OnGapFail     = "fail"
	OnGapContinue = "continue"
)

// How output records get their Kafka partition, the values of Options.Partition.
const (
	PartitionByKey = "key"
	PartitionInput = "input"
)

// Start is where a group without any committed offset begins.
type Start struct {
	// Latest begins at the end of the log; false with a zero At begins at its start.
	Latest bool
	// At begins at the first fact with this timestamp or a later one.
	At time.Time
}

// Options configures a [Pipeline]. Strings that name a choice are those of the configuration file.
type Options struct {
	// Topics are the fact topics, at least one.
	Topics []string
	// Group is the consumer group and the prefix of the transactional id.
	Group string
	// InstanceID names this instance: the static member id and the end of the transactional id.
	InstanceID string
	// LeaveOnStop leaves the group at a clean stop. It is false when a person chose InstanceID: then the place is kept for SessionTimeout.
	LeaveOnStop bool
	// SessionTimeout is how long the group keeps the place of an instance that is not heard of.
	SessionTimeout time.Duration
	// Start is where a group with no committed offset begins.
	Start Start
	// OnGap says what to do when a committed offset lies outside the log.
	OnGap string
	// OnError says what to do with a fact that fails; OnErrorDeadLetter needs DeadLetterTopic.
	OnError string

	// Plan is the compiled join.
	Plan *lookup.Plan
	// Before is called for every batch after its facts were read and before they are looked up: it brings dimensions up to date, and holds the facts
	// while it must. Many calls may run at a time. It returns when the facts may be looked up, with ctx, or with an error, which ends the
	// service. Nil when there is nothing to do.
	Before func(ctx context.Context) error

	// OutputTopic takes the enriched records.
	OutputTopic string
	// Partition is PartitionByKey or PartitionInput.
	Partition string
	// Compression is none, gzip, snappy, lz4 or zstd.
	Compression string
	// MaxRecordSize is the greatest key + value + headers of an output record in bytes, uncompressed.
	MaxRecordSize int
	// DeadLetterTopic takes the facts that fail; empty when off.
	DeadLetterTopic string
	// CreateTopics creates a missing output and dead-letter topic with the broker's defaults.
	CreateTopics bool

	// Delivery is ExactlyOnce or AtLeastOnce.
	Delivery string
	// Capacity is the greatest number of facts that were read and not yet written.
	Capacity int
	// CommitInterval is the time between two commits while facts flow.
	CommitInterval time.Duration
	// TransactionTimeout is how long the broker keeps an open transaction of an instance that is not heard of.
	TransactionTimeout time.Duration
	// Grace bounds the shutdown: what is in flight is finished or given up within it.
	Grace time.Duration

	// Client are the options of the connection: seeds, client id, TLS, SASL, rack, hooks. The pipeline adds all others.
	Client []kgo.Opt
	// FetchBytes bounds the bytes of one fetch as they come, compressed; two are under way at a time. ProduceBytes bounds the written and not yet
	// acknowledged ones.
	FetchBytes, ProduceBytes int

	// Metrics counts; made once per process by [NewMetrics].
	Metrics *Metrics
	// Logger takes what a person should know.
	Logger *slog.Logger
}

// validate reports what a caller forgot. The values themselves are checked where the configuration is read.
func (o *Options) validate() error {
	var errs []error
	need := func(ok bool, what string) {
		if !ok {
			errs = append(errs, fmt.Errorf("pipeline: %s", what))
		}
	}
	need(len(o.Topics) > 0, "no input topic")
	need(o.Group != "", "no group")
	need(o.InstanceID != "", "no instance id")
	need(o.Plan != nil, "no plan")
	need(o.OutputTopic != "", "no output topic")
	need(o.OnError != OnErrorDeadLetter || o.DeadLetterTopic != "", "on_error dead_letter without a dead-letter topic")
	need(o.Delivery == ExactlyOnce || o.Delivery == AtLeastOnce, "unknown delivery "+o.Delivery)
	need(o.Capacity > 0, "no capacity")
	need(o.CommitInterval > 0, "no commit interval")
	need(o.Metrics != nil && o.Logger != nil, "no metrics or no logger")
	return errors.Join(errs...)
}

// heartbeat is the time between two heartbeats to the group.
func (o *Options) heartbeat() time.Duration { return min(3*time.Second, o.SessionTimeout/3) }
