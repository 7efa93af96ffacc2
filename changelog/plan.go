package changelog

import (
	"fmt"
	"slices"
	"time"

	"enricher/dimstore"
)

// Reasons for which a dimension is loaded anew; label values of enricher_dimension_rebuilds_total beside those of dimstore (definition,
// format, damaged, ...).
const (
	reasonRecreated  = "topic_recreated" // deleted and created again, or other buckets than were stored
	reasonOutOfRange = "out_of_range"    // a position lies outside the log
	reasonLost       = "records_lost"    // the log lost records that were read
	reasonTombstones = "tombstones"      // read later than delete.retention.ms: deletes may be gone
	reasonTopicGone  = "topic_gone"      // a topic of a pattern left, and its rows can't be told from those of others
	reasonPositions  = "positions"       // the store has rows of which nobody knows how far they were read
	reasonDefinition = "definition"      // positions of another topic
)

// defaultRetention is delete.retention.ms where it can't be read: Kafka's default.
const defaultRetention = 24 * time.Hour

// positionLeft is the position of a bucket whose topic left and took its rows with it.
const positionLeft = -1

// logBucket is one bucket as Kafka shows it at some moment.
type logBucket struct {
	start  int64 // first offset that is there
	stable int64 // last stable offset: what a read committed reader can reach
	high   int64 // high watermark
}

// logTopic is one changelog topic as Kafka shows it.
type logTopic struct {
	name      string
	id        [16]byte      // zero: the brokers are too old to tell
	buckets   []logBucket   // by Kafka partition
	retention time.Duration // delete.retention.ms
	policy    string        // cleanup.policy; empty: not known
}

// logView is all that a start needs to know of Kafka.
type logView struct {
	topics  []logTopic
	left    []string  // topics that were read before and have left for good
	askedAt time.Time // a moment before the offsets were asked for
	leaders int       // brokers that lead a bucket
}

// planBucket is where one bucket is read from.
type planBucket struct {
	id        dimstore.BucketID
	topicID   [16]byte
	retention time.Duration
	log       logBucket
	next      int64
	provedAt  time.Time // see dimstore.Position.ProvedAt; the moment before reading begins when next is the start of the log
	fresh     bool      // the store knows no position of it yet
}

// drop is a partition that leaves with the topic that all its rows came from.
type drop struct {
	topic     string
	partition []byte
	buckets   []dimstore.BucketID
}

// plan is what a start does with what the store holds.
type plan struct {
	reason  string // why the rows are dropped and loaded anew; empty: they stay
	detail  string // the same for people
	beside  bool   // the new generation is loaded beside the rows that are there
	loading bool   // a first load begins or goes on
	buckets []planBucket
	drops   []drop // of topics that left
}

// makePlan decides between going on at the stored positions and loading anew. A store without any position and not complete is the first
// load, which drops nothing.
//
// A bucket in which nothing was written since its position (position at the last stable offset: offsets are never given twice, and the
// cleaner does not pass the last stable offset) misses no tombstone, however long ago it was proved; with anything beyond the position,
// a tombstone written since may have been removed already when the proof is older than delete.retention.ms.
//
// Rows that may only lack deletes, or be of a topic that left, are kept until the new generation is there. Rows of another log are not.
func makePlan(r *route, log logView, stored []dimstore.Position, complete bool, now time.Time) plan {
	if complete && len(stored) == 0 {
		return anew(log, now, reasonPositions, "the store is complete but holds no position")
	}
	p := plan{loading: !complete, buckets: fromStart(log, now)}
	index := make(map[dimstore.BucketID]int, len(p.buckets))
	for i := range p.buckets {
		index[p.buckets[i].id] = i
	}
	gone := map[string][]dimstore.BucketID{}
	var beside *plan
	for _, s := range stored {
		if s.Next < 0 {
			continue
		}
		reason, detail := judge(r, log, s, now)
		switch {
		case reason == reasonTopicGone:
			gone[s.Bucket.Topic] = append(gone[s.Bucket.Topic], s.Bucket)
		case reason == reasonTombstones:
			b := anew(log, now, reason, detail)
			b.beside = complete
			beside = &b
		case reason != "":
			return anew(log, now, reason, detail)
		default:
			b := &p.buckets[index[s.Bucket]]
			b.next, b.provedAt, b.fresh = s.Next, s.ProvedAt, false
		}
	}
	var names []string
	for _, t := range log.topics {
		names = append(names, t.name)
	}
	for topic, buckets := range gone {
		partition, ok := r.leaves(topic, names)
		if !ok {
			b := anew(log, now, reasonTopicGone, fmt.Sprintf("topic %q left, and its rows can't be told from those of others", topic))
			b.beside = complete
			beside = &b
			continue
		}
		p.drops = append(p.drops, drop{topic: topic, partition: partition, buckets: buckets})
	}
	if beside != nil {
		return *beside
	}
	return p
}

