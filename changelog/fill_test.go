package changelog

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"enricher/record"
)

// decoded shows the changes of one record of a topic, as changesOf does, with the version.
func decoded(t *testing.T, d *decoder, o *origin, key, value string) string {
	t.Helper()
	b := newBatch()
	if err := d.decode(b, records(0, key, value)[0], o); err != nil {
		assert.Empty(t, b.changes)
		return err.Error()
	}
	var out strings.Builder
	for _, c := range b.changes {
		assert.Equal(t, o.topic, c.Bucket.Topic)
		fmt.Fprintf(&out, "%s/%s", tuple(t, d.schema, d.schema.PartitionBy, c.Partition), tuple(t, d.schema, d.schema.Key, c.Key))
		if c.Delete {
			out.WriteString(" deleted")
		} else {
			for i := range d.schema.Columns {
				fmt.Fprintf(&out, " %s", c.Row.Column(i))
			}
		}
		if d.version >= 0 && !c.Delete {
			v := "least"
			if len(c.Version) > 0 {
				json, _, err := record.DecodeKey(nil, d.schema.Columns[d.version].Type, c.Version)
				require.NoError(t, err)
				v = string(json)
			}
			out.WriteString(" v=" + v)
		}
		out.WriteString("; ")
	}
	if b.expired > 0 {
		out.WriteString("expired")
	}
	return out.String()
}

func TestDecodeWithTheTopicsName(t *testing.T) {
	for _, c := range []struct {
		name, pattern, columns, key, partition, topic string
		rows                                          [][3]string
	}{
		{"a partition", `c_(?P<dt>\d+)`, "id:int dt:int", "id dt", "dt", "c_2025", [][3]string{
			{"-", `{"id":1}`, "2025/1 1 2025; "},
			{"-", `{"id":1,"dt":2025}`, "2025/1 1 2025; "},
			{"-", `{"id":1,"dt":"2025"}`, `2025/1 1 "2025"; `},
			{"-", `{"id":1,"dt":2.025e3}`, `2025/1 1 2.025e3; `},
			{"-", `{"id":1,"dt":2024}`, `key: the key column "dt" holds 2024 and the topic's name says 2025`},
			{"-", `{"id":1,"dt":null}`, `key: the key column "dt" is null`},
			{"7", `{}`, "2025/7 7 2025; "},
			{`{"id":7}`, `{}`, "2025/7 7 2025; "},
			{`{"id":7,"dt":2024}`, `{"id":7}`, "2025/7 7 2025; "},
			{`{"id":7,"dt":2024}`, `{}`, `key: the key column "dt" holds 2024 and the topic's name says 2025`},
			{"7", "-", "2025/7 deleted; "},
			{`{"id":7}`, "-", "2025/7 deleted; "},
			{`{"id":7,"dt":2025}`, "-", "2025/7 deleted; "},
			{`{"id":7,"dt":2024}`, "-", `key: the key column "dt" holds 2024 and the topic's name says 2025`},
			{`{"dt":2025}`, "-", `key: the value is null (a delete) and the record key {"dt":2025} lacks the key column "id"`},
			{"x", "-", `key: the key column "id" is declared int and the record key is x`},
		}},
		{"a column that is no key", `c_(?P<region>\w+)`, "id:int region:string", "id", "", "c_eu", [][3]string{
			{"-", `{"id":1}`, `/1 1 "eu"; `},
			{"-", `{"id":1,"region":"us"}`, `/1 1 "us"; `},
			{"-", `{"id":1,"region":null}`, `/1 1 null; `},
			{"1", "-", `/1 deleted; `},
		}},
		{"a column that is no key and does not convert", `c_(?P<n>\w+)`, "id:int n:int", "id", "", "c_eu", [][3]string{
			{"-", `{"id":1}`, `decode: column "n" is declared int and the topic's name says "eu"`},
			{"-", `{"id":1,"n":3}`, `/1 1 3; `},
		}},
		{"a key that does not convert", `c_(?P<dt>\w+)`, "id:int dt:int", "id dt", "dt", "c_eu", [][3]string{
			{"-", `{"id":1}`, `key: the key column "dt" is declared int and the topic's name says "eu"`},
			{"1", "-", `key: the key column "dt" is declared int and the topic's name says "eu"`},
			{`{"id":1}`, "-", `key: the key column "dt" is declared int and the topic's name says "eu"`},
		}},
		{"undeclared", `c_(?P<dt>\w+)`, "", "id dt", "dt", "c_2025", [][3]string{
			{"42", "-", `"2025"/"42" deleted; "2025"/42 deleted; `},
			{"42", "{}", `"2025"/42 42 "2025"; "2025"/"42" "42" "2025"; `},
			{"-", `{"id":1,"dt":2025}`, `key: the key column "dt" holds 2025 and the topic's name says "2025"`},
		}},
		{"several of the key", `c_(?P<b>\w)(?P<a>\w)`, "a:string x:int b:string", "a x b", "", "c_BA", [][3]string{
			{"5", "-", `/"A",5,"B" deleted; `},
			{"-", `{"x":5}`, `/"A",5,"B" "A" 5 "B"; `},
		}},
		{"all of the key", `c_(?P<a>\w)`, "a:string", "a", "", "c_A", [][3]string{
			{"-", `{}`, `/"A" "A"; `},
			{"x", "-", `key: the value is null (a delete) and the record key x is not a JSON object with the 1 key columns`},
			{`{}`, "-", `/"A" deleted; `},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSchema(t, c.columns, c.key, c.partition)
			r, err := newRoute("", c.pattern, s)
			require.NoError(t, err)
			for _, row := range c.rows {
				assert.Equal(t, row[2], decoded(t, newDecoder(s, keyAuto, -1, nil), r.origin(c.topic), row[0], row[1]), "%s %s", row[0], row[1])
			}
		})
	}
}

