package pipeline

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestTopicRules(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	config := func(pairs ...string) []kadm.Config {
		var all []kadm.Config
		for i := 0; i < len(pairs); i += 2 {
			all = append(all, kadm.Config{Key: pairs[i], Value: &pairs[i+1]})
		}
		return all
	}
	hour := config("message.timestamp.type", "CreateTime", "message.timestamp.before.max.ms", "7200000", "message.timestamp.after.max.ms", "3600000")
	for name, tc := range map[string]struct {
		configs []kadm.Config
		noKey   bool
		at      time.Time
		want    error
	}{
		"nothing known":                 {nil, true, now.Add(1000 * time.Hour), nil},
		"no key on a compacted topic":   {config("cleanup.policy", "compact,delete"), true, now, kerr.InvalidRecord},
		"a key on a compacted topic":    {config("cleanup.policy", "compact"), false, now, nil},
		"no key on another topic":       {config("cleanup.policy", "delete"), true, now, nil},
		"too old":                       {hour, false, now.Add(-3 * time.Hour), kerr.InvalidTimestamp},
		"just too old: clocks differ":   {hour, false, now.Add(-2*time.Hour - 10*time.Second), nil},
		"old enough":                    {hour, false, now.Add(-time.Hour), nil},
		"too new":                       {hour, false, now.Add(2 * time.Hour), kerr.InvalidTimestamp},
		"new":                           {hour, false, now.Add(30 * time.Minute), nil},
		"the broker stamps":             {append(config("message.timestamp.type", "LogAppendTime"), hour[1:]...), false, now.Add(2 * time.Hour), nil},
		"an older broker's one limit":   {config("message.timestamp.difference.max.ms", "3600000"), false, now.Add(2 * time.Hour), kerr.InvalidTimestamp},
		"no limit (the greatest int64)": {config("message.timestamp.before.max.ms", "9223372036854775807"), false, time.UnixMilli(0), nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := &topicRules{topics: map[string]topicRule{"t": parseRule(tc.configs)}, until: now.Add(rulesKept)}
			why, err := r.refuses("t", tc.noKey, tc.at, now)
			assert.Equal(t, tc.want == nil, why == "")
			require.ErrorIs(t, err, tc.want)
			_, err = r.refuses("other", tc.noKey, tc.at, now)
			require.NoError(t, err)
			_, err = r.refuses("t", tc.noKey, tc.at, now.Add(2*rulesKept))
			require.NoError(t, err, "rules are forgotten")
		})
	}
}

// Where the topic's configuration says which records are refused, a thousand of them cost no more than one.
func TestManyRefusedFacts(t *testing.T) {
	inWorld(t, func(w *world) {
		t := w.t
		require.NoError(t, w.cluster.CreateTopic("compacted", 4, map[string]string{"cleanup.policy": "compact"}))
		w.client.AddConsumeTopics("compacted")
		// The fake broker takes records without a key; a real one refuses their batch.
		w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "compacted", Err: kerr.InvalidRecord, Count: -1, When: func(req kmsg.Request) bool {
			for _, topic := range req.(*kmsg.ProduceRequest).Topics {
				for _, p := range topic.Partitions {
					if bytes.Contains(p.Records, []byte("nokey")) {
						return true
					}
				}
			}
			return false
		}})
		ends := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.EndTxn}, Observe: true, Count: -1})
		var facts []*kgo.Record
		for i := range 2000 {
			r := &kgo.Record{Topic: inTopic, Partition: int32(i % 4), Value: fmt.Appendf(nil, `{"id":%d,"cust":1,"note":"nokey"}`, i)}
			if i%2 == 0 {
				r.Key, r.Value = []byte("k"), fmt.Appendf(nil, `{"id":%d,"cust":1}`, i)
			}
			facts = append(facts, r)
		}
		w.write(facts...)
		in := w.start(func(o *Options) { o.OutputTopic = "compacted" })
		letters := 0
		for _, r := range w.read(2000) {
			if r.Topic == dlTopic {
				letters++
				assert.Equal(t, ClassRejected, header(r, HeaderClass))
				assert.Equal(t, "topic compacted refuses the record: it is compacted, and the record has no key", header(r, HeaderMessage))
				assert.NotNil(t, r.Value)
			}
		}
		assert.Equal(t, 1000, letters)
		assert.Less(t, ends.Hits(), 20, "transactions")
		w.quiet()
		require.NoError(t, in.end())
	})
}
