package pipeline

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"enricher/lookup"
)

// Reason is one reason why the pipeline is not ready.
type Reason struct {
	Reason string `json:"reason"`
	Detail string `json:"detail,omitempty"`
}

// Status is a snapshot for /status.
type Status struct {
	// Member tells whether this instance is a member of the group.
	Member bool `json:"member"`
	// Inputs are the Kafka partitions that this instance reads.
	Inputs []InputStatus `json:"inputs"`
	// InFlight is the number of facts that were read and are not yet written.
	InFlight int64 `json:"in_flight"`
	// LastCommit is when offsets were last committed; nil before the first time.
	LastCommit *time.Time `json:"last_commit,omitempty"`
	// Facts counts the committed facts by outcome.
	Facts map[string]int64 `json:"facts"`
	// Lookups are the steps with their matches and misses.
	Lookups []LookupStatus `json:"lookups"`
	// Errors are the last errors of the environment, newest first.
	Errors []ErrorStatus `json:"last_errors"`
	// DeadLetters are the last dead letters, newest first.
	DeadLetters []DeadLetterStatus `json:"last_dead_letters"`
}

// InputStatus is one Kafka partition of a fact topic. All numbers are offsets but Lag, which counts offsets from the commit to the end of the log
// without the facts that finished beyond the commit.
type InputStatus struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Committed int64  `json:"committed"`
	Read      int64  `json:"read"`
	End       int64  `json:"end"`
	Lag       int64  `json:"lag"`
}

// LookupStatus counts one step's results since the start.
type LookupStatus struct {
	Dimension string           `json:"dimension"`
	Matches   int64            `json:"matches"`
	Misses    map[string]int64 `json:"misses"`
}

// ErrorStatus is one error of the environment. Times counts how often it came in a row.
type ErrorStatus struct {
	At      time.Time `json:"at"`
	Message string    `json:"message"`
	Times   int       `json:"times"`
}

// DeadLetterStatus names a fact that failed.
type DeadLetterStatus struct {
	At        time.Time `json:"at"`
	Topic     string    `json:"topic"`
	Partition int32     `json:"partition"`
	Offset    int64     `json:"offset"`
	Stage     string    `json:"stage"`
	Class     string    `json:"class"`
	Message   string    `json:"message"`
	Dimension string    `json:"dimension,omitempty"`
}

// writesFailAfter is for how long written facts may stay without a commit, beyond the commit interval, before the instance is unready.
const writesFailAfter = 10 * time.Second

// kept is how many errors and dead letters the status shows.
const kept = 20

// state is what the pipeline tells of itself. It outlives the sessions.
type state struct {
	mu sync.Mutex
	// All below is guarded by mu.
	missing    missingTopics
	partitions map[string]int32 // how many Kafka partitions each input topic has
	facts      [outcomes]int64
	lookups    []LookupStatus
	errors     []ErrorStatus
	letters    []DeadLetterStatus
	lastCommit time.Time
	cuts       map[laneID]int64 // Kafka partitions whose log was cut, and where
	fencedAt   time.Time        // when this instance's place in the group was last taken
	dirtySince time.Time        // when the oldest fact was read that is not committed; zero when there is none
}

func (s *state) init(o *Options) {
	for _, d := range o.Plan.Describe() {
		s.lookups = append(s.lookups, LookupStatus{Dimension: d.Dimension, Misses: map[string]int64{}})
	}
}

// remember keeps an error of the environment for the status.
func (p *Pipeline) remember(err error) {
	if err == nil {
		return
	}
	s := &p.state
	s.mu.Lock()
	defer s.mu.Unlock()
	message := err.Error()
	if len(s.errors) > 0 && s.errors[0].Message == message {
		s.errors[0].At = time.Now()
		s.errors[0].Times++
		return
	}
	p.o.Logger.Warn("environment failed, trying again", "event", "environment_error", "error", err)
	s.errors = prepend(s.errors, ErrorStatus{At: time.Now(), Message: message, Times: 1})
}

// prepend puts v first and keeps the list short.
func prepend[T any](list []T, v T) []T {
	list = slices.Insert(list, 0, v)
	return list[:min(len(list), kept)]
}

// setMissing notes which topics do not exist.
func (p *Pipeline) setMissing(m missingTopics) {
	p.state.mu.Lock()
	defer p.state.mu.Unlock()
	p.state.missing = m
}

// setPartitions notes how many Kafka partitions the input topics have.
func (p *Pipeline) setPartitions(details kadm.TopicDetails) {
	partitions := make(map[string]int32)
	for _, t := range p.o.Topics {
		partitions[t] = int32(len(details[t].Partitions))
	}
	p.state.mu.Lock()
	defer p.state.mu.Unlock()
	p.state.partitions = partitions
}

