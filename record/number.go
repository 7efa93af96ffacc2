package record

import (
	"math"
	"strconv"
	"unsafe"
)

// maxExponent bounds the decimal exponents that are told apart where nothing else bounds them: far inside int64, so that sums with the
// number of digits never overflow, and far beyond what anything writes.
const maxExponent = 1 << 62

// maxDecimalExponent bounds the exponent of a decimal as it is written; a string of digits may be of any length.
const maxDecimalExponent = 10_000

// number is a literal of JSON's grammar, taken apart. Its digits stay in the text.
type number struct {
	negative bool
	plain    bool   // neither fraction nor exponent
	whole    []byte // the digits before the point
	fraction []byte // the digits after it
	exponent int64  // as written; beyond ±maxExponent only known to be beyond
}

// parseNumber reads text as one JSON number (RFC 8259 §6) and nothing else.
func parseNumber(text []byte) (n number, ok bool) {
	i := 0
	if i < len(text) && text[i] == '-' {
		n.negative = true
		i++
	}
	n.whole, i = digits(text, i)
	if len(n.whole) == 0 || len(n.whole) > 1 && n.whole[0] == '0' {
		return number{}, false
	}
	n.plain = i == len(text)
	if i < len(text) && text[i] == '.' {
		n.fraction, i = digits(text, i+1)
		if len(n.fraction) == 0 {
			return number{}, false
		}
	}
	if i < len(text) && text[i]|0x20 == 'e' {
		i++
		negative := false
		if i < len(text) && (text[i] == '-' || text[i] == '+') {
			negative = text[i] == '-'
			i++
		}
		var written []byte
		written, i = digits(text, i)
		if len(written) == 0 {
			return number{}, false
		}
		n.exponent = exponentValue(written, negative)
	}
	return n, i == len(text)
}

// digits gives the run of digits at i and where it ends.
func digits(text []byte, i int) ([]byte, int) {
	start := i
	for i < len(text) && text[i]-'0' <= 9 {
		i++
	}
	return text[start:i], i
}

// exponentValue saturates near the end of int64: beyond maxExponent whatever number of digits stands around it.
func exponentValue(written []byte, negative bool) int64 {
	var e int64
	for _, c := range written {
		if e > (math.MaxInt64-9)/10 {
			e = math.MaxInt64 - 9
			break
		}
		e = e*10 + int64(c-'0')
	}
	if negative {
		return -e
	}
	return e
}

// significant gives the digits without leading and trailing zeros, as two runs to be read one after the other, and the power of ten
// of the first digit plus one: the value is 0.d1d2d3... times ten to it. No digits: the number is zero.
func (n *number) significant() (head, tail []byte, power int64) {
	head, tail = n.whole, n.fraction
	power = n.exponent
	for len(tail) > 0 && tail[len(tail)-1] == '0' {
		tail = tail[:len(tail)-1]
	}
	if len(tail) == 0 {
		for len(head) > 0 && head[len(head)-1] == '0' {
			head = head[:len(head)-1]
		}
	}
	if head0 := n.whole[0]; head0 != '0' {
		return head, tail, clampAdd(power, len(n.whole))
	}
	// The whole part is a single zero.
	zeros := 0
	for zeros < len(tail) && tail[zeros] == '0' {
		zeros++
	}
	return nil, tail[zeros:], clampAdd(power, -zeros)
}

// clampAdd adds a number of digits to an exponent and saturates.
func clampAdd(exponent int64, n int) int64 {
	sum := exponent + int64(n)
	switch {
	case exponent > 0 && n > 0 && sum < 0:
		return math.MaxInt64
	case exponent < 0 && n < 0 && sum > 0:
		return math.MinInt64
	}
	return sum
}

// integer gives the value of a number that is integral and fits 64 bits.
func (n *number) integer() (int64, bool) {
	head, tail, power := n.significant()
	count := len(head) + len(tail)
	if count == 0 {
		return 0, true
	}
	if power > 19 || power < int64(count) {
		return 0, false
	}
	var u uint64 // 19 digits fit
	for _, c := range head {
		u = u*10 + uint64(c-'0')
	}
	for _, c := range tail {
		u = u*10 + uint64(c-'0')
	}
	for range power - int64(count) {
		u *= 10
	}
	if n.negative {
		return -int64(u), u <= 1<<63
	}
	return int64(u), u <= math.MaxInt64
}

