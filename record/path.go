package record

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Path leads from an object to a value inside it: `o_custkey`, `customer.id`, or a JSON Pointer (RFC 6901) when it starts with '/'.
// Names are compared by meaning (after unescaping), case-sensitively. The zero Path leads nowhere.
type Path struct {
	text     string
	segments []segment
}

// segment is one step of a path.
type segment struct {
	name  string
	index int // the array index that the name stands for, -1 for none
}

// ParsePath reads a path. Dots separate the names of a path that does not start with '/'; such a path never enters an array.
// A name with a dot in it is written as a pointer (`/a.b`), where `~1` stands for '/' and `~0` for '~'.
func ParsePath(s string) (Path, error) {
	if s == "" {
		return Path{}, errors.New("parse path: the path is empty")
	}
	if !utf8.ValidString(s) {
		return Path{}, fmt.Errorf("parse path %q: not valid UTF-8", s)
	}
	if s[0] == '/' {
		return parsePointer(s)
	}
	p := Path{text: s}
	for name := range strings.SplitSeq(s, ".") {
		if name == "" {
			return Path{}, fmt.Errorf("parse path %q: an empty name between dots (a name with a dot in it is written as a JSON Pointer: /a.b)", s)
		}
		p.segments = append(p.segments, segment{name: name, index: -1})
	}
	return p, nil
}

// FieldPath is the path of the top-level field of exactly this name, dots and slashes included.
func FieldPath(name string) Path {
	text := name
	if name == "" || name[0] == '/' || strings.Contains(name, ".") {
		text = "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
	}
	return Path{text: text, segments: []segment{{name: name, index: -1}}}
}

// String is the path as it was written.
func (p Path) String() string { return p.text }

// First is the first name of the path, which is a top-level field; empty for the zero Path.
func (p Path) First() string {
	if len(p.segments) == 0 {
		return ""
	}
	return p.segments[0].name
}

func parsePointer(s string) (Path, error) {
	p := Path{text: s}
	for token := range strings.SplitSeq(s[1:], "/") {
		name, ok := unescapePointer(token)
		if !ok {
			return Path{}, fmt.Errorf("parse path %q: '~' in a JSON Pointer is followed by 0 (for '~') or 1 (for '/')", s)
		}
		p.segments = append(p.segments, segment{name: name, index: arrayIndex(name)})
	}
	return p, nil
}

func unescapePointer(token string) (string, bool) {
	for i := 0; i < len(token); i++ {
		if token[i] == '~' && (i+1 == len(token) || token[i+1] != '0' && token[i+1] != '1') {
			return "", false
		}
	}
	return strings.NewReplacer("~1", "/", "~0", "~").Replace(token), true
}

// arrayIndex reads a reference token as an array index: digits without a leading zero (RFC 6901 §4). Indexes that no array in memory
// reaches are none.
func arrayIndex(token string) int {
	if token == "" || len(token) > 18 || len(token) > 1 && token[0] == '0' {
		return -1
	}
	n := 0
	for _, c := range []byte(token) {
		if c < '0' || c > '9' {
			return -1
		}
		n = n*10 + int(c-'0')
	}
	return n
}
