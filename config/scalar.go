package config

import (
	"math"
	"math/big"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

var (
	bareNumber    = regexp.MustCompile(`^[0-9]+(\.[0-9]+)?$`)
	wholeNumber   = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)
	looseDuration = regexp.MustCompile(`^([0-9]{1,6})\s*([A-Za-z]+)$`)
	sizeForm      = regexp.MustCompile(`^([0-9]{1,19}(?:\.[0-9]{1,9})?)([A-Za-z]+)$`)
	looseSize     = regexp.MustCompile(`^([0-9]{1,9})\s*([kKmMgGtT])[iI]?[bB]?$`)
)

// scalar is a single value, from the file or the environment.
type scalar struct {
	text string
	// tag is the YAML type (!!str, !!int, ...); empty for text without types: the
	// environment and the defaults.
	tag string
}

func nodeScalar(n *yaml.Node) scalar { return scalar{text: n.Value, tag: n.ShortTag()} }

// isText tells whether the scalar may be taken as text. An unquoted date is text
// that YAML gives a type of its own.
func (s scalar) isText() bool { return s.tag == "" || s.tag == "!!str" || s.tag == "!!timestamp" }

// isNumber tells whether the scalar is a number, or text that may be one.
func (s scalar) isNumber() bool { return s.tag == "" || s.tag == "!!int" || s.tag == "!!float" }

// scalar reads one value by the type of the key and holds it against the rules in
// its tags.
func (l *loader) scalar(f field, s scalar, at spot) (any, bool) {
	switch s.tag {
	case "", "!!str", "!!int", "!!float", "!!bool", "!!timestamp":
	default:
		l.fail(at.path, "is tagged "+s.tag, "a plain value, or a string in quotes")
		return nil, false
	}
	var v any
	var what, right string
	switch f.typ {
	case reflect.TypeFor[bool]():
		v, what, right = readBool(s)
	case reflect.TypeFor[int]():
		v, what, right = readInt(f, s)
	case reflect.TypeFor[float64]():
		v, what, right = readShare(f, s)
	case reflect.TypeFor[time.Duration]():
		v, what, right = readDuration(f, s)
	case reflect.TypeFor[Size]():
		v, what, right = readSize(f, s)
	case reflect.TypeFor[Start]():
		v, what, right = readStart(s)
	case reflect.TypeFor[CacheKeys]():
		v, what, right = readCacheKeys(f, s)
	case reflect.TypeFor[Secret]():
		if s.isText() {
			v = Secret(s.text)
		} else {
			what, right = "is not a string", "the same in quotes"
		}
	default:
		v, what, right = readString(f, s)
	}
	if what != "" {
		l.fail(at.path, what, right)
		return nil, false
	}
	return v, true
}

func readString(f field, s scalar) (v any, what, right string) {
	if enum, ok := f.lookup("enum"); ok {
		return readEnum(enum, s)
	}
	switch {
	case !s.isText():
		return nil, "is " + kindOf(&yaml.Node{Kind: yaml.ScalarNode, Tag: s.tag}) + ", not a string", quote(s.text) + " in quotes"
	case s.text == "" && f.tag("example") != "":
		return nil, "is empty", "such as " + strings.Trim(f.tag("example"), "[]")
	case s.text == "" && f.tag("default") != "":
		return nil, "is empty", "such as " + f.tag("default")
	case s.text == "":
		return "", "", ""
	}
	what, right = checkText(f.tag("check"), s.text)
	return s.text, what, right
}

func readEnum(enum string, s scalar) (v any, what, right string) {
	values := strings.Split(enum, "|")
	for _, value := range values {
		if s.isText() && s.text == value {
			return s.text, "", ""
		}
	}
	right = choices(enum)
	if near := nearest(s.text, values); near != "" {
		right = "did you mean " + near + "? " + right
	}
	return nil, quote(s.text) + " is not one of the values", right
}

// choices spells the values of an enum for people.
func choices(enum string) string {
	values := strings.Split(enum, "|")
	if values[0] == "" {
		values[0] = `""`
	}
	return strings.Join(values, " | ")
}

