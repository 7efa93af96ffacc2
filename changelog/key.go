package changelog

import (
	"bytes"
	"unicode/utf8"
	"unsafe"

	"github.com/twmb/franz-go/pkg/kgo"

	"enricher/record"
)

// How the Kafka record key is read (key_format). "Bare" is a key that is the value of the primary key's only column, not an object around it.
//
//	auto    a JSON object is one, anything else is bare text
//	json    JSON: an object, or the value itself; its kind is what JSON says
//	string  always bare text, even when it looks like an object
//
// Bare text is ambiguous where serializers differ: `42` is what a string serializer writes for "42" and a JSON serializer for 42, and
// `"42"` is what a JSON serializer writes for "42". So bare text has readings, each converted to the column's declared type:
//
//	the text itself                          `42` as a number or a string, `"42"` with its quotes as a string
//	the content of a quoted text (auto)      `"42"` as the string 42, or the number for a column of a number's type
//	for an undeclared column, the number or bool that the text, or the quoted content, spells
//
// A tombstone deletes all of them: each was written with that key or is absent. An upsert whose value lacks the key column takes the quoted
// content when the text is quoted, else the text; for an undeclared column the number (or bool) and the string are both written, since
// a bare `42` means both and a later tombstone takes both away.
const (
	keyAuto   = "auto"
	keyJSON   = "json"
	keyString = "string"
)

// asObject scans a record key into keyDoc; false when it is not an object in this format.
func (d *decoder) asObject(key []byte) bool {
	if d.keyFormat == keyString {
		return false
	}
	trimmed := trimSpace(key)
	return len(trimmed) > 0 && trimmed[0] == '{' && d.key.Scan(&d.keyDoc, key) == nil
}

// only is the single column of the primary key that the topic's name does not give; false when there are several, or none.
func (d *decoder) only() (column int, ok bool) {
	column = -1
	for _, i := range d.schema.PrimaryKey {
		switch {
		case d.origin.fill(i) != nil:
		case column >= 0:
			return 0, false
		default:
			column = i
		}
	}
	return column, column >= 0
}

// delete appends the deletes of a record with a null value.
func (d *decoder) delete(b *batch, rec *kgo.Record) *recordError {
	if rec.Key == nil {
		return keyError("the value is null (a delete) and the record key is null: no row is named")
	}
	if d.asObject(rec.Key) {
		return d.deleteByObject(b, rec)
	}
	i, ok := d.only()
	if !ok {
		return keyError("the value is null (a delete) and the record key %s is not a JSON object with the %d key columns",
			snippet(rec.Key), len(d.schema.PrimaryKey))
	}
	if d.keyFormat == keyJSON {
		return d.deleteByJSON(b, rec, i)
	}
	return d.deleteByText(b, rec, i)
}

func (d *decoder) deleteByObject(b *batch, rec *kgo.Record) *recordError {
	clear(d.columns)
	for n, i := range d.schema.PrimaryKey {
		if d.columns[i] = d.keyDoc.Value(n); d.columns[i] == nil && d.origin.fill(i) == nil {
			return keyError("the value is null (a delete) and the record key %s lacks the key column %q", snippet(rec.Key), d.schema.Columns[i].Name)
		}
	}
	err := d.fill()
	if err != nil {
		return err
	}
	c := d.change(rec)
	c.Delete = true
	if c.Partition, err = d.appendTuple(b, d.schema.PartitionBy); err != nil {
		return err
	}
	if c.Key, err = d.appendTuple(b, d.schema.Key); err != nil {
		return err
	}
	b.changes = append(b.changes, c)
	return nil
}

func (d *decoder) deleteByJSON(b *batch, rec *kgo.Record, i int) *recordError {
	token := trimSpace(rec.Key)
	if err := record.Valid(token); err != nil {
		return keyError("the record key %s is not JSON: %v", snippet(rec.Key), err)
	}
	start := len(b.arena)
	var err error
	if b.arena, err = record.AppendKey(b.arena, d.schema.Columns[i].Type, token); err != nil {
		return d.badKey(i, token, err)
	}
	return d.appendDelete(b, rec, i, b.cut(start), len(b.changes))
}

// deleteByText appends one delete per reading of a bare text, each key once.
func (d *decoder) deleteByText(b *batch, rec *kgo.Record, i int) *recordError {
	t, text, first := d.schema.Columns[i].Type, rec.Key, len(b.changes)
	var bad *recordError
	add := func(encode func(dst []byte) ([]byte, error)) {
		start := len(b.arena)
		var err error
		if b.arena, err = encode(b.arena); err == nil { // else it is no reading
			bad = d.appendDelete(b, rec, i, b.cut(start), first)
		}
	}
	add(func(dst []byte) ([]byte, error) { return record.AppendKeyText(dst, t, text) })
	if d.keyFormat == keyAuto && isQuoted(text) {
		whole := text
		add(func(dst []byte) ([]byte, error) { return record.AppendKey(dst, t, whole) })
		text = text[1 : len(text)-1]
	}
	if t == record.Any && isLiteral(text) {
		add(func(dst []byte) ([]byte, error) { return record.AppendKey(dst, t, text) })
	}
	if bad != nil {
		return bad
	}
	if len(b.changes) == first {
		return keyError("the key column %q is declared %s and the record key is %s", d.schema.Columns[i].Name, t, snippet(rec.Key))
	}
	return nil
}

