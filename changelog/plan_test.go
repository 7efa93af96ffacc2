package changelog

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"enricher/dimstore"
)

func TestPlan(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	idA, idB := [16]byte{1}, [16]byte{2}
	hourAgo, longAgo := now.Add(-time.Hour), now.Add(-25*time.Hour)
	log := func(buckets ...logBucket) logView {
		return logView{topics: []logTopic{{name: topic, id: idA, buckets: buckets, retention: 24 * time.Hour}}}
	}
	at := func(n int32, next int64, proved time.Time) dimstore.Position {
		return dimstore.Position{Bucket: dimstore.BucketID{Topic: topic, Partition: n}, TopicID: idA, Next: next, ProvedAt: proved}
	}
	other := func(p dimstore.Position, change func(*dimstore.Position)) dimstore.Position { change(&p); return p }
	plain := logBucket{start: 10, stable: 100, high: 105}

	for _, c := range []struct {
		name     string
		log      logView
		stored   []dimstore.Position
		complete bool
		reason   string
		next     []int64
		fresh    []bool
	}{
		{"an empty store is the first load", log(plain), nil, false, "", []int64{10}, []bool{true}},
		{"goes on", log(plain), []dimstore.Position{at(0, 50, hourAgo)}, true, "", []int64{50}, []bool{false}},
		{"goes on with half a load", log(plain), []dimstore.Position{at(0, 50, hourAgo)}, false, "", []int64{50}, []bool{false}},
		{"goes on at the start of the log", log(plain), []dimstore.Position{at(0, 10, hourAgo)}, true, "", []int64{10}, []bool{false}},
		{"goes on at the end", log(plain), []dimstore.Position{at(0, 100, hourAgo)}, true, "", []int64{100}, []bool{false}},
		{"goes on between the ends of two leaders", log(plain), []dimstore.Position{at(0, 103, hourAgo)}, true, "", []int64{103}, []bool{false}},
		{"a new bucket is read from its beginning", log(plain, logBucket{3, 7, 7}), []dimstore.Position{at(0, 50, hourAgo)}, true, "", []int64{50, 3}, []bool{false, true}},
		{"no id to compare with", log(plain), []dimstore.Position{other(at(0, 50, hourAgo), func(p *dimstore.Position) { p.TopicID = [16]byte{} })}, true, "", []int64{50}, []bool{false}},
		{"long ago, but nothing was written since", log(plain), []dimstore.Position{at(0, 100, longAgo)}, true, "", []int64{100}, []bool{false}},
		{"a clock that went back", log(plain), []dimstore.Position{at(0, 50, now.Add(time.Hour))}, true, "", []int64{50}, []bool{false}},

		{"created again", log(plain), []dimstore.Position{other(at(0, 50, hourAgo), func(p *dimstore.Position) { p.TopicID = idB })}, true, reasonRecreated, []int64{10}, []bool{true}},
		{"fewer buckets", log(plain), []dimstore.Position{at(0, 50, hourAgo), at(1, 1, hourAgo)}, true, reasonRecreated, []int64{10}, []bool{true}},
		{"below the log", log(plain), []dimstore.Position{at(0, 9, hourAgo)}, true, reasonOutOfRange, []int64{10}, []bool{true}},
		{"beyond the log", log(plain), []dimstore.Position{at(0, 106, hourAgo)}, true, reasonOutOfRange, []int64{10}, []bool{true}},
		{"one of two below the log", log(plain, plain), []dimstore.Position{at(0, 50, hourAgo), at(1, 9, hourAgo)}, true, reasonOutOfRange, []int64{10, 10}, []bool{true, true}},
		{"longer ago than tombstones stay", log(plain), []dimstore.Position{at(0, 50, longAgo)}, true, reasonTombstones, []int64{10}, []bool{true}},
		{"half a load, longer ago than tombstones stay", log(plain), []dimstore.Position{at(0, 50, longAgo)}, false, reasonTombstones, []int64{10}, []bool{true}},
		{"never proved", log(plain), []dimstore.Position{at(0, 50, time.Time{})}, true, reasonTombstones, []int64{10}, []bool{true}},
		{"complete without a position", log(plain), nil, true, reasonPositions, []int64{10}, []bool{true}},
		{"another topic", log(plain), []dimstore.Position{other(at(0, 50, hourAgo), func(p *dimstore.Position) { p.Bucket.Topic = "x" })}, true, reasonDefinition, []int64{10}, []bool{true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := makePlan(&route{topic: topic}, c.log, c.stored, c.complete, now)
			assert.Equal(t, c.reason, p.reason, p.detail)
			assert.Equal(t, c.reason == reasonTombstones && c.complete, p.beside)
			var next []int64
			var fresh []bool
			for _, b := range p.buckets {
				next, fresh = append(next, b.next), append(fresh, b.fresh)
				if b.fresh {
					assert.Equal(t, now, b.provedAt)
				}
			}
			assert.Equal(t, c.next, next)
			assert.Equal(t, c.fresh, fresh)
		})
	}
}