func readBool(s scalar) (v any, what, right string) {
	if s.tag == "" || s.tag == "!!bool" {
		switch strings.ToLower(s.text) {
		case "true":
			return true, "", ""
		case "false":
			return false, "", ""
		}
	}
	right = "true | false"
	switch strings.ToLower(s.text) {
	case "true", "yes", "on", "1", "y":
		right = "true"
	case "false", "no", "off", "0", "n":
		right = "false"
	}
	return nil, quote(s.text) + " is not a bool", right
}

// integer is the grammar of a whole number in the file: YAML would read 010 as 8.
func integer(text string) bool {
	return wholeNumber.MatchString(text)
}

func readInt(f field, s scalar) (v any, what, right string) {
	least, most := bound(f, "min", 0), bound(f, "max", math.MaxInt32)
	span := "a whole number from " + strconv.FormatInt(least, 10) + " to " + strconv.FormatInt(most, 10)
	if !integer(s.text) {
		return nil, quote(s.text) + " is not a whole number", span
	}
	if !s.isNumber() {
		return nil, "is a string, not a number", quoteNumber(s.text) + " without quotes"
	}
	n, err := strconv.ParseInt(s.text, 10, 64)
	switch {
	case strings.HasPrefix(s.text, "-"):
		return nil, quoteNumber(s.text) + " is negative", span
	case err != nil, n < least, n > most:
		return nil, quoteNumber(s.text) + " is out of range", span
	}
	return int(n), "", ""
}

func bound(f field, name string, absent int64) int64 {
	if text, ok := f.lookup(name); ok {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n
		}
	}
	return absent
}

func quoteNumber(text string) string {
	if len(text) > 40 {
		return text[:40] + "…"
	}
	return text
}

// readShare reads a share of one, from 0 to 1.
func readShare(_ field, s scalar) (v any, what, right string) {
	const span = "a share from 0 to 1"
	if pct, ok := strings.CutSuffix(s.text, "%"); ok {
		right = span
		if p, err := strconv.ParseFloat(pct, 64); err == nil && p >= 0 && p <= 100 {
			right = strconv.FormatFloat(p/100, 'g', 6, 64)
		}
		return nil, quote(s.text) + " is not a number", right
	}
	x, err := strconv.ParseFloat(s.text, 64)
	switch {
	case err != nil || math.IsNaN(x) || strings.ContainsAny(s.text, "xXpP_"):
		return nil, quote(s.text) + " is not a number", span
	case !s.isNumber():
		return nil, "is a string, not a number", quoteNumber(s.text) + " without quotes"
	case x < 0:
		return nil, quoteNumber(s.text) + " is negative", span
	case x > 1:
		return nil, quoteNumber(s.text) + " is out of range", span
	}
	return x, "", ""
}

func readDuration(f field, s scalar) (v any, what, right string) {
	d, err := time.ParseDuration(s.text)
	switch {
	case bareNumber.MatchString(s.text):
		// time.ParseDuration takes a bare 0; a unit is asked for all the same.
		text := quoteNumber(s.text)
		return nil, text + " has no unit", text + "s"
	case err != nil || s.tag != "" && s.tag != "!!str":
		return nil, quote(s.text) + " is not a duration", suggestDuration(s.text)
	case d < 0:
		return nil, quote(s.text) + " is negative", "a duration from 0s"
	}
	least, most := durationBound(f, "min", 0), durationBound(f, "max", math.MaxInt64)
	switch {
	case d < least:
		return nil, quote(s.text) + " is too short", "at least " + f.tag("min")
	case d > most:
		return nil, quote(s.text) + " is too long", "at most " + f.tag("max")
	}
	return d, "", ""
}

func durationBound(f field, name string, absent time.Duration) time.Duration {
	if d, err := time.ParseDuration(f.tag(name)); err == nil {
		return d
	}
	return absent
}

// suggestDuration guesses what was meant: `5 s`, `5S`, `5sec`, `2d`.
func suggestDuration(text string) string {
	m := looseDuration.FindStringSubmatch(text)
	if m == nil {
		return "a number with a unit, such as 45s, 100ms, 1h30m"
	}
	switch strings.ToLower(m[2]) {
	case "d", "day", "days":
		n, _ := strconv.Atoi(m[1])
		return strconv.Itoa(24*n) + "h"
	case "ms", "millis", "milliseconds":
		return m[1] + "ms"
	case "s", "sec", "secs", "second", "seconds":
		return m[1] + "s"
	case "m", "min", "mins", "minute", "minutes":
		return m[1] + "m"
	case "h", "hour", "hours":
		return m[1] + "h"
	}
	return "a number with a unit, such as 45s, 100ms, 1h30m"
}