// appendDelete appends the delete of the row whose primary key is this code in column i and what the topic's name says in the others, unless
// b.changes[first:] has it already.
func (d *decoder) appendDelete(b *batch, rec *kgo.Record, i int, code []byte, first int) *recordError {
	c := d.change(rec)
	c.Delete = true
	var err *recordError
	if c.Partition, err = d.tupleAround(b, d.schema.PartitionBy, i, code); err != nil {
		return err
	}
	if c.Key, err = d.tupleAround(b, d.schema.Key, i, code); err != nil {
		return err
	}
	for _, other := range b.changes[first:] {
		if bytes.Equal(other.Partition, c.Partition) && bytes.Equal(other.Key, c.Key) {
			return nil
		}
	}
	b.changes = append(b.changes, c)
	return nil
}

// tupleAround is the tuple of columns of which the topic's name gives all but column i.
func (d *decoder) tupleAround(b *batch, columns []int, i int, code []byte) ([]byte, *recordError) {
	if len(columns) == 1 && columns[0] == i {
		return code, nil
	}
	start := len(b.arena)
	for _, column := range columns {
		if column == i {
			b.arena = append(b.arena, code...)
			continue
		}
		f := d.origin.fill(column)
		if f.code == nil {
			c := d.schema.Columns[column]
			return nil, keyError("the key column %q is declared %s and the topic's name says %s", c.Name, c.Type, f.json)
		}
		b.arena = append(b.arena, f.code...)
	}
	return b.cut(start), nil
}

// upsertByRecordKey fills the key columns that the value lacks from the record key and appends the row.
func (d *decoder) upsertByRecordKey(b *batch, rec *kgo.Record) *recordError {
	if rec.Key == nil {
		return keyError("the value lacks the key column %q and the record key is null", d.lacking())
	}
	if d.asObject(rec.Key) {
		for n, i := range d.schema.PrimaryKey {
			if d.columns[i] == nil {
				d.columns[i] = d.keyDoc.Value(n)
			}
		}
		if lacking := d.lacking(); lacking != "" {
			return keyError("neither the value nor the record key %s has the key column %q", snippet(rec.Key), lacking)
		}
		return d.appendUpsert(b, rec)
	}
	i, ok := d.only()
	if !ok {
		return keyError("the value lacks the key column %q and the record key %s is not a JSON object", d.lacking(), snippet(rec.Key))
	}
	if d.keyFormat == keyJSON {
		token := trimSpace(rec.Key)
		if err := record.Valid(token); err != nil {
			return keyError("the value lacks the key column %q and the record key %s is not JSON: %v", d.lacking(), snippet(rec.Key), err)
		}
		d.columns[i] = token
		return d.appendUpsert(b, rec)
	}
	return d.upsertByText(b, rec, i)
}

// upsertByText appends the row under the readings of a bare record key that an upsert takes.
func (d *decoder) upsertByText(b *batch, rec *kgo.Record, i int) *recordError {
	text := rec.Key
	if d.keyFormat == keyAuto && isQuoted(text) {
		d.columns[i] = text
		return d.appendUpsert(b, rec)
	}
	if !utf8.Valid(text) {
		return keyError("the value lacks the key column %q and the record key is not valid UTF-8", d.schema.Columns[i].Name)
	}
	// The string lives no longer than the call, and nothing writes to the record meanwhile.
	d.token = record.AppendQuoted(d.token[:0], unsafe.String(unsafe.SliceData(text), len(text)))
	quoted := d.token
	if isLiteral(text) {
		switch d.schema.Columns[i].Type {
		case record.Int, record.Int32, record.Decimal, record.Double, record.Bool, record.Timestamp:
			quoted = text
		case record.Any:
			d.columns[i] = text
			if err := d.appendUpsert(b, rec); err != nil {
				return err
			}
		default: // a string of its own kind
		}
	}
	d.columns[i] = quoted
	return d.appendUpsert(b, rec)
}

// lacking is the first key column that neither d.columns nor the topic's name holds; empty when none is missing.
func (d *decoder) lacking() string {
	for _, i := range d.schema.PrimaryKey {
		if d.columns[i] == nil && d.origin.fill(i) == nil {
			return d.schema.Columns[i].Name
		}
	}
	return ""
}

// isQuoted reports whether a bare text is one JSON string and nothing around it.
func isQuoted(text []byte) bool {
	n := len(text)
	return n >= 2 && text[0] == '"' && text[n-1] == '"' && record.Valid(text) == nil
}

// isLiteral reports whether a bare text is one JSON number, true or false, and nothing around it.
func isLiteral(text []byte) bool {
	if len(text) == 0 || len(trimSpace(text)) != len(text) {
		return false
	}
	switch c := text[0]; {
	case c == '-', '0' <= c && c <= '9', c == 't', c == 'f':
		return record.Valid(text) == nil
	}
	return false
}

// trimSpace takes JSON's white space away.
func trimSpace(b []byte) []byte { return bytes.Trim(b, " \t\r\n") }
