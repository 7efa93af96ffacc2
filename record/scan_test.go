package record

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func path(tb testing.TB, s string) Path {
	tb.Helper()
	p, err := ParsePath(s)
	require.NoError(tb, err)
	return p
}

func shape(tb testing.TB, paths ...string) *Shape {
	tb.Helper()
	var parsed []Path
	for _, s := range paths {
		parsed = append(parsed, path(tb, s))
	}
	return Compile(parsed, nil)
}

func TestScanValues(t *testing.T) {
	const absent = "<absent>"
	for _, c := range []struct {
		name, src string
		want      map[string]string
	}{
		{"scalars as they are", `{"a":9007199254740993,"b":1.10,"c":1e400,"d":-0,"e":"<&>\u00e9","f":null,"g":true,"h":false,"i":""}`, map[string]string{
			"a": `9007199254740993`, "b": `1.10`, "c": `1e400`, "d": `-0`, "e": `"<&>\u00e9"`, "f": `null`, "g": `true`, "h": `false`, "i": `""`, "j": absent,
		}},
		{"white space", " {\t\"a\" : 1 ,\r\n\"b\":[ 1 , 2 ] , \"c\" : { \"d\" : 3 } } \n", map[string]string{
			"a": `1`, "b": `[ 1 , 2 ]`, "c": `{ "d" : 3 }`, "c.d": `3`, "/b/1": `2`,
		}},
		{"containers", `{"a":{},"b":[],"c":{"d":{"e":[{"f":1}]}}}`, map[string]string{
			"a": `{}`, "a.b": absent, "b": `[]`, "/b/0": absent, "c.d": `{"e":[{"f":1}]}`, "c.d.e": `[{"f":1}]`, "/c/d/e/0/f": `1`, "c.d.e.0.f": absent,
		}},
		{"empty", `{}`, map[string]string{"a": absent, "a.b": absent, "/": absent}},
		{"case matters", `{"CUST":1,"Cust":2}`, map[string]string{"cust": absent, "CUST": `1`, "Cust": `2`}},
		{"the last of repeated names", `{"a":1,"cust":1,"a":2,"cust":3}`, map[string]string{"a": `2`, "cust": `3`}},
		{"the last of repeated names is null", `{"a":1,"a":null}`, map[string]string{"a": `null`}},
		{"the last parent only", `{"a":{"b":1,"c":2},"a":{"b":3}}`, map[string]string{"a": `{"b":3}`, "a.b": `3`, "a.c": absent}},
		{"the last parent is no object", `{"a":{"b":{"c":1}},"a":7}`, map[string]string{"a": `7`, "a.b": absent, "a.b.c": absent}},
		{"the last parent is an array", `{"a":{"0":1},"a":[2]}`, map[string]string{"/a/0": `2`, "a.0": absent}},
		{"the last parent is an object", `{"a":[2],"a":{"0":1}}`, map[string]string{"/a/0": `1`, "a.0": `1`}},
		{"repeated in the middle", `{"a":{"b":{"c":1},"b":{"d":2}}}`, map[string]string{"a.b.c": absent, "a.b.d": `2`}},
		{"repeated inside an array", `{"a":[{"b":1,"b":2}]}`, map[string]string{"/a/0/b": `2`}},
		{"names with escapes", `{"\u0063ust":1,"a\/b":2,"\ud83d\ude00":3,"q\"":4,"\u006f":{"\u0078":5}}`, map[string]string{
			"cust": `1`, "/a~1b": `2`, "a/b": `2`, "😀": `3`, `q"`: `4`, "o.x": `5`,
		}},
		{"an escaped name repeats a plain one", `{"cust":1,"c\u0075st":2}`, map[string]string{"cust": `2`}},
		{"a lone surrogate is no replacement character", `{"\ud800":1}`, map[string]string{"\ufffd": absent}},
		{"pointers", `{"":1,"a.b":2,"~":3,"/":4,"m~n":{"":{"":5}},"01":6,"-":7,"a":[[8,9],{"1":10}]}`, map[string]string{
			"/": `1`, "/a.b": `2`, "/~0": `3`, "/~1": `4`, "/m~0n//": `5`, "/01": `6`, "/-": `7`, "/a/0/1": `9`, "/a/1/1": `10`, "/a/01": absent, "/a/-": absent, "/a/2": absent, "a.b": absent,
		}},
		{"a path and what is below it", `{"a":{"b":{"c":1}}}`, map[string]string{"a": `{"b":{"c":1}}`, "a.b": `{"c":1}`, "a.b.c": `1`, "a.b.c.d": absent}},
		{"names alike", `{"a_one_key":1,"a_two_key":2,"a_six_key":3,"k":4,"kk":5,"kkk":6,"` + strings.Repeat("k", 65) + `":7}`, map[string]string{
			"a_one_key": `1`, "a_two_key": `2`, "a_six_key": `3`, "a_ten_key": absent, "k": `4`, "kk": `5`, "kkk": `6`, strings.Repeat("k", 65): `7`,
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var names []string
			for name := range c.want {
				names = append(names, name)
			}
			var d Doc
			require.NoError(t, shape(t, names...).Scan(&d, []byte(c.src)))
			for i, name := range names {
				got := absent
				if v := d.Value(i); v != nil {
					got = string(v)
				}
				assert.Equal(t, c.want[name], got, "%s, with others", name)
				require.NoError(t, shape(t, name).Scan(&d, []byte(c.src)))
				if got = absent; d.Value(0) != nil {
					got = string(d.Value(0))
				}
				assert.Equal(t, c.want[name], got, "%s alone", name)
				require.NoError(t, shape(t, names...).Scan(&d, []byte(c.src)))
			}
		})
	}
}

