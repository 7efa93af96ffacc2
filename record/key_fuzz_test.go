package record

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// hugeExponent finds numbers that the reference can't compute in reasonable memory.
var hugeExponent = regexp.MustCompile(`[eE][+-]?0*[1-9][0-9]{3}`)

// FuzzAppendKey compares the conversion of two values, and the order of their codes, with what the standard library makes of them.
func FuzzAppendKey(f *testing.F) {
	for _, pair := range [][2]string{
		{`"a"`, `"a\u0000"`},
		{`"\u0000"`, `""`},
		{`7`, `70e-1`},
		{`"7"`, `7.0`},
		{`-1`, `1`},
		{`2`, `10`},
		{`1.10`, `11e-1`},
		{`1e400`, `-1e400`},
		{`9007199254740993`, `9007199254740992`},
		{`327267367867168100000`, `9223372036854775807`},
		{`-0`, `0`},
		{`true`, `"true"`},
		{`null`, `{}`},
		{`"2024-02-29"`, `"2025-02-28"`},
		{`"2025-01-01T00:00:00Z"`, `"2025-01-01T01:00:00.5+01:00"`},
		{`1735689600000`, `"2025-01-01T00:00:00Z"`},
		{`"AAE="`, `"AA=="`},
		{`"YWJj"`, `"Y\u0057Jj"`},
		{`"\ud83d\ude00"`, `"😀"`},
		{`"\ud83d"`, `"\ud83e"`},
		{`0.000001`, `1e-7`},
		{`1e22`, `1e21`},
	} {
		for _, t := range allTypes {
			f.Add(uint8(t), pair[0], pair[1])
		}
	}
	f.Fuzz(func(t *testing.T, kind uint8, a, b string) {
		typ := allTypes[int(kind)%len(allTypes)]
		if a, b = strings.TrimSpace(a), strings.TrimSpace(b); !strictlyValid(a) || !strictlyValid(b) {
			return
		}
		fuzzConversion(t, typ, a)
		fuzzConversion(t, typ, b)
		_, err1 := AppendKey(nil, typ, []byte(a))
		_, err2 := AppendKey(nil, typ, []byte(b))
		if err1 == nil && err2 == nil && judged(typ, a) && judged(typ, b) {
			checkOrder(t, typ, a, b)
		}
	})
}

func strictlyValid(s string) bool { return json.Valid([]byte(s)) && utf8.ValidString(s) }

// judged says whether the reference can judge the value: it loses lone surrogates, does not know leap seconds, and computes huge exponents
// in full.
func judged(t Type, raw string) bool {
	return !strings.Contains(strings.ToLower(raw), `\ud`) && !hugeExponent.MatchString(raw) && (t != Timestamp || !strings.Contains(raw, "60"))
}

// fuzzConversion checks that exactly what has a meaning converts, and that the code reads back.
func fuzzConversion(t *testing.T, typ Type, raw string) {
	t.Helper()
	k, err := AppendKey(nil, typ, []byte(raw))
	if raw == "null" {
		require.ErrorIs(t, err, ErrNull)
		return
	}
	if judged(typ, raw) {
		_, ok := meaning(typ, raw)
		require.Equal(t, ok, err == nil, "%s of %s: %v", typ, raw, err)
	}
	if err != nil {
		require.ErrorIs(t, err, ErrMismatch)
		require.Empty(t, k)
		return
	}
	back, rest, err := DecodeKey(nil, typ, k)
	require.NoError(t, err, "%s of %s", typ, raw)
	require.Empty(t, rest)
	require.True(t, json.Valid(back), "%s of %s: %s", typ, raw, back)
	again, err := AppendKey(nil, typ, back)
	require.NoError(t, err, "%s of %s, read back as %s", typ, raw, back)
	require.Equal(t, k, again, "%s of %s, read back as %s", typ, raw, back)
}

// FuzzDecodeKey feeds any bytes: either they are refused, or they are exactly what the value that comes out encodes to.
func FuzzDecodeKey(f *testing.F) {
	for _, t := range allTypes {
		for _, raw := range []string{`7`, `-1.25e300`, `"a\u0000b"`, `true`, `"2025-02-28"`, `"2025-01-01T00:00:00.5Z"`, `"AAE="`, `"7"`} {
			if k, err := AppendKey(nil, t, []byte(raw)); err == nil {
				f.Add(uint8(t), append(k, 'x'))
			}
		}
	}
	f.Fuzz(func(t *testing.T, kind uint8, k []byte) {
		typ := allTypes[int(kind)%len(allTypes)]
		raw, rest, err := DecodeKey(nil, typ, k)
		if err != nil {
			require.Equal(t, k, rest)
			return
		}
		require.True(t, json.Valid(raw), "%q", raw)
		if len(raw) > longestLiteral/16 {
			return // a literal longer than any record
		}
		used := k[:len(k)-len(rest)]
		again, err := AppendKey(nil, typ, raw)
		if typ == Decimal && err != nil {
			require.Contains(t, string(raw), "e", "only an exponent beyond all records is not taken back")
			return
		}
		require.NoError(t, err, "%s %q", typ, raw)
		if (typ == String || typ == Any && used[0] == anyString) && !utf8.Valid(used) {
			return // bare text that was not UTF-8
		}
		require.Equal(t, used, again, "%s %q", typ, raw)
	})
}

// FuzzAppendKeyText: text means what the JSON string with this content means.
func FuzzAppendKeyText(f *testing.F) {
	for _, text := range []string{"", "42", "4.2e1", "a\x00b", "\xff", "true", "2025-02-28", "2025-01-01T00:00:00Z", "AAE=", `"7"`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, typ := range allTypes {
			got, err := AppendKeyText(nil, typ, []byte(text))
			_, isInteger := parseInteger([]byte(text))
			if !utf8.ValidString(text) || typ == Timestamp && isInteger {
				continue
			}
			want, wantErr := AppendKey(nil, typ, AppendQuoted(nil, text))
			require.Equal(t, wantErr, err, "%s of %q", typ, text)
			require.Equal(t, string(want), string(got), "%s of %q", typ, text)
		}
	})
}
