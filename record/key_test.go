package record

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// key encodes one value that must convert.
func key(tb testing.TB, t Type, raw string) []byte {
	tb.Helper()
	k, err := AppendKey(nil, t, []byte(raw))
	require.NoError(tb, err, "%s of %.80s", t, raw)
	return k
}

func quoted(s string) string { return string(AppendQuoted(nil, s)) }

// TestAppendKeyEqual lists, per type, groups of values that are one value; the values of different groups differ.
func TestAppendKeyEqual(t *testing.T) {
	for _, c := range []struct {
		t      Type
		groups [][]string
	}{
		{String, [][]string{
			{`"7"`, `7`, `"\u0037"`},
			{`"7.0"`},
			{`"07"`},
			{`" 7"`},
			{`""`},
			{`"-0"`, `-0`},
			{`"0"`, `0`},
			{`"true"`},
			{`"null"`},
			{`"a/b"`, `"a\/b"`, `"\u0061\u002fb"`},
			{`"é"`, `"\u00e9"`, `"\u00E9"`},
			{`"😀"`, `"\ud83d\ude00"`, `"\uD83D\uDE00"`},
			{`"\ud83d"`, `"\uD83D"`},
			{`"\ude00"`},
			{`"\ud83d\ue000"`, "\"\\ud83d\ue000\""},
			{`"\ud83e\udc00"`},
			{`"\ude00\ud83d"`},
			{`"\ufffd"`, `"�"`},
			{`"\u0000"`},
			{`"\u0000\u0000"`},
			{`"\"\\\b\f\n\r\t"`, `"\u0022\u005c\u0008\u000c\u000a\u000d\u0009"`},
			{`"e\u0301"`},
			{`12345678901234567890123456789`, `"12345678901234567890123456789"`},
			{`9007199254740993`},
			{`9007199254740992`},
		}},
		{Int, [][]string{
			{`7`, `7.0`, `70e-1`, `7E0`, `0.7e1`, `0.07e+2`, `700e-2`, `7.000e0`, `"7"`, `"7.0"`, `"70e-1"`, `"\u0037"`},
			{`0`, `-0`, `0.0`, `-0.0e5`, `0e99999999999999999999`, `"0"`, `"-0"`},
			{`-7`, `-70e-1`, `"-7"`},
			{`42`, `"42"`, `42.0`, `4.2e1`},
			{`9007199254740993`},
			{`9007199254740992`, `9007199254740992.0`},
			{`9223372036854775807`, `9223372036854775807.0`, `92233720368547758070e-1`, `9.223372036854775807e18`},
			{`-9223372036854775808`, `-9.223372036854775808E18`},
			{`1e18`, `1000000000000000000`},
		}},
		{Int32, [][]string{{`7`, `7.0`, `"7"`}, {`2147483647`, `2.147483647e9`}, {`-2147483648`, `"-2147483648"`}, {`0`, `-0`}}},
		{Decimal, [][]string{
			{`1`, `1.0`, `10e-1`, `0.1e1`, `1e0`, `"1"`, `"1.00"`, `100E-2`},
			{`0`, `-0`, `0.000`, `0e10000`, `"-0.0"`},
			{`-1`, `-1.0`},
			{`1.1`, `1.10`, `11e-1`},
			{`1.01`},
			{`10`, `1e1`},
			{`1e400`, `10e399`},
			{`1e10000`, `10e9999`, `"1e10000"`},
			{`1e-10000`, `0.1e-9999`},
			{`327267367867168100000`, `3272673678671681e5`},
			{`327267367867168100001`},
			{strings.Repeat("9", 20_000)},
			{"0." + strings.Repeat("3", 20_000)},
			{"1" + strings.Repeat("0", 20_000), "1" + strings.Repeat("0", 10_000) + "e10000"},
		}},
		{Double, [][]string{
			{`0`, `-0`, `0.0`, `-0e5`, `1e-400`, `-1e-400`, `1e-99999999999999999999`, `"0"`, `0e99999999999999999999`},
			{`1`, `1.0`, `"1"`, `10e-1`},
			{`0.1`, `0.10000000000000000555`},
			{`9007199254740992`, `9007199254740993`},
			{`1.7976931348623157e308`},
			{`-1.7976931348623157e308`},
			{`5e-324`, `4.9e-324`},
			{`-1`},
		}},
		{Bool, [][]string{{`true`, `"true"`, `"\u0074rue"`}, {`false`, `"false"`}}},
		{Date, [][]string{{`"2025-02-28"`, `"2025\u002d02-28"`}, {`"2024-02-29"`}, {`"2000-02-29"`}, {`"0000-01-01"`}, {`"9999-12-31"`}}},
		{Timestamp, [][]string{
			{`"1970-01-01T00:00:00Z"`, `0`, `-0`, `0.0`, `"1970-01-01T09:00:00+09:00"`, `"1969-12-31t23:30:00.000-00:30"`, `"1970-01-01T00:00:00-00:00"`},
			{`1`, `1.0`, `10e-1`, `"1970-01-01T00:00:00.001Z"`, `"1970-01-01T00:00:00.001000000z"`},
			{`-1`, `"1969-12-31T23:59:59.999Z"`},
			{`"1970-01-01T00:00:00.000000001Z"`, `"1970-01-01T00:00:00.0000000019Z"`},
			{`"2016-12-31T23:59:60Z"`, `"2017-01-01T08:59:60+09:00"`},
			{`"2017-01-01T00:00:00Z"`},
			{`"2016-12-31T23:59:59Z"`},
			{`9223372036854775807`},
			{`-9223372036854775808`},
			{`253402300800000`},
		}},
		{Bytes, [][]string{{`""`}, {`"AA=="`}, {`"AAA="`}, {`"AAAA"`}, {`"////"`, `"\/\/\/\/"`}, {`"+/8="`}, {`"YWJj"`, `"\u0059WJj"`}}},
		{Any, [][]string{
			{`7`, `7.0`, `70e-1`},
			{`"7"`, `"\u0037"`},
			{`true`},
			{`"true"`},
			{`false`},
			{`0`, `-0`, `0e99999999999999999999`},
			{`1e400`},
			{`""`},
			{`1e1000000000000000000`, `10e999999999999999999`},
			{`-1e1000000000000000000`},
			{`1e-1000000000000000000`},
			{`"null"`},
		}},
	} {
		seen := map[string]string{}
		for _, group := range c.groups {
			first := key(t, c.t, group[0])
			if other, ok := seen[string(first)]; ok {
				t.Errorf("%s: %.80s and %.80s have one code", c.t, other, group[0])
			}
			seen[string(first)] = group[0]
			for _, raw := range group {
				assert.Equal(t, first, key(t, c.t, raw), "%s: %.80s is %.80s", c.t, raw, group[0])
			}
		}
	}
}

