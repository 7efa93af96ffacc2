package record

import (
	"encoding/binary"
	"math/bits"
)

// The scanner's functions take the input and an index and return the next index. With a fault the index is where it is. They never look
// behind the end of the input, and they keep no state: what is open is in the callers.

// maxDepth is how many objects and arrays may be open at one time.
const maxDepth = 10_000

// Bytes of a word, for eight comparisons at a time.
const (
	everyOne   = 0x0101010101010101
	everyQuote = '"' * everyOne
	everySlash = '\\' * everyOne
	everySpace = ' ' * everyOne
	everyHigh  = 0x80 * everyOne
)

// special marks, in the high bits, the bytes of a word that a string can't simply pass over: quote, backslash, control characters, non-ASCII.
// Borrows can mark too much above the lowest mark, never below it.
func special(word uint64) uint64 {
	return ((word ^ everyQuote - everyOne) | (word ^ everySlash - everyOne) | (word - everySpace) | word) & everyHigh
}

// skipSpace passes over white space.
func skipSpace(src []byte, i int) int {
	for i < len(src) && src[i] <= ' ' && isSpace(src[i]) {
		i++
	}
	return i
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

// scanString passes over a string from behind its opening quote to behind its closing one, and says whether there are escapes.
func scanString(src []byte, i int) (next int, escaped bool, f fault) {
	for {
		for len(src)-i >= 8 {
			mark := special(binary.LittleEndian.Uint64(src[i:]))
			if mark != 0 {
				i += bits.TrailingZeros64(mark) >> 3
				break
			}
			i += 8
		}
		if i >= len(src) {
			return i, escaped, faultEnd
		}
		switch c := src[i]; {
		case c == '"':
			return i + 1, escaped, faultNone
		case c == '\\':
			escaped = true
			i, f = scanEscape(src, i)
		case c < ' ':
			return i, escaped, faultControl
		case c < 0x80: // among the last seven bytes of the input
			i++
		default:
			i, f = scanRunes(src, i)
		}
		if f != faultNone {
			return i, escaped, f
		}
	}
}

// scanEscape passes over one escape. Surrogates need no partner.
func scanEscape(src []byte, i int) (int, fault) {
	if i+1 >= len(src) {
		return len(src), faultEnd
	}
	if src[i+1] != 'u' {
		if simpleEscape(src[i+1]) == 0 {
			return i + 1, faultEscape
		}
		return i + 2, faultNone
	}
	for k := i + 2; k < i+6; k++ {
		if k >= len(src) {
			return k, faultEnd
		}
		if c := src[k]; c-'0' > 9 && c|0x20-'a' > 5 {
			return k, faultEscape
		}
	}
	return i + 6, faultNone
}

// scanRunes passes over the characters outside ASCII at i: well-formed UTF-8 only (Unicode, table 3-7), no surrogates, nothing overlong.
func scanRunes(src []byte, i int) (int, fault) {
	for i < len(src) && src[i] >= 0x80 {
		var size int
		low, high := byte(0x80), byte(0xBF)
		switch c := src[i]; {
		case c < 0xC2 || c > 0xF4:
			return i, faultUTF8
		case c < 0xE0:
			size = 2
		case c < 0xF0:
			size = 3
			switch c {
			case 0xE0:
				low = 0xA0
			case 0xED:
				high = 0x9F
			}
		default:
			size = 4
			switch c {
			case 0xF0:
				low = 0x90
			case 0xF4:
				high = 0x8F
			}
		}
		if i+size > len(src) {
			return len(src), faultEnd
		}
		if c := src[i+1]; c < low || c > high {
			return i, faultUTF8
		}
		for k := 2; k < size; k++ {
			if src[i+k]&0xC0 != 0x80 {
				return i, faultUTF8
			}
		}
		i += size
	}
	return i, faultNone
}

// scanNumber passes over the number at i, which begins with '-' or a digit. What follows it is the caller's to judge.
func scanNumber(src []byte, i int) (int, fault) {
	if src[i] == '-' {
		i++
		if i >= len(src) || src[i]-'0' > 9 {
			return i, faultNumber
		}
	}
	if src[i] == '0' {
		i++
	} else {
		i = skipDigits(src, i)
	}
	if i >= len(src) || src[i] != '.' && src[i]|0x20 != 'e' {
		return i, faultNone
	}
	if src[i] == '.' {
		start := i + 1
		if i = skipDigits(src, start); i == start {
			return i, faultNumber
		}
	}
	if i < len(src) && src[i]|0x20 == 'e' {
		i++
		if i < len(src) && (src[i] == '-' || src[i] == '+') {
			i++
		}
		start := i
		if i = skipDigits(src, start); i == start {
			return i, faultNumber
		}
	}
	return i, faultNone
}

func skipDigits(src []byte, i int) int {
	for i < len(src) && src[i]-'0' <= 9 {
		i++
	}
	return i
}

// scanScalar passes over a string, number or literal at i.
func scanScalar(src []byte, i int) (int, fault) {
	if i >= len(src) {
		return i, faultEnd
	}
	switch c := src[i]; {
	case c == '"':
		next, _, f := scanString(src, i+1)
		return next, f
	case c == '-' || c-'0' <= 9:
		return scanNumber(src, i)
	case c == 't':
		return scanLiteral(src, i, "true")
	case c == 'f':
		return scanLiteral(src, i, "false")
	case c == 'n':
		return scanLiteral(src, i, "null")
	}
	return i, faultValue
}

func scanLiteral(src []byte, i int, literal string) (int, fault) {
	if len(src)-i >= len(literal) && string(src[i:i+len(literal)]) == literal {
		return i + len(literal), faultNone
	}
	k := 1
	for i+k < len(src) && src[i+k] == literal[k] {
		k++
	}
	return i + k, faultValue
}

// scanColon passes over what stands between a field's name and its value.
func scanColon(src []byte, i int) (int, fault) {
	i = skipSpace(src, i)
	if i >= len(src) || src[i] != ':' {
		return i, faultColon
	}
	return skipSpace(src, i+1), faultNone
}

// scanName passes over a field's name, the colon and the white space around them.
func scanName(src []byte, i int) (int, fault) {
	i = skipSpace(src, i)
	if i >= len(src) || src[i] != '"' {
		return i, faultName
	}
	i, _, f := scanString(src, i+1)
	if f != faultNone {
		return i, f
	}
	return scanColon(src, i)
}

// nesting remembers, one bit each, which of the open containers are objects.
type nesting [(maxDepth + 63) / 64]uint64

func (n *nesting) push(level int, object bool) {
	bit := uint64(1) << (level & 63)
	if object {
		n[level>>6] |= bit
	} else {
		n[level>>6] &^= bit
	}
}

func (n *nesting) object(level int) bool { return n[level>>6]>>(level&63)&1 != 0 }

// scanValue passes over the value at i, of any kind. depth containers are open around it. It does not recurse.
func scanValue(src []byte, i, depth int, open *nesting) (int, fault) {
	if i >= len(src) || src[i] != '{' && src[i] != '[' {
		return scanScalar(src, i)
	}
	return scanContainer(src, i, depth, open)
}

// scanContainer passes over the object or array at i.
func scanContainer(src []byte, i, depth int, open *nesting) (int, fault) {
	level := depth // levels depth..level-1 are open containers of this call
	var object bool
	var f fault
	for {
		// A value begins at i.
		if i < len(src) && (src[i] == '{' || src[i] == '[') {
			if level >= maxDepth {
				return i, faultDepth
			}
			object = src[i] == '{'
			open.push(level, object)
			level++
			closing := src[i] + 2 // '{' and '}', '[' and ']' are two apart
			i = skipSpace(src, i+1)
			if i >= len(src) || src[i] != closing {
				if object {
					if i, f = scanName(src, i); f != faultNone {
						return i, f
					}
				}
				continue
			}
			i++
			level--
		} else if i, f = scanScalar(src, i); f != faultNone {
			return i, f
		}
		// A value ends at i: close what ends here, up to the next value.
		for {
			if level == depth {
				return i, faultNone
			}
			object = open.object(level - 1)
			i = skipSpace(src, i)
			if i >= len(src) {
				return i, faultEnd
			}
			if src[i] == ',' {
				i++
				break
			}
			switch {
			case object && src[i] != '}':
				return i, faultObjectNext
			case !object && src[i] != ']':
				return i, faultArrayNext
			}
			i++
			level--
		}
		if object {
			if i, f = scanName(src, i); f != faultNone {
				return i, f
			}
		} else {
			i = skipSpace(src, i)
		}
	}
}

// Valid says whether src is one JSON value with nothing but white space around it, as strictly as Scan. The error is a *SyntaxError.
func Valid(src []byte) error {
	var open nesting
	i := skipSpace(src, 0)
	if i == len(src) {
		return syntaxError(src, i, faultEmpty)
	}
	i, f := scanValue(src, i, 0, &open)
	if f == faultNone {
		if i = skipSpace(src, i); i < len(src) {
			f = faultTrailing
		}
	}
	if f != faultNone {
		return syntaxError(src, i, f)
	}
	return nil
}