// judge says why one stored position can't be gone on from; an empty reason when it can.
func judge(r *route, log logView, s dimstore.Position, now time.Time) (reason, detail string) {
	none := [16]byte{}
	n := s.Bucket.Partition
	t := log.topic(s.Bucket.Topic)
	switch {
	case t == nil && log.hasLeft(s.Bucket.Topic):
		return reasonTopicGone, ""
	case t == nil:
		return reasonDefinition, fmt.Sprintf("the positions belong to topic %q", s.Bucket.Topic)
	case s.TopicID != none && t.id != none && s.TopicID != t.id:
		return reasonRecreated, fmt.Sprintf("topic %q has the id %x, its rows came from %x", t.name, t.id, s.TopicID)
	case n < 0 || int(n) >= len(t.buckets):
		return reasonRecreated, fmt.Sprintf("%s was read before and the topic has %d now", r.bucket(t.name, n), len(t.buckets))
	}
	b := t.buckets[n]
	switch {
	case s.Next < b.start || s.Next > b.high:
		return reasonOutOfRange, fmt.Sprintf("%s was read up to %d, its log holds %d to %d", r.bucket(t.name, n), s.Next, b.start, b.high)
	case s.Next < b.stable && (s.ProvedAt.IsZero() || now.Sub(s.ProvedAt) > t.retention):
		return reasonTombstones, fmt.Sprintf("%s was last proved to be at its end at %s, longer ago than delete.retention.ms (%s)",
			r.bucket(t.name, n), s.ProvedAt.UTC().Format(time.RFC3339), t.retention)
	}
	return "", ""
}

func (l *logView) topic(name string) *logTopic {
	for i := range l.topics {
		if l.topics[i].name == name {
			return &l.topics[i]
		}
	}
	return nil
}

func (l *logView) hasLeft(name string) bool { return slices.Contains(l.left, name) }

func anew(log logView, now time.Time, reason, detail string) plan {
	return plan{reason: reason, detail: detail, loading: true, buckets: fromStart(log, now)}
}

// fromStart reads every bucket from its beginning. Nothing of it is in the store, so nothing in there can miss a tombstone up to now.
func fromStart(log logView, now time.Time) []planBucket {
	var buckets []planBucket
	for _, t := range log.topics {
		buckets = append(buckets, t.fromStart(0, now)...)
	}
	return buckets
}

// fromStart are the buckets of a topic from the first-th on.
func (t *logTopic) fromStart(first int, now time.Time) []planBucket {
	var buckets []planBucket
	for i := first; i < len(t.buckets); i++ {
		buckets = append(buckets, planBucket{
			id: dimstore.BucketID{Topic: t.name, Partition: int32(i)}, topicID: t.id, retention: t.retention,
			log: t.buckets[i], next: t.buckets[i].start, provedAt: now, fresh: true,
		})
	}
	return buckets
}
