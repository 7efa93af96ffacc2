package changelog

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

var epoch = time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)

func after(d time.Duration) time.Time { return epoch.Add(d) }

func trackerOf(buckets ...logBucket) *tracker {
	log := logView{topics: []logTopic{{name: topic, buckets: buckets, retention: 24 * time.Hour}}, askedAt: epoch}
	return newTracker(plan{buckets: fromStart(log, epoch)}, epoch)
}

func TestWarmIsByPosition(t *testing.T) {
	tr := trackerOf(logBucket{0, 100, 110}, logBucket{5, 5, 5})
	assert.False(t, tr.warm())
	assert.False(t, tr.allRead())
	tr.buckets[0].read = 100
	assert.True(t, tr.allRead())
	assert.False(t, tr.warm(), "read is not applied")
	tr.advance(0, 99, epoch)
	assert.False(t, tr.warm())
	tr.advance(0, 100, epoch)
	assert.True(t, tr.warm(), "records behind the last stable offset are not waited for")
	tr.observe(0, 500, 500, after(time.Second))
	assert.True(t, tr.warm(), "what is written later delays nothing")
}

func TestWarmAtOnceWhenThereIsNothing(t *testing.T) {
	tr := trackerOf(logBucket{0, 0, 0}, logBucket{7, 7, 9})
	assert.True(t, tr.warm())
	assert.InDelta(t, 1, tr.ratio(), 0)
	assert.Equal(t, epoch, tr.provedAt())
}

func TestProgress(t *testing.T) {
	tr := newTracker(plan{buckets: []planBucket{{log: logBucket{100, 200, 200}, next: 150}, {log: logBucket{0, 100, 100}}}}, epoch)
	assert.InDelta(t, 0.25, tr.ratio(), 1e-9, "what an earlier process read counts")
	p := tr.progress(after(0))
	assert.InDelta(t, -1, p.SecondsLeft, 0, "no pace yet")
	tr.rows = 60
	tr.advance(0, 200, epoch)
	tr.advance(1, 50, epoch)
	p = tr.progress(after(10 * time.Second))
	assert.InDelta(t, 0.75, p.Ratio, 1e-9)
	assert.InDelta(t, 6, p.RowsPerSecond, 1e-9)
	assert.InDelta(t, 5, p.SecondsLeft, 1e-9, "50 left, 100 done in 10 s")
	tr.advance(1, 100, epoch)
	assert.InDelta(t, 0, tr.progress(after(time.Minute)).SecondsLeft, 0)
	assert.InDelta(t, 1, tr.ratio(), 0)
}

func TestLag(t *testing.T) {
	tr := trackerOf(logBucket{0, 10, 10}, logBucket{0, 5, 5})
	assert.EqualValues(t, 15, tr.lag())
	tr.advance(0, 10, epoch)
	tr.seen(1, 25, 30)
	assert.EqualValues(t, 25, tr.lag())
	tr.seen(1, -1, -1) // brokers that do not tell
	assert.EqualValues(t, 25, tr.lag())
}

func TestProofs(t *testing.T) {
	tr := trackerOf(logBucket{0, 0, 0})
	tr.observe(0, 10, 10, after(time.Second))
	assert.Equal(t, epoch, tr.provedAt(), "short of the end")
	tr.observe(0, 20, 20, after(2*time.Second))
	tr.observe(0, 30, 30, after(3*time.Second))
	tr.advance(0, 9, epoch)
	assert.Equal(t, epoch, tr.provedAt())
	tr.advance(0, 10, epoch)
	assert.Equal(t, after(time.Second), tr.provedAt(), "an end that moves on does not put the proof off")
	tr.advance(0, 29, epoch)
	assert.Equal(t, after(time.Second), tr.provedAt())
	tr.advance(0, 30, epoch)
	assert.Equal(t, after(3*time.Second), tr.provedAt())
	tr.observe(0, 30, 30, after(time.Hour))
	assert.Equal(t, after(time.Hour), tr.provedAt(), "idle and fresh")
	tr.observe(0, 50, 50, after(2*time.Hour))
	tr.observe(0, 30, 30, after(3*time.Hour))
	assert.Equal(t, after(3*time.Hour), tr.provedAt(), "an end that went back")
	tr.observe(0, 20, 20, after(4*time.Hour))
	assert.Equal(t, after(3*time.Hour), tr.provedAt(), "another log, or one that lost its end, proves nothing")
}