// parseInteger reads text as a JSON number of integral value in any notation, within 64 bits.
func parseInteger(text []byte) (int64, bool) {
	if v, ok := parsePlain(text); ok {
		return v, true
	}
	n, ok := parseNumber(text)
	if !ok {
		return 0, false
	}
	return n.integer()
}

// parsePlain is the short way for what nearly every key is: up to 18 digits.
func parsePlain(text []byte) (int64, bool) {
	digits := text
	negative := len(text) > 0 && text[0] == '-'
	if negative {
		digits = text[1:]
	}
	if len(digits) == 0 || len(digits) > 18 || digits[0] == '0' && len(digits) > 1 {
		return 0, false
	}
	var v int64
	for _, c := range digits {
		if c-'0' > 9 {
			return 0, false
		}
		v = v*10 + int64(c-'0')
	}
	if negative {
		v = -v
	}
	return v, true
}

// parseDouble reads text as a JSON number whose nearest binary64 is finite; minus zero becomes zero.
func parseDouble(text []byte) (float64, bool) {
	n, ok := parseNumber(text)
	if !ok {
		return 0, false
	}
	// What is far beyond the range is settled here, because an error of ParseFloat allocates.
	head, tail, power := n.significant()
	switch {
	case len(head)+len(tail) == 0 || power < -400:
		return 0, true
	case power > 309:
		return 0, false
	}
	f, err := strconv.ParseFloat(unsafe.String(&text[0], len(text)), 64)
	if err != nil {
		return 0, false
	}
	if f == 0 {
		return 0, true // minus zero, or rounded to it
	}
	return f, true
}

// appendExponent appends a code of e in which byte order is numeric order and no code is a prefix of another: one byte for what is common,
// else a length (nearer to the middle for shorter) and the big-endian magnitude, complemented below zero.
func appendExponent(dst []byte, e int64) []byte {
	if -smallExponent <= e && e <= smallExponent {
		return append(dst, byte(0x80+e))
	}
	magnitude := uint64(e)
	flip := byte(0)
	if e < 0 {
		magnitude, flip = -magnitude, 0xFF
	}
	size := 1
	for size < 8 && magnitude>>(8*size) != 0 {
		size++
	}
	if e < 0 {
		dst = append(dst, byte(0x80-smallExponent-size))
	} else {
		dst = append(dst, byte(0x80+smallExponent+size))
	}
	for size--; size >= 0; size-- {
		dst = append(dst, byte(magnitude>>(8*size))^flip)
	}
	return dst
}

const smallExponent = 100

// The first byte of a decimal.
const (
	decimalNegative = 0x01
	decimalZero     = 0x02
	decimalPositive = 0x03
)

// appendDecimal appends sign, exponent and digits, two to a byte, ended by 0; everything after the sign is complemented in a negative
// number, which turns its order around. 1, 1.0 and 10e-1 have one code, and minus zero is zero.
func appendDecimal(dst []byte, n *number) ([]byte, bool) {
	head, tail, power := n.significant()
	if len(head)+len(tail) == 0 {
		return append(dst, decimalZero), true
	}
	if power > maxExponent || power < -maxExponent {
		return dst, false
	}
	sign := byte(decimalPositive)
	if n.negative {
		sign = decimalNegative
	}
	dst = append(dst, sign)
	from := len(dst)
	dst = appendExponent(dst, power)
	dst = appendDigits(dst, head, tail)
	if n.negative {
		for i := from; i < len(dst); i++ {
			dst[i] = ^dst[i]
		}
	}
	return dst, true
}

// appendDigits appends the digits of both runs in pairs, 1 to 100, and the end, 0.
func appendDigits(dst, head, tail []byte) []byte {
	for len(head) >= 2 {
		dst = append(dst, (head[0]-'0')*10+(head[1]-'0')+1)
		head = head[2:]
	}
	if len(head) == 1 {
		low := byte('0')
		if len(tail) > 0 {
			low, tail = tail[0], tail[1:]
		}
		dst = append(dst, (head[0]-'0')*10+(low-'0')+1)
	}
	for len(tail) >= 2 {
		dst = append(dst, (tail[0]-'0')*10+(tail[1]-'0')+1)
		tail = tail[2:]
	}
	if len(tail) == 1 {
		dst = append(dst, (tail[0]-'0')*10+1)
	}
	return append(dst, 0)
}
