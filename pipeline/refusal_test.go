package pipeline

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
)

func TestIsRefusal(t *testing.T) {
	for _, err := range []error{kerr.MessageTooLarge, kerr.InvalidTimestamp, kerr.InvalidRecord, fmt.Errorf("produce: %w", kerr.RecordListTooLarge)} {
		assert.True(t, isRefusal(err), err)
	}
	for _, err := range []error{
		kerr.TopicAuthorizationFailed, kerr.NotLeaderForPartition, kerr.UnknownTopicOrPartition, kerr.NotEnoughReplicas, kerr.InvalidProducerEpoch,
		kerr.OutOfOrderSequenceNumber, kerr.TransactionAbortable, kerr.PolicyViolation, errors.New("dial tcp: refused"),
	} {
		assert.False(t, isRefusal(err), err)
	}
}

// A broker that refuses every request that holds a bad fact: each attempt produces the facts in order, suspects in their groups, until a request is refused.
func TestRefusalsFindTheBadOnes(t *testing.T) {
	for name, tc := range map[string]struct {
		facts    int
		bad      []int64
		attempts int // at most
	}{
		"alone":           {1, []int64{0}, 2},
		"one of two":      {2, []int64{1}, 3},
		"one of many":     {3000, []int64{1234}, 6},
		"the first":       {512, []int64{0}, 6},
		"the last":        {512, []int64{511}, 6},
		"neighbours":      {512, []int64{100, 101, 102}, 10},
		"far apart":       {3000, []int64{7, 1500, 2999}, 18},
		"all of a few":    {5, []int64{0, 1, 2, 3, 4}, 10},
		"none is refused": {100, nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			bad := map[int64]bool{}
			for _, o := range tc.bad {
				bad[o] = true
			}
			var r refusals
			attempts := 0
			for refused := true; refused; {
				attempts++
				require.LessOrEqual(t, attempts, tc.attempts)
				facts := attempt(&r, tc.facts, bad)
				refused = len(facts) > 0
				r.refused(facts)
			}
			require.Len(t, r.known, len(tc.bad))
			for o := range bad {
				assert.Contains(t, r.known, origin{"in", 0, o})
			}
			r.committed("in", 0, int64(tc.facts))
			assert.True(t, r.empty())
		})
	}
}

// attempt returns the facts of the first request that is refused.
func attempt(r *refusals, facts int, bad map[int64]bool) map[origin]string {
	var request []origin
	group := 0
	send := func() map[origin]string {
		refused := map[origin]string{}
		for _, o := range request {
			if _, known := r.known[o]; bad[o.offset] && !known {
				for _, all := range request {
					refused[all] = "refused"
				}
			}
		}
		request = request[:0]
		return refused
	}
	for i := range int64(facts) {
		o := origin{"in", 0, i}
		if g := r.groups[o]; g != group {
			if refused := send(); len(refused) > 0 {
				return refused
			}
			group = g
		}
		request = append(request, o)
	}
	return send()
}

func TestDeadLetterThatIsRefused(t *testing.T) {
	var r refusals
	o := origin{"in", 0, 7}
	for _, want := range []letterForm{letterWhole, letterStamped, letterTruncated, letterBare, letterRefused} {
		r.refused(map[origin]string{o: "refused"})
		assert.Equal(t, refusal{message: "refused", form: want}, r.known[o])
	}
}

func TestRefusalsForget(t *testing.T) {
	var r refusals
	for _, o := range []origin{{"in", 0, 7}, {"in", 0, 9}, {"in", 1, 7}, {"other", 0, 7}} {
		r.learn(o, "refused")
	}
	held := r.known
	r.committed("in", 0, 8)
	assert.Len(t, r.known, 3)
	assert.NotContains(t, r.known, origin{"in", 0, 7})
	assert.Len(t, held, 4, "the map that workers hold does not change")
}
