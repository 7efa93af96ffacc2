package changelog

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"enricher/record"
)

func newSchema(tb testing.TB, columns, primaryKey, partitionBy string) *record.Schema {
	tb.Helper()
	var declared []record.Column
	for f := range strings.FieldsSeq(columns) {
		name, typ, _ := strings.Cut(f, ":")
		ty, err := record.ParseType(typ)
		require.NoError(tb, err)
		declared = append(declared, record.Column{Name: name, Type: ty})
	}
	s, err := record.NewSchema(declared, nil, strings.Fields(primaryKey), strings.Fields(partitionBy))
	require.NoError(tb, err)
	return s
}

// plain is a topic whose name says nothing.
var plain = &origin{topic: topic}

// changesOf decodes one record and shows its changes: `+ partition | key | row` or `- partition | key`.
func changesOf(t *testing.T, s *record.Schema, format, key, value string) string {
	t.Helper()
	rec := records(0, key, value)[0]
	rec.Offset, rec.Timestamp = 7, time.UnixMilli(1234)
	b := newBatch()
	if err := newDecoder(s, format, -1, nil).decode(b, rec, plain); err != nil {
		assert.Empty(t, b.changes)
		assert.Empty(t, b.arena)
		return err.Error()
	}
	var out []string
	for _, c := range b.changes {
		assert.EqualValues(t, 7, c.Offset)
		assert.EqualValues(t, 1234, c.Timestamp)
		assert.Equal(t, topic, c.Bucket.Topic)
		line := fmt.Sprintf("- %s | %s", tuple(t, s, s.PartitionBy, c.Partition), tuple(t, s, s.Key, c.Key))
		if !c.Delete {
			columns := c.Row.Columns(nil)
			for i, col := range columns {
				if col == nil {
					columns[i] = []byte("_")
				}
			}
			line = "+" + line[1:] + " | " + string(bytes.Join(columns, []byte(" ")))
		}
		out = append(out, line)
	}
	return strings.Join(out, "; ")
}

func tuple(t *testing.T, s *record.Schema, columns []int, code []byte) string {
	t.Helper()
	var out []string
	for _, i := range columns {
		var json []byte
		var err error
		json, code, err = record.DecodeKey(nil, s.Columns[i].Type, code)
		require.NoError(t, err)
		out = append(out, string(json))
	}
	assert.Empty(t, code)
	return strings.Join(out, ",")
}