func TestDecodeVersion(t *testing.T) {
	for _, c := range []struct {
		columns string
		rows    map[string]string // value → version, or the error
	}{
		{"id:int v:int", map[string]string{
			`{"id":1,"v":7}`: `/1 1 7 v=7; `, `{"id":1,"v":"7"}`: `/1 1 "7" v=7; `, `{"id":1}`: `/1 1  v=least; `, `{"id":1,"v":null}`: `/1 1 null v=least; `,
			`{"id":1,"v":"x"}`: `decode: column "v" is declared int and holds "x"`,
		}},
		{"id:int v:timestamp", map[string]string{`{"id":1,"v":"2025-01-01T00:00:00+01:00"}`: `/1 1 "2025-01-01T00:00:00+01:00" v="2024-12-31T23:00:00Z"; `}},
	} {
		s := newSchema(t, c.columns, "id", "")
		for value, want := range c.rows {
			assert.Equal(t, want, decoded(t, newDecoder(s, keyAuto, 1, nil), plain, "-", value), value)
		}
	}
	s, err := record.NewSchema([]record.Column{{Name: "id", Type: record.Int}}, []string{"v"}, []string{"id"}, nil)
	require.NoError(t, err)
	assert.Equal(t, `/1 1 "b" v="b"; `, decoded(t, newDecoder(s, keyAuto, 1, nil), plain, "-", `{"id":1,"v":"b"}`))
	assert.Equal(t, `decode: the version column "v" (any) holds [1], which has no place in an order`,
		decoded(t, newDecoder(s, keyAuto, 1, nil), plain, "-", `{"id":1,"v":[1]}`))
}

func TestDecodeRetention(t *testing.T) {
	s := newSchema(t, "id:int dt:string", "id dt", "dt")
	r, err := NewRetention(s, AutoPartition{Column: "dt", TimeUnit: "year", Retention: 1})
	require.NoError(t, err)
	d := newDecoder(s, keyAuto, -1, r)
	d.now = time.Date(2025, 6, 1, 0, 0, 0, 0, time.UTC)
	for _, row := range [][3]string{
		{"-", `{"id":1,"dt":"2025"}`, `"2025"/1 1 "2025"; `},
		{"-", `{"id":1,"dt":"2024"}`, `"2024"/1 1 "2024"; `},
		{"-", `{"id":1,"dt":"2023"}`, `expired`},
		{"-", `{"id":1,"dt":"x"}`, `key: the partition can't be told: "x" does not fit the format`},
		{`{"id":1,"dt":"2023"}`, "-", ``},
		{`{"id":1,"dt":"2025"}`, "-", `"2025"/1 deleted; `},
		{`{"id":1,"dt":"x"}`, "-", `key: the partition can't be told: "x" does not fit the format`},
	} {
		assert.Equal(t, row[2], decoded(t, d, plain, row[0], row[1]), "%s %s", row[0], row[1])
	}
	// The readings of a bare key: one that is a year is enough.
	s = newSchema(t, "", "dt", "dt")
	r, err = NewRetention(s, AutoPartition{Column: "dt", TimeUnit: "year", Retention: 1})
	require.NoError(t, err)
	d = newDecoder(s, keyAuto, -1, r)
	d.now = time.Date(2025, 6, 1, 0, 0, 0, 0, time.UTC)
	assert.Equal(t, `"2025"/ deleted; 2025/ deleted; `, decoded(t, d, plain, `"2025"`, "-"))
	assert.Equal(t, `"2025"/ deleted; 2025/ deleted; `, decoded(t, d, plain, `2025`, "-"))
	assert.Contains(t, decoded(t, d, plain, `x`, "-"), "does not fit")
}

func TestDecodeWithTheTopicsNameDoesNotAllocate(t *testing.T) {
	s := newSchema(t, "id:int dt:string name:string", "id dt", "dt")
	route, err := newRoute("", `c_(?P<dt>\d+)`, s)
	require.NoError(t, err)
	r, err := NewRetention(s, AutoPartition{Column: "dt", TimeUnit: "year", Retention: 1000})
	require.NoError(t, err)
	d, b, o := newDecoder(s, keyAuto, 0, r), newBatch(), route.origin("c_2025")
	d.now = time.Date(2025, 6, 1, 0, 0, 0, 0, time.UTC)
	for _, rec := range [][2]string{{"1", `{"id":1,"name":"A"}`}, {"1", "-"}, {`{"id":1}`, "-"}} {
		rec := records(0, rec[0], rec[1])[0]
		assert.Zero(t, testing.AllocsPerRun(100, func() {
			b.reset()
			for range 10 {
				if err := d.decode(b, rec, o); err != nil {
					t.Fatal(err)
				}
			}
		}))
	}
}
