package changelog

import (
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// Status is a dimension's state for /status; all of one moment.
type Status struct {
	Name         string    `json:"name"`
	Topic        string    `json:"topic"`            // or the pattern
	Topics       int       `json:"topics,omitempty"` // how many match the pattern
	Warm         bool      `json:"warm"`
	Ready        bool      `json:"ready"`
	Reasons      []string  `json:"reasons,omitempty"`     // why it is not ready
	WaitingFor   string    `json:"waiting_for,omitempty"` // what the start waits for, and the remedy
	TopicMissing bool      `json:"topic_missing,omitempty"`
	Paused       string    `json:"paused,omitempty"`        // why changes are not applied at the moment: disk, dead_letter
	Trouble      []string  `json:"trouble,omitempty"`       // errors that last: of fetches, of looking at the topic
	Warnings     []string  `json:"warnings,omitempty"`      // what is wrong with the topic, though it can be read
	LastError    string    `json:"last_error,omitempty"`    // the last of all, over or not
	LastErrorAt  string    `json:"last_error_at,omitempty"` // RFC 3339
	LoadReason   string    `json:"load_reason,omitempty"`   // why this start loads, or loaded, the dimension anew
	Progress     *Progress `json:"progress,omitempty"`      // of the warm-up; absent once warm
	Rows         int64     `json:"rows"`
	Bytes        int64     `json:"bytes"` // on disk
	Partitions   int       `json:"partitions"`
	RecordsRead  int64     `json:"records_read"` // changelog records read by this process, transaction markers not counted
	RecordErrors int64     `json:"record_errors"`
	Lag          int64     `json:"lag"` // offsets between the positions and the ends last seen
	// FreshnessSeconds is the age of the last proof that every bucket was read to its end; absent until warm.
	FreshnessSeconds *float64       `json:"freshness_seconds,omitempty"`
	Refresh          RefreshStatus  `json:"refresh"`
	Loading          *LoadingStatus `json:"loading,omitempty"` // a generation that is loaded beside the one that answers
	Buckets          []BucketStatus `json:"buckets"`
}

// RefreshStatus tells of the refreshes (in mode async, of the looks at the ends).
type RefreshStatus struct {
	Mode     string `json:"mode"`
	Interval string `json:"interval"`
	Done     int64  `json:"done"`
	Failed   int64  `json:"failed"`
	Running  bool   `json:"running,omitempty"`
	LastAt   string `json:"last_at,omitempty"` // RFC 3339: when the last one that succeeded began; mode sync
	Failure  string `json:"failure,omitempty"` // why the last one failed and is repeated
}

// LoadingStatus tells of a generation that is being loaded.
type LoadingStatus struct {
	Reason   string   `json:"reason"`
	Detail   string   `json:"detail,omitempty"`
	Progress Progress `json:"progress"`
	Rows     int64    `json:"rows"`
	Bytes    int64    `json:"bytes"`
}

// BucketStatus is one Kafka partition of the changelog.
type BucketStatus struct {
	Topic     string `json:"topic,omitempty"` // under a pattern
	Partition int32  `json:"partition"`
	Position  int64  `json:"position"` // next offset to apply
	End       int64  `json:"end"`      // last stable offset, as last seen
	Lag       int64  `json:"lag"`
	Warm      bool   `json:"warm"`
	ProvedAt  string `json:"proved_at,omitempty"` // RFC 3339: when it was last proved to be read to its end; while it is loaded, when that began
	// OpenTransactionSeconds is how long the end has stood still below the high watermark: a producer holds a transaction open.
	OpenTransactionSeconds float64          `json:"open_transaction_seconds,omitempty"`
	OpenTransaction        *OpenTransaction `json:"open_transaction,omitempty"` // who, once that has lasted for some seconds
	Stopped                string           `json:"stopped,omitempty"`          // why it is not read any more until there is a new generation
}

// Status is the state of this moment.
func (d *Dimension) Status() Status {
	now := time.Now()
	st := Status{
		Name: d.o.Name, Topic: d.route.name(), Buckets: []BucketStatus{},
		Rows: d.o.Sink.Rows(), Bytes: d.o.Sink.Bytes(), Partitions: d.o.Sink.Partitions(),
	}
	s := &d.state
	s.mu.Lock()
	defer s.mu.Unlock()
	st.Warm = s.warm
	st.Reasons = s.ready(now, d.freshFor())
	st.Ready = len(st.Reasons) == 0
	st.WaitingFor, st.TopicMissing, st.LoadReason = s.waiting, s.gone, s.loadReason
	st.Paused = strings.Join(slices.Sorted(maps.Keys(s.paused())), ", ")
	st.Trouble = s.lasting()
	st.Warnings = slices.Clone(s.warnings)
	st.LastError, st.LastErrorAt, st.RecordErrors, st.RecordsRead = s.lastError, rfc3339(s.lastAt), s.errors, s.records
	st.Refresh = RefreshStatus{
		Mode: d.o.Refresh.Mode, Interval: d.o.Refresh.Interval.String(), Done: s.refresh.ok, Failed: s.refresh.failed,
		Running: s.refresh.running, LastAt: rfc3339(s.refresh.doneOf), Failure: s.refresh.failure,
	}
	if age, ok := s.freshness(now); ok {
		seconds := age.Seconds()
		st.FreshnessSeconds = &seconds
	}
	d.statusOfFeeds(&st, now)
	return st
}

// statusOfFeeds adds what feeds know. For the holder of the state.
func (d *Dimension) statusOfFeeds(st *Status, now time.Time) {
	s := &d.state
	if f := s.next; f != nil && s.warm {
		st.Loading = &LoadingStatus{Reason: f.reason, Progress: Progress{SecondsLeft: -1}}
		if s.current != nil {
			st.Loading.Detail = s.current.detail
		}
		if f.track != nil {
			st.Loading.Progress = f.track.progress(now)
			st.Loading.Rows, st.Loading.Bytes = f.beside.Rows(), f.beside.Bytes()
		}
	}
	f := s.shown()
	if f == nil {
		return
	}
	st.Lag = f.track.lag()
	if d.route.pattern != nil {
		st.Topics = len(f.topics)
	}
	if !s.warm {
		p := f.track.progress(now)
		st.Progress = &p
	}
	for i := range f.track.buckets {
		b := &f.track.buckets[i]
		if b.left {
			continue
		}
		bs := BucketStatus{
			Partition: b.id.Partition, Position: b.applied, End: b.end, Lag: b.lag(), Warm: b.reached(),
			ProvedAt: rfc3339(b.provedAt), OpenTransactionSeconds: b.openTransaction(now).Seconds(), Stopped: b.stopped,
		}
		if d.route.pattern != nil {
			bs.Topic = b.id.Topic
		}
		if b.openTransaction(now) >= openAfter {
			bs.OpenTransaction = &OpenTransaction{Seconds: bs.OpenTransactionSeconds, ProducerID: -1, ProducerEpoch: -1, StartOffset: b.end}
			if b.holder.known {
				bs.OpenTransaction.ProducerID, bs.OpenTransaction.ProducerEpoch = b.holder.producerID, b.holder.epoch
			}
		}
		st.Buckets = append(st.Buckets, bs)
	}
}

// Ready reports whether the instance may be ready: warm, the topic there, changes applied, and every bucket proved to be read to its end within
// three intervals (30 s at least). The text says why not; it begins with topic_missing, waiting, warming up, paused or stale.
func (d *Dimension) Ready() (ready bool, reason string) {
	d.state.mu.Lock()
	defer d.state.mu.Unlock()
	reasons := d.state.ready(time.Now(), d.freshFor())
	return len(reasons) == 0, strings.Join(reasons, "; ")
}

// Freshness is how long ago everything that was committed is known to have been applied; math.MaxInt64 until warm.
func (d *Dimension) Freshness() time.Duration {
	d.state.mu.Lock()
	defer d.state.mu.Unlock()
	if age, ok := d.state.freshness(time.Now()); ok {
		return age
	}
	return math.MaxInt64
}

func (d *Dimension) freshFor() time.Duration { return max(freshFor, 3*d.o.Refresh.Interval) }

// freshFor is for how long a proof that all buckets were read to their ends counts, at least.
const freshFor = 30 * time.Second

func rfc3339(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
