package record

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRow(t *testing.T) {
	many := make([][]byte, 300)
	for i := range many {
		if i%3 != 0 {
			many[i] = fmt.Append(nil, i)
		}
	}
	for name, columns := range map[string][][]byte{
		"none":        {},
		"one":         {[]byte(`1`)},
		"absent":      {nil, []byte(`"a"`), nil, nil, []byte(`null`), nil},
		"all absent":  {nil, nil},
		"255 bytes":   {[]byte(strings.Repeat("x", 250)), nil, []byte("12345")},
		"256 bytes":   {[]byte(strings.Repeat("x", 250)), nil, []byte("123456")},
		"65535 bytes": {[]byte(strings.Repeat("x", 65_530)), []byte("12345")},
		"65536 bytes": {[]byte(strings.Repeat("x", 65_530)), []byte("123456"), nil},
		"a mebibyte":  {nil, []byte(strings.Repeat("x", 1<<20)), []byte("1")},
		"many":        many,
	} {
		t.Run(name, func(t *testing.T) {
			row := Row(AppendRow([]byte("kept"), columns)[len("kept"):])
			require.NoError(t, row.Check(len(columns)))
			require.Error(t, row.Check(len(columns)+1))
			for i, want := range columns {
				assert.Equal(t, want, row.Column(i), i)
			}
			assert.Nil(t, row.Column(-1))
			assert.Nil(t, row.Column(len(columns)))
			all := row.Columns([][]byte{[]byte("kept")})
			assert.Equal(t, "kept", string(all[0]))
			require.Len(t, all, 1+len(columns))
			for i, want := range columns {
				assert.Equal(t, want, all[1+i], i)
			}
		})
	}
	assert.Nil(t, Row(nil).Column(0))
	assert.Empty(t, Row(nil).Columns(nil))
}

// TestRowColumnsAreClosed: to append to a column never writes into the next.
func TestRowColumnsAreClosed(t *testing.T) {
	row := Row(AppendRow(nil, [][]byte{[]byte("1"), []byte("2")}))
	_ = append(row.Column(0), 'x')
	_ = append(row.Columns(nil)[0], 'x')
	assert.Equal(t, "2", string(row.Column(1)))
}

func TestRowAllocations(t *testing.T) {
	columns := [][]byte{[]byte("1"), nil, []byte(`"abc"`)}
	dst, all := make([]byte, 0, 64), make([][]byte, 0, 4)
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		dst = AppendRow(dst[:0], columns)
		all = Row(dst).Columns(all[:0])
		_ = Row(dst).Column(2)
	}))
}

// TestRowCheck: no row cut short, lengthened or changed in its table passes as one and then fails when it is read.
func TestRowCheck(t *testing.T) {
	row := AppendRow(nil, [][]byte{[]byte("1"), nil, []byte(`"abc"`)})
	for n := range row {
		require.Error(t, Row(row[:n]).Check(3), "%d bytes", n)
	}
	require.Error(t, Row(append(row, 'x')).Check(3))
	for i := range 5 {
		for c := range 256 {
			changed := Row(append([]byte(nil), row...))
			changed[i] = byte(c)
			if changed.Check(3) == nil {
				require.Len(t, changed.Columns(nil), 3)
				_ = changed.Column(2)
			}
		}
	}
	require.Error(t, Row("\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01").Check(3))
}