func TestDecode(t *testing.T) {
	type row struct{ key, value, want string }
	for _, c := range []struct {
		name, columns, primaryKey, partitionBy, format string
		rows                                           []row
	}{
		{"one int key", "id:int name:string n:int32", "id", "", keyAuto, []row{
			{"-", `{"id":1,"name":"A","n":2}`, `+  | 1 | 1 "A" 2`},
			{"-", `{"name":"A","other":[1],"id":"1"}`, `+  | 1 | "1" "A" _`},
			{"-", ` {"id":4.2e1,"name":null,"n":null} `, `+  | 42 | 4.2e1 null null`},
			{"-", `{"id":1,"id":2,"name":1.0e0,"name":"last"}`, `+  | 2 | 2 "last" _`},
			{"-", `{"id":1,"name":7}`, `+  | 1 | 1 7 _`},
			{"9", `{"id":1}`, `+  | 1 | 1 _ _`},
			{"9", `{"name":"A"}`, `+  | 9 | 9 "A" _`},
			{`"9"`, `{"name":"A"}`, `+  | 9 | "9" "A" _`},
			{`{"id":9,"x":1}`, `{"name":"A"}`, `+  | 9 | 9 "A" _`},

			{"42", "-", `-  | 42`},
			{`"42"`, "-", `-  | 42`},
			{`{"id":42}`, "-", `-  | 42`},
			{` {"id":"42"} `, "-", `-  | 42`},

			{"-", "", "decode: the value is not a JSON object"},
			{"-", "{", "decode: the value is not a JSON object"},
			{"-", `[1]`, "decode: the value is not a JSON object"},
			{"-", `{"id":1} x`, "decode: the value is not a JSON object"},
			{"-", "{\"id\":1,\"name\":\"\xff\"}", "decode: the value is not a JSON object"},
			{"-", `{"id":1,"n":"x"}`, `decode: column "n" is declared int32 and holds "x"`},
			{"-", `{"id":1,"n":2147483648}`, `decode: column "n" is declared int32 and holds 2147483648`},
			{"-", `{"id":1,"n":7.5}`, `decode: column "n" is declared int32 and holds 7.5`},
			{"-", `{"id":1,"name":true}`, `decode: column "name" is declared string and holds true`},
			{"-", `{"id":1,"name":{"a":1}}`, `decode: column "name" is declared string and holds {"a":1}`},
			{"-", `{"id":"x"}`, `key: the key column "id" is declared int and holds "x"`},
			{"-", `{"id":null}`, `key: the key column "id" is null`},
			{"1", `{"id":null}`, `key: the key column "id" is null`},
			{"-", `{"name":"A"}`, `key: the value lacks the key column "id" and the record key is null`},
			{"x", `{"name":"A"}`, `key: the key column "id" is declared int and holds "x"`},
			{"", `{"name":"A"}`, `key: the key column "id" is declared int and holds ""`},
			{`{"x":1}`, `{"name":"A"}`, `key: neither the value nor the record key {"x":1} has the key column "id"`},
			{"-", "-", `key: the value is null (a delete) and the record key is null: no row is named`},
			{"x", "-", `key: the key column "id" is declared int and the record key is x`},
			{"", "-", `key: the key column "id" is declared int and the record key is `},
			{`{"x":1}`, "-", `key: the value is null (a delete) and the record key {"x":1} lacks the key column "id"`},
			{`{"id":null}`, "-", `key: the key column "id" is null`},
			{"007", "-", `key: the key column "id" is declared int and the record key is 007`},
		}},
		{"one undeclared key", "name:string", "id", "", keyAuto, []row{
			{"42", "-", `-  | "42"; -  | 42`},
			{`"42"`, "-", `-  | "\"42\""; -  | "42"; -  | 42`},
			{`{"id":42}`, "-", `-  | 42`},
			{`{"id":"42"}`, "-", `-  | "42"`},
			{"true", "-", `-  | "true"; -  | true`},
			{"abc", "-", `-  | "abc"`},
			{"", "-", `-  | ""`},
			{"null", "-", `-  | "null"`},
			{" 42", "-", `-  | " 42"`},
			{"007", "-", `-  | "007"`},
			{"{not json", "-", `-  | "{not json"`},
			{"42", `{"name":"A"}`, `+  | 42 | "A" 42; +  | "42" | "A" "42"`},
			{`"42"`, `{"name":"A"}`, `+  | "42" | "A" "42"`},
			{"abc", `{"name":"A"}`, `+  | "abc" | "A" "abc"`},
			{"42", `{"name":"A","id":42}`, `+  | 42 | "A" 42`},
			{"-", `{"id":[1]}`, `key: the key column "id" holds [1], which can't be a key`},
			{"\xff", `{"name":"A"}`, `key: the value lacks the key column "id" and the record key is not valid UTF-8`},
		}},
		{"one string key", "id:string", "id", "", keyAuto, []row{
			{"42", "-", `-  | "42"`},
			{`"42"`, "-", `-  | "\"42\""; -  | "42"`},
			{`"a`, "-", `-  | "\"a"`},
			{"a\"b", `{}`, `+  | "a\"b" | "a\"b"`},
			{`"a"`, `{}`, `+  | "a" | "a"`},
			{"42", `{}`, `+  | "42" | "42"`},
		}},
		{"key_format string", "name:string", "id", "", keyString, []row{
			{`{"id":42}`, "-", `-  | "{\"id\":42}"`},
			{`"42"`, "-", `-  | "\"42\""`},
			{"42", "-", `-  | "42"; -  | 42`},
			{`"a"`, `{"name":"A"}`, `+  | "\"a\"" | "A" "\"a\""`},
		}},
		{"key_format json", "name:string", "id", "", keyJSON, []row{
			{"42", "-", `-  | 42`},
			{` "42" `, "-", `-  | "42"`},
			{`{"id":42}`, "-", `-  | 42`},
			{"abc", "-", `key: the record key abc is not JSON`},
			{"null", "-", `key: the key column "id" is null`},
			{"42", `{"name":"A"}`, `+  | 42 | "A" 42`},
			{"abc", `{"name":"A"}`, `key: the value lacks the key column "id" and the record key abc is not JSON`},
		}},
		{"bool, timestamp", "id:timestamp b:bool", "id", "", keyAuto, []row{
			{"1700000000000", `{"b":"true"}`, `+  | "2023-11-14T22:13:20Z" | 1700000000000 "true"`},
			{"1700000000000", "-", `-  | "2023-11-14T22:13:20Z"`},
			{"2023-11-14T22:13:20Z", "-", `-  | "2023-11-14T22:13:20Z"`},
		}},
		{"two columns", "region:string id:string", "region id", "", keyAuto, []row{
			{"-", `{"region":"a","id":"bc"}`, `+  | "a","bc" | "a" "bc"`},
			{`{"region":"a"}`, `{"id":"b"}`, `+  | "a","b" | "a" "b"`},
			{`{"id":"b","region":"a"}`, "-", `-  | "a","b"`},
			{"a", "-", `key: the value is null (a delete) and the record key a is not a JSON object with the 2 key columns`},
			{"a", `{"id":"b"}`, `key: the value lacks the key column "region" and the record key a is not a JSON object`},
		}},
		{"partitioned", "id:int dt:string v:string", "id dt", "dt", keyAuto, []row{
			{"-", `{"id":1,"dt":"2025","v":"x"}`, `+ "2025" | 1 | 1 "2025" "x"`},
			{`{"id":1,"dt":"2025"}`, "-", `- "2025" | 1`},
		}},
		{"nothing but a partition", "dt:string", "dt", "dt", keyAuto, []row{
			{"-", `{"dt":"2025"}`, `+ "2025" |  | "2025"`},
			{"2025", "-", `- "2025" | `},
		}},
		{"names with dots and slashes", "a.b:int", "a.b /c", "", keyAuto, []row{
			{"-", `{"a.b":1,"/c":2,"a":{"b":3}}`, `+  | 1,2 | 1 2`},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSchema(t, c.columns, c.primaryKey, c.partitionBy)
			for _, r := range c.rows {
				got := changesOf(t, s, c.format, r.key, r.value)
				if strings.HasPrefix(r.want, "decode: the value") || strings.HasSuffix(r.want, "is not JSON") {
					assert.True(t, strings.HasPrefix(got, r.want), "%s %s: %s", r.key, r.value, got)
				} else {
					assert.Equal(t, r.want, got, "%s %s", r.key, r.value)
				}
			}
		})
	}
}

