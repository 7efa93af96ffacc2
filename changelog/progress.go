package changelog

import "time"

// Progress of a warm-up.
type Progress struct {
	Rows          int64   `json:"rows"`            // changes applied by this process
	Bytes         int64   `json:"bytes"`           // keys and values read by this process
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
	first   int64 // start of the log at start
	from    int64 // where this process began
	target  int64 // the end seen at start: the bucket is warm when applied has reached it
	read    int64 // handed on for applying, or known to hold nothing
	applied int64 // durable in the store
	end     int64 // last stable offset as last seen
	high    int64 // high watermark as last seen

	provedAt time.Time // everything committed then is applied
	provedTo int64     // applied at that proof
	loading  bool      // of a first load: not proved yet
	pending  mark      // the oldest end that applied has not reached yet
	latest   mark      // the newest one

	standing time.Time // since when end stands still below high; zero when it does not
}

// tracker turns positions and ends into what people and decisions need. It holds no clock and is guarded by its owner.
type tracker struct {
	buckets   []bucketProgress
	retention time.Duration // delete.retention.ms
	began     time.Time     // start of reading
	rows      int64
	bytes     int64
	records   int64
	lapsed    int  // bucket that was read on when tombstones behind its proof may have been gone; -1: none
	slow      bool // the same in a first load, which must come to an end
}

func newTracker(log logTopic, p plan) *tracker {
	t := &tracker{buckets: make([]bucketProgress, len(log.buckets)), retention: log.retention, began: log.askedAt, lapsed: -1}
	for i, b := range log.buckets {
		next := p.buckets[i].next
		t.buckets[i] = bucketProgress{
			first: b.start, from: next, target: b.stable, read: next, applied: next,
			provedAt: p.buckets[i].provedAt, provedTo: next, loading: p.loading || p.buckets[i].fresh,
		}
		t.observe(i, b.stable, b.high, log.askedAt)
	}
	return t
}

// observe takes in the end of bucket i as it was at (a moment before it was asked for).
func (t *tracker) observe(i int, end, high int64, at time.Time) {
	b := &t.buckets[i]
	switch {
	case end >= high:
		b.standing = time.Time{}
	case b.standing.IsZero() || end != b.end:
		b.standing = at
	}
	b.end, b.high = end, high
	m := mark{end: end, at: at}
	switch {
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

// admit takes in that bucket i was read on, up to next, and is about to be applied. A tombstone stays for the retention after it was written,
// and what is read now was written after the last proof. When that is longer ago, tombstones may be gone unseen, and the rows that they
// delete would stay.
func (t *tracker) admit(i int, next int64, now time.Time) {
	b := &t.buckets[i]
	switch {
	case next <= b.provedTo || now.Sub(b.provedAt) <= t.retention:
	case b.loading:
		t.slow = true
	case t.lapsed < 0:
		t.lapsed = i
	}
}

// advance says that bucket i is applied up to next.
func (t *tracker) advance(i int, next int64) {
	b := &t.buckets[i]
	b.applied = max(b.applied, next)
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

// warm reports whether every bucket was applied up to the end seen at start.
func (t *tracker) warm() bool {
	for i := range t.buckets {
		if t.buckets[i].applied < t.buckets[i].target {
			return false
		}
	}
	return true
}

// allRead reports whether every bucket was read up to the end seen at start.
func (t *tracker) allRead() bool {
	for i := range t.buckets {
		if t.buckets[i].read < t.buckets[i].target {
			return false
		}
	}
	return true
}

func (b *bucketProgress) lag() int64 { return max(0, b.end-b.applied) }

func (t *tracker) lag() int64 {
	var n int64
	for i := range t.buckets {
		n += t.buckets[i].lag()
	}
	return n
}

// provedAt is the oldest proof: everything committed then, in all buckets, is applied.
func (t *tracker) provedAt() time.Time {
	var oldest time.Time
	for i := range t.buckets {
		if at := t.buckets[i].provedAt; i == 0 || at.Before(oldest) {
			oldest = at
		}
	}
	return oldest
}

// ratio is the part of the offsets between the logs' starts and the ends seen at start that is applied; 1 when there are none.
func (t *tracker) ratio() float64 {
	var done, all int64
	for i := range t.buckets {
		b := &t.buckets[i]
		all += max(0, b.target-b.first)
		done += max(0, min(b.applied, b.target)-b.first)
	}
	if all == 0 {
		return 1
	}
	return float64(done) / float64(all)
}

// progress is the warm-up's state for people.
func (t *tracker) progress(now time.Time) Progress {
	p := Progress{Rows: t.rows, Bytes: t.bytes, Ratio: t.ratio(), SecondsLeft: -1}
	var done, left int64
	for i := range t.buckets {
		b := &t.buckets[i]
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