// dirty notes that something waits for a commit.
func (p *Pipeline) dirty() {
	p.state.mu.Lock()
	defer p.state.mu.Unlock()
	if p.state.dirtySince.IsZero() {
		p.state.dirtySince = time.Now()
	}
}

// settled counts committed batches. more says that further facts are on their way.
func (p *Pipeline) settled(done []*batch, more bool) {
	now := time.Now()
	p.o.Metrics.committed(done, now)
	s := &p.state
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dirtySince = time.Time{}
	if len(done) > 0 {
		s.lastCommit = now
	}
	if more {
		s.dirtySince = now
	}
	for _, b := range done {
		for o, n := range b.counts {
			s.facts[o] += int64(n)
		}
		for _, f := range b.letters {
			s.letters = prepend(s.letters, DeadLetterStatus{
				At: now, Topic: f.from.topic, Partition: f.from.partition, Offset: f.from.offset,
				Stage: f.stage, Class: f.class, Message: f.message, Dimension: f.dimension,
			})
		}
		for i, step := range b.lookups {
			s.lookups[i].Matches += int64(step.Matches)
			for reason, n := range step.Misses {
				if n > 0 {
					s.lookups[i].Misses[lookup.MissReason(reason).String()] += int64(n)
				}
			}
		}
	}
}

// Status tells where the facts are.
func (p *Pipeline) Status() Status {
	st := Status{Member: p.isMember(), Inputs: p.inputs(), Facts: map[string]int64{}}
	if s := p.session.Load(); s != nil {
		st.InFlight = s.inFlight.Load()
	}
	s := &p.state
	s.mu.Lock()
	defer s.mu.Unlock()
	for o, n := range s.facts {
		st.Facts[outcome(o).String()] = n
	}
	for _, l := range s.lookups {
		st.Lookups = append(st.Lookups, LookupStatus{l.Dimension, l.Matches, maps.Clone(l.Misses)})
	}
	if !s.lastCommit.IsZero() {
		at := s.lastCommit
		st.LastCommit = &at
	}
	st.Errors = append([]ErrorStatus{}, s.errors...) // not null in the JSON
	st.DeadLetters = append([]DeadLetterStatus{}, s.letters...)
	return st
}

// isMember tells whether the session at work is a member of the group. A former one that is slow to close does not count.
func (p *Pipeline) isMember() bool {
	s := p.session.Load()
	return s != nil && s.member.Load()
}

// inputs lists the lanes in order.
func (p *Pipeline) inputs() []InputStatus {
	s := p.session.Load()
	if s == nil {
		return nil
	}
	s.mu.Lock()
	lanes := make([]*lane, 0, len(s.lanes))
	for _, l := range s.lanes {
		lanes = append(lanes, l)
	}
	s.mu.Unlock()
	all := make([]InputStatus, 0, len(lanes))
	for _, l := range lanes {
		all = append(all, l.status())
	}
	slices.SortFunc(all, func(a, b InputStatus) int {
		if c := strings.Compare(a.Topic, b.Topic); c != 0 {
			return c
		}
		return int(a.Partition) - int(b.Partition)
	})
	return all
}

// Unready lists why the pipeline is not ready; empty when it is.
func (p *Pipeline) Unready() []Reason {
	var reasons []Reason
	unplaced := 0
	if session := p.session.Load(); session != nil {
		unplaced = session.unplaced()
	}
	s := &p.state
	s.mu.Lock()
	defer s.mu.Unlock()
	last := ""
	if len(s.errors) > 0 {
		last = fmt.Sprintf("last error, %s ago: %s", time.Since(s.errors[0].At).Round(time.Second), s.errors[0].Message)
	}
	for _, t := range s.missing.input {
		reasons = append(reasons, Reason{"input_topic_missing", t})
	}
	if s.missing.output != "" {
		reasons = append(reasons, Reason{"output_topic_missing", s.missing.output})
	}
	if s.missing.letters != "" {
		reasons = append(reasons, Reason{"dead_letter_topic_missing", s.missing.letters})
	}
	if !p.isMember() {
		reasons = append(reasons, Reason{"not_a_group_member", last})
	}
	if n := unplaced; n > 0 {
		reasons = append(reasons, Reason{"offsets_unknown", fmt.Sprintf(
			"%d assigned Kafka partitions are not read: the group does not tell their offsets, which may be part of a transaction that has not ended", n)})
	}
	if !s.dirtySince.IsZero() && time.Since(s.dirtySince) > writesFailAfter+p.o.CommitInterval {
		reasons = append(reasons, Reason{"writes_failing", last})
	}
	return reasons
}
