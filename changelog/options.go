package changelog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"enricher/dimstore"
	"enricher/record"
)

// ErrRestart is in every error of Run after which the process ends and its next start mends it: the dimension is then loaded anew, or a new
// bucket is read from its beginning. The text before it says what happened.
var ErrRestart = errors.New("restart the process: its start reads the dimension anew where it has to")

// ErrRecord is in the error of Run with which `on_error: fail` ends the process: a changelog record can't be read. A restart meets it again.
var ErrRecord = errors.New("a changelog record can't be read and on_error is fail")

// The ways of a changelog record that can't be read (Options.OnError).
const (
	DeadLetter = "dead_letter"
	Skip       = "skip"
	Fail       = "fail"
)

// Sink is what a dimension needs of its store; *dimstore.Store satisfies it. Apply, MarkComplete and Reset are called by one goroutine at a
// time, the others by any.
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
	// Rows, Bytes and Partitions describe the store for people: live rows, bytes on disk, partitions with a row.
	Rows() int64
	Bytes() int64
	Partitions() int
}

// Options of one dimension.
type Options struct {
	Name      string         // of the dimension
	Topic     string         // its changelog
	Schema    *record.Schema // its columns
	KeyFormat string         // auto (default when empty) | json | string: how the Kafka record key is read
	OnError   string         // dead_letter | skip | fail: what becomes of a changelog record that can't be read
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
	// CheckInterval is how often ends, topic id and buckets are looked at; 0 means 10 s.
	CheckInterval time.Duration
}

// finalize fills the defaults in and reports everything that is wrong.
func (o *Options) finalize() error {
	var problems []error
	require := func(ok bool, format string, args ...any) {
		if !ok {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	if o.KeyFormat == "" {
		o.KeyFormat = keyAuto
	}
	if o.FetchBytes == 0 {
		o.FetchBytes = 32 << 20
	}
	if o.CheckInterval == 0 {
		o.CheckInterval = 10 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	require(o.Name != "", "the dimension has no name")
	require(o.Topic != "", "the topic is missing")
	require(o.Schema != nil, "the schema is missing")
	require(o.Sink != nil, "the sink is missing")
	require(o.KeyFormat == keyAuto || o.KeyFormat == keyJSON || o.KeyFormat == keyString, "key_format %q is none of auto, json, string", o.KeyFormat)
	require(o.OnError == DeadLetter || o.OnError == Skip || o.OnError == Fail, "on_error %q is none of dead_letter, skip, fail", o.OnError)
	require(o.FetchBytes > 0, "the fetch bytes are negative")
	require(o.CheckInterval > 0, "the check interval is negative")
	if o.OnError == DeadLetter && o.DeadLetter == nil {
		o.OnError = Fail
	}
	if len(problems) > 0 {
		return fmt.Errorf("new dimension %q: %w", o.Name, errors.Join(problems...))
	}
	return nil
}
