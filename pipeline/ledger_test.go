package pipeline

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestLedger(t *testing.T) {
	finish := func(l *ledger, runs ...run) position {
		for _, r := range runs {
			l.finish(r)
		}
		return l.position()
	}
	for name, tc := range map[string]struct {
		runs []run
		want position
	}{
		"nothing finished":                {nil, position{Offset: 10}},
		"in order":                        {[]run{{10, 20}, {20, 30}}, position{Offset: 30}},
		"behind a waiting one":            {[]run{{15, 20}}, position{Offset: 10, Finished: []run{{15, 20}}}},
		"touching runs become one":        {[]run{{15, 20}, {20, 25}}, position{Offset: 10, Finished: []run{{15, 25}}}},
		"between two":                     {[]run{{12, 14}, {18, 20}, {14, 18}}, position{Offset: 10, Finished: []run{{12, 20}}}},
		"apart, out of order":             {[]run{{40, 50}, {20, 30}}, position{Offset: 10, Finished: []run{{20, 30}, {40, 50}}}},
		"the waiting one finishes":        {[]run{{11, 20}, {25, 30}, {10, 11}}, position{Offset: 20, Finished: []run{{25, 30}}}},
		"the same again changes nothing":  {[]run{{11, 20}, {11, 20}, {12, 13}}, position{Offset: 10, Finished: []run{{11, 20}}}},
		"below the base changes nothing":  {[]run{{1, 5}}, position{Offset: 10}},
		"an empty run changes nothing":    {[]run{{15, 15}}, position{Offset: 10}},
		"one that covers several":         {[]run{{12, 13}, {15, 16}, {18, 19}, {11, 30}}, position{Offset: 10, Finished: []run{{11, 30}}}},
		"all at once over several":        {[]run{{12, 13}, {15, 16}, {10, 30}}, position{Offset: 30}},
		"an insertion before the others":  {[]run{{30, 40}, {50, 60}, {12, 13}}, position{Offset: 10, Finished: []run{{12, 13}, {30, 40}, {50, 60}}}},
		"an insertion between the others": {[]run{{30, 40}, {50, 60}, {45, 46}}, position{Offset: 10, Finished: []run{{30, 40}, {45, 46}, {50, 60}}}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLedger(10, nil)
			l.handOut(100)
			assert.Equal(t, tc.want, finish(l, tc.runs...))
		})
	}
}

func TestLedgerStart(t *testing.T) {
	l := newLedger(10, []run{{12, 14}, {20, 30}})
	require.True(t, l.skips())
	for offset, want := range map[int64]bool{9: true, 10: false, 11: false, 12: true, 13: true, 14: false, 20: true, 29: true, 30: false} {
		assert.Equal(t, want, l.isDone(offset), offset)
	}
	for _, step := range []struct {
		next, from int64
		ok         bool
	}{{40, 10, true}, {45, 40, true}, {45, 45, false}, {20, 45, false}} {
		from, ok := l.handOut(step.next)
		assert.Equal(t, step.from, from)
		assert.Equal(t, step.ok, ok)
	}
	l.finish(run{10, 40})
	assert.Equal(t, position{Offset: 40}, l.position())

	for name, foreign := range map[string][]run{
		"touching the offset": {{10, 12}}, "below the offset": {{5, 12}}, "descending": {{20, 30}, {12, 14}}, "empty": {{12, 12}},
	} {
		assert.False(t, newLedger(10, foreign).skips(), name)
	}
}

// A map of offsets is the model of the ledger.
func TestLedgerAgainstModel(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		const end = 60
		l, model := newLedger(0, nil), make([]bool, end)
		l.handOut(end)
		for range 30 {
			from := rnd.Int64N(end)
			r := run{from, min(from+rnd.Int64N(6), end)}
			l.finish(r)
			for o := r.From; o < r.To; o++ {
				model[o] = true
			}
			p := l.position()
			for o := range int64(end) {
				require.Equal(t, model[o], l.isDone(o), "offset %d of %+v", o, p)
			}
			s, fits := encodeFinished(p)
			require.True(t, fits)
			require.Equal(t, p.Finished, decodeFinished(p.Offset, s))
			for i, r := range p.Finished {
				require.Greater(t, r.From, p.Offset)
				if i > 0 {
					require.Greater(t, r.From, p.Finished[i-1].To)
				}
			}
		}
	}
}

func TestFinishedOfOthers(t *testing.T) {
	ours, _ := encodeFinished(position{Offset: 5, Finished: []run{{7, 9}}})
	for name, metadata := range map[string]string{
		"none": "", "a member id": "enricher-4f1e", "a later version": strings.Replace(ours, ":1:", ":2:", 1), "not base64": finishedPrefix + "!!",
		"cut short": ours[:len(ours)-1], "a run of no length": finishedPrefix + "AQA", "beyond int64": finishedPrefix + "////////////AQL//////////////wE", "a number without an end": finishedPrefix + "//////////////////8",
	} {
		assert.Empty(t, decodeFinished(5, metadata), name)
	}
	assert.Equal(t, []run{{7, 9}}, decodeFinished(5, ours))
}

func TestFinishedBound(t *testing.T) {
	var p position
	for i := int64(1); ; i += 2 {
		p.Finished = append(p.Finished, run{i, i + 1})
		s, fits := encodeFinished(p)
		if !fits {
			assert.Greater(t, len(s), maxFinished)
			assert.Greater(t, len(p.Finished), 1000, "runs that fit")
			return
		}
		require.LessOrEqual(t, len(s), maxFinished)
	}
}

func FuzzDecodeFinished(f *testing.F) {
	f.Add(int64(5), finishedPrefix+"AgI")
	f.Fuzz(func(t *testing.T, offset int64, metadata string) {
		runs := decodeFinished(offset, metadata)
		l := newLedger(offset, runs)
		require.Equal(t, len(runs) > 0, l.skips(), "a set that decodes is a set that starts")
	})
}
