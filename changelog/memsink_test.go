package changelog

import (
	"bytes"
	"errors"
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
	data      *memData
	discarded string
	byVersion bool          // the greater Change.Version wins
	fault     func() error  // before every write
	entered   chan struct{} // told at the begin of every Apply when not nil
	gate      chan struct{} // every Apply takes one from it when not nil

	loading                  *memGeneration
	ttl                      time.Duration
	applies, changes, resets int
	begun, published         int
	largest                  int
}

// memData is one generation.
type memData struct {
	rows      map[string]memRow // by partition + 0 + key
	positions map[dimstore.BucketID]dimstore.Position
	complete  bool
}

type memRow struct {
	partition, key []byte
	offset, ms     int64
	version        []byte
	bucket         dimstore.BucketID
	deleted        bool
	row            record.Row
}

func newMemData() *memData {
	return &memData{rows: map[string]memRow{}, positions: map[dimstore.BucketID]dimstore.Position{}}
}

func newMemSink() *memSink { return &memSink{data: newMemData()} }

func (s *memSink) Positions() []dimstore.Position {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.data.positions))
}

func (s *memSink) Complete() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.data.complete
}

func (s *memSink) Discarded() string { return s.discarded }

func (s *memSink) Reset(string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.data = newMemData()
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
	s.data.complete = true
	return nil
}

func (s *memSink) Apply(changes []dimstore.Change, positions []dimstore.Position) (dimstore.Applied, error) {
	return s.apply(func() *memData { return s.data }, changes, positions)
}

func (s *memSink) apply(to func() *memData, changes []dimstore.Change, positions []dimstore.Position) (dimstore.Applied, error) {
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
	return to().apply(changes, positions, s.byVersion), nil
}

func (d *memData) apply(changes []dimstore.Change, positions []dimstore.Position, byVersion bool) (a dimstore.Applied) {
	for _, c := range changes {
		id := string(c.Partition) + "\x00" + string(c.Key)
		old, known := d.rows[id]
		switch {
		case byVersion && !c.Delete && known && bytes.Compare(c.Version, old.version) < 0:
			a.Stale++
			continue
		case known && !newer(c, old) && (!byVersion || c.Delete || bytes.Equal(c.Version, old.version)):
			a.Stale++
			continue
		case c.Delete:
			a.Deletes++
		default:
			a.Upserts++
		}
		if c.Delete {
			c.Version = old.version
		}
		d.rows[id] = memRow{
			partition: bytes.Clone(c.Partition), key: bytes.Clone(c.Key), offset: c.Offset, ms: c.Timestamp, version: bytes.Clone(c.Version),
			bucket: c.Bucket, deleted: c.Delete, row: bytes.Clone(c.Row),
		}
	}
	for _, p := range positions {
		d.positions[p.Bucket] = p
	}
	return a
}

func newer(c dimstore.Change, old memRow) bool {
	if c.Bucket == old.bucket {
		return c.Offset > old.offset
	}
	if c.Timestamp != old.ms {
		return c.Timestamp > old.ms
	}
	if c.Bucket.Topic != old.bucket.Topic {
		return c.Bucket.Topic > old.bucket.Topic
	}
	return c.Bucket.Partition > old.bucket.Partition
}

func (s *memSink) DropPartition(partition []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.drop(s.data, partition)
}

func (s *memSink) drop(d *memData, partition []byte) error {
	if err := s.inject(); err != nil {
		return err
	}
	for id, r := range d.rows {
		if bytes.Equal(r.partition, partition) {
			delete(d.rows, id)
		}
	}
	return nil
}

func (s *memSink) PartitionList() [][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.data.partitions()
}

func (d *memData) partitions() [][]byte {
	var out [][]byte
	for _, r := range d.rows {
		if !r.deleted && !slices.ContainsFunc(out, func(p []byte) bool { return bytes.Equal(p, r.partition) }) {
			out = append(out, r.partition)
		}
	}
	slices.SortFunc(out, bytes.Compare)
	return out
}

func (s *memSink) SetDeleteMarkTTL(ttl time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ttl = ttl
}

func (s *memSink) Rows() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.data.live()
}

func (d *memData) live() (n int64) {
	for _, r := range d.rows {
		if !r.deleted {
			n++
		}
	}
	return n
}

func (*memSink) Bytes() int64 { return 4096 }

func (s *memSink) Partitions() int { return len(s.PartitionList()) }

func (s *memSink) Generation(string) (Generation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.inject(); err != nil {
		return nil, err
	}
	if s.loading != nil {
		return nil, errors.New("another one is loading")
	}
	s.loading = &memGeneration{sink: s, data: newMemData()}
	s.begun++
	return s.loading, nil
}

// memGeneration is a generation that is loaded beside another.
type memGeneration struct {
	sink *memSink
	data *memData
	over bool
}

var errOver = errors.New("the generation is over")

func (g *memGeneration) Apply(changes []dimstore.Change, positions []dimstore.Position) (dimstore.Applied, error) {
	if g.over {
		return dimstore.Applied{}, errOver
	}
	return g.sink.apply(func() *memData { return g.data }, changes, positions)
}

func (g *memGeneration) DropPartition(partition []byte) error {
	g.sink.mu.Lock()
	defer g.sink.mu.Unlock()
	return g.sink.drop(g.data, partition)
}

func (g *memGeneration) PartitionList() [][]byte {
	g.sink.mu.Lock()
	defer g.sink.mu.Unlock()
	return g.data.partitions()
}

func (g *memGeneration) Rows() int64 {
	g.sink.mu.Lock()
	defer g.sink.mu.Unlock()
	return g.data.live()
}

func (*memGeneration) Bytes() int64 { return 2048 }

func (g *memGeneration) Publish() error {
	s := g.sink
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.inject(); err != nil {
		return err
	}
	if g.over || s.loading != g {
		return errOver
	}
	g.data.complete, g.over = true, true
	s.data, s.loading = g.data, nil
	s.published++
	return nil
}

func (g *memGeneration) Abandon() error {
	g.sink.mu.Lock()
	defer g.sink.mu.Unlock()
	if !g.over {
		g.over, g.sink.loading = true, nil
	}
	return nil
}

// position is what a restart would begin at.
func (s *memSink) position(bucket int32) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.data.positions[dimstore.BucketID{Topic: topic, Partition: bucket}]
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
	for _, id := range slices.Sorted(maps.Keys(s.data.rows)) {
		r := s.data.rows[id]
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

// count reads one of the counters, which the sink may be moving on.
func (s *memSink) count(n *int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return *n
}