// TestAppendKeyMismatch lists what does not convert.
func TestAppendKeyMismatch(t *testing.T) {
	containers := []string{`{}`, `[]`, `{"a":1}`, `[1]`}
	for _, c := range []struct {
		t    Type
		raws []string
	}{
		{String, []string{`true`, `false`, `7.0`, `7e0`, `7E5`, `1.10`}},
		{Int, []string{
			`7.5`, `"abc"`, `""`, `"007"`, `" 7"`, `"7 "`, `"+7"`, `"7."`, `".7"`, `"0x7"`, `"1_000"`, `"-"`, `"--7"`, `"7e"`, `"7e+"`, `"Inf"`, `"NaN"`, `"٧"`,
			`true`, `"true"`, `9223372036854775808`, `-9223372036854775809`, `1e19`, `1e400`, `10e99999999999999999999`, `70e-2`, `1e-1`,
			`99999999999999999999`, `18446744073709551616`, `18446744073709551623`, `1e-99999999999999999999`, `9223372036854775807.5`, `"7\u0000"`,
		}},
		{Int32, []string{`2147483648`, `-2147483649`, `"2147483648"`, `4294967303`, `0.5`, `"x"`, `false`}},
		{Decimal, []string{`"x"`, `""`, `"1,5"`, `"01"`, `"+1"`, `" 1"`, `true`, `1e10001`, `1e-10001`, `"1e10001"`, `1e99999999999999999999`, `"1e"`, `"."`}},
		{Double, []string{`"x"`, `""`, `1e400`, `-1e400`, `"1e400"`, `1e309`, `1.8e308`, `"Infinity"`, `"NaN"`, `"0x1p4"`, `"1_0"`, `true`, `1e99999999999999999999`}},
		{Bool, []string{`0`, `1`, `"0"`, `"1"`, `"True"`, `"TRUE"`, `"yes"`, `""`, `" true"`, `"true "`}},
		{Date, []string{
			`"2025-02-29"`, `"1900-02-29"`, `"2025-13-01"`, `"2025-00-01"`, `"2025-01-00"`, `"2025-04-31"`, `"2025-1-1"`, `"20250101"`, `"2025-01-01T00:00:00Z"`,
			`"25-01-01"`, `"-2025-01-01"`, `"+2025-01-0"`, `"2025/01/01"`, `" 2025-01-01"`, `"2025-01-01 "`, `20250101`, `""`, `"٢025-01-01"`, `true`,
		}},
		{Timestamp, []string{
			`"2025-01-01"`, `"2025-01-01T00:00:00"`, `"2025-01-01 00:00:00Z"`, `"2025-01-01T00:00Z"`, `"2025-01-01T24:00:00Z"`, `"2025-01-01T00:60:00Z"`,
			`"2025-01-01T00:00:61Z"`, `"2025-01-01T00:00:60Z"`, `"2025-01-31T12:59:60Z"`, `"2016-12-31T23:59:60+09:00"`, `"2025-02-29T00:00:00Z"`,
			`"2025-01-01T00:00:00.Z"`, `"2025-01-01T00:00:00,5Z"`, `"2025-01-01T00:00:00+0900"`, `"2025-01-01T00:00:00+24:00"`, `"2025-01-01T00:00:00+09:60"`,
			`"2025-01-01T0:00:00Z"`, `"2025-01-01T00:00:00ZZ"`, `"2025-01-01T00:00:00+09"`, `1.5`, `1e19`, `"0"`, `"1700000000000"`, `""`, `true`,
		}},
		{Bytes, []string{`"A"`, `"AA"`, `"AAA"`, `"A==="`, `"===="`, `"=AAA"`, `"AA=A"`, `"AB=="`, `"AAB="`, `"AA==AAAA"`, `"-_8="`, `"AAA\n"`, `"AA A"`, `1`, `true`, `"é==="`}},
		{Any, []string{`1e99999999999999999999`, `1e-99999999999999999999`}},
	} {
		for _, raw := range append(c.raws, containers...) {
			k, err := AppendKey([]byte("kept"), c.t, []byte(raw))
			require.ErrorIs(t, err, ErrMismatch, "%s of %s", c.t, raw)
			assert.Equal(t, "kept", string(k), "%s of %s", c.t, raw)
		}
	}
}

