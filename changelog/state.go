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
	pausedMemory     = "memory"      // the rows in memory have reached their bound
	pausedDeadLetter = "dead_letter" // a dead letter can't be written
)

// state is what the goroutines of a dimension share and what people see of it. All fields stand under mu, as do those of the feeds that say so.
type state struct {
	mu      sync.Mutex
	moved   chan struct{} // closed when something changed that somebody may wait for; nil when nobody waits
	current *feed         // reads into the generation that answers; nil before the first
	next    *feed         // reads into the one that is loaded beside it; nil when there is none
	waiting string        // what a start waits for, and the remedy
	gone    bool          // the topic is missing, or no topic matches the pattern
	warm    bool
	refresh refreshes

	loadReason string
	lastError  string
	lastAt     time.Time
	warnings   []string
	marks      time.Duration // how long delete marks stay: the longest delete.retention.ms

	records                                  int64
	upserts, deletes, stale, expired, errors int64
	rebuilds                                 map[string]int64 // by reason
}

// wait returns a channel that is closed at the next change. For the holder of mu.
func (s *state) wait() <-chan struct{} {
	if s.moved == nil {
		s.moved = make(chan struct{})
	}
	return s.moved
}

// wake ends the waiting of all. For the holder of mu.
func (s *state) wake() {
	if s.moved != nil {
		close(s.moved)
		s.moved = nil
	}
}

func (s *state) waitFor(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = what
	if what != "" {
		s.lastError, s.lastAt = what, time.Now()
	}
}

// warn keeps what is wrong with a topic though it can be read; true when it is news.
func (s *state) warn(warning string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Contains(s.warnings, warning) {
		return false
	}
	s.warnings = append(s.warnings, warning)
	return true
}

func (s *state) missing(gone bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone != gone {
		s.gone = gone
		s.wake()
	}
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

// feeds are those that there are. For the holder of mu.
func (s *state) feeds() []*feed {
	var all []*feed
	for _, f := range []*feed{s.current, s.next} {
		if f != nil {
			all = append(all, f)
		}
	}
	return all
}

// shown is the feed whose buckets are shown: the one that answers, before that the one that is loaded. For the holder of mu.
func (s *state) shown() *feed {
	for _, f := range s.feeds() {
		if f.track != nil {
			return f
		}
	}
	return nil
}

// freshness is how long ago everything that was committed is known to have been applied; false when not warm. For the holder of mu.
func (s *state) freshness(now time.Time) (time.Duration, bool) {
	if !s.warm || s.current == nil || s.current.track == nil {
		return 0, false
	}
	return max(0, now.Sub(s.current.track.freshAt())), true
}

// ready reports the reasons why facts should not be looked up; none when they may. For the holder of mu.
func (s *state) ready(now time.Time, fresh time.Duration) []string {
	var reasons []string
	add := func(format string, args ...any) { reasons = append(reasons, fmt.Sprintf(format, args...)) }
	shown := s.shown()
	switch {
	case s.gone && s.warm:
		add("topic_missing: the rows stay, the topic does not exist")
	case s.gone:
		add("topic_missing: %s", s.waiting)
	case s.waiting != "" && !s.warm:
		add("waiting: %s", s.waiting)
	case shown == nil:
		add("starting")
	}
	if shown != nil && !s.warm {
		add("warming up: %.1f %% read", 100*shown.track.ratio())
	}
	paused := s.paused()
	for _, reason := range slices.Sorted(maps.Keys(paused)) {
		add("paused (%s): %s", reason, paused[reason])
	}
	if age, ok := s.freshness(now); ok && age > fresh {
		lasting := s.lasting()
		if len(lasting) == 0 {
			lasting = []string{"no error known"}
		}
		add("stale: not fresh: last proved to be at its end %s ago; %s", age.Round(time.Second), strings.Join(lasting, "; "))
	}
	return reasons
}

// spaceReason is why a store that is full takes nothing up.
func spaceReason(err error) string {
	if errors.Is(err, dimstore.ErrNoMemory) {
		return pausedMemory
	}
	return pausedDisk
}

// paused are the reasons why changes are not applied, with the errors behind them. For the holder of mu.
func (s *state) paused() map[string]string {
	all := map[string]string{}
	for _, f := range s.feeds() {
		maps.Copy(all, f.paused)
	}
	return all
}

// lasting is the errors that last. For the holder of mu.
func (s *state) lasting() []string {
	var out []string
	for _, f := range s.feeds() {
		if f.track != nil {
			for i := range f.track.buckets {
				if b := &f.track.buckets[i]; b.stopped != "" && !slices.Contains(out, b.stopped) {
					out = append(out, b.stopped)
				}
			}
		}
		for _, source := range slices.Sorted(maps.Keys(f.failures)) {
			if !slices.Contains(out, f.failures[source]) {
				out = append(out, f.failures[source])
			}
		}
	}
	return out
}
