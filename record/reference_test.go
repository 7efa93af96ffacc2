package record

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The types that columns can have.
var allTypes = []Type{Any, String, Int, Int32, Decimal, Double, Bool, Date, Timestamp, Bytes}

// meaning is what a JSON value means to a type, by the standard library: string, *big.Rat, float64, bool, time.Time or []byte. It is the
// table of conversions a second time, slow and with nothing in common with the package.
func meaning(t Type, raw string) (any, bool) {
	text, isString := "", raw[0] == '"'
	if isString && json.Unmarshal([]byte(raw), &text) != nil {
		return nil, false
	}
	if !isString {
		text = raw
	}
	isNumber := numberGrammar.MatchString(text)
	switch t {
	case Any:
		switch {
		case isString:
			return text, true
		case isNumber:
			return rational(text), true
		case raw == "true" || raw == "false":
			return raw == "true", true
		}
	case String:
		return text, isString || isNumber && !strings.ContainsAny(text, ".eE")
	case Int, Int32:
		return integerMeaning(t, text, isNumber)
	case Decimal:
		if isNumber {
			return rational(text), true
		}
	case Double:
		f, err := strconv.ParseFloat(text, 64)
		return f, isNumber && err == nil
	case Bool:
		return text == "true", text == "true" || text == "false"
	case Date:
		day, err := time.Parse(time.DateOnly, text)
		return day, isString && err == nil
	case Timestamp:
		if isString {
			at, err := time.Parse(time.RFC3339Nano, strings.ToUpper(text))
			return at, err == nil && timeGrammar.MatchString(text)
		}
		ms, ok := integerMeaning(Int, text, isNumber)
		if !ok {
			return nil, false
		}
		return time.UnixMilli(ms.(*big.Rat).Num().Int64()), true
	case Bytes:
		b, err := base64.StdEncoding.Strict().DecodeString(text)
		return b, isString && err == nil && !strings.ContainsAny(text, "\r\n")
	}
	return nil, false
}

var (
	numberGrammar = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)
	timeGrammar   = regexp.MustCompile(`^\d{4}-\d\d-\d\d[Tt]([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d)$`)
)

func rational(literal string) *big.Rat {
	r, _ := new(big.Rat).SetString(literal)
	return r
}

func integerMeaning(t Type, text string, isNumber bool) (any, bool) {
	if !isNumber {
		return nil, false
	}
	r := rational(text)
	if !r.IsInt() || !r.Num().IsInt64() {
		return nil, false
	}
	v := r.Num().Int64()
	return r, t == Int || int64(int32(v)) == v
}

// compareMeanings orders two meanings of one kind.
func compareMeanings(tb testing.TB, a, b any) int {
	tb.Helper()
	switch a := a.(type) {
	case string:
		return cmp.Compare(a, b.(string))
	case *big.Rat:
		return a.Cmp(b.(*big.Rat))
	case float64:
		return cmp.Compare(a, b.(float64))
	case []byte:
		return bytes.Compare(a, b.([]byte))
	case time.Time:
		return a.Compare(b.(time.Time))
	case bool:
		switch b := b.(bool); {
		case a == b:
			return 0
		case b:
			return -1
		}
		return 1
	}
	tb.Fatalf("BUG: no order for %T", a)
	return 0
}

// member is a field of an object as the standard library's decoder finds it.
type member struct {
	name string
	raw  json.RawMessage
}

// membersOf lists the fields of an object in order, repeated ones included.
func membersOf(tb testing.TB, object []byte) []member {
	tb.Helper()
	d := json.NewDecoder(bytes.NewReader(object))
	next := func() json.Token {
		token, err := d.Token()
		if err != nil {
			tb.Fatalf("the decoder of encoding/json stops in %q: %v", object, err)
		}
		return token
	}
	next()
	var members []member
	for d.More() {
		m := member{name: next().(string)}
		if err := d.Decode(&m.raw); err != nil {
			tb.Fatalf("the decoder of encoding/json stops in %q: %v", object, err)
		}
		members = append(members, m)
	}
	return members
}

// find leads a path through a value by the standard library's decoder: the last of repeated names counts at each level.
func find(tb testing.TB, raw []byte, segments []segment) []byte {
	tb.Helper()
	raw = bytes.TrimSpace(raw)
	if len(segments) == 0 {
		return raw
	}
	step := segments[0]
	switch raw[0] {
	case '{':
		for _, m := range slices.Backward(membersOf(tb, raw)) {
			if m.name == step.name {
				return find(tb, m.raw, segments[1:])
			}
		}
	case '[':
		var elements []json.RawMessage
		if err := json.Unmarshal(raw, &elements); err != nil {
			tb.Fatalf("unmarshal %q: %v", raw, err)
		}
		if 0 <= step.index && step.index < len(elements) {
			return find(tb, elements[step.index], segments[1:])
		}
	}
	return nil
}
