package changelog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"enricher/record"
)

// AutoPartition is auto_partition of the configuration: partitions of a dimension that stand for units of time and leave with their age.
type AutoPartition struct {
	Column   string // a partition column
	TimeUnit string // hour | day | month | quarter | year
	// Format is how the column's value is read: y, M, d, H, m, s, Q as in Java, anything else stands for itself, letters in single quotes. Empty:
	// yyyyMMddHH, yyyyMMdd, yyyyMM, yyyyQ, yyyy by the unit; for a column declared date or timestamp its own form.
	Format string
	// Retention is how many units before the present one stay, at least 1. With 7 days, on the 20th the 13th is kept and the 12th leaves.
	Retention int
	TimeZone  string // IANA name; empty means UTC
}

// Retention tells the age of the partitions of a dimension. It is safe for concurrent use.
type Retention struct {
	schema *record.Schema
	tuple  []record.Type // of the partition columns
	place  int           // of the column among them
	unit   timeUnit
	layout layout // empty: the column's own form
	keep   int64  // units before the present one
	zone   *time.Location

	mu   sync.RWMutex
	seen map[string]unitIndex // by partition, for those that parse
}

// timeUnit is a unit of auto_partition.
type timeUnit struct {
	name   string
	format string
	fields string // letters that a format needs
	step   int64  // from one unit's index to the next one's
	index  func(civil, *time.Location) int64
}

// unitIndex is the place of a unit in the order of time.
type unitIndex int64

// civil is a time as it is written.
type civil struct{ year, month, day, hour, minute, second, quarter int }

const seenPartitions = 8192

func timeUnits() []timeUnit {
	return []timeUnit{
		{"hour", "yyyyMMddHH", "yMdH", 3600, hourIndex},
		{"day", "yyyyMMdd", "yMd", 1, func(c civil, _ *time.Location) int64 {
			return time.Date(c.year, time.Month(c.month), c.day, 0, 0, 0, 0, time.UTC).Unix() / 86400
		}},
		{"month", "yyyyMM", "yM", 1, func(c civil, _ *time.Location) int64 { return int64(c.year)*12 + int64(c.month) }},
		{"quarter", "yyyyQ", "yQ", 1, func(c civil, _ *time.Location) int64 { return int64(c.year)*4 + int64(c.quarter) }},
		{"year", "yyyy", "y", 1, func(c civil, _ *time.Location) int64 { return int64(c.year) }},
	}
}

// hourIndex is the second at which an hour begins. Hours are counted as they pass: where the clocks go back, the hour that comes twice is taken
// for the later one, so that nothing leaves early.
func hourIndex(c civil, zone *time.Location) int64 {
	at := time.Date(c.year, time.Month(c.month), c.day, c.hour, 0, 0, 0, zone)
	if again := at.Add(time.Hour); again.Hour() == at.Hour() {
		at = again
	}
	return at.Unix()
}

// NewRetention compiles auto_partition for a dimension of this schema. All problems come joined.
func NewRetention(schema *record.Schema, a AutoPartition) (*Retention, error) {
	var problems []error
	bad := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }

	r := &Retention{schema: schema, keep: int64(a.Retention), zone: time.UTC, seen: map[string]unitIndex{}}
	column := schema.Index(a.Column)
	r.place = slices.Index(schema.PartitionBy, column)
	if column < 0 || r.place < 0 {
		bad("column %q is not a partition column", a.Column)
	}
	for _, i := range schema.PartitionBy {
		r.tuple = append(r.tuple, schema.Columns[i].Type)
	}
	if a.Retention < 1 {
		bad("retention %d is less than 1", a.Retention)
	}
	units := timeUnits()
	n := slices.IndexFunc(units, func(u timeUnit) bool { return u.name == a.TimeUnit })
	if n < 0 {
		bad("time_unit %q is none of hour, day, month, quarter, year", a.TimeUnit)
	} else {
		r.unit = units[n]
	}
	if a.TimeZone != "" {
		var err error
		if r.zone, err = time.LoadLocation(a.TimeZone); err != nil {
			bad("time_zone %q: %w", a.TimeZone, err)
		}
	}
	format := a.Format
	if format == "" && len(problems) == 0 {
		format = r.unit.format
		switch schema.Columns[column].Type {
		case record.Date:
			format = "yyyy-MM-dd"
		case record.Timestamp:
			format = ""
		default: // text or a number
		}
	}
	if format != "" {
		var err error
		if r.layout, err = parseLayout(format); err != nil {
			bad("format %q: %w", format, err)
		} else if lacks := r.layout.lacks(r.unit.fields); lacks != "" {
			bad("format %q: a partition by %s needs %s", format, a.TimeUnit, lacks)
		}
	}
	if len(problems) > 0 {
		return nil, fmt.Errorf("auto_partition: %w", errors.Join(problems...))
	}
	return r, nil
}

// Expired reports whether a partition, an encoded tuple, is older than the retention. What does not parse is not.
func (r *Retention) Expired(partition []byte) bool { return r.expired(partition, time.Now()) }

// Ahead reports whether a partition is later than the next unit: it never counts as the latest. What does not parse does not either.
func (r *Retention) Ahead(partition []byte) bool { return r.ahead(partition, time.Now()) }

func (r *Retention) expired(partition []byte, now time.Time) bool {
	at, err := r.parse(partition)
	return err == nil && int64(at) < r.index(now)-r.keep*r.unit.step
}

func (r *Retention) ahead(partition []byte, now time.Time) bool {
	at, err := r.parse(partition)
	return err != nil || int64(at) > r.index(now)+r.unit.step
}

// index is that of the unit which now is in.
func (r *Retention) index(now time.Time) int64 {
	now = now.In(r.zone)
	if r.unit.name == "hour" { // there is no doubt about which one
		return now.Unix() - int64(now.Minute())*60 - int64(now.Second())
	}
	return r.unit.index(civilOf(now), r.zone)
}

func civilOf(t time.Time) civil {
	y, m, d := t.Date()
	return civil{year: y, month: int(m), day: d, hour: t.Hour(), minute: t.Minute(), second: t.Second(), quarter: (int(m)-1)/3 + 1}
}

// parse says which unit a partition is.
func (r *Retention) parse(partition []byte) (unitIndex, error) {
	r.mu.RLock()
	at, ok := r.seen[string(partition)]
	r.mu.RUnlock()
	if ok {
		return at, nil
	}
	text, err := r.text(partition)
	if err != nil {
		return 0, err
	}
	c, err := r.read(text)
	if err != nil {
		return 0, err
	}
	at = unitIndex(r.unit.index(c, r.zone))
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.seen) >= seenPartitions {
		clear(r.seen)
	}
	r.seen[string(partition)] = at
	return at, nil
}

// text is the column's value as it is written.
func (r *Retention) text(partition []byte) (string, error) {
	var value []byte
	for i, t := range r.tuple {
		var err error
		if value, partition, err = record.DecodeKey(value[:0], t, partition); err != nil {
			return "", err
		}
		if i == r.place {
			break
		}
	}
	if len(value) == 0 || value[0] != '"' {
		return string(value), nil
	}
	var s string
	if err := json.Unmarshal(bytes.ToValidUTF8(value, []byte("\uFFFD")), &s); err != nil {
		return "", err
	}
	return s, nil
}

func (r *Retention) read(text string) (civil, error) {
	if len(r.layout) > 0 {
		return r.layout.read(text)
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return civil{}, fmt.Errorf("%q is no time that can be told", text)
	}
	return civilOf(at.In(r.zone)), nil
}
