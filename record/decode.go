package record

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"
)

// DecodeKey reads one encoded value of type t from the start of key, appends it to dst as JSON (a value that AppendKey encodes to the same
// bytes) and returns what is left of the tuple. It is for tests, traces and people: bytes of a string that are not UTF-8 (from bare text)
// come out as replacement characters. An error says that the bytes are no code of this type; dst comes back with its length.
func DecodeKey(dst []byte, t Type, key []byte) (json, rest []byte, err error) {
	json, rest, ok := decodeKey(dst, t, key)
	if !ok {
		return dst, key, fmt.Errorf("decode key: not the code of a value of type %s", t)
	}
	return json, rest, nil
}

func decodeKey(dst []byte, t Type, key []byte) (json, rest []byte, ok bool) {
	switch t {
	case Any:
		return decodeAny(dst, key)
	case String:
		text, rest, ok := decodeString(key)
		return appendQuotedWTF8(dst, text), rest, ok
	case Bytes:
		text, rest, ok := decodeString(key)
		dst = base64.StdEncoding.AppendEncode(append(dst, '"'), text)
		return append(dst, '"'), rest, ok
	case Decimal:
		return decodeDecimal(dst, key, maxDecimalExponent)
	default:
		size := fixedSize(t)
		if size == 0 || len(key) < size {
			return dst, nil, false
		}
		json, ok = decodeFixed(dst, t, key[:size])
		return json, key[size:], ok
	}
}

// fixedSize is the number of bytes of every code of the type; 0 when they differ.
func fixedSize(t Type) int {
	switch t {
	case Bool:
		return 1
	case Int32, Date:
		return 4
	case Int, Double:
		return 8
	case Timestamp:
		return 12
	default:
		return 0
	}
}

func decodeFixed(dst []byte, t Type, key []byte) ([]byte, bool) {
	switch t {
	case Bool:
		return strconv.AppendBool(dst, key[0] == 1), key[0] <= 1
	case Int32:
		return strconv.AppendInt(dst, int64(int32(binary.BigEndian.Uint32(key)^signBit32)), 10), true
	case Int:
		return strconv.AppendInt(dst, int64(binary.BigEndian.Uint64(key)^signBit64), 10), true
	case Double:
		return decodeDouble(dst, binary.BigEndian.Uint64(key))
	case Date:
		d := date{year: int(key[0])<<8 | int(key[1]), month: int(key[2]), day: int(key[3])}
		return fmt.Appendf(dst, `"%04d-%02d-%02d"`, d.year, d.month, d.day), d.exists()
	case Timestamp:
		at := instant{seconds: int64(binary.BigEndian.Uint64(key) ^ signBit64), nanoseconds: binary.BigEndian.Uint32(key[8:])}
		if !at.exists() {
			return dst, false
		}
		return at.appendJSON(dst), true
	default:
		return dst, false
	}
}

func decodeDouble(dst []byte, bits uint64) ([]byte, bool) {
	if bits&signBit64 != 0 {
		bits &^= signBit64
	} else {
		bits = ^bits
	}
	f := math.Float64frombits(bits)
	if math.IsNaN(f) || math.IsInf(f, 0) || f == 0 && math.Signbit(f) {
		return dst, false
	}
	format := byte('f')
	if a := math.Abs(f); a != 0 && (a < 1e-6 || a >= 1e21) {
		format = 'e'
	}
	return strconv.AppendFloat(dst, f, format, -1, 64), true
}

// exists says whether some RFC 3339 time or number of milliseconds is this instant.
func (at instant) exists() bool {
	const outside = farthestOffset * secondsPerMinute
	switch {
	case at.nanoseconds >= 2*nanosPerSecond:
		return false
	case at.nanoseconds >= nanosPerSecond:
		return firstSecond-outside <= at.seconds && at.seconds <= lastSecond+outside && endsMonth(at.seconds)
	case firstSecond-outside <= at.seconds && at.seconds <= lastSecond+outside:
		return true
	}
	if at.nanoseconds%1_000_000 != 0 {
		return false
	}
	ms, ok := at.millis()
	return ok && instantOfMillis(ms) == at
}

// millis is the instant in milliseconds since the epoch; false when they don't fit.
func (at instant) millis() (int64, bool) {
	const most = math.MaxInt64 / 1000
	part := int64(at.nanoseconds / 1_000_000)
	switch {
	case at.seconds > most || at.seconds < -most-1:
		return 0, false
	case at.seconds == most && part > math.MaxInt64%1000:
		return 0, false
	case at.seconds == -most-1: // the product alone does not fit
		const lowest = 1000 + math.MinInt64%1000
		return math.MinInt64 + part - lowest, part >= lowest
	}
	return at.seconds*1000 + part, true
}

func appendMillis(dst []byte, at instant) []byte {
	ms, _ := at.millis()
	return strconv.AppendInt(dst, ms, 10)
}

// decodeString finds the end of a string's code and resolves its zero escapes.
func decodeString(key []byte) (text, rest []byte, ok bool) {
	for {
		i := bytes.IndexByte(key, zeroByte)
		if i < 0 || i+1 == len(key) {
			return nil, nil, false
		}
		text = append(text, key[:i]...)
		mark := key[i+1]
		key = key[i+2:]
		switch mark {
		case stringEnd:
			return text, key, true
		case zeroEscape:
			text = append(text, zeroByte)
		default:
			return nil, nil, false
		}
	}
}

