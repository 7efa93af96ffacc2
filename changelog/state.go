package changelog

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"enricher/dimstore"
)

// Reasons for which changes are not applied for a while; label values of enricher_dimension_paused.
const (
	pausedDisk       = "disk"        // the store has not enough free space
	pausedDeadLetter = "dead_letter" // a dead letter can't be written
)

// freshFor is for how long a proof that all buckets were read to their ends counts, at least.
const freshFor = 30 * time.Second

// state is what the goroutines of a dimension share and what people see of it. All fields stand under mu.
type state struct {
	mu         sync.Mutex
	track      *tracker // nil until the start knows what to do
	topicID    [16]byte
	waitingFor string
	gone       bool // the topic is missing
	warm       bool
	loadReason string
	paused     map[string]string // reason → the error behind it
	failures   map[string]string // source → its last error, while it lasts
	lastError  string
	lastAt     time.Time
	warnings   []string

	upserts, deletes, stale, errors int64
	rebuilds                        map[string]int64 // by reason
}

func (s *state) waitFor(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waitingFor = what
	if what != "" {
		s.lastError, s.lastAt = what, time.Now()
	}
}

// warn keeps what is wrong with the topic though it can be read.
func (s *state) warn(warning string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.warnings, warning) {
		s.warnings = append(s.warnings, warning)
	}
}

func (s *state) missing(gone bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = gone
}

// fail keeps the error of a source until it succeeds; true when it is news.
func (s *state) fail(source string, err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := err.Error()
	news := s.failures[source] != text
	if s.failures == nil {
		s.failures = map[string]string{}
	}
	s.failures[source] = text
	s.lastError, s.lastAt = text, time.Now()
	return news
}

// succeed ends the trouble of a source.
func (s *state) succeed(source string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.failures, source)
}

// pause says that nothing is applied because of err; true when that is news.
func (s *state) pause(reason string, err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, known := s.paused[reason]
	if s.paused == nil {
		s.paused = map[string]string{}
	}
	s.paused[reason] = err.Error()
	s.lastError, s.lastAt = err.Error(), time.Now()
	return !known
}

// resume ends a pause; true when there was one.
func (s *state) resume(reason string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, known := s.paused[reason]
	delete(s.paused, reason)
	return known
}

func (s *state) rebuilt(reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rebuilds == nil {
		s.rebuilds = map[string]int64{}
	}
	s.loadReason = reason
	// A label has few values: what follows the first word is for people.
	if i := strings.IndexFunc(reason, func(r rune) bool { return r != '_' && (r < 'a' || r > 'z') }); i > 0 {
		reason = reason[:i]
	}
	s.rebuilds[reason]++
}

func (s *state) begin(t *tracker, id [16]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.track, s.topicID = t, id
}

// applied takes in what an Apply did.
func (s *state) applied(b *batch, a dimstore.Applied) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.upserts += int64(a.Upserts)
	s.deletes += int64(a.Deletes)
	s.stale += int64(a.Stale)
	s.track.rows += int64(len(b.changes))
	for i, next := range b.next {
		if next >= 0 {
			s.track.advance(i, next)
		}
	}
}

// positions are what goes into the store with b: those of the buckets it touches, or all of them.
func (s *state) positions(dst []dimstore.Position, topic string, b *batch) []dimstore.Position {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, next := range b.next {
		t := &s.track.buckets[i]
		if next < 0 && !b.proofs {
			continue
		}
		dst = append(dst, dimstore.Position{
			Bucket: dimstore.BucketID{Topic: topic, Partition: int32(i)}, TopicID: s.topicID,
			Next: max(next, t.applied), ProvedAt: t.provedAt,
		})
	}
	return dst
}

// admit looks at a batch before it is applied: an error when deletes may have been missed. slow says the same of a first load, once.
func (s *state) admit(b *batch, now time.Time) (slow bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.track.slow
	for i, next := range b.next {
		s.track.admit(i, next, now)
	}
	if i := s.track.lapsed; i >= 0 {
		return false, fmt.Errorf("bucket %d was not read to its end for longer than delete.retention.ms (%s), deletes may be gone: %w",
			i, s.track.retention, ErrRestart)
	}
	return s.track.slow && !before, nil
}

// ready reports the reasons why facts should not be looked up; none when they may.
func (s *state) ready(now time.Time, fresh time.Duration) []string {
	var reasons []string
	add := func(format string, args ...any) { reasons = append(reasons, fmt.Sprintf(format, args...)) }
	switch {
	case s.gone:
		add("topic_missing: the rows stay, the topic does not exist")
	case s.waitingFor != "":
		add("waiting: %s", s.waitingFor)
	case s.track == nil:
		add("starting")
	}
	if s.track != nil && !s.warm {
		add("warming up: %.1f %% read", 100*s.track.ratio())
	}
	for _, reason := range slices.Sorted(maps.Keys(s.paused)) {
		add("paused (%s): %s", reason, s.paused[reason])
	}
	if s.warm {
		if age := now.Sub(s.track.provedAt()); age > fresh {
			lasting := s.lasting()
			if len(lasting) == 0 {
				lasting = []string{"no error known"}
			}
			add("not fresh: last proved to be at its end %s ago; %s", age.Round(time.Second), strings.Join(lasting, "; "))
		}
	}
	return reasons
}

// lasting is the errors that last.
func (s *state) lasting() []string {
	var out []string
	for _, source := range slices.Sorted(maps.Keys(s.failures)) {
		out = append(out, s.failures[source])
	}
	return out
}

// spoiledError is an error after which the rows in the store can't be gone on from, though its positions look right.
type spoiledError struct{ err error }

func (e *spoiledError) Error() string { return e.err.Error() }

func (e *spoiledError) Unwrap() error { return e.err }

func isSpoiled(err error) bool {
	_, ok := errors.AsType[*spoiledError](err)
	return ok
}
