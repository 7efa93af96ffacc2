package record

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// randomValue is a JSON value that converts to t, near the places where codes can go wrong.
func randomValue(r *rand.Rand, t Type) string {
	switch t {
	case String:
		return quoted(randomText(r))
	case Int:
		return strconv.FormatInt(int64(r.Uint64())>>r.IntN(64), 10)
	case Int32:
		return strconv.Itoa(int(int32(r.Uint32()) >> r.IntN(32)))
	case Decimal:
		return randomNumber(r)
	case Double:
		for {
			f := math.Float64frombits(r.Uint64())
			if r.IntN(2) == 0 {
				f = float64(r.IntN(2000)-1000) / 8
			}
			if !math.IsNaN(f) && !math.IsInf(f, 0) {
				return fmt.Sprintf("%v", f)
			}
		}
	case Bool:
		return strconv.FormatBool(r.IntN(2) == 0)
	case Date:
		return time.Unix(r.Int64N(lastSecond-firstSecond)+firstSecond, 0).UTC().Format(`"2006-01-02"`)
	case Timestamp:
		if r.IntN(4) == 0 {
			return strconv.FormatInt(int64(r.Uint64())>>r.IntN(40), 10)
		}
		zone := time.FixedZone("", (r.IntN(2*farthestOffset)-farthestOffset)*60)
		at := time.Unix(r.Int64N(lastSecond-firstSecond-4*secondsPerDay)+firstSecond+2*secondsPerDay, r.Int64N(1e9)>>r.IntN(30))
		return at.In(zone).Format(`"2006-01-02T15:04:05.999999999Z07:00"`)
	case Bytes:
		return `"` + base64.StdEncoding.EncodeToString([]byte(randomText(r))) + `"`
	default:
		return randomValue(r, []Type{Bool, Decimal, String}[r.IntN(3)])
	}
}

func randomText(r *rand.Rand) string {
	alphabet := []rune{0, 0, 1, 2, 'a', 'a', 'b', 0x7f, 0x80, 0xff, 0xd7ff, 0xe000, 0xffff, 0x10000, 0x10ffff}
	var text []rune
	for range r.IntN(6) {
		text = append(text, alphabet[r.IntN(len(alphabet))])
	}
	return string(text)
}

func randomNumber(r *rand.Rand) string {
	var b strings.Builder
	if r.IntN(2) == 0 {
		b.WriteByte('-')
	}
	whole := r.IntN(1200) >> r.IntN(11)
	fmt.Fprint(&b, whole)
	if r.IntN(2) == 0 {
		fmt.Fprintf(&b, ".%0*d", 1+r.IntN(6), r.IntN(1200)>>r.IntN(11))
	}
	switch r.IntN(4) {
	case 0:
		fmt.Fprintf(&b, "e%d", r.IntN(9)-4)
	case 1:
		fmt.Fprintf(&b, "E%+d", (r.IntN(1400)-700)>>r.IntN(10))
	}
	return b.String()
}

// TestOrder: the order of the bytes is the order by value, equal values have equal bytes, and no code is a prefix of another.
func TestOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, typ := range allTypes {
		for range 20_000 {
			a, b := randomValue(r, typ), randomValue(r, typ)
			checkOrder(t, typ, a, b)
		}
	}
}

func checkOrder(tb testing.TB, typ Type, a, b string) {
	tb.Helper()
	left, ok1 := meaning(typ, a)
	right, ok2 := meaning(typ, b)
	require.True(tb, ok1 && ok2, "%s: %s and %s convert", typ, a, b)
	ka, kb := key(tb, typ, a), key(tb, typ, b)
	sameKind := fmt.Sprintf("%T", left) == fmt.Sprintf("%T", right)
	if sameKind {
		require.Equal(tb, compareMeanings(tb, left, right), bytes.Compare(ka, kb), "%s: %s against %s", typ, a, b)
	} else {
		require.NotEqual(tb, ka, kb, "%s: %s against %s", typ, a, b)
	}
	if !bytes.Equal(ka, kb) {
		require.False(tb, bytes.HasPrefix(ka, kb) || bytes.HasPrefix(kb, ka), "%s: %s against %s", typ, a, b)
	}
}

// TestTupleOrder: concatenated codes sort as the tuples do, column by column.
func TestTupleOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 20_000 {
		types := make([]Type, 1+r.IntN(4))
		var a, b []byte
		want := 0
		for i := range types {
			types[i] = allTypes[1+r.IntN(len(allTypes)-1)]
			va, vb := randomValue(r, types[i]), randomValue(r, types[i])
			if r.IntN(2) == 0 {
				vb = va
			}
			left, _ := meaning(types[i], va)
			right, _ := meaning(types[i], vb)
			if want == 0 {
				want = compareMeanings(t, left, right)
			}
			a, b = append(a, key(t, types[i], va)...), append(b, key(t, types[i], vb)...)
		}
		require.Equal(t, want, bytes.Compare(a, b), "%v", types)
	}
}

