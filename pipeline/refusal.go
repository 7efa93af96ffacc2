package pipeline

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// isRefusal tells whether the broker refused the records themselves, for good: sending them again would fail again, wherever the fault of
// the environment may be mended. Everything else is the environment's failure and is retried.
func isRefusal(err error) bool {
	for _, refusal := range []*kerr.Error{kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidRecord, kerr.InvalidTimestamp} {
		if errors.Is(err, refusal) {
			return true
		}
	}
	return false
}

// refusals finds the facts whose records the broker refuses. The broker refuses a whole batch of records for one bad record in it, and the
// transaction is lost with it. So the facts that were refused together are divided into groups, each of which goes alone in its produce
// requests from then on; a group that is refused is divided again, until a group of one is refused: that is a bad one. Every attempt divides a
// group or finds a fact, so it ends, after about log8(batch) attempts per bad fact. It holds no clock and does no I/O.
//
// A fact that was found is remembered, with the form that its dead letter may take, until it is committed past.
type refusals struct {
	known  map[origin]refusal // never changed, only replaced: workers read it
	groups map[origin]int     // from 1; facts without a group go with the others
	last   int                // the last group
}

type refusal struct {
	message string
	form    letterForm
	output  bool // by a rule for the output topic: the fact's dead letter was not refused
}

// verdicts is what is known of refusals when a batch is looked up.
type verdicts struct {
	known map[origin]refusal
	rules *topicRules
	now   time.Time // set with rules
}

// of tells whether the result of a fact is refused: by what was found, or by a rule of the output topic; nil when it is not known.
func (v *verdicts) of(o origin, rec *kgo.Record, opts *Options) *refusal {
	if r, ok := v.known[o]; ok {
		return &r
	}
	if v.rules == nil {
		return nil
	}
	if why, err := v.rules.refuses(opts.OutputTopic, rec.Key == nil, rec.Timestamp, v.now); err != nil {
		return &refusal{message: fmt.Sprintf("topic %s refuses the record: %s", opts.OutputTopic, why), output: true}
	}
	return nil
}

// refusalSplit is into how many groups the facts that were refused together are divided.
const refusalSplit = 8

// refused takes the facts that one attempt saw refused, with the broker's message for each.
func (r *refusals) refused(facts map[origin]string) {
	if len(facts) == 0 {
		return
	}
	if r.groups == nil {
		r.groups = make(map[origin]int)
	}
	all := slices.SortedFunc(maps.Keys(facts), origin.compare)
	if len(all) == 1 {
		r.learn(all[0], facts[all[0]])
	}
	for group := range slices.Chunk(all, (len(all)+refusalSplit-1)/refusalSplit) {
		r.last++
		for _, o := range group {
			r.groups[o] = r.last
		}
	}
}

// learn records that o alone is refused. The second time it is its dead letter that was refused, and so on.
func (r *refusals) learn(o origin, message string) {
	known := maps.Clone(r.known)
	if known == nil {
		known = make(map[origin]refusal)
	}
	if before, again := known[o]; again {
		known[o] = refusal{message: before.message, form: before.form + 1}
	} else {
		known[o] = refusal{message: message}
	}
	r.known = known
}

// empty tells whether nothing was refused of what is in flight, which is the rule.
func (r *refusals) empty() bool { return len(r.known) == 0 && len(r.groups) == 0 }

// committed forgets the facts of one Kafka partition below offset, which will not be seen again.
func (r *refusals) committed(topic string, partition int32, offset int64) {
	past := func(o origin) bool { return o.topic == topic && o.partition == partition && o.offset < offset }
	known := maps.Clone(r.known)
	maps.DeleteFunc(known, func(o origin, _ refusal) bool { return past(o) })
	r.known = known
	maps.DeleteFunc(r.groups, func(o origin, _ int) bool { return past(o) })
}
