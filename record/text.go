package record

import (
	"bytes"
	"slices"
	"unicode/utf8"
)

// A string's code is its bytes with 0x00 written as 0x00 0xFF, ended by 0x00 0x01: the end sorts before every continuation, and no code is
// a prefix of another.
const (
	zeroByte   = 0x00
	zeroEscape = 0xFF
	stringEnd  = 0x01
)

// appendStringKey appends the code of a string.
func appendStringKey(dst, text []byte) []byte {
	from := len(dst)
	dst = append(dst, text...)
	dst = escapeZeros(dst, from)
	return append(dst, zeroByte, stringEnd)
}

// escapeZeros escapes the zero bytes of dst[from:] in place.
func escapeZeros(dst []byte, from int) []byte {
	first := bytes.IndexByte(dst[from:], zeroByte)
	if first < 0 {
		return dst
	}
	first += from
	zeros := 0
	for _, c := range dst[first:] {
		if c == zeroByte {
			zeros++
		}
	}
	read := len(dst) - 1
	dst = slices.Grow(dst, zeros)[:len(dst)+zeros]
	for write := len(dst) - 1; write > read; read-- {
		if dst[read] == zeroByte {
			dst[write] = zeroEscape
			write--
		}
		dst[write] = dst[read]
		write--
	}
	return dst
}

// stringContent gives what stands between the quotes of a string token.
func stringContent(raw []byte) (content []byte, ok bool) {
	if len(raw) < 2 || raw[0] != '"' || raw[len(raw)-1] != '"' {
		return nil, false
	}
	return raw[1 : len(raw)-1], true
}

// appendUnescaped appends the content of a string token with its escapes resolved. A surrogate escape without its other half becomes the
// three bytes that UTF-8 would give it (WTF-8): it equals only itself. It reports false, dst cut back, on what is no JSON escape.
func appendUnescaped(dst, content []byte) ([]byte, bool) {
	from := len(dst)
	for len(content) > 0 {
		i := bytes.IndexByte(content, '\\')
		if i < 0 {
			return append(dst, content...), true
		}
		dst = append(dst, content[:i]...)
		content = content[i:]
		if len(content) < 2 {
			return dst[:from], false
		}
		if content[1] != 'u' {
			c := simpleEscape(content[1])
			if c == 0 {
				return dst[:from], false
			}
			dst = append(dst, c)
			content = content[2:]
			continue
		}
		r, ok := hexEscape(content)
		if !ok {
			return dst[:from], false
		}
		content = content[6:]
		if 0xD800 <= r && r < 0xDC00 {
			if low, ok := hexEscape(content); ok && 0xDC00 <= low && low < 0xE000 {
				r = (r-0xD800)<<10 + (low - 0xDC00) + 0x10000
				content = content[6:]
			}
		}
		dst = appendWTF8(dst, r)
	}
	return dst, true
}

func simpleEscape(c byte) byte {
	switch c {
	case '"', '\\', '/':
		return c
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return 0
}

// hexEscape reads the \uXXXX at the start of content.
func hexEscape(content []byte) (rune, bool) {
	if len(content) < 6 || content[0] != '\\' || content[1] != 'u' {
		return 0, false
	}
	var r rune
	for _, c := range content[2:6] {
		switch {
		case c-'0' <= 9:
			r = r<<4 | rune(c-'0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			r = r<<4 | rune(c|0x20-'a'+10)
		default:
			return 0, false
		}
	}
	return r, true
}

func appendWTF8(dst []byte, r rune) []byte {
	if 0xD800 <= r && r < 0xE000 {
		return append(dst, 0xED, 0x80|byte(r>>6)&0x3F, 0x80|byte(r)&0x3F)
	}
	return utf8.AppendRune(dst, r)
}

// AppendQuoted appends s as a JSON string with the fewest escapes: quote, backslash and control characters. What is not UTF-8 in s becomes
// the replacement character, so that the result is always valid.
func AppendQuoted(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			dst = appendASCII(dst, c)
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		dst = utf8.AppendRune(dst, r)
		i += size
	}
	return append(dst, '"')
}

// appendASCII appends one ASCII character of a JSON string.
func appendASCII(dst []byte, c byte) []byte {
	switch {
	case c == '"' || c == '\\':
		return append(dst, '\\', c)
	case c >= ' ':
		return append(dst, c)
	}
	switch c {
	case '\b':
		return append(dst, '\\', 'b')
	case '\f':
		return append(dst, '\\', 'f')
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
}

const hexDigits = "0123456789abcdef"