// appendQuotedWTF8 is AppendQuoted for decoded strings, in which lone surrogates stand as WTF-8.
func appendQuotedWTF8(dst, text []byte) []byte {
	dst = append(dst, '"')
	for len(text) > 0 {
		if len(text) >= 3 && text[0] == 0xED && text[1] >= 0xA0 && text[1] < 0xC0 && text[2]&0xC0 == 0x80 {
			r := rune(0xD000) | rune(text[1]&0x3F)<<6 | rune(text[2]&0x3F)
			dst = fmt.Appendf(dst, `\u%04x`, r)
			text = text[3:]
			continue
		}
		if text[0] < utf8.RuneSelf {
			dst = appendASCII(dst, text[0])
			text = text[1:]
			continue
		}
		r, size := utf8.DecodeRune(text)
		dst = utf8.AppendRune(dst, r)
		text = text[size:]
	}
	return append(dst, '"')
}

func decodeAny(dst, key []byte) (json, rest []byte, ok bool) {
	if len(key) == 0 {
		return dst, nil, false
	}
	switch key[0] {
	case anyBool:
		return decodeKey(dst, Bool, key[1:])
	case anyNumber:
		return decodeDecimal(dst, key[1:], maxExponent)
	case anyString:
		return decodeKey(dst, String, key[1:])
	}
	return dst, nil, false
}

// decodeDecimal writes 0.d1d2d3... times ten to the power as people would: plainly where that takes few zeros, else as d.ddde±n. An exponent
// beyond the limit can only come from a long string of digits and is written with one.
func decodeDecimal(dst, key []byte, limit int64) (json, rest []byte, ok bool) {
	if len(key) == 0 {
		return dst, nil, false
	}
	sign := key[0]
	flip := byte(0)
	switch sign {
	case decimalZero:
		return append(dst, '0'), key[1:], true
	case decimalNegative:
		flip = 0xFF
		dst = append(dst, '-')
	case decimalPositive:
	default:
		return dst, nil, false
	}
	power, key, ok := decodeExponent(key[1:], flip)
	if !ok || power > maxExponent || power < -maxExponent {
		return dst, nil, false
	}
	ds, rest, ok := decodeDigits(key, flip)
	if !ok {
		return dst, nil, false
	}
	excess := int64(0)
	switch {
	case power-1 > limit:
		excess = limit
	case power-1 < -limit:
		excess = -limit
	}
	if excess == 0 || power > longestLiteral || power < -longestLiteral {
		return appendLiteral(dst, ds, power), rest, true
	}
	dst = appendPlain(dst, ds, power-excess)
	return strconv.AppendInt(append(dst, 'e'), excess, 10), rest, true
}

func decodeExponent(key []byte, flip byte) (power int64, rest []byte, ok bool) {
	if len(key) == 0 {
		return 0, nil, false
	}
	first := int(key[0]^flip) - 0x80
	key = key[1:]
	if -smallExponent <= first && first <= smallExponent {
		return int64(first), key, true
	}
	size := first - smallExponent
	negative := first < 0
	if negative {
		size = -smallExponent - first
		flip = ^flip
	}
	if size > 8 || len(key) < size {
		return 0, nil, false
	}
	var magnitude uint64
	for _, c := range key[:size] {
		magnitude = magnitude<<8 | uint64(c^flip)
	}
	if magnitude <= smallExponent || magnitude > math.MaxInt64 || magnitude>>(8*(size-1)) == 0 {
		return 0, nil, false
	}
	if negative {
		return -int64(magnitude), key[size:], true
	}
	return int64(magnitude), key[size:], true
}

func decodeDigits(key []byte, flip byte) (ds, rest []byte, ok bool) {
	for i, c := range key {
		c ^= flip
		switch {
		case c > 100:
			return nil, nil, false
		case c > 0:
			ds = append(ds, '0'+(c-1)/10, '0'+(c-1)%10)
			continue
		}
		if i == 0 || ds[0] == '0' || key[i-1]^flip == 1 {
			return nil, nil, false // no digits, or a zero that AppendKey leaves out
		}
		if ds[len(ds)-1] == '0' {
			ds = ds[:len(ds)-1]
		}
		return ds, key[i+1:], true
	}
	return nil, nil, false
}

// longestLiteral bounds what is written out in full, for bytes that are no key of ours: longer strings of digits fit in no record.
const longestLiteral = 1 << 24

// appendLiteral appends 0.ds times ten to the power.
func appendLiteral(dst, ds []byte, power int64) []byte {
	if -6 < power && power <= 21 {
		return appendPlain(dst, ds, power)
	}
	dst = appendPlain(dst, ds, 1)
	return strconv.AppendInt(append(dst, 'e'), power-1, 10)
}

// appendPlain appends 0.ds times ten to the power without an exponent.
func appendPlain(dst, ds []byte, power int64) []byte {
	count := int64(len(ds))
	switch {
	case count <= power:
		return appendZeros(append(dst, ds...), power-count)
	case 0 < power:
		dst = append(append(dst, ds[:power]...), '.')
		return append(dst, ds[power:]...)
	}
	return append(appendZeros(append(dst, '0', '.'), -power), ds...)
}

func appendZeros(dst []byte, n int64) []byte {
	for range n {
		dst = append(dst, '0')
	}
	return dst
}