// TestScanForgets: what one record had is not there in the next, whether that is shorter, wrong, or of another shape.
func TestScanForgets(t *testing.T) {
	var d Doc
	s := Compile([]Path{path(t, "a.b"), path(t, "a.b"), {}}, []string{"a", "a", "c"})
	require.NoError(t, s.Scan(&d, []byte(`{"a":{"b":1},"a":{"b":2}}`)))
	assert.Equal(t, "2", string(d.Value(0)))
	assert.Equal(t, "2", string(d.Value(1)), "the same path twice")
	assert.Nil(t, d.Value(2), "the zero path leads nowhere")
	assert.Equal(t, []Span{{5, 12}, {17, 24}}, d.Occurrences(0))
	assert.Equal(t, []Span{{5, 12}, {17, 24}}, d.Occurrences(1), "the same field twice")
	assert.Empty(t, d.Occurrences(2))
	assert.Equal(t, 2, d.Members())

	require.NoError(t, s.Scan(&d, []byte(`{}`)))
	assert.Nil(t, d.Value(0))
	assert.Empty(t, d.Occurrences(0))
	assert.Zero(t, d.Members())

	require.Error(t, s.Scan(&d, []byte(`{"a":{"b":1}`)))
	assert.Nil(t, d.Value(0))
	assert.Empty(t, d.Occurrences(0))
	assert.Zero(t, d.Members())

	other := shape(t, "x", "y", "z")
	require.NoError(t, other.Scan(&d, []byte(`{"z":1}`)))
	assert.Nil(t, d.Value(0))
	assert.Equal(t, "1", string(d.Value(2)))
}

