package record

import (
	"bytes"
	"encoding/binary"
	"math"
	"strconv"
)

// The first byte of an undeclared value's code.
const (
	anyBool   = 0x01
	anyNumber = 0x02
	anyString = 0x03
)

const (
	signBit32 = 1 << 31
	signBit64 = 1 << 63
)

// AppendKey appends the order-preserving, self-delimiting code of the JSON value raw (a token's own bytes, valid JSON, no white space around
// it), converted to t. The concatenated codes of a tuple's columns sort bytewise as the tuples do by value, and a prefix of the columns is a
// prefix of the bytes. Only the growth of dst allocates. On an error, ErrNull (JSON null, or an empty raw: absent) or ErrMismatch, dst
// comes back with its length.
func AppendKey(dst []byte, t Type, raw []byte) ([]byte, error) {
	if len(raw) == 0 {
		return dst, ErrNull
	}
	switch c := raw[0]; {
	case c == '"':
		return appendString(dst, t, raw)
	case c == '-' || c-'0' <= 9:
		return appendNumber(dst, t, raw)
	}
	switch string(raw) {
	case "null":
		return dst, ErrNull
	case "true":
		return appendBool(dst, t, 1)
	case "false":
		return appendBool(dst, t, 0)
	}
	return dst, ErrMismatch
}

// AppendKeyText is AppendKey for bare text (record keys, parts of topic names, headers): the text stands for a JSON string with this content,
// the empty text for the empty string, and never for null. It need not be UTF-8: a string takes the bytes as they are. One thing goes beyond
// the JSON string: an integer is a Timestamp, for a bare record key is how a number of milliseconds is written there.
func AppendKeyText(dst []byte, t Type, text []byte) ([]byte, error) {
	out, err := appendText(dst, t, text)
	if err != nil && t == Timestamp {
		if ms, ok := parseInteger(text); ok {
			return appendInstant(dst, instantOfMillis(ms)), nil
		}
	}
	return out, err
}

// AppendKeyInt is AppendKey for a number of the record's metadata (Kafka partition, offset, timestamp), as if it stood in JSON.
func AppendKeyInt(dst []byte, t Type, v int64) ([]byte, error) {
	if t == Int {
		return binary.BigEndian.AppendUint64(dst, uint64(v)^signBit64), nil
	}
	var digits [20]byte
	return appendNumber(dst, t, strconv.AppendInt(digits[:0], v, 10))
}

// appendString converts a string token.
func appendString(dst []byte, t Type, raw []byte) ([]byte, error) {
	content, ok := stringContent(raw)
	if !ok {
		return dst, ErrMismatch
	}
	if bytes.IndexByte(content, '\\') < 0 {
		return appendText(dst, t, content)
	}
	from := len(dst)
	dst, ok = appendUnescaped(dst, content)
	if !ok {
		return dst, ErrMismatch
	}
	// The unescaped text is the working memory: the code is appended behind it and moved down over it.
	end := len(dst)
	out, err := appendText(dst, t, dst[from:end])
	if err != nil {
		return dst[:from], err
	}
	return append(out[:from], out[end:]...), nil
}

// appendText converts the content of a string.
func appendText(dst []byte, t Type, text []byte) ([]byte, error) {
	switch t {
	case Any:
		return appendStringKey(append(dst, anyString), text), nil
	case String:
		return appendStringKey(dst, text), nil
	case Int, Int32, Decimal, Double:
		return appendNumber(dst, t, text)
	case Bool:
		switch string(text) {
		case "true":
			return append(dst, 1), nil
		case "false":
			return append(dst, 0), nil
		}
	case Date:
		if d, ok := parseDate(text); ok {
			return appendDate(dst, d), nil
		}
	case Timestamp:
		if at, ok := parseInstant(text); ok {
			return appendInstant(dst, at), nil
		}
	case Bytes:
		return appendBase64(dst, text)
	}
	return dst, ErrMismatch
}

// appendNumber converts a number token, or a text that may hold a number.
func appendNumber(dst []byte, t Type, text []byte) ([]byte, error) {
	switch t {
	case Int:
		if v, ok := parseInteger(text); ok {
			return binary.BigEndian.AppendUint64(dst, uint64(v)^signBit64), nil
		}
	case Int32:
		if v, ok := parseInteger(text); ok && math.MinInt32 <= v && v <= math.MaxInt32 {
			return binary.BigEndian.AppendUint32(dst, uint32(v)^signBit32), nil
		}
	case Timestamp:
		if ms, ok := parseInteger(text); ok {
			return appendInstant(dst, instantOfMillis(ms)), nil
		}
	case Double:
		if f, ok := parseDouble(text); ok {
			return appendDouble(dst, f), nil
		}
	case String:
		if n, ok := parseNumber(text); ok && n.plain {
			return appendStringKey(dst, text), nil
		}
	case Decimal:
		n, ok := parseNumber(text)
		if ok && -maxDecimalExponent <= n.exponent && n.exponent <= maxDecimalExponent {
			out, _ := appendDecimal(dst, &n) // bounded exponents always fit
			return out, nil
		}
	case Any:
		if n, ok := parseNumber(text); ok {
			if out, ok := appendDecimal(append(dst, anyNumber), &n); ok {
				return out, nil
			}
		}
	default: // no number is one of the others
	}
	return dst, ErrMismatch
}

func appendBool(dst []byte, t Type, v byte) ([]byte, error) {
	switch t {
	case Bool:
		return append(dst, v), nil
	case Any:
		return append(dst, anyBool, v), nil
	default:
		return dst, ErrMismatch
	}
}

// appendDouble appends the bits with the sign flipped, or all of them below zero: then unsigned order is numeric order.
func appendDouble(dst []byte, f float64) []byte {
	bits := math.Float64bits(f)
	if bits&signBit64 != 0 {
		return binary.BigEndian.AppendUint64(dst, ^bits)
	}
	return binary.BigEndian.AppendUint64(dst, bits|signBit64)
}

// appendBase64 appends the code of the bytes that the text means: RFC 4648 §4, padded, nothing between the characters, no loose bits.
func appendBase64(dst, text []byte) ([]byte, error) {
	from := len(dst)
	if len(text)%4 != 0 {
		return dst, ErrMismatch
	}
	for len(text) > 0 {
		group := text[:4]
		text = text[4:]
		size := 3
		if len(text) == 0 && group[3] == '=' {
			size = 2
			if group[2] == '=' {
				size = 1
			}
		}
		var v uint32
		for i, c := range group {
			six := base64Value(c)
			if i > size {
				six = 0 // padding
			} else if six > 63 {
				return dst[:from], ErrMismatch
			}
			v = v<<6 | uint32(six)
		}
		if size < 3 && v<<(8+8*size) != 0 {
			return dst[:from], ErrMismatch
		}
		three := [3]byte{byte(v >> 16), byte(v >> 8), byte(v)}
		dst = append(dst, three[:size]...)
	}
	dst = escapeZeros(dst, from)
	return append(dst, zeroByte, stringEnd), nil
}

// base64Value is the value of a character, 255 for one outside the alphabet.
func base64Value(c byte) byte {
	switch {
	case 'A' <= c && c <= 'Z':
		return c - 'A'
	case 'a' <= c && c <= 'z':
		return c - 'a' + 26
	case '0' <= c && c <= '9':
		return c - '0' + 52
	case c == '+':
		return 62
	case c == '/':
		return 63
	}
	return 255
}
