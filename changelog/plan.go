package changelog

import (
	"fmt"
	"time"

	"enricher/dimstore"
)

// Reasons for which a start loads a dimension anew; label values of enricher_dimension_rebuilds_total beside those of dimstore (definition,
// format, damaged, ...).
const (
	reasonRecreated  = "topic_recreated" // deleted and created again, or other buckets than were stored
	reasonOutOfRange = "out_of_range"    // a position lies outside the log
	reasonTombstones = "tombstones"      // away for longer than delete.retention.ms: deletes may be gone
	reasonPositions  = "positions"       // the store has rows of which nobody knows how far they were read
	reasonDefinition = "definition"      // positions of another topic
)

// defaultRetention is delete.retention.ms where it can't be read: Kafka's default.
const defaultRetention = 24 * time.Hour

// logBucket is one bucket as Kafka shows it at start.
type logBucket struct {
	start  int64 // first offset that is there
	stable int64 // last stable offset: what a read committed reader can reach
	high   int64 // high watermark
}

// logTopic is a changelog as Kafka shows it at start.
type logTopic struct {
	id        [16]byte      // zero: the brokers are too old to tell
	buckets   []logBucket   // by Kafka partition
	retention time.Duration // delete.retention.ms
	policy    string        // cleanup.policy; empty: not known
	askedAt   time.Time     // a moment before the offsets were asked for
	leaders   int           // brokers that lead a bucket
}

// planBucket is where one bucket is read from.
type planBucket struct {
	next     int64
	provedAt time.Time // see dimstore.Position.ProvedAt; the moment before reading begins when next is the start of the log
	fresh    bool      // the store knows no position of it yet
}

// plan is what a start does with what the store holds.
type plan struct {
	reason  string // why the rows are dropped and loaded anew; empty: they stay
	detail  string // the same for people
	loading bool   // a first load begins or goes on
	buckets []planBucket
}

// makePlan decides between going on at the stored positions and loading anew. A store without any position and not complete is the first
// load, which drops nothing.
//
// A bucket in which nothing was written since its position (position at the last stable offset: offsets are never given twice, and the
// cleaner does not pass the last stable offset) misses no tombstone, however long ago it was proved; with anything beyond the position,
// a tombstone written since may have been removed already when the proof is older than delete.retention.ms.
func makePlan(topic string, log logTopic, stored []dimstore.Position, complete bool, now time.Time) plan {
	if complete && len(stored) == 0 {
		return anew(log, now, reasonPositions, "the store is complete but holds no position")
	}
	p := plan{loading: !complete, buckets: fromStart(log, now)}
	for _, s := range stored {
		reason, detail := judge(topic, log, s, now)
		if reason != "" {
			return anew(log, now, reason, detail)
		}
		p.buckets[s.Bucket.Partition] = planBucket{next: s.Next, provedAt: s.ProvedAt}
	}
	return p
}

// judge says why one stored position can't be gone on from; an empty reason when it can.
func judge(topic string, log logTopic, s dimstore.Position, now time.Time) (reason, detail string) {
	none := [16]byte{}
	n := s.Bucket.Partition
	switch {
	case s.Bucket.Topic != topic:
		return reasonDefinition, fmt.Sprintf("the positions belong to topic %q", s.Bucket.Topic)
	case s.TopicID != none && log.id != none && s.TopicID != log.id:
		return reasonRecreated, fmt.Sprintf("the topic has the id %x, its rows came from %x", log.id, s.TopicID)
	case n < 0 || int(n) >= len(log.buckets):
		return reasonRecreated, fmt.Sprintf("bucket %d was read before and the topic has %d now", n, len(log.buckets))
	}
	b := log.buckets[n]
	switch {
	case s.Next < b.start || s.Next > b.high:
		return reasonOutOfRange, fmt.Sprintf("bucket %d was read up to %d, its log holds %d to %d", n, s.Next, b.start, b.high)
	case s.Next < b.stable && (s.ProvedAt.IsZero() || now.Sub(s.ProvedAt) > log.retention):
		return reasonTombstones, fmt.Sprintf("bucket %d was last proved to be at its end at %s, longer ago than delete.retention.ms (%s)",
			n, s.ProvedAt.UTC().Format(time.RFC3339), log.retention)
	}
	return "", ""
}

func anew(log logTopic, now time.Time, reason, detail string) plan {
	return plan{reason: reason, detail: detail, loading: true, buckets: fromStart(log, now)}
}

// fromStart reads every bucket from its beginning. Nothing of it is in the store, so nothing in there can miss a tombstone up to now.
func fromStart(log logTopic, now time.Time) []planBucket {
	buckets := make([]planBucket, len(log.buckets))
	for i, b := range log.buckets {
		buckets[i] = planBucket{next: b.start, provedAt: now, fresh: true}
	}
	return buckets
}
