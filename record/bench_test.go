package record

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// benchFact is an order of 300 bytes.
const benchFact = `{"o_orderkey":4611686,"o_custkey":370177,"o_orderstatus":"O","o_totalprice":172799.49,"o_orderdate":"1996-01-02",` +
	`"o_orderpriority":"5-LOW","o_clerk":"Clerk#000000951","o_shippriority":0,"o_dt":"2025",` +
	`"o_comment":"nstructions sleep furiously among the carefully final requests; blithely even package"}`

const benchMembers = `"customer_name":"Customer#000370177","customer_address":"IVhzIApeRb ot,c,E","customer_phone":"25-989-741-2988"`

func benchShape(tb testing.TB) *Shape {
	tb.Helper()
	var paths []Path
	for _, s := range []string{"o_custkey", "o_dt"} {
		p, err := ParsePath(s)
		require.NoError(tb, err)
		paths = append(paths, p)
	}
	return Compile(paths, []string{"customer_name", "customer_address", "customer_phone"})
}

// BenchmarkFact compares one strict scan with splice to encoding/json.Valid on the same bytes: what counts is the ratio of the two.
func BenchmarkFact(b *testing.B) {
	fact := []byte(benchFact)
	require.Len(b, fact, 300)
	b.Run("scan+splice", func(b *testing.B) {
		var d Doc
		shape, members := benchShape(b), []byte(benchMembers)
		dst := make([]byte, 0, 1024)
		b.SetBytes(int64(len(fact)))
		b.ReportAllocs()
		for b.Loop() {
			if err := shape.Scan(&d, fact); err != nil {
				b.Fatal(err)
			}
			dst = d.AppendSpliced(dst[:0], members, nil)
		}
	})
	b.Run("scan+splice+keys", func(b *testing.B) {
		var d Doc
		shape, members := benchShape(b), []byte(benchMembers)
		dst, key := make([]byte, 0, 1024), make([]byte, 0, 64)
		b.SetBytes(int64(len(fact)))
		b.ReportAllocs()
		for b.Loop() {
			if err := shape.Scan(&d, fact); err != nil {
				b.Fatal(err)
			}
			var err1, err2 error
			key, err1 = AppendKey(key[:0], Int, d.Value(0))
			key, err2 = AppendKey(key, String, d.Value(1))
			if err1 != nil || err2 != nil {
				b.Fatal(err1, err2)
			}
			dst = d.AppendSpliced(dst[:0], members, nil)
		}
	})
	b.Run("Valid", func(b *testing.B) {
		b.SetBytes(int64(len(fact)))
		b.ReportAllocs()
		for b.Loop() {
			if Valid(fact) != nil {
				b.Fatal("not valid")
			}
		}
	})
	b.Run("encoding/json.Valid", func(b *testing.B) {
		b.SetBytes(int64(len(fact)))
		b.ReportAllocs()
		for b.Loop() {
			if !json.Valid(fact) {
				b.Fatal("not valid")
			}
		}
	})
}

// BenchmarkScan looks at records of other kinds.
func BenchmarkScan(b *testing.B) {
	for name, src := range map[string]string{
		"nested":  `{"o_custkey":1,"items":[` + strings.Repeat(`{"sku":"a-1","qty":2,"tags":["x","y"]},`, 9) + `{}],"o_dt":"2025"}`,
		"chinese": `{"o_custkey":1,"o_dt":"2025","o_comment":"` + strings.Repeat("订单备注", 20) + `"}`,
		"escapes": `{"o_custkey":1,"o_dt":"2025","o_comment":"` + strings.Repeat(`a\nb\"c\u00e9`, 20) + `"}`,
		"pretty":  strings.ReplaceAll(strings.ReplaceAll(benchFact, `:`, `: `), `,"`, ",\n    \""),
		"long":    `{"o_custkey":1,"o_dt":"2025","o_comment":"` + strings.Repeat("furiously even ", 1000) + `"}`,
	} {
		b.Run(name, func(b *testing.B) {
			var d Doc
			shape, src := benchShape(b), []byte(src)
			b.SetBytes(int64(len(src)))
			b.ReportAllocs()
			for b.Loop() {
				if err := shape.Scan(&d, src); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkAppendKey is one value per type.
func BenchmarkAppendKey(b *testing.B) {
	for _, c := range []struct {
		t   Type
		raw string
	}{
		{Any, `370177`},
		{String, `"Customer#000370177"`},
		{Int, `370177`},
		{Int, `"370177"`},
		{Decimal, `172799.49`},
		{Double, `172799.49`},
		{Date, `"1996-01-02"`},
		{Timestamp, `"1996-01-02T03:04:05.678+09:00"`},
		{Bytes, `"AAECAwQFBgcICQ=="`},
	} {
		b.Run(c.t.String()+"/"+c.raw, func(b *testing.B) {
			raw, dst := []byte(c.raw), make([]byte, 0, 128)
			b.ReportAllocs()
			for b.Loop() {
				var err error
				if dst, err = AppendKey(dst[:0], c.t, raw); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkRow reads every column of a row.
func BenchmarkRow(b *testing.B) {
	columns := [][]byte{[]byte(`370177`), []byte(`"Customer#000370177"`), nil, []byte(`"25-989-741-2988"`)}
	row := Row(AppendRow(nil, columns))
	b.ReportAllocs()
	for b.Loop() {
		for i := range columns {
			if len(row.Column(i)) != len(columns[i]) {
				b.Fatal("another column")
			}
		}
	}
}