// unitBytes is the number of bytes of a unit; 0 when there is no such unit.
func unitBytes(unit string) int64 {
	switch unit {
	case "B":
		return 1
	case "KiB":
		return 1 << 10
	case "MiB":
		return 1 << 20
	case "GiB":
		return 1 << 30
	case "TiB":
		return 1 << 40
	case "kB", "KB":
		return 1e3
	case "MB":
		return 1e6
	case "GB":
		return 1e9
	case "TB":
		return 1e12
	}
	return 0
}

// parseSize reads a size without bounds of its own.
func parseSize(text string) (Size, bool) {
	m := sizeForm.FindStringSubmatch(text)
	if m == nil || unitBytes(m[2]) == 0 {
		return 0, text == "0"
	}
	n, ok := new(big.Rat).SetString(m[1])
	if !ok {
		return 0, false
	}
	n.Mul(n, new(big.Rat).SetInt64(unitBytes(m[2])))
	if !n.IsInt() || !n.Num().IsInt64() {
		return 0, false
	}
	return Size(n.Num().Int64()), true
}

func readSize(f field, s scalar) (v any, what, right string) {
	size, ok := parseSize(s.text)
	switch {
	case !ok && integer(s.text) && !strings.HasPrefix(s.text, "-"):
		return nil, quoteNumber(s.text) + " has no unit", sizeOfNumber(s.text)
	case !ok && strings.HasPrefix(s.text, "-"):
		return nil, quote(s.text) + " is not a size", "a size from 0, such as 64MiB"
	case !ok:
		return nil, quote(s.text) + " is not a size", suggestSize(s.text)
	case s.tag != "" && s.tag != "!!str" && s.text != "0":
		return nil, quote(s.text) + " is not a size", "a number with a unit, such as 64MiB"
	}
	if least, ok := parseSize(f.tag("min")); ok && size < least {
		return nil, quote(s.text) + " is too small", "at least " + f.tag("min")
	}
	if most, ok := parseSize(f.tag("max")); ok && size > most {
		return nil, quote(s.text) + " is too large", "at most " + f.tag("max")
	}
	return size, "", ""
}

// sizeOfNumber says how a bare number is written: as so many bytes, and a small one
// as MiB, which is what was meant.
func sizeOfNumber(text string) string {
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil:
		return "a number with a unit, such as 64MiB"
	case n < 1<<16:
		return text + "MiB, or " + text + "B for bytes"
	}
	return Size(n).String()
}

// suggestSize guesses what was meant: `64M`, `64Mi`, `64mib`, `64 MiB`.
func suggestSize(text string) string {
	m := looseSize.FindStringSubmatch(text)
	if m == nil {
		return "a whole number of bytes with a unit, such as 64MiB, 1GB"
	}
	return m[1] + strings.ToUpper(m[2]) + "iB"
}

func readStart(s scalar) (v any, what, right string) {
	right = "earliest | latest | a time such as 2025-06-01T00:00:00Z"
	switch {
	case !s.isText():
	case s.text == "earliest":
		return Start{}, "", ""
	case s.text == "latest":
		return Start{Latest: true}, "", ""
	default:
		t, err := time.Parse(time.RFC3339, s.text)
		if err == nil && t.UnixMilli() < 0 {
			return nil, quote(s.text) + " lies before 1970", right
		}
		if err == nil {
			return Start{Time: t}, "", ""
		}
	}
	if near := nearest(s.text, []string{"earliest", "latest"}); near != "" {
		right = "did you mean " + near + "? " + right
	}
	return nil, quote(s.text) + " is no start", right
}

func readCacheKeys(f field, s scalar) (v any, what, right string) {
	if s.isText() && s.text == "auto" {
		return CacheKeys{Auto: true}, "", ""
	}
	n, what, right := readInt(f, s)
	if what != "" {
		return nil, what, "auto, or " + right
	}
	count, _ := n.(int)
	return CacheKeys{Count: count}, "", ""
}
