package changelog

import (
	"time"

	"enricher/dimstore"
)

// Progress of a load.
type Progress struct {
	Rows          int64   `json:"rows"`            // changes applied by this load
	Bytes         int64   `json:"bytes"`           // keys and values read by this load
	Ratio         float64 `json:"ratio"`           // 0..1 of the offsets between the logs' starts and the ends seen at start
	RowsPerSecond float64 `json:"rows_per_second"` // mean since the start
	SecondsLeft   float64 `json:"seconds_left"`    // at that pace; -1 while there is none
}

// mark is an end as it was at some moment: a bucket read up to end holds everything that was committed at.
type mark struct {
	end int64
	at  time.Time
}

// bucketProgress is how far one bucket is. Offsets are next offsets: 5 means that 0 to 4 are done.
type bucketProgress struct {
	id        dimstore.BucketID
	topicID   [16]byte
	retention time.Duration // delete.retention.ms

	first   int64 // start of the log when it was first seen
	from    int64 // where this process began
	target  int64 // the end seen when it was first seen: the bucket is warm when applied has reached it
	read    int64 // handed on for applying, or known to hold nothing
	applied int64 // durable in the store
	end     int64 // last stable offset as last seen
	high    int64 // high watermark as last seen

	provedAt time.Time // everything committed then is applied
	provedTo int64     // applied at that proof
	movedAt  time.Time // when applied moved last, or it was first seen
	loading  bool      // not proved yet since it was begun from its start
	pending  mark      // the oldest end that applied has not reached yet
	latest   mark      // the newest one

	stopped string // why it can't be read on in this generation; empty: it is read
	left    bool   // its topic left

	standing time.Time // since when end stands still below high; zero when it does not
	holder   holder    // who holds the transaction open that it stands before
}

// holder is a producer with an open transaction.
type holder struct {
	producerID int64
	epoch      int16
	known      bool
}

// tracker turns positions and ends into what people and decisions need. It holds no clock and is guarded by its owner. Buckets keep their
// place in it.
type tracker struct {
	buckets []bucketProgress
	began   time.Time // start of reading
	rows    int64
	bytes   int64
	records int64
	slow    bool // a first load read on when tombstones behind its proof may have been gone
}

func newTracker(p plan, askedAt time.Time) *tracker {
	t := &tracker{began: askedAt}
	t.add(p.buckets, p.loading, askedAt)
	return t
}

// add begins to track buckets and returns the place of the first.
func (t *tracker) add(buckets []planBucket, loading bool, askedAt time.Time) int {
	at := len(t.buckets)
	for _, b := range buckets {
		t.buckets = append(t.buckets, bucketProgress{
			id: b.id, topicID: b.topicID, retention: b.retention,
			first: b.log.start, from: b.next, target: b.log.stable, read: b.next, applied: b.next,
			provedAt: b.provedAt, provedTo: b.next, movedAt: askedAt, loading: loading || b.fresh,
		})
		t.observe(len(t.buckets)-1, b.log.stable, b.log.high, askedAt)
	}
	return at
}

// live reports whether a bucket is read.
func (b *bucketProgress) live() bool { return b.stopped == "" && !b.left }

// reached reports whether a bucket was applied up to the end seen when it was first seen. Until then a new one delays no fact.
func (b *bucketProgress) reached() bool { return b.applied >= b.target }

// observe takes in the end of bucket i as it was at (a moment before it was asked for).
func (t *tracker) observe(i int, end, high int64, at time.Time) {
	b := &t.buckets[i]
	if !b.live() {
		return
	}
	switch {
	case end >= high:
		b.standing, b.holder = time.Time{}, holder{}
	case b.standing.IsZero() || end != b.end:
		b.standing, b.holder = at, holder{}
	}
	b.end, b.high = end, high
	m := mark{end: end, at: at}
	switch {
	case b.applied > max(end, high): // another log, or one that lost its end: no proof of anything
	case b.applied >= end:
		b.pending, b.latest = mark{}, mark{}
		t.prove(i, m)
	case b.pending.at.IsZero() || b.pending.end > end: // an end that went back is the nearer one
		b.pending = m
	default:
		b.latest = m
	}
}

// seen takes in an end that came with records: it proves nothing but moves the lag.
func (t *tracker) seen(i int, end, high int64) {
	b := &t.buckets[i]
	b.end, b.high = max(b.end, end), max(b.high, high)
}