// TestAppendKeyNull: null and nothing are null keys of every type; so is no string that says so.
func TestAppendKeyNull(t *testing.T) {
	for _, typ := range allTypes {
		for _, raw := range [][]byte{nil, {}, []byte("null")} {
			k, err := AppendKey([]byte("kept"), typ, raw)
			require.ErrorIs(t, err, ErrNull, "%s", typ)
			assert.Equal(t, "kept", string(k))
		}
		_, err := AppendKey(nil, typ, []byte(`"null"`))
		require.NotErrorIs(t, err, ErrNull)
	}
}

// TestAppendKeyNoJSON: what is no JSON token is no value either, whatever it begins like.
func TestAppendKeyNoJSON(t *testing.T) {
	for _, raw := range []string{`"`, `"a`, `"a\`, `"\x"`, `"\u12"`, `"\u12g4"`, `"\"`, `nul`, `nulll`, `tru`, `True`, `-`, `01`, `1.`, `1e`, `+1`, ` 1`, `1 `, `}`, "\x00", "\xff"} {
		for _, typ := range allTypes {
			_, err := AppendKey(nil, typ, []byte(raw))
			require.ErrorIs(t, err, ErrMismatch, "%s of %q", typ, raw)
		}
	}
}

func TestAppendKeyText(t *testing.T) {
	for _, c := range []struct {
		t    Type
		text string
		same string // the JSON value that it means
	}{
		{String, "42", `"42"`},
		{String, "", `""`},
		{String, `"a"\`, `"\"a\"\\"`},
		{String, "a\x00b", `"a\u0000b"`},
		{String, "null", `"null"`},
		{Any, "42", `"42"`},
		{Any, "true", `"true"`},
		{Int, "42", `42`},
		{Int, "4.2e1", `42`},
		{Int32, "-7", `-7`},
		{Decimal, "1.10", `1.1`},
		{Double, "-0", `0`},
		{Bool, "true", `true`},
		{Date, "2025-01-31", `"2025-01-31"`},
		{Timestamp, "1970-01-01T00:00:01Z", `1000`},
		{Timestamp, "1000", `1000`},
		{Bytes, "AAE=", `"AAE="`},
	} {
		k, err := AppendKeyText([]byte("kept"), c.t, []byte(c.text))
		require.NoError(t, err, "%s of %q", c.t, c.text)
		assert.Equal(t, append([]byte("kept"), key(t, c.t, c.same)...), k, "%s of %q", c.t, c.text)
	}
	for _, c := range []struct {
		t    Type
		text string
	}{{Int, ""}, {Int, "null"}, {Int, `"7"`}, {Int, "007"}, {Bool, "1"}, {Date, ""}, {Timestamp, "1.5"}, {Bytes, "A"}, {Decimal, "x"}, {Double, "inf"}} {
		k, err := AppendKeyText([]byte("kept"), c.t, []byte(c.text))
		require.ErrorIs(t, err, ErrMismatch, "%s of %q", c.t, c.text)
		assert.Equal(t, "kept", string(k))
	}
	// Bytes that are not UTF-8 stay what they are.
	k, err := AppendKeyText(nil, String, []byte("\xff\x00"))
	require.NoError(t, err)
	assert.Equal(t, []byte{0xff, 0, 0xff, 0, 1}, k)
}

func TestAppendKeyInt(t *testing.T) {
	values := map[int64]string{0: "0", 7: "7", -1: "-1", 1 << 40: "1099511627776", 1<<63 - 1: "9223372036854775807", -1 << 63: "-9223372036854775808"}
	for v, literal := range values {
		for _, typ := range allTypes {
			want, wantErr := AppendKey(nil, typ, []byte(literal))
			got, err := AppendKeyInt(nil, typ, v)
			require.Equal(t, wantErr, err, "%s of %d", typ, v)
			assert.Equal(t, want, got, "%s of %d", typ, v)
		}
	}
}

// TestKeyBytes pins the layout: rows on disks are found by it, and a change of it must raise layoutVersion.
func TestKeyBytes(t *testing.T) {
	for _, c := range []struct {
		t    Type
		raw  string
		want []byte
	}{
		{String, `"a\u0000"`, []byte{'a', 0, 0xff, 0, 1}},
		{String, `"\ud800"`, []byte{0xed, 0xa0, 0x80, 0, 1}},
		{Int, `-1`, []byte{0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}},
		{Int, `1`, []byte{0x80, 0, 0, 0, 0, 0, 0, 1}},
		{Int32, `1`, []byte{0x80, 0, 0, 1}},
		{Decimal, `0`, []byte{2}},
		{Decimal, `123.4`, []byte{3, 0x83, 13, 35, 0}},
		{Decimal, `-123.4`, []byte{1, 0x7c, 0xf2, 0xdc, 0xff}},
		{Decimal, `1e999`, []byte{3, 0x80 + 102, 0x03, 0xe8, 11, 0}},
		{Decimal, `1e-999`, []byte{3, 0x80 - 102, 0xfc, 0x19, 11, 0}},
		{Double, `1`, []byte{0xbf, 0xf0, 0, 0, 0, 0, 0, 0}},
		{Double, `-1`, []byte{0x40, 0x0f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}},
		{Bool, `true`, []byte{1}},
		{Date, `"2025-02-28"`, []byte{0x07, 0xe9, 2, 28}},
		{Timestamp, `1`, []byte{0x80, 0, 0, 0, 0, 0, 0, 0, 0x00, 0x0f, 0x42, 0x40}},
		{Bytes, `"AAE="`, []byte{0, 0xff, 1, 0, 1}},
		{Any, `true`, []byte{1, 1}},
		{Any, `1`, []byte{2, 3, 0x81, 11, 0}},
		{Any, `"a"`, []byte{3, 'a', 0, 1}},
	} {
		assert.Equal(t, c.want, key(t, c.t, c.raw), "%s of %s", c.t, c.raw)
	}
}
