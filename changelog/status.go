package changelog

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// Status is a dimension's state for /status; all of one moment.
type Status struct {
	Name         string    `json:"name"`
	Topic        string    `json:"topic"`
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
	Buckets          []BucketStatus `json:"buckets"`
}

// BucketStatus is one Kafka partition of the changelog.
type BucketStatus struct {
	Partition int32  `json:"partition"`
	Position  int64  `json:"position"` // next offset to apply
	End       int64  `json:"end"`      // last stable offset, as last seen
	Lag       int64  `json:"lag"`
	Warm      bool   `json:"warm"`
	ProvedAt  string `json:"proved_at,omitempty"` // RFC 3339: when it was last proved to be read to its end; while it is loaded, when that began
	// OpenTransactionSeconds is how long the end has stood still below the high watermark: a producer holds a transaction open.
	OpenTransactionSeconds float64 `json:"open_transaction_seconds,omitempty"`
}

// Status is the state of this moment.
func (d *Dimension) Status() Status {
	now := time.Now()
	st := Status{
		Name: d.o.Name, Topic: d.o.Topic, Buckets: []BucketStatus{},
		Rows: d.o.Sink.Rows(), Bytes: d.o.Sink.Bytes(), Partitions: d.o.Sink.Partitions(),
	}
	s := &d.state
	s.mu.Lock()
	defer s.mu.Unlock()
	st.Warm = s.warm
	st.Reasons = s.ready(now, d.freshFor())
	st.Ready = len(st.Reasons) == 0
	st.WaitingFor, st.TopicMissing, st.LoadReason = s.waitingFor, s.gone, s.loadReason
	st.Paused = strings.Join(slices.Sorted(maps.Keys(s.paused)), ", ")
	st.Trouble = s.lasting()
	st.Warnings = slices.Clone(s.warnings)
	st.LastError, st.LastErrorAt, st.RecordErrors = s.lastError, rfc3339(s.lastAt), s.errors
	if s.track == nil {
		return st
	}
	st.RecordsRead, st.Lag = s.track.records, s.track.lag()
	if s.warm {
		age := now.Sub(s.track.provedAt()).Seconds()
		st.FreshnessSeconds = &age
	} else {
		p := s.track.progress(now)
		st.Progress = &p
	}
	for i := range s.track.buckets {
		b := &s.track.buckets[i]
		st.Buckets = append(st.Buckets, BucketStatus{
			Partition: int32(i), Position: b.applied, End: b.end, Lag: b.lag(), Warm: b.applied >= b.target,
			ProvedAt: rfc3339(b.provedAt), OpenTransactionSeconds: b.openTransaction(now).Seconds(),
		})
	}
	return st
}

// Ready reports whether facts may be looked up: warm, the topic there, changes applied, and proved to be fresh within three check intervals
// (30 s at least). The text says why not.
func (d *Dimension) Ready() (ready bool, reason string) {
	d.state.mu.Lock()
	defer d.state.mu.Unlock()
	reasons := d.state.ready(time.Now(), d.freshFor())
	return len(reasons) == 0, strings.Join(reasons, "; ")
}

func (d *Dimension) freshFor() time.Duration { return max(freshFor, 3*d.o.CheckInterval) }

func (b *bucketProgress) openTransaction(now time.Time) time.Duration {
	if b.standing.IsZero() {
		return 0
	}
	return now.Sub(b.standing)
}

func rfc3339(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
