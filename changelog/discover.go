package changelog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"enricher/dimstore"
)

const (
	requestTimeout = 10 * time.Second // of one look at the cluster
	lookBackoff    = 500 * time.Millisecond
	lookBackoffMax = 5 * time.Second
	repeatWaiting  = time.Minute // a start that waits says so again
)

// topicConfig is what a changelog's configuration says.
type topicConfig struct {
	retention time.Duration // delete.retention.ms, Kafka's default where it can't be read
	policy    string        // cleanup.policy; empty where it can't be read
}

// configs are the configurations of topics. Where they can't be read (the right to describe them is one that a reader often lacks) Kafka's
// defaults hold.
func (d *Dimension) configs(ctx context.Context, cl *kgo.Client, topics ...string) map[string]topicConfig {
	described, err := kadm.NewClient(cl).DescribeTopicConfigs(ctx, topics...)
	out := make(map[string]topicConfig, len(topics))
	for _, topic := range topics {
		c := topicConfig{retention: defaultRetention}
		why := err
		if why == nil {
			var rc kadm.ResourceConfig
			if rc, why = described.On(topic, nil); why == nil {
				if why = rc.Err; why == nil {
					c = readConfig(rc.Configs)
				}
			}
		}
		if why != nil {
			d.log.InfoContext(ctx, "the topic's configuration can't be read, taking Kafka's defaults", "topic", topic,
				"delete_retention", defaultRetention, "reason", why)
		}
		out[topic] = c
	}
	return out
}

func readConfig(configs []kadm.Config) topicConfig {
	c := topicConfig{retention: defaultRetention}
	for _, e := range configs {
		switch {
		case e.Value == nil:
		case e.Key == "cleanup.policy":
			c.policy = *e.Value
		case e.Key == "delete.retention.ms":
			if ms, err := strconv.ParseInt(*e.Value, 10, 64); err == nil && ms >= 0 {
				c.retention = time.Duration(min(ms, int64(time.Duration(1<<62)/time.Millisecond))) * time.Millisecond
			}
		}
	}
	return c
}

// policyWarning says what is wrong with the cleanup.policy of a changelog; empty when nothing is, or when it is not known.
func policyWarning(topic, policy string) string {
	var compact, remove bool
	for p := range strings.SplitSeq(policy, ",") {
		switch strings.TrimSpace(p) {
		case "compact":
			compact = true
		case "delete":
			remove = true
		}
	}
	switch {
	case remove:
		return fmt.Sprintf("cleanup.policy of topic %q is %q: rows that are older than its retention are gone from the topic, so a new generation "+
			"lacks them; set it to compact", topic, policy)
	case policy != "" && !compact:
		return fmt.Sprintf("cleanup.policy of topic %q is %q, without compact: the topic, and the first load, grow with every change; set it to compact",
			topic, policy)
	}
	return ""
}

// known takes in what the configurations of topics say.
func (d *Dimension) known(ctx context.Context, topics []logTopic) {
	d.state.mu.Lock()
	for _, t := range topics {
		d.state.marks = max(d.state.marks, t.retention)
	}
	marks := d.state.marks
	d.state.mu.Unlock()
	d.o.Sink.SetDeleteMarkTTL(marks)
	for _, t := range topics {
		if warning := policyWarning(t.name, t.policy); warning != "" && d.state.warn(warning) {
			d.log.WarnContext(ctx, "the topic is not kept as a changelog should be", "warning", warning)
		}
	}
}

// looker looks at the cluster for a start.
type looker struct {
	d      *Dimension
	cl     *kgo.Client
	roster roster
}

// errUnsure: a topic that was read before is not there, and has to be looked for again before it counts as gone.
var errUnsure = errors.New("a topic that was read before is not there")

// look asks for everything that a start needs to know.
func (l *looker) look(ctx context.Context) (logView, error) {
	d := l.d
	log := logView{askedAt: time.Now()}
	var known []string
	for t := range l.roster.misses {
		known = append(known, t)
	}
	metas, err := d.list(ctx, l.cl, known)
	if err != nil {
		return log, err
	}
	names := present(metas)
	if len(names) == 0 && d.route.pattern == nil {
		return log, errMissing
	} else if len(names) == 0 {
		return log, errNoMatch
	}
	if d.route.pattern != nil {
		log.left = l.roster.listed(names)
		l.roster.know(names...)
		for _, t := range known {
			if !slices.Contains(names, t) && !slices.Contains(log.left, t) {
				return log, errUnsure
			}
		}
	}
	log.leaders = leaderNodes(metas)
	log.topics, err = d.lookAt(ctx, l.cl, metas, names)
	return log, err
}

// discover looks until there is a topic and all buckets answer. What it waits for is in the status, and in the log every minute. The error is
// that of ctx.
func (d *Dimension) discover(ctx context.Context, f *feed, stored []dimstore.Position) (logView, error) {
	l := looker{d: d, cl: f.cl}
	for _, s := range stored {
		if s.Next >= 0 && d.route.pattern != nil && d.route.matches(s.Bucket.Topic) {
			l.roster.know(s.Bucket.Topic)
		}
	}
	var (
		said   string
		saidAt time.Time
		wait   = lookBackoff
	)
	for {
		log, err := l.look(ctx)
		if err == nil {
			d.state.waitFor("")
			d.state.missing(false)
			return log, nil
		}
		if ctx.Err() != nil {
			return logView{}, ctx.Err()
		}
		if errors.Is(err, errUnsure) {
			if !sleep(ctx, lookBackoff) {
				return logView{}, ctx.Err()
			}
			continue
		}
		waiting := d.remedy(err)
		d.state.waitFor(waiting)
		d.state.missing(errors.Is(err, errMissing) || errors.Is(err, errNoMatch))
		if now := time.Now(); waiting != said || now.Sub(saidAt) >= repeatWaiting {
			d.log.WarnContext(ctx, "the dimension waits", "topic", d.route.name(), "waiting_for", waiting)
			said, saidAt = waiting, now
		}
		if !sleep(ctx, wait) {
			return logView{}, ctx.Err()
		}
		wait = min(2*wait, lookBackoffMax)
	}
}

// remedy says what a start waits for and what a person can do about it.
func (d *Dimension) remedy(err error) string {
	name := d.route.name()
	switch {
	case errors.Is(err, errMissing):
		return fmt.Sprintf("topic %q does not exist: create it, or correct the topic of dimension %q", name, d.o.Name)
	case errors.Is(err, errNoMatch):
		return fmt.Sprintf("no topic matches the pattern %q: create one, grant DESCRIBE on it, or correct the topic_pattern of dimension %q", name, d.o.Name)
	case isRefused(err):
		return fmt.Sprintf("the brokers refuse topic %q (%v): grant READ, DESCRIBE and DESCRIBE_CONFIGS on it", name, err)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("no answer about topic %q within %s: check kafka.brokers and the network", name, requestTimeout)
	}
	return fmt.Sprintf("topic %q can't be read yet: %v", name, err)
}

// isRefused reports whether rights are missing.
func isRefused(err error) bool {
	if _, ok := errors.AsType[*kadm.AuthError](err); ok {
		return true
	}
	return errors.Is(err, kerr.TopicAuthorizationFailed) || errors.Is(err, kerr.ClusterAuthorizationFailed) || errors.Is(err, kerr.SaslAuthenticationFailed)
}

// sleep waits for t; false when ctx ended first.
func sleep(ctx context.Context, t time.Duration) bool {
	timer := time.NewTimer(t)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