func TestDecodeLeavesEarlierChangesAlone(t *testing.T) {
	s := newSchema(t, "id:int name:string", "id", "")
	d, b := newDecoder(s, keyAuto, -1, nil), newBatch()
	big := strings.Repeat("x", 1<<20)
	for i, value := range []string{`{"id":1,"name":"first"}`, `{"id":2,"name":"` + big + `"}`, `{"id":3,"name":true}`, `{"id":4,"name":"last"}`} {
		rec := records(0, "-", value)[0]
		rec.Offset = int64(i)
		if err := d.decode(b, rec, plain); err != nil {
			require.Equal(t, 2, i)
		}
		clear(rec.Value) // the batch keeps nothing of the record
	}
	require.Len(t, b.changes, 3)
	for i, want := range []string{`"first"`, `"` + big + `"`, `"last"`} {
		assert.Equal(t, want, string(b.changes[i].Row.Column(1)))
	}
	b.reset()
	assert.True(t, b.empty())
}

func TestDecodeDoesNotAllocate(t *testing.T) {
	s := newSchema(t, "id:int name:string segment:string balance:decimal", "id", "")
	for name, rec := range map[string]*kgo.Record{
		"upsert":                 records(0, "1", `{"id":1,"name":"Customer#1","segment":"BUILDING","balance":711.56}`)[0],
		"upsert by a bare key":   records(0, "1", `{"name":"Customer#1","segment":"BUILDING","balance":711.56}`)[0],
		"upsert by a key object": records(0, `{"id":1}`, `{"name":"Customer#1","segment":"BUILDING","balance":711.56}`)[0],
		"tombstone":              records(0, "1", "-")[0],
		"quoted tombstone":       records(0, `"1"`, "-")[0],
	} {
		t.Run(name, func(t *testing.T) {
			d, b := newDecoder(s, keyAuto, -1, nil), newBatch()
			n := testing.AllocsPerRun(100, func() {
				b.reset()
				for range 10 {
					if err := d.decode(b, rec, plain); err != nil {
						t.Fatal(err)
					}
				}
			})
			assert.Zero(t, n)
		})
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte("1"), []byte(`{"id":1,"name":"A"}`))
	f.Add([]byte(`{"id":1}`), []byte(`{}`))
	f.Add([]byte(`"42"`), []byte{})
	schemas := []*record.Schema{newSchema(f, "id:int name:string", "id", ""), newSchema(f, "name:string", "id", ""), newSchema(f, "a:string dt:date", "a dt", "dt")}
	f.Fuzz(func(t *testing.T, key, value []byte) {
		for _, s := range schemas {
			for _, format := range []string{keyAuto, keyJSON, keyString} {
				for _, rec := range []*kgo.Record{{Key: key, Value: value}, {Key: key}} {
					b := newBatch()
					if newDecoder(s, format, -1, nil).decode(b, rec, plain) != nil {
						continue
					}
					if len(b.changes) == 0 {
						t.Fatal("neither a change nor an error")
					}
					for _, c := range b.changes {
						if !c.Delete {
							if err := c.Row.Check(len(s.Columns)); err != nil {
								t.Fatal(err)
							}
						}
						tupleOK(t, s, s.PartitionBy, c.Partition)
						tupleOK(t, s, s.Key, c.Key)
					}
				}
			}
		}
	})
}

func tupleOK(t *testing.T, s *record.Schema, columns []int, code []byte) {
	t.Helper()
	for _, i := range columns {
		var err error
		if _, code, err = record.DecodeKey(nil, s.Columns[i].Type, code); err != nil {
			t.Fatal(err)
		}
	}
	if len(code) > 0 {
		t.Fatal("bytes behind the tuple")
	}
}

func BenchmarkDecode(b *testing.B) {
	s := newSchema(b, "c_custkey:int c_name:string c_address:string c_nationkey:int c_phone:string c_acctbal:decimal c_mktsegment:string", "c_custkey", "")
	rec := records(0, "1", `{"c_custkey":1,"c_name":"Customer#000000001","c_address":"IVhzIApeRb ot,c,E","c_nationkey":15,"c_phone":"25-989-741-2988","c_acctbal":711.56,"c_mktsegment":"BUILDING"}`)[0]
	d, batch := newDecoder(s, keyAuto, -1, nil), newBatch()
	b.SetBytes(int64(len(rec.Value)))
	b.ReportAllocs()
	for b.Loop() {
		if batch.full() {
			batch.reset()
		}
		if err := d.decode(batch, rec, plain); err != nil {
			b.Fatal(err)
		}
	}
}
