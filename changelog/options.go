package changelog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"enricher/dimstore"
	"enricher/record"
)

// ErrStale is returned by Refresh with `on_stale: fail` when the dimension is staler than max_staleness: the process is to end.
var ErrStale = errors.New("a dimension is stale and on_stale is fail")

// ErrRecord is in the error of Run with which `on_error: fail` ends the process: a changelog record can't be read. A restart meets it again.
var ErrRecord = errors.New("a changelog record can't be read and on_error is fail")

// The ways of a changelog record that can't be read (Options.OnError).
const (
	DeadLetter = "dead_letter"
	Skip       = "skip"
	Fail       = "fail"
)

// The values of Options.Version, beside column:NAME.
const (
	VersionOffset    = "offset"
	VersionTimestamp = "timestamp"

	versionColumn = "column:"
)

// Sink is what a dimension needs of its store. Apply, MarkComplete, Reset and DropPartition are called by one goroutine at a time, the others by
// any. It must also be able to load a generation beside the one that answers: as *dimstore.Store and *dimstore.HeapStore do (Begin), or as a GenerationSink.
type Sink interface {
	// Positions are the positions as they are stored, of all buckets.
	Positions() []dimstore.Position
	// Complete reports whether a first load was finished.
	Complete() bool
	// Discarded tells why what lay in the store before was dropped when it was opened; empty when nothing was.
	Discarded() string
	// Reset drops all rows and positions; called only before the dimension is warm.
	Reset(reason string) error
	// Apply writes the changes in order, and the positions, as one durable step. The bytes of the changes are the caller's again when it
	// returns. dimstore.ErrNoSpace means that nothing was written and the same call may be made again; any other error ends the process.
	Apply(changes []dimstore.Change, positions []dimstore.Position) (dimstore.Applied, error)
	// MarkComplete makes the rows visible for good: the first load is done.
	MarkComplete() error
	// SetDeleteMarkTTL says how long the marks of deleted rows have to stay: delete.retention.ms of the topic. Called by any goroutine.
	SetDeleteMarkTTL(ttl time.Duration)
	// DropPartition removes a partition with all its rows, at once for those who read. An error is one like those of Apply.
	DropPartition(partition []byte) error
	// PartitionList are the partitions with a row, encoded tuples.
	PartitionList() [][]byte
	// Rows, Bytes and Partitions describe the store for people: live rows, bytes on disk, partitions with a row.
	Rows() int64
	Bytes() int64
	Partitions() int
}

// GenerationSink is a Sink that loads a generation beside the one that answers.
type GenerationSink interface {
	Sink
	// Generation begins an empty one. dimstore.ErrNoSpace: there is no room for it; the call may be made again.
	Generation(reason string) (Generation, error)
}

// Generation is a generation that is loaded; *dimstore.Loading and *dimstore.HeapLoading satisfy it. A crash leaves either the old one or, once published, this one.
type Generation interface {
	// Apply and DropPartition are those of Sink, for this generation.
	Apply(changes []dimstore.Change, positions []dimstore.Position) (dimstore.Applied, error)
	DropPartition(partition []byte) error
	PartitionList() [][]byte
	Rows() int64
	Bytes() int64
	// Publish makes it the one that answers, complete, in one step. From then on the Sink's own methods write to it. After an error the old one
	// answers as before; after dimstore.ErrNoSpace the call may be made again.
	Publish() error
	// Abandon removes it; nothing after Publish.
	Abandon() error
}

// Options of one dimension.
type Options struct {
	Name  string // of the dimension
	Topic string // its changelog; this or TopicPattern
	// TopicPattern (RE2) must match a topic's whole name. Named groups fill the columns of the schema that are called so.
	TopicPattern string
	Schema       *record.Schema // its columns
	KeyFormat    string         // auto (default when empty) | json | string: how the Kafka record key is read
	OnError      string         // dead_letter | skip | fail: what becomes of a changelog record that can't be read
	// Version is offset (as is the empty string), timestamp or column:NAME. The store decides by it; with a column, of the schema, this package
	// gives it the column's code.
	Version string
	// AutoPartition lets partitions leave by their age; nil: they stay.
	AutoPartition *AutoPartition
	// Client holds the connection options: seeds, client id, TLS, SASL, rack, dialer, hooks. The package adds what concerns reading.
	Client []kgo.Opt
	// FetchBytes bounds the fetched bytes that wait in memory, as they come from the brokers (compressed); 0 means 32 MiB.
	FetchBytes int
	Sink       Sink
	// DeadLetter writes one dead letter and returns nil once it is acknowledged; it may be called by several goroutines at once. An error is
	// one of the environment: it is shown, and the call is made again. Nil (no dead-letter topic) turns dead_letter into fail.
	DeadLetter func(ctx context.Context, rec *kgo.Record, class, message string) error
	Metrics    *Metrics // shared by all dimensions; nil for none
	Logger     *slog.Logger
	// Refresh is when changes become visible; the zero value is mode async.
	Refresh Refresh
	// DiscoveryInterval is how often topics and buckets are looked for; 0 means 10 s.
	DiscoveryInterval time.Duration
	// CheckInterval is how often ends are looked at where Refresh does not say; 0 means 10 s.
	CheckInterval time.Duration
	// MaxStaleness is how stale the dimension may be before OnStale says what facts do; 0: off. OnStale is hold (as is the empty string), serve
	// or fail.
	MaxStaleness time.Duration
	OnStale      string

	generation func(reason string) (Generation, error)
}

