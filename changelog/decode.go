package changelog

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"enricher/dimstore"
	"enricher/record"
)

// Classes of a changelog record that can't be read, as its dead letter carries them.
const (
	classDecode = "decode" // the value is not a JSON object, or a column outside the key does not convert to its declared type
	classKey    = "key"    // the primary key is missing, null, ambiguous in its form, or does not convert to its declared type
)

// recordError says why a changelog record can't be read: what the record is, not the environment.
type recordError struct {
	class   string
	message string
}

func (e *recordError) Error() string { return e.class + ": " + e.message }

func decodeError(format string, args ...any) *recordError {
	return &recordError{classDecode, fmt.Sprintf(format, args...)}
}

func keyError(format string, args ...any) *recordError {
	return &recordError{classKey, fmt.Sprintf(format, args...)}
}

// decoder turns Kafka records into changes. It is owned by one goroutine; its memory is reused from record to record.
type decoder struct {
	schema    *record.Schema
	keyFormat string
	version   int        // number of the version column; -1: none
	retention *Retention // nil: partitions do not age
	now       time.Time  // for the retention
	origin    *origin    // of the topic in hand

	value    *record.Shape // all columns, in the order of the schema
	valueDoc record.Doc
	key      *record.Shape // the primary key's columns, in their order
	keyDoc   record.Doc

	columns [][]byte // the JSON of each column of the row in hand
	isKey   []bool   // by column
	token   []byte   // a bare record key as JSON
	scratch []byte   // codes that are only tried
}

func newDecoder(schema *record.Schema, keyFormat string, version int, retention *Retention) *decoder {
	d := &decoder{
		schema: schema, keyFormat: keyFormat, version: version, retention: retention,
		columns: make([][]byte, len(schema.Columns)), isKey: make([]bool, len(schema.Columns)),
	}
	var value, key []record.Path
	for _, c := range schema.Columns {
		value = append(value, record.FieldPath(c.Name))
	}
	for _, i := range schema.PrimaryKey {
		key = append(key, record.FieldPath(schema.Columns[i].Name))
		d.isKey[i] = true
	}
	d.value, d.key = record.Compile(value, nil), record.Compile(key, nil)
	return d
}

// decode appends the changes of one record of a topic, which lie in the batch's arena: one, or as many as a bare record key has readings. On an
// error nothing is appended.
func (d *decoder) decode(b *batch, rec *kgo.Record, o *origin) *recordError {
	d.origin = o
	mark := b.mark()
	var err *recordError
	if rec.Value == nil {
		err = d.delete(b, rec)
	} else {
		err = d.upsert(b, rec)
	}
	if err == nil && d.retention != nil {
		err = d.retire(b, mark, rec.Value != nil)
	}
	if err != nil {
		b.rewind(mark)
	}
	return err
}

// retire takes out of the changes of one record those of partitions that have left for their age, and refuses partitions whose age can't be told.
// Of several readings of a record key, one is enough.
func (d *decoder) retire(b *batch, mark batchMark, upsert bool) *recordError {
	kept, expired := mark.changes, false
	var bad *recordError
	for _, c := range b.changes[mark.changes:] {
		if _, err := d.retention.parse(c.Partition); err != nil {
			bad = keyError("the partition can't be told: %v", err)
			continue
		}
		if d.retention.expired(c.Partition, d.now) {
			expired = true
			continue
		}
		b.changes[kept] = c
		kept++
	}
	if bad != nil && kept == mark.changes && !expired {
		return bad
	}
	clear(b.changes[kept:])
	b.changes = b.changes[:kept]
	if expired && upsert {
		b.expired++
	}
	return nil
}

func (d *decoder) upsert(b *batch, rec *kgo.Record) *recordError {
	if err := d.value.Scan(&d.valueDoc, rec.Value); err != nil {
		return decodeError("the value is not a JSON object: %v", err)
	}
	for i := range d.columns {
		d.columns[i] = d.valueDoc.Value(i)
	}
	for i := range d.schema.Declared {
		if !d.isKey[i] && !d.converts(d.schema.Columns[i].Type, d.columns[i]) {
			return decodeError("column %q is declared %s and holds %s", d.schema.Columns[i].Name, d.schema.Columns[i].Type, snippet(d.columns[i]))
		}
	}
	if d.lacking() != "" {
		return d.upsertByRecordKey(b, rec)
	}
	return d.appendUpsert(b, rec)
}

// fill puts what the topic's name says into the columns that lack it. Where the key says otherwise, the record would be of a row that a delete
// which is named by the topic never reaches, and would stay when the topic goes.
func (d *decoder) fill() *recordError {
	for i := range d.origin.fills {
		f := &d.origin.fills[i]
		c := d.schema.Columns[f.column]
		switch raw := d.columns[f.column]; {
		case f.key && f.code == nil:
			return keyError("the key column %q is declared %s and the topic's name says %s", c.Name, c.Type, f.json)
		case raw == nil && !f.key && f.column < d.schema.Declared && !d.converts(c.Type, f.json):
			return decodeError("column %q is declared %s and the topic's name says %s", c.Name, c.Type, f.json)
		case raw == nil:
			d.columns[f.column] = f.json
		case f.key:
			var err error
			if d.scratch, err = record.AppendKey(d.scratch[:0], c.Type, raw); err != nil {
				return d.badKey(f.column, raw, err)
			}
			if !bytes.Equal(d.scratch, f.code) {
				return keyError("the key column %q holds %s and the topic's name says %s", c.Name, snippet(raw), f.json)
			}
		}
	}
	return nil
}