// TestOrderInTables: the values of each line ascend.
func TestOrderInTables(t *testing.T) {
	huge := strings.Repeat("x", 1<<20)
	for _, c := range []struct {
		t      Type
		values []string
	}{
		{String, []string{`""`, `"\u0000"`, `"\u0000\u0000"`, `"\u0000\u0001"`, `"\u0000a"`, `"\u0001"`, `"a"`, `"a\u0000"`, `"a\u0001"`, `"aa"`, `"ab"`, `"b"`, quoted(huge), quoted(huge + "\x00"), quoted(huge + "x"), `"é"`, `"\ud7ff"`, `"\ud800"`, `"\udfff"`, `"\ue000"`, `"\uffff"`, `"😀"`}},
		{Int, []string{`-9223372036854775808`, `-9223372036854775807`, `-256`, `-2`, `-1`, `0`, `1`, `2`, `10`, `255`, `256`, `9223372036854775806`, `9223372036854775807`}},
		{Int32, []string{`-2147483648`, `-1`, `0`, `1`, `2`, `10`, `2147483647`}},
		{Decimal, []string{`-1e10000`, `-1e400`, `-10`, `-9.99`, `-2`, `-1.01`, `-1`, `-0.5`, `-1e-10000`, `0`, `1e-10000`, `1e-101`, `1e-100`, `0.05`, `0.5`, `1`, `1.0000000000000000000001`, `1.01`, `1.1`, `1.11`, `2`, `9.99`, `10`, `1e99`, `1e100`, `1e101`, `1e255`, `1e256`, `1e400`, `1e10000`}},
		{Double, []string{`-1.7976931348623157e308`, `-2`, `-1`, `-5e-324`, `0`, `5e-324`, `0.1`, `1`, `2`, `10`, `1.7976931348623157e308`}},
		{Bool, []string{`false`, `true`}},
		{Date, []string{`"0000-01-01"`, `"0999-12-31"`, `"1969-12-31"`, `"1970-01-01"`, `"2025-01-31"`, `"2025-02-01"`, `"9999-12-31"`}},
		{Timestamp, []string{`-9223372036854775808`, `"0000-01-01T00:00:00+23:59"`, `"0000-01-01T00:00:00Z"`, `-1`, `0`, `"1970-01-01T00:00:00.000000001Z"`, `1`, `"2016-12-31T23:59:59.999Z"`, `"2016-12-31T23:59:60Z"`, `"2016-12-31T23:59:60.5Z"`, `"2017-01-01T00:00:00Z"`, `"9999-12-31T23:59:59-23:59"`, `9223372036854775807`}},
		{Bytes, []string{`""`, `"AA=="`, `"AAA="`, `"AAE="`, `"AQ=="`, `"/w=="`, `"//8="`}},
	} {
		for i := 1; i < len(c.values); i++ {
			a, b := key(t, c.t, c.values[i-1]), key(t, c.t, c.values[i])
			assert.Negative(t, bytes.Compare(a, b), "%s: %.60s before %.60s", c.t, c.values[i-1], c.values[i])
			assert.False(t, bytes.HasPrefix(b, a), "%s: %.60s is no prefix of %.60s", c.t, c.values[i-1], c.values[i])
		}
	}
}

// TestTuplesKeepTheirBorders: what one column has can't run into the next, and a column's code is a prefix of its own tuples only.
func TestTuplesKeepTheirBorders(t *testing.T) {
	pair := func(a, b string) []byte { return slices.Concat(key(t, String, a), key(t, String, b)) }
	assert.NotEqual(t, pair(`"a"`, `"bc"`), pair(`"ab"`, `"c"`))
	assert.NotEqual(t, pair(`""`, `"a"`), pair(`"a"`, `""`))
	assert.NotEqual(t, pair(`"\u0000"`, `""`), pair(`""`, `"\u0000"`))
	assert.True(t, bytes.HasPrefix(pair(`"a"`, `"bc"`), key(t, String, `"a"`)))
	assert.False(t, bytes.HasPrefix(pair(`"ab"`, `"c"`), key(t, String, `"a"`)))
	assert.False(t, bytes.HasPrefix(pair(`"a\u0000"`, `"c"`), key(t, String, `"a"`)))
	assert.False(t, bytes.HasPrefix(pair(`"a\u0001"`, `"c"`), key(t, String, `"a"`)))
}