// admit takes in that bucket i was read on at some moment, up to next, and is about to be applied; false when it must not. A tombstone stays
// for the retention after it was written, and what is read now was written after the last proof. When that is longer ago, tombstones may be
// gone unseen, and the rows that they delete would stay.
func (t *tracker) admit(i int, next int64, readAt time.Time) bool {
	b := &t.buckets[i]
	if next <= b.provedTo || readAt.Sub(b.provedAt) <= b.retention {
		return true
	}
	if b.loading {
		t.slow = true
	}
	return b.loading
}

// advance says that bucket i is applied up to next.
func (t *tracker) advance(i int, next int64, now time.Time) {
	b := &t.buckets[i]
	if next > b.applied {
		b.applied, b.movedAt = next, now
	}
	for !b.pending.at.IsZero() && b.applied >= b.pending.end {
		m := b.pending
		b.pending, b.latest = b.latest, mark{}
		t.prove(i, m)
	}
}

// prove takes in that bucket i is applied up to m.
func (t *tracker) prove(i int, m mark) {
	b := &t.buckets[i]
	if m.at.After(b.provedAt) {
		b.provedAt, b.provedTo, b.loading = m.at, b.applied, false
	}
}

// warm reports whether every bucket was applied up to the end seen when it was first seen.
func (t *tracker) warm() bool {
	for i := range t.buckets {
		if b := &t.buckets[i]; !b.left && !b.reached() {
			return false
		}
	}
	return true
}

// allRead reports whether every bucket was read up to the end seen when it was first seen.
func (t *tracker) allRead() bool {
	for i := range t.buckets {
		if b := &t.buckets[i]; b.live() && b.read < b.target {
			return false
		}
	}
	return true
}

func (b *bucketProgress) lag() int64 {
	if !b.live() {
		return 0
	}
	return max(0, b.end-b.applied)
}

func (t *tracker) lag() int64 {
	var n int64
	for i := range t.buckets {
		n += t.buckets[i].lag()
	}
	return n
}

// outstanding is the lag of the buckets that facts are to be kept up with: those that are just being begun delay no fact.
func (t *tracker) outstanding() int64 {
	var n int64
	for i := range t.buckets {
		if t.buckets[i].reached() {
			n += t.buckets[i].lag()
		}
	}
	return n
}

// provedAt is the oldest proof of the buckets that are read: everything committed then is applied.
func (t *tracker) provedAt() time.Time {
	return t.oldest(func(b *bucketProgress) (time.Time, bool) { return b.provedAt, b.live() })
}

// freshAt is up to when everything that was committed is known to be applied. A new bucket counts as fresh while it moves on; one that can't be
// read any more does not.
func (t *tracker) freshAt() time.Time {
	return t.oldest(func(b *bucketProgress) (time.Time, bool) {
		if !b.reached() && b.movedAt.After(b.provedAt) {
			return b.movedAt, !b.left
		}
		return b.provedAt, !b.left
	})
}

func (t *tracker) oldest(of func(*bucketProgress) (time.Time, bool)) time.Time {
	var oldest time.Time
	first := true
	for i := range t.buckets {
		at, counts := of(&t.buckets[i])
		if counts && (first || at.Before(oldest)) {
			oldest, first = at, false
		}
	}
	return oldest
}

// ratio is the part of the offsets between the logs' starts and the ends seen at start that is applied; 1 when there are none.
func (t *tracker) ratio() float64 {
	var done, all int64
	for i := range t.buckets {
		b := &t.buckets[i]
		if b.left {
			continue
		}
		all += max(0, b.target-b.first)
		done += max(0, min(b.applied, b.target)-b.first)
	}
	if all == 0 {
		return 1
	}
	return float64(done) / float64(all)
}

// progress is the load's state for people.
func (t *tracker) progress(now time.Time) Progress {
	p := Progress{Rows: t.rows, Bytes: t.bytes, Ratio: t.ratio(), SecondsLeft: -1}
	var done, left int64
	for i := range t.buckets {
		b := &t.buckets[i]
		if b.left {
			continue
		}
		done += b.applied - b.from
		left += max(0, b.target-b.applied)
	}
	elapsed := now.Sub(t.began).Seconds()
	if elapsed > 0 {
		p.RowsPerSecond = float64(t.rows) / elapsed
	}
	switch {
	case left == 0:
		p.SecondsLeft = 0
	case done > 0 && elapsed > 0:
		p.SecondsLeft = float64(left) / (float64(done) / elapsed)
	}
	return p
}

func (b *bucketProgress) openTransaction(now time.Time) time.Duration {
	if b.standing.IsZero() || !b.live() {
		return 0
	}
	return now.Sub(b.standing)
}
