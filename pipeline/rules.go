package pipeline

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// topicRule is what a topic's configuration says of the records that its brokers refuse. The zero rule refuses nothing.
//
// The rules shorten the search for refused facts (refusal.go): where the configuration explains a refusal, all facts that it concerns are known at
// once. They are asked for only after a broker has refused records, and forgotten soon (rulesKept), for a person may change them any time. A
// configuration that may not be read, or that does not explain the refusal, leaves the search.
type topicRule struct {
	compacted     bool          // cleanup.policy has compact: records need a key
	before, after time.Duration // how far a record's timestamp may lie from now; 0: any
}

// topicRules are the rules of the topics that are written, as of a moment.
type topicRules struct {
	topics map[string]topicRule
	until  time.Time
}

// rulesKept is for how long rules are believed.
const rulesKept = 10 * time.Second

// timestampSlack is by how much the brokers' clock may differ from ours before a rule is wrong; what lies within it is left to the search.
const timestampSlack = time.Minute

// refuses tells whether a topic surely refuses a record, and with which error.
func (r *topicRules) refuses(topic string, noKey bool, at, now time.Time) (why string, err error) {
	if r == nil || now.After(r.until) {
		return "", nil
	}
	rule := r.topics[topic]
	switch {
	case rule.compacted && noKey:
		return "it is compacted, and the record has no key", kerr.InvalidRecord
	case rule.before > 0 && now.Sub(at) > rule.before+timestampSlack:
		return fmt.Sprintf("message.timestamp.before.max.ms is %d, and the record is from %s", rule.before.Milliseconds(), at.UTC().Format(time.RFC3339)), kerr.InvalidTimestamp
	case rule.after > 0 && at.Sub(now) > rule.after+timestampSlack:
		return fmt.Sprintf("message.timestamp.after.max.ms is %d, and the record is from %s", rule.after.Milliseconds(), at.UTC().Format(time.RFC3339)), kerr.InvalidTimestamp
	default:
		return "", nil
	}
}

// parseRule reads the rule out of a topic's configuration.
func parseRule(configs []kadm.Config) topicRule {
	var rule topicRule
	values := make(map[string]string)
	for _, c := range configs {
		if c.Value != nil {
			values[c.Key] = *c.Value
		}
	}
	rule.compacted = strings.Contains(values["cleanup.policy"], "compact")
	if values["message.timestamp.type"] == "LogAppendTime" {
		return rule // the broker stamps every record
	}
	limit := func(keys ...string) time.Duration {
		for _, key := range keys {
			ms, err := strconv.ParseInt(values[key], 10, 64)
			if err == nil && ms > 0 && ms < int64(1<<62)/int64(time.Millisecond) {
				return time.Duration(ms) * time.Millisecond
			}
		}
		return 0
	}
	rule.before = limit("message.timestamp.before.max.ms", "message.timestamp.difference.max.ms") // the latter before Kafka 3.6
	rule.after = limit("message.timestamp.after.max.ms", "message.timestamp.difference.max.ms")
	return rule
}

// askRules asks for the rules of the topics that are written; nil when they can't be read.
func (p *Pipeline) askRules(ctx context.Context, admin *kadm.Client) *topicRules {
	configs, err := p.writtenConfigs(ctx, admin)
	if err != nil {
		return nil
	}
	rules := &topicRules{topics: make(map[string]topicRule), until: time.Now().Add(rulesKept)}
	for _, c := range configs {
		if c.Err == nil {
			rules.topics[c.Name] = parseRule(c.Configs)
		}
	}
	return rules
}

// refusedRecord is what a rule needs to know of a record that was refused.
type refusedRecord struct {
	topic   string
	noKey   bool
	at      time.Time
	err     error
	message string
}

// explained divides refused facts into those that the rules explain and the others.
func (r *topicRules) explained(refused map[origin]refusedRecord, now time.Time) (yes, no map[origin]string) {
	yes, no = make(map[origin]string), make(map[origin]string)
	for o, rec := range refused {
		if why, err := r.refuses(rec.topic, rec.noKey, rec.at, now); err != nil && errors.Is(rec.err, err) {
			yes[o] = fmt.Sprintf("topic %s refuses the record: %s", rec.topic, why)
		} else {
			no[o] = rec.message
		}
	}
	return yes, no
}