func TestLapse(t *testing.T) {
	complete := func(next, end int64) *tracker {
		return newTracker(plan{buckets: []planBucket{{log: logBucket{0, end, end}, next: next, provedAt: after(-time.Hour), retention: 24 * time.Hour}}}, epoch)
	}
	t.Run("read too late", func(t *testing.T) {
		tr := complete(0, 0)
		tr.observe(0, 5, 5, after(time.Minute))
		tr.observe(0, 5, 5, after(25*time.Hour))
		assert.False(t, tr.admit(0, 5, after(25*time.Hour)), "what the first look saw was there a day ago")
	})
	t.Run("read in time, proved late", func(t *testing.T) {
		tr := complete(0, 0)
		assert.True(t, tr.admit(0, 5, after(23*time.Hour)))
		tr.advance(0, 5, epoch)
		tr.observe(0, 5, 5, after(30*time.Hour))
		assert.True(t, tr.admit(0, 6, after(31*time.Hour)))
	})
	t.Run("nothing written in the gap", func(t *testing.T) {
		tr := complete(7, 7)
		assert.True(t, tr.admit(0, 7, after(25*time.Hour)))
		tr.observe(0, 7, 7, after(25*time.Hour))
		assert.True(t, tr.admit(0, 9, after(27*time.Hour)))
	})
	t.Run("a restart that takes too long to catch up", func(t *testing.T) {
		tr := complete(0, 5)
		assert.True(t, tr.admit(0, 3, after(22*time.Hour)))
		tr.advance(0, 3, epoch)
		assert.False(t, tr.admit(0, 5, after(23*time.Hour+time.Minute)))
	})
	t.Run("a first load longer than that comes to an end, and says so", func(t *testing.T) {
		tr := trackerOf(logBucket{0, 10, 10})
		tr.observe(0, 20, 20, after(30*time.Hour))
		assert.True(t, tr.admit(0, 20, after(30*time.Hour)))
		tr.advance(0, 20, epoch)
		assert.True(t, tr.warm())
		assert.True(t, tr.slow)
		assert.True(t, tr.admit(0, 30, after(31*time.Hour)))
		assert.False(t, tr.buckets[0].loading)
	})
}

func TestOpenTransaction(t *testing.T) {
	tr := trackerOf(logBucket{0, 5, 5})
	b := &tr.buckets[0]
	assert.Zero(t, b.openTransaction(after(time.Minute)))
	tr.observe(0, 5, 9, after(time.Second))
	tr.observe(0, 5, 12, after(11*time.Second))
	assert.Equal(t, 20*time.Second, b.openTransaction(after(21*time.Second)))
	tr.observe(0, 9, 12, after(31*time.Second))
	assert.Equal(t, 10*time.Second, b.openTransaction(after(41*time.Second)), "the end moved")
	tr.observe(0, 12, 12, after(51*time.Second))
	assert.Zero(t, b.openTransaction(after(time.Hour)))
}

func TestProbingBacksOff(t *testing.T) {
	var p probing
	var at []time.Duration
	for d := time.Duration(0); d < 20*time.Second; d += 100 * time.Millisecond {
		if p.ready(7, after(d)) {
			at = append(at, d)
		}
	}
	assert.Equal(t, []time.Duration{
		100 * time.Millisecond, 300 * time.Millisecond, 700 * time.Millisecond, 1500 * time.Millisecond,
		3100 * time.Millisecond, 6300 * time.Millisecond, 11300 * time.Millisecond, 16300 * time.Millisecond,
	}, at)
	assert.False(t, p.ready(8, after(30*time.Second)), "it moved")
	assert.True(t, p.ready(8, after(30*time.Second+probeFirst)))
}