// finalize fills the defaults in, compiles what d needs of it, and reports everything that is wrong.
func (o *Options) finalize(d *Dimension) error {
	var problems []error
	require := func(ok bool, format string, args ...any) {
		if !ok {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	o.defaults()
	require(o.Name != "", "the dimension has no name")
	require(o.Schema != nil, "the schema is missing")
	require(o.Sink != nil, "the sink is missing")
	require(o.KeyFormat == keyAuto || o.KeyFormat == keyJSON || o.KeyFormat == keyString, "key_format %q is none of auto, json, string", o.KeyFormat)
	require(o.OnError == DeadLetter || o.OnError == Skip || o.OnError == Fail, "on_error %q is none of dead_letter, skip, fail", o.OnError)
	require(o.OnStale == StaleHold || o.OnStale == StaleServe || o.OnStale == StaleFail, "on_stale %q is none of hold, serve, fail", o.OnStale)
	require(o.Refresh.Mode == Async || o.Refresh.Mode == Sync, "refresh mode %q is none of async, sync", o.Refresh.Mode)
	require(o.FetchBytes > 0, "the fetch bytes are negative")
	require(o.CheckInterval > 0, "the check interval is negative")
	require(o.DiscoveryInterval > 0, "the discovery interval is negative")
	require(o.Refresh.Interval >= 0 && o.Refresh.MaxPending >= 0 && o.MaxStaleness >= 0, "refresh interval, max_pending or max_staleness is negative")
	var err error
	if d.route, err = newRoute(o.Topic, o.TopicPattern, o.Schema); err != nil {
		problems = append(problems, err)
	}
	problems = append(problems, o.compile(d)...)
	if o.OnError == DeadLetter && o.DeadLetter == nil {
		o.OnError = Fail
	}
	if len(problems) > 0 {
		return fmt.Errorf("new dimension %q: %w", o.Name, errors.Join(problems...))
	}
	return nil
}

func (o *Options) defaults() {
	o.KeyFormat = cmp.Or(o.KeyFormat, keyAuto)
	o.FetchBytes = cmp.Or(o.FetchBytes, 32<<20)
	o.CheckInterval = cmp.Or(o.CheckInterval, 10*time.Second)
	o.DiscoveryInterval = cmp.Or(o.DiscoveryInterval, 10*time.Second)
	o.OnStale = cmp.Or(o.OnStale, StaleHold)
	o.Refresh.Mode = cmp.Or(o.Refresh.Mode, Async)
	if o.Refresh.Mode == Async {
		o.Refresh.Interval = cmp.Or(o.Refresh.Interval, o.CheckInterval)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

// compile makes what d needs of schema and sink.
func (o *Options) compile(d *Dimension) (problems []error) {
	if o.Schema != nil {
		switch column, isColumn := strings.CutPrefix(o.Version, versionColumn); {
		case isColumn:
			if d.version = o.Schema.Index(column); d.version < 0 {
				problems = append(problems, fmt.Errorf("version: the schema has no column %q", column))
			}
		case o.Version != "" && o.Version != VersionOffset && o.Version != VersionTimestamp:
			problems = append(problems, fmt.Errorf("version %q is none of offset, timestamp, column:NAME", o.Version))
		}
		if o.AutoPartition != nil {
			var err error
			if d.retention, err = NewRetention(o.Schema, *o.AutoPartition); err != nil {
				problems = append(problems, err)
			}
		}
	}
	switch sink := o.Sink.(type) {
	case nil:
	case GenerationSink:
		o.generation = sink.Generation
	case interface {
		Begin(reason string) (*dimstore.Loading, error)
	}:
		o.generation = begin(sink.Begin)
	case interface {
		Begin(reason string) (*dimstore.HeapLoading, error)
	}:
		o.generation = begin(sink.Begin)
	default:
		problems = append(problems, errors.New("the sink can't load a generation beside another"))
	}
	return problems
}

// begin adapts the Begin of a store: a nil pointer in an interface is no nil.
func begin[G Generation](of func(reason string) (G, error)) func(reason string) (Generation, error) {
	return func(reason string) (Generation, error) {
		g, err := of(reason)
		if err != nil {
			return nil, err
		}
		return g, nil
	}
}
