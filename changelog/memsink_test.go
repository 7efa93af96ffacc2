package changelog

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"enricher/dimstore"
	"enricher/record"
)

// memSink is a store in memory: what it holds survives the dimension that wrote it, as a disk would.
type memSink struct {
	mu        sync.Mutex
	rows      map[string]memRow // by partition + 0 + key
	positions map[dimstore.BucketID]dimstore.Position
	complete  bool
	discarded string
	fault     func() error  // before every Apply and MarkComplete
	entered   chan struct{} // told at the begin of every Apply when not nil
	gate      chan struct{} // every Apply takes one from it when not nil

	ttl                      time.Duration
	applies, changes, resets int
	largest                  int
}

type memRow struct {
	partition, key []byte
	offset, ms     int64
	bucket         int32
	deleted        bool
	row            record.Row
}

func newMemSink() *memSink {
	return &memSink{rows: map[string]memRow{}, positions: map[dimstore.BucketID]dimstore.Position{}}
}

func (s *memSink) Positions() []dimstore.Position {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.positions))
}

func (s *memSink) Complete() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.complete
}

func (s *memSink) Discarded() string { return s.discarded }

func (s *memSink) Reset(string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.rows)
	clear(s.positions)
	s.complete = false
	s.resets++
	return nil
}

func (s *memSink) inject() error {
	if s.fault != nil {
		return s.fault()
	}
	return nil
}

func (s *memSink) setFault(f func() error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = f
}

func (s *memSink) MarkComplete() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.inject(); err != nil {
		return err
	}
	s.complete = true
	return nil
}

func (s *memSink) Apply(changes []dimstore.Change, positions []dimstore.Position) (dimstore.Applied, error) {
	if s.entered != nil {
		s.entered <- struct{}{}
	}
	if s.gate != nil {
		<-s.gate
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var a dimstore.Applied
	if err := s.inject(); err != nil {
		return a, err
	}
	s.applies++
	s.changes += len(changes)
	s.largest = max(s.largest, len(changes))
	for _, c := range changes {
		id := string(c.Partition) + "\x00" + string(c.Key)
		old, known := s.rows[id]
		switch {
		case known && !newer(c, old):
			a.Stale++
			continue
		case c.Delete:
			a.Deletes++
		default:
			a.Upserts++
		}
		s.rows[id] = memRow{
			partition: bytes.Clone(c.Partition), key: bytes.Clone(c.Key), offset: c.Offset, ms: c.Timestamp,
			bucket: c.Bucket.Partition, deleted: c.Delete, row: bytes.Clone(c.Row),
		}
	}
	for _, p := range positions {
		s.positions[p.Bucket] = p
	}
	return a, nil
}

func newer(c dimstore.Change, old memRow) bool {
	if c.Bucket.Partition == old.bucket {
		return c.Offset > old.offset
	}
	return c.Timestamp > old.ms || c.Timestamp == old.ms && c.Bucket.Partition > old.bucket
}

func (s *memSink) Rows() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	var n int64
	for _, r := range s.rows {
		if !r.deleted {
			n++
		}
	}
	return n
}

func (s *memSink) SetDeleteMarkTTL(ttl time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ttl = ttl
}

func (*memSink) Bytes() int64 { return 4096 }

func (*memSink) Partitions() int { return 1 }

// position is what a restart would begin at.
func (s *memSink) position(bucket int32) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.positions[dimstore.BucketID{Topic: topic, Partition: bucket}]
	if !ok {
		return -1
	}
	return p.Next
}

// dump is the live rows as JSON, in key order.
func (s *memSink) dump(schema *record.Schema) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, id := range slices.Sorted(maps.Keys(s.rows)) {
		r := s.rows[id]
		if r.deleted {
			continue
		}
		var b strings.Builder
		b.WriteByte('{')
		for i, c := range schema.Columns {
			if v := r.row.Column(i); v != nil {
				if b.Len() > 1 {
					b.WriteByte(',')
				}
				b.Write(record.AppendQuoted(nil, c.Name))
				b.WriteByte(':')
				b.Write(v)
			}
		}
		b.WriteByte('}')
		out = append(out, b.String())
	}
	return out
}