// TestScanErrors lists what is no record, and where that shows.
func TestScanErrors(t *testing.T) {
	for _, c := range []struct {
		src     string
		offset  int
		message fault
	}{
		{"", 0, faultEmpty},
		{" \n", 2, faultEmpty},
		{"{", 1, faultEnd},
		{"\xff", 0, faultNotObject},
		{`{"cust":1} x`, 11, faultTrailing},
		{`{}{}`, 2, faultTrailing},
		{`[1]`, 0, faultNotObject},
		{`"s"`, 0, faultNotObject},
		{`1`, 0, faultNotObject},
		{`null`, 0, faultNotObject},
		{"\ufeff{}", 0, faultNotObject},
		{"\x00", 0, faultNotObject},
		{`{"a"}`, 4, faultColon},
		{`{"a" 1}`, 5, faultColon},
		{`{"a":}`, 5, faultValue},
		{`{"a":1,}`, 7, faultName},
		{`{,}`, 1, faultName},
		{`{a:1}`, 1, faultName},
		{`{'a':1}`, 1, faultName},
		{`{"a":1 "b":2}`, 7, faultObjectNext},
		{`{"a":[1 2]}`, 8, faultArrayNext},
		{`{"a":[1,]}`, 8, faultValue},
		{`{"a":[1}`, 7, faultArrayNext},
		{`{"a":{"b":1]}`, 11, faultObjectNext},
		{`{"a":{"b"}}`, 9, faultColon},
		{`{"a":{1:2}}`, 6, faultName},
		{`{"a":[{"b":1,}]}`, 13, faultName},
		{`{"a":1]`, 6, faultObjectNext},
		{`{"a":[`, 6, faultEnd},
		{`{"a":{`, 6, faultEnd},
		{`{"a":01}`, 6, faultObjectNext},
		{`{"a":+1}`, 5, faultValue},
		{`{"a":.5}`, 5, faultValue},
		{`{"a":1.}`, 7, faultNumber},
		{`{"a":-}`, 6, faultNumber},
		{`{"a":1e}`, 7, faultNumber},
		{`{"a":1e+}`, 8, faultNumber},
		{`{"a":-01}`, 7, faultObjectNext},
		{`{"a":0x1}`, 6, faultObjectNext},
		{`{"a":1_0}`, 6, faultObjectNext},
		{`{"a":NaN}`, 5, faultValue},
		{`{"a":Infinity}`, 5, faultValue},
		{`{"a":-Infinity}`, 6, faultNumber},
		{`{"a":tru}`, 8, faultValue},
		{`{"a":True}`, 5, faultValue},
		{`{"a":nul`, 8, faultEnd},
		{`{"a":truex}`, 9, faultObjectNext},
		{`{"a":undefined}`, 5, faultValue},
		{"{\"a\":\"x\ty\"}", 7, faultControl},
		{"{\"a\":\"\x00\"}", 6, faultControl},
		{"{\"a\":\"\x1f\"}", 6, faultControl},
		{"{\"a\n\":1}", 3, faultControl},
		{"{\"a\":\"0123456789\x01\"}", 16, faultControl},
		{`{"a":"\x"}`, 7, faultEscape},
		{`{"a":"\u12"}`, 10, faultEscape},
		{`{"a":"\u12g4"}`, 10, faultEscape},
		{`{"a":"\U0041"}`, 7, faultEscape},
		{`{"a":"\'"}`, 7, faultEscape},
		{`{"a":"\`, 7, faultEnd},
		{`{"a":"\u00`, 10, faultEnd},
		{`{"a":"x`, 7, faultEnd},
		{"{\"a\":1}\x00", 7, faultTrailing},
		{"{\"a\":1}\v", 7, faultTrailing},
		{"{\f}", 1, faultName},
		{"{\"a\":\u00a01}", 5, faultValue},
		{`{"a":1}//`, 7, faultTrailing},
		{`{/**/}`, 1, faultName},
		{"{\"\xff\":1}", 2, faultUTF8},
		{"{\"a\":{\"\xff\":1}}", 7, faultUTF8},
	} {
		var d Doc
		for _, s := range []*Shape{Compile(nil, nil), shape(t, "a"), shape(t, "a.b"), shape(t, "/a/0")} {
			err := s.Scan(&d, []byte(c.src))
			var syntax *SyntaxError
			require.ErrorAs(t, err, &syntax, "%q", c.src)
			assert.Equal(t, SyntaxError{Offset: c.offset, Message: faultMessages[c.message]}, *syntax, "%q", c.src)
		}
	}
	err := (&SyntaxError{Offset: 3, Message: "no value begins here"}).Error()
	assert.Equal(t, "invalid JSON at byte 3: no value begins here", err)
}

// TestScanUTF8 tries every one, two and three bytes and the borders of four in a value and in a name, at each place of a word.
func TestScanUTF8(t *testing.T) {
	s := shape(t, "a")
	var d Doc
	check := func(text string) {
		t.Helper()
		for _, src := range []string{`{"a":"` + text + `"}`, `{"` + text + `":0,"padding":"padding"}`} {
			if got := s.Scan(&d, []byte(src)) == nil; got != utf8.ValidString(text) {
				t.Fatalf("%q passes: %v", src, got)
			}
		}
	}
	leads := []byte{0x7f, 0x80, 0xbf, 0xc0, 0xc1, 0xc2, 0xdf, 0xe0, 0xe1, 0xec, 0xed, 0xee, 0xef, 0xf0, 0xf1, 0xf3, 0xf4, 0xf5, 0xf8, 0xff}
	edges := []byte{'x', 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xff}
	for pad := range 9 {
		before := strings.Repeat("p", pad)
		for _, a := range leads {
			check(before + string([]byte{a}))
			for _, b := range edges {
				check(before + string([]byte{a, b}))
				for _, c := range edges {
					check(before + string([]byte{a, b, c}))
					for _, e := range edges {
						check(before + string([]byte{a, b, c, e}))
						check(before + string([]byte{a, b, c, e}) + "end of more than a word")
					}
				}
			}
		}
	}
	for r := rune(0x80); r <= utf8.MaxRune; r++ {
		if utf8.ValidRune(r) && !utf8.ValidString(string(r)) || s.Scan(&d, []byte(`{"a":"`+string(r)+`"}`)) != nil {
			t.Fatalf("%U does not pass", r)
		}
	}
}

// TestScanEveryByte puts each ASCII byte at each place of a string around a word, and compares with encoding/json.
func TestScanEveryByte(t *testing.T) {
	for size := range 20 {
		for at := range size {
			for c := range 0x80 {
				text := []byte(`"` + strings.Repeat("x", size) + `"`)
				text[1+at] = byte(c)
				require.Equal(t, json.Valid(text), Valid(text) == nil, "%q", text)
			}
		}
	}
}

func TestScanSurrogates(t *testing.T) {
	var d Doc
	s := shape(t, "a")
	for _, text := range []string{`"\ud800"`, `"\udfff"`, `"\ud800\ud800"`, `"\udc00\ud800"`, `"\ud800x\udc00"`, `"\uD83D\uDE00"`} {
		require.NoError(t, s.Scan(&d, []byte(`{"a":`+text+`}`)))
		assert.Equal(t, text, string(d.Value(0)))
	}
	for _, raw := range []string{"\xed\xa0\x80", "\xed\xbf\xbf", "\xed\xa0\xbd\xed\xb8\x80"} {
		require.Error(t, s.Scan(&d, []byte(`{"a":"`+raw+`"}`)), "surrogates in UTF-8 are not UTF-8")
	}
}

// TestScanNesting: 10,000 levels pass, the record's own among them, and 10,001 don't, whatever is looked for; nothing recurses over them.
func TestScanNesting(t *testing.T) {
	arrays := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	objects := func(n int) string { return strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n) }
	mixed := func(n int) string { return strings.Repeat(`[{"a":`, n/2) + "1" + strings.Repeat("}]", n/2) }
	deep := "a" + strings.Repeat(".a", 9_999)
	for _, s := range []*Shape{Compile(nil, nil), shape(t, "a"), shape(t, "a.a.a"), shape(t, deep), shape(t, deep+".a"), shape(t, "/a"+strings.Repeat("/0", 9_999))} {
		var d Doc
		require.NoError(t, s.Scan(&d, []byte(`{"a":`+arrays(9_999)+`}`)))
		require.Error(t, s.Scan(&d, []byte(`{"a":`+arrays(10_000)+`}`)))
		require.NoError(t, s.Scan(&d, []byte(objects(10_000))))
		require.Error(t, s.Scan(&d, []byte(objects(10_001))))
		require.Error(t, s.Scan(&d, []byte(`{"a":`+arrays(20_000)+`}`)))
		require.Error(t, s.Scan(&d, []byte(`{"a":`+strings.Repeat("[", 10_000_000)+`}`)))
	}
	var d Doc
	require.NoError(t, shape(t, deep).Scan(&d, []byte(objects(10_000))))
	for _, text := range []string{arrays(10_000), objects(10_000), mixed(10_000), `[` + arrays(9_999) + `,` + mixed(9_998) + `]`} {
		require.NoError(t, Valid([]byte(text)))
		require.True(t, json.Valid([]byte(text)))
	}
	for _, text := range []string{arrays(10_001), objects(10_001), mixed(10_002), `[` + arrays(9_999) + `,` + arrays(10_000) + `]`} {
		require.Error(t, Valid([]byte(text)))
		require.False(t, json.Valid([]byte(text)))
	}
	// The kinds of open containers are remembered at every level.
	require.Error(t, Valid([]byte(strings.Repeat(`[{"a":`, 100)+"1"+strings.Repeat("}]", 99)+"]]")))
}

func TestAppendQuoted(t *testing.T) {
	assert.Equal(t, `x"a\"\\\b\f\n\r\t\u0000\u001f/<>&é`+"\u2028\x7f😀�"+`"`, string(AppendQuoted([]byte("x"), "a\"\\\b\f\n\r\t\x00\x1f/<>&é\u2028\x7f😀\xff")))
}
