package record

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDecodeKey(t *testing.T) {
	for _, c := range []struct {
		t         Type
		raw, want string
	}{
		{String, `7`, `"7"`},
		{String, `"a\/\u0000\u0001\n\"\\é\ud83d\ude00\u007f"`, `"a/\u0000\u0001\n\"\\é😀` + "\x7f" + `"`},
		{String, `"\ud800x\udfff"`, `"\ud800x\udfff"`},
		{Int, `70e-1`, `7`},
		{Int, `-9223372036854775808`, `-9223372036854775808`},
		{Int32, `-1`, `-1`},
		{Decimal, `-0.0`, `0`},
		{Decimal, `1.10`, `1.1`},
		{Decimal, `-12300e-4`, `-1.23`},
		{Decimal, `100`, `100`},
		{Decimal, `0.00001`, `0.00001`},
		{Decimal, `0.000000123`, `1.23e-7`},
		{Decimal, `327267367867168100000`, `327267367867168100000`},
		{Decimal, `3272673678671681000001`, `3.272673678671681000001e21`},
		{Decimal, `1e10000`, `1e10000`},
		{Decimal, `-1e-10000`, `-1e-10000`},
		{Decimal, strings.Repeat("9", 10_003), strings.Repeat("9", 3) + "." + strings.Repeat("9", 10_000) + "e10000"},
		{Decimal, "1" + strings.Repeat("0", 10_003), "1000e10000"},
		{Decimal, "0." + strings.Repeat("0", 10_003) + "12", "0.00012e-10000"},
		{Double, `1e21`, `1e+21`},
		{Double, `-0.1`, `-0.1`},
		{Double, `-0`, `0`},
		{Bool, `"true"`, `true`},
		{Date, `"0000-02-29"`, `"0000-02-29"`},
		{Timestamp, `1500`, `"1970-01-01T00:00:01.5Z"`},
		{Timestamp, `-1`, `"1969-12-31T23:59:59.999Z"`},
		{Timestamp, `"2016-12-31T23:59:60.000000001Z"`, `"2016-12-31T23:59:60.000000001Z"`},
		{Timestamp, `"9999-12-31T23:59:59.5-23:59"`, `"9999-12-31T23:59:59.5-23:59"`},
		{Timestamp, `"0000-01-01T00:00:00+23:59"`, `"0000-01-01T00:00:00+23:59"`},
		{Timestamp, `"0000-01-01T00:59:60+01:00"`, `"0000-01-01T23:58:60+23:59"`},
		{Timestamp, `9223372036854775807`, `9223372036854775807`},
		{Timestamp, `-9223372036854775808`, `-9223372036854775808`},
		{Bytes, `"AAE\u003d"`, `"AAE="`},
		{Any, `1.50`, `1.5`},
		{Any, `"1.50"`, `"1.50"`},
		{Any, `false`, `false`},
		{Any, `10e999999999`, `1e1000000000`},
	} {
		k := key(t, c.t, c.raw)
		got, rest, err := DecodeKey([]byte("kept"), c.t, append(k, "rest"...))
		require.NoError(t, err, "%s of %.80s", c.t, c.raw)
		assert.Equal(t, "kept"+c.want, string(got), "%s of %.80s", c.t, c.raw)
		assert.Equal(t, "rest", string(rest), "%s of %.80s", c.t, c.raw)
		assert.Equal(t, k, key(t, c.t, c.want), "%s: %.80s is encoded as %.80s was", c.t, c.want, c.raw)
	}
}

// TestDecodeTuples: a tuple comes apart into values that encode to the same bytes.
func TestDecodeTuples(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 5_000 {
		types := make([]Type, 1+r.IntN(4))
		var tuple, again []byte
		for i := range types {
			types[i] = allTypes[r.IntN(len(allTypes))]
			tuple = append(tuple, key(t, types[i], randomValue(r, types[i]))...)
		}
		rest := tuple
		for _, typ := range types {
			var raw []byte
			var err error
			raw, rest, err = DecodeKey(nil, typ, rest)
			require.NoError(t, err)
			require.True(t, json.Valid(raw), "%q", raw)
			again = append(again, key(t, typ, string(raw))...)
		}
		require.Empty(t, rest)
		require.Equal(t, tuple, again)
	}
}

// TestDecodeKeyRefuses lists bytes that AppendKey never makes.
func TestDecodeKeyRefuses(t *testing.T) {
	for _, c := range []struct {
		t    Type
		keys []string
	}{
		{String, []string{"", "a", "a\x00", "a\x00\x02", "a\x00\xff", "a\x00\xff\x00"}},
		{Bytes, []string{"", "a\x00\x00"}},
		{Int, []string{"", "\x80\x00\x00\x00\x00\x00\x00"}},
		{Int32, []string{"\x80\x00\x00"}},
		{Bool, []string{"", "\x02"}},
		{Double, []string{"\x7f\xff\xff\xff\xff\xff\xff\xff", "\xff\xf0\x00\x00\x00\x00\x00\x00", "\xff\xf8\x00\x00\x00\x00\x00\x00", "\x00\x0f\xff\xff\xff\xff\xff\xff"}},
		{Date, []string{"\x07\xe9\x02", "\x07\xe9\x02\x1d", "\x07\xe9\x00\x01", "\x07\xe9\x0d\x01", "\x27\x10\x01\x01"}},
		{Timestamp, []string{
			"\x80\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", "\x80\x00\x00\x00\x00\x00\x00\x00\x3b\x9a\xca\x00", "\x80\x00\x00\x00\x00\x00\x00\x00\x77\x35\x94\x00",
			"\xff\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x00", "\x80\x00\x00\x80\x00\x00\x00\x00\x00\x00\x00\x01",
		}},
		{Decimal, []string{
			"", "\x00", "\x04", "\x03", "\x03\x81", "\x03\x81\x00", "\x03\x81\x0b", "\x03\x81\x01\x00", "\x03\x81\x02\x00", "\x03\x81\x0b\x01\x00", "\x03\x81\x65\x00",
			"\x03\xe5\x10\x0b\x00", "\x03\xe6\x00\xff\x0b\x00", "\x03\xe5", "\x03\xff\x0b\x00", "\x03\x00\x0b\x00", "\x03\xec\xff\xff\xff\xff\xff\xff\xff\xff\x0b\x00",
		}},
		{Any, []string{"", "\x00", "\x04", "\x01", "\x01\x02", "\x02", "\x03a"}},
	} {
		for _, k := range c.keys {
			got, rest, err := DecodeKey([]byte("kept"), c.t, []byte(k))
			require.Error(t, err, "%s of %q", c.t, k)
			assert.Equal(t, "kept", string(got))
			assert.Equal(t, k, string(rest))
		}
	}
}

// TestDecodeKeyOfText: a key made of text that is not UTF-8 is shown, with replacement characters.
func TestDecodeKeyOfText(t *testing.T) {
	k, err := AppendKeyText(nil, String, []byte("a\xffb"))
	require.NoError(t, err)
	got, rest, err := DecodeKey(nil, String, k)
	require.NoError(t, err)
	assert.Equal(t, "\"a\uFFFDb\"", string(got))
	assert.Empty(t, rest)
}
