package config

import (
	"fmt"
	"log/slog"
	"strconv"
	"time"
)

// Size is a number of bytes, never negative.
type Size int64

// String gives the size in the largest binary unit that divides it, as the file
// would spell it.
func (s Size) String() string {
	for _, u := range []string{"TiB", "GiB", "MiB", "KiB"} {
		if n := unitBytes(u); s != 0 && int64(s)%n == 0 {
			return strconv.FormatInt(int64(s)/n, 10) + u
		}
	}
	if s == 0 {
		return "0"
	}
	return strconv.FormatInt(int64(s), 10) + "B"
}

// Secret is text that is never printed. [Secret.Reveal] gives it.
type Secret string

// Reveal gives the text.
func (s Secret) Reveal() string { return string(s) }

// String hides the text and shows only whether there is one.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return "***"
}

// Format hides the text from every verb of fmt.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(s.String())) }

// MarshalText hides the text from encoders.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue hides the text from loggers.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// Start is where a group with no committed offset begins.
type Start struct {
	// Latest is the end of the log. With neither Latest nor a time it is its beginning.
	Latest bool
	// Time is the instant of the first fact to read; zero when none is given.
	Time time.Time
}

// String spells the start as in the file.
func (s Start) String() string {
	switch {
	case !s.Time.IsZero():
		return s.Time.Format(time.RFC3339Nano)
	case s.Latest:
		return "latest"
	}
	return "earliest"
}

// CacheKeys is the number of hot join keys that are kept ready in memory.
type CacheKeys struct {
	// Auto leaves the number to the share of the memory.
	Auto bool
	// Count is the number when Auto is false; 0 is off.
	Count int
}

// Column is one declared column of a dimension. Type is string, int, int32,
// decimal, double, bool, date, timestamp or bytes.
type Column struct{ Name, Type string }

// Columns are the declared columns in the order of the file.
type Columns []Column

// Operand is the fact's side of a condition: a path or metadata, or a constant.
type Operand struct {
	// Text is a field path, a JSON Pointer (begins with /), or $key, $topic, $partition,
	// $offset, $timestamp, $headers.NAME. Empty when Const is set.
	Text string
	// Const is the constant as a JSON string, number or bool; nil when there is none.
	Const []byte
}

// Condition is one entry of a lookup's `on`: a dimension column equals a value of
// the fact.
type Condition struct {
	Column string
	Value  Operand
}

// Conditions is `on` in the order of the file.
type Conditions []Condition

// Constant is one entry of a lookup's `where`: a column of the row found equals a
// JSON string, number or bool.
type Constant struct {
	Column string
	Const  []byte
}

// Constants is `where` in the order of the file.
type Constants []Constant

// SelectField is one output field and the column that it takes its value from.
type SelectField struct{ Name, Column string }

// Select is what a lookup adds to the fact.
type Select struct {
	// All is `"*"`: all declared columns in order. Fields is empty then.
	All bool
	// List says that the file has a list of columns, so that the path of an entry is
	// select[0] and not select.name.
	List bool
	// Fields in the order of the file; none for `[]`. Never nil unless All.
	Fields []SelectField
}

// Projection is one field of output.select and the path of its value.
type Projection struct{ Name, Path string }

// Projections is output.select in the order of the file.
type Projections []Projection
