package record

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The records that every fuzz test of the scan begins with.
var scanSeeds = []string{
	``, `{`, `{}`, `[1]`, `"s"`, `null`, "\xff", `{"cust":1} x`, `{"cust":1,"x":9007199254740993,"y":327267367867168100000,"z":1.10,"e":1e400,"n":-0}`,
	`{"cust":1,"url":"a?b=1&c=<d>"}`, `{"a":1,"cust":1,"a":2}`, `{"a":{"b":1},"a":{"b":2,"b":[1,{"c":null}]}}`, "{ \"a\" : [ 1 , 2.5e-3 ] \r\n\t} ",
	`{"\u0061":"\ud83d\ude00\ud800","é":"é"}`, "{\"a\":\"\xff\"}", "{\"a\":\"\xed\xa0\x80\"}", `{"a":01}`, `{"a":1.}`, `{"a":-}`, `{"a":tru}`, `{"a":[1,]}`, `{"a":1,}`, `{"a":{"b":[{"c":{"d":[[],{}]}}]}}`,
	`{"a":"01234567\"89012345\\6789","01234567890123456789":true}`, "{\"a\":\"0123456\x00\"}", `{"a":[[[[[[[[1]]]]]]]],"b":false}`, benchFact,
}

// FuzzValid: encoding/json accepts what this package accepts. The one exception is that it lets invalid UTF-8 pass, inside strings; the
// limits of nesting are the same.
func FuzzValid(f *testing.F) {
	for _, src := range scanSeeds {
		f.Add([]byte(src))
	}
	for _, n := range []int{9_999, 10_000, 10_001} {
		f.Add([]byte(strings.Repeat("[", n) + strings.Repeat("]", n)))
	}
	s := Compile(nil, []string{"a"})
	f.Fuzz(func(t *testing.T, src []byte) {
		before := bytes.Clone(src)
		want := json.Valid(src) && utf8.Valid(src)
		err := Valid(src)
		require.Equal(t, want, err == nil, "%q: %v", src, err)
		requirePlace(t, src, err)

		var d Doc
		want = want && bytes.TrimLeft(src, " \t\r\n")[0] == '{'
		err = s.Scan(&d, src)
		require.Equal(t, want, err == nil, "%q: %v", src, err)
		requirePlace(t, src, err)
		require.Equal(t, before, src, "the record is only read")
		if want {
			require.Len(t, membersOf(t, src), d.Members())
		}
	})
}

// requirePlace: an error lies inside the input or at its end.
func requirePlace(t *testing.T, src []byte, err error) {
	t.Helper()
	if err == nil {
		return
	}
	var syntax *SyntaxError
	require.ErrorAs(t, err, &syntax)
	require.True(t, 0 <= syntax.Offset && syntax.Offset <= len(src), "%q: %v", src, err)
	require.NotEmpty(t, syntax.Message)
}

// FuzzPaths compares the values of paths with what two readings by encoding/json find: its decoder, name by name, the last one counting, and
// its map of the whole record. Only names are left out in which a lone surrogate would be a replacement character to encoding/json.
func FuzzPaths(f *testing.F) {
	for _, src := range scanSeeds {
		for _, paths := range []string{"a cust a.b", "/a/0 /a/1/c a a.0", "é x.y.z a.b.0", "/ /a/b/1/c a.b.c", "01234567890123456789 b"} {
			f.Add([]byte(src), paths)
		}
	}
	f.Fuzz(func(t *testing.T, src []byte, text string) {
		var paths []Path
		for s := range strings.FieldsSeq(text) {
			if p, err := ParsePath(s); err == nil && !strings.ContainsRune(s, utf8.RuneError) {
				paths = append(paths, p)
			}
		}
		var d Doc
		s := Compile(paths, nil)
		if err := s.Scan(&d, []byte(`{"a":{"b":[1,{"c":2}]},"cust":3}`)); err != nil {
			t.Fatal(err) // something to be forgotten
		}
		if s.Scan(&d, src) != nil {
			return
		}
		var whole any
		decoder := json.NewDecoder(bytes.NewReader(src))
		decoder.UseNumber()
		require.NoError(t, decoder.Decode(&whole))
		for i, p := range paths {
			got := d.Value(i)
			require.Equal(t, string(find(t, src, p.segments)), string(got), "%s in %q", p, src)
			value, ok := walk(whole, p.segments)
			require.Equal(t, ok, got != nil, "%s in %q", p, src)
			if ok {
				var again any
				decoder := json.NewDecoder(bytes.NewReader(got))
				decoder.UseNumber()
				require.NoError(t, decoder.Decode(&again))
				require.Equal(t, value, again, "%s in %q", p, src)
			}
		}
	})
}

// walk leads a path through decoded JSON.
func walk(value any, segments []segment) (any, bool) {
	for _, step := range segments {
		switch v := value.(type) {
		case map[string]any:
			next, ok := v[step.name]
			if !ok {
				return nil, false
			}
			value = next
		case []any:
			if step.index < 0 || step.index >= len(v) {
				return nil, false
			}
			value = v[step.index]
		default:
			return nil, false
		}
	}
	return value, true
}

// FuzzSplice: the record with fields added and every occurrence of one replaced is valid, and all else is byte for byte as it was.
func FuzzSplice(f *testing.F) {
	for _, src := range scanSeeds {
		f.Add([]byte(src), "a", `"<new>"`)
		f.Add([]byte(src), "cust", `{"b":[1.10]}`)
	}
	f.Fuzz(func(t *testing.T, src []byte, name, value string) {
		if !strictlyValid(value) || !utf8.ValidString(name) || strings.ContainsRune(name, utf8.RuneError) {
			return
		}
		var d Doc
		s := Compile(nil, []string{name})
		if s.Scan(&d, src) != nil {
			return
		}
		before := membersOf(t, src)
		var edits []Edit
		for _, at := range d.Occurrences(0) {
			edits = append(edits, Edit{Span: at, Value: []byte(value)})
		}
		replaced := slices.Clone(before)
		for i := range replaced {
			if replaced[i].name == name {
				replaced[i].raw = json.RawMessage(strings.TrimSpace(value))
			}
		}
		added := string(AppendQuoted(nil, name)) + ":" + value
		closing := bytes.LastIndexByte(src, '}')

		out := d.AppendSpliced(nil, nil, nil)
		require.Equal(t, src, out)

		out = d.AppendSpliced(nil, []byte(added), nil)
		comma := ""
		if len(before) > 0 {
			comma = ","
		}
		require.Equal(t, string(src[:closing])+comma+added+string(src[closing:]), string(out))
		requireMembers(t, out, append(slices.Clone(before), member{name: name, raw: json.RawMessage(strings.TrimSpace(value))}))

		out = d.AppendSpliced(nil, nil, edits)
		requireMembers(t, out, replaced)
		length := len(src)
		for _, e := range edits {
			length += len(value) - (e.Span.End - e.Span.Start)
		}
		require.Len(t, out, length, "nothing else comes or goes")
	})
}

func requireMembers(t *testing.T, src []byte, want []member) {
	t.Helper()
	require.NoError(t, Valid(src), "%q", src)
	got := membersOf(t, src)
	require.Len(t, got, len(want))
	for i := range want {
		assert.Equal(t, want[i].name, got[i].name)
		assert.Equal(t, string(want[i].raw), string(got[i].raw))
	}
}