// appendUpsert appends the row that d.columns holds.
func (d *decoder) appendUpsert(b *batch, rec *kgo.Record) *recordError {
	err := d.fill()
	if err != nil {
		return err
	}
	c := d.change(rec)
	if c.Partition, err = d.appendTuple(b, d.schema.PartitionBy); err != nil {
		return err
	}
	if c.Key, err = d.appendTuple(b, d.schema.Key); err != nil {
		return err
	}
	if c.Version, err = d.appendVersion(b); err != nil {
		return err
	}
	start := len(b.arena)
	b.arena = record.AppendRow(b.arena, d.columns)
	c.Row = record.Row(b.cut(start))
	b.changes = append(b.changes, c)
	return nil
}

// appendVersion appends the code of the version column; an absent or null one is the least.
func (d *decoder) appendVersion(b *batch) ([]byte, *recordError) {
	if d.version < 0 || d.columns[d.version] == nil {
		return nil, nil
	}
	start := len(b.arena)
	c := d.schema.Columns[d.version]
	var err error
	b.arena, err = record.AppendKey(b.arena, c.Type, d.columns[d.version])
	switch {
	case errors.Is(err, record.ErrNull):
		return nil, nil
	case err != nil:
		return nil, decodeError("the version column %q (%s) holds %s, which has no place in an order", c.Name, c.Type, snippet(d.columns[d.version]))
	}
	return b.cut(start), nil
}

func (d *decoder) change(rec *kgo.Record) dimstore.Change {
	return dimstore.Change{
		Bucket: dimstore.BucketID{Topic: d.origin.topic, Partition: rec.Partition},
		Offset: rec.Offset, Timestamp: rec.Timestamp.UnixMilli(),
	}
}

// appendTuple appends the codes of these columns, out of d.columns, to the arena.
func (d *decoder) appendTuple(b *batch, columns []int) ([]byte, *recordError) {
	start := len(b.arena)
	for _, i := range columns {
		var err error
		if b.arena, err = record.AppendKey(b.arena, d.schema.Columns[i].Type, d.columns[i]); err != nil {
			return nil, d.badKey(i, d.columns[i], err)
		}
	}
	return b.cut(start), nil
}

// badKey explains why a value can't be that of key column i.
func (d *decoder) badKey(i int, raw []byte, err error) *recordError {
	c := d.schema.Columns[i]
	switch {
	case errors.Is(err, record.ErrNull):
		return keyError("the key column %q is null", c.Name)
	case c.Type == record.Any:
		return keyError("the key column %q holds %s, which can't be a key", c.Name, snippet(raw))
	}
	return keyError("the key column %q is declared %s and holds %s", c.Name, c.Type, snippet(raw))
}

// converts reports whether the JSON value raw, or its absence, is one of type t.
func (d *decoder) converts(t record.Type, raw []byte) bool {
	if raw == nil || t == record.Any || t == record.String && raw[0] == '"' {
		return true
	}
	var err error
	d.scratch, err = record.AppendKey(d.scratch[:0], t, raw)
	return err == nil || errors.Is(err, record.ErrNull)
}

// snippet is the beginning of a value, for messages.
func snippet(raw []byte) string {
	const most = 64
	if len(raw) <= most {
		return string(raw)
	}
	return string(raw[:most]) + "..."
}

// batch is the changes on their way into one Apply. Two of them go round between the goroutine that decodes and the one that applies.
type batch struct {
	changes []dimstore.Change
	arena   []byte // the bytes of the changes; earlier ones stay where they are when it grows
	bad     []badRecord
	next    []int64   // by bucket: position after what the batch holds of it; -1: untouched
	readAt  time.Time // when it was read, at the latest
	expired int       // upserts of partitions that have left
	touched bool      // any of next is set
	proofs  bool      // store the positions of all buckets, for their proofs
}

// badRecord waits for its dead letter.
type badRecord struct {
	rec *kgo.Record
	err *recordError
}

func newBatch() *batch { return new(batch) }

// reset empties the batch; what its changes pointed to may be overwritten from now on.
func (b *batch) reset() {
	const most = 32 << 20 // a batch of giants is not kept
	if cap(b.arena) > most {
		b.arena = nil
	}
	b.arena = b.arena[:0]
	clear(b.changes)
	b.changes = b.changes[:0]
	clear(b.bad)
	b.bad = b.bad[:0]
	for i := range b.next {
		b.next[i] = -1
	}
	b.expired, b.touched, b.proofs = 0, false, false
}

func (b *batch) empty() bool { return !b.touched && !b.proofs }

// touch moves the position of bucket i to next.
func (b *batch) touch(i int, next int64, now time.Time) {
	for len(b.next) <= i {
		b.next = append(b.next, -1)
	}
	b.next[i] = max(b.next[i], next)
	b.readAt, b.touched = now, true
}

// cut is what was appended to the arena since start, closed against appending.
func (b *batch) cut(start int) []byte { return slices.Clip(b.arena[start:]) }

type batchMark struct{ changes, arena int }

func (b *batch) mark() batchMark { return batchMark{len(b.changes), len(b.arena)} }

func (b *batch) rewind(m batchMark) { b.changes, b.arena = b.changes[:m.changes], b.arena[:m.arena] }
