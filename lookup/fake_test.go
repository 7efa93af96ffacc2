package lookup

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"enricher/record"
)

// fakeTable is a table in memory that is as unkind as the contract of View
// allows: rows of Scan are overwritten after each call, rows of Get at Close.
type fakeTable struct {
	schema *record.Schema
	rows   []fakeRow // in key order
	byKey  map[string]record.Row

	gets, scans, reads, open atomic.Int64
	failing                  error
	kind                     bool // for benchmarks: rows are handed out as they are
}

type fakeRow struct {
	partition, key []byte
	row            record.Row
}

type fakeView struct {
	t      *fakeTable
	lent   [][]byte
	closed bool
}

func (t *fakeTable) Read() View {
	t.reads.Add(1)
	t.open.Add(1)
	return &fakeView{t: t}
}

func (v *fakeView) Get(partition, key []byte) (record.Row, bool, error) {
	if v.closed {
		return nil, false, errors.New("get on a closed view")
	}
	v.t.gets.Add(1)
	if v.t.failing != nil {
		return nil, false, v.t.failing
	}
	var buf [128]byte
	r, ok := v.t.byKey[string(append(append(buf[:0], partition...), key...))]
	if !ok || v.t.kind {
		return r, ok, nil
	}
	lent := slices.Clone(r)
	v.lent = append(v.lent, lent)
	return lent, true, nil
}

func (v *fakeView) Scan(partition, prefix []byte, yield func(record.Row) bool) error {
	if v.closed {
		return errors.New("scan on a closed view")
	}
	v.t.scans.Add(1)
	if v.t.failing != nil {
		return v.t.failing
	}
	from, _ := slices.BinarySearchFunc(v.t.rows, fakeRow{partition: partition, key: prefix}, compareRows)
	for _, r := range v.t.rows[from:] {
		if !bytes.Equal(r.partition, partition) || !bytes.HasPrefix(r.key, prefix) {
			return nil
		}
		lent := r.row
		if !v.t.kind {
			lent = slices.Clone(r.row)
		}
		more := yield(lent)
		if !v.t.kind {
			scramble(lent)
		}
		if !more {
			return nil
		}
	}
	return nil
}

func compareRows(a, b fakeRow) int {
	if c := bytes.Compare(a.partition, b.partition); c != 0 {
		return c
	}
	return bytes.Compare(a.key, b.key)
}

func (v *fakeView) HasPartition(partition []byte) bool {
	at, _ := slices.BinarySearchFunc(v.t.rows, fakeRow{partition: partition}, compareRows)
	return at < len(v.t.rows) && bytes.Equal(v.t.rows[at].partition, partition)
}

func (v *fakeView) Close() {
	if v.closed {
		panic("view closed twice")
	}
	v.closed = true
	v.t.open.Add(-1)
	for _, lent := range v.lent {
		scramble(lent)
	}
}

func scramble(b []byte) {
	for i := range b {
		b[i] = '#'
	}
}

// put adds a row of JSON.
func (t *fakeTable) put(tb testing.TB, text string) {
	tb.Helper()
	var members map[string]json.RawMessage
	require.NoError(tb, json.Unmarshal([]byte(text), &members))
	columns := make([][]byte, len(t.schema.Columns))
	for i, c := range t.schema.Columns {
		columns[i] = members[c.Name]
	}
	code := func(key []int) (code []byte) {
		for _, i := range key {
			var err error
			code, err = record.AppendKey(code, t.schema.Columns[i].Type, columns[i])
			require.NoError(tb, err, "%s of %s", t.schema.Columns[i].Name, text)
		}
		return code
	}
	r := fakeRow{partition: code(t.schema.PartitionBy), key: code(t.schema.Key), row: record.AppendRow(nil, columns)}
	at, known := slices.BinarySearchFunc(t.rows, r, compareRows)
	if known {
		t.rows[at] = r
	} else {
		t.rows = slices.Insert(t.rows, at, r)
	}
	t.byKey[string(slices.Concat(r.partition, r.key))] = r.row
}

// column is `name` or `name type`.
func columnsOf(tb testing.TB, texts []string) (columns []record.Column) {
	tb.Helper()
	for _, text := range texts {
		name, typ, declared := bytes.Cut([]byte(text), []byte(" "))
		c := record.Column{Name: string(name)}
		if declared {
			var err error
			c.Type, err = record.ParseType(string(typ))
			require.NoError(tb, err)
		}
		columns = append(columns, c)
	}
	return columns
}

// dimension makes a dimension with the rows; columns are `name type`, those
// without a type are not declared.
func dimension(tb testing.TB, name string, columns, primaryKey, partitionBy []string, rows ...string) Dimension {
	tb.Helper()
	var declared []record.Column
	var extra []string
	for _, c := range columnsOf(tb, columns) {
		if c.Type == record.Any {
			extra = append(extra, c.Name)
		} else {
			declared = append(declared, c)
		}
	}
	schema, err := record.NewSchema(declared, extra, primaryKey, partitionBy)
	require.NoError(tb, err)
	t := &fakeTable{schema: schema, byKey: map[string]record.Row{}}
	for _, r := range rows {
		t.put(tb, r)
	}
	return Dimension{Name: name, Schema: schema, Table: t}
}

func fake(d Dimension) *fakeTable { return d.Table.(*fakeTable) }

// customers is the dimension of most tests.
func customers(tb testing.TB) Dimension {
	tb.Helper()
	return dimension(tb, "customer", []string{"id int", "name string", "segment string"}, []string{"id"}, nil,
		`{"id":1,"name":"Ann","segment":"X"}`,
		`{"id":2,"name":"Bob","segment":"Y"}`,
		`{"id":3,"segment":null}`,
		`{"id":42,"name":"D\u00e9","segment":"X"}`)
}

// positions is a dimension of orders' positions, partitioned by day.
func positions(tb testing.TB) Dimension {
	tb.Helper()
	return dimension(tb, "position", []string{"dt string", "order int", "line int", "part string"}, []string{"dt", "order", "line"}, []string{"dt"},
		`{"dt":"d1","order":7,"line":10,"part":"c"}`,
		`{"dt":"d1","order":7,"line":-1,"part":"a"}`,
		`{"dt":"d1","order":7,"line":2,"part":"b"}`,
		`{"dt":"d1","order":70,"line":1,"part":"z"}`,
		`{"dt":"d2","order":7,"line":1,"part":"q"}`)
}

func path(text string) Operand     { return Operand{Text: text} }
func constant(json string) Operand { return Operand{Const: []byte(json)} }

// on is column, operand text, ...
func on(pairs ...string) (conditions []Condition) {
	for i := 0; i < len(pairs); i += 2 {
		conditions = append(conditions, Condition{Column: pairs[i], Value: path(pairs[i+1])})
	}
	return conditions
}

// pick is field, column, ...
func pick(pairs ...string) Select {
	s := Select{Fields: []SelectField{}}
	for i := 0; i < len(pairs); i += 2 {
		s.Fields = append(s.Fields, SelectField{Name: pairs[i], Column: pairs[i+1]})
	}
	return s
}

func compile(tb testing.TB, o Options) *Plan {
	tb.Helper()
	p, err := Compile(o)
	require.NoError(tb, err)
	return p
}

// run takes facts with these values through a plan.
func run(tb testing.TB, p *Plan, values ...string) ([]Outcome, []StepStats) {
	tb.Helper()
	facts := make([]Fact, len(values))
	for i, v := range values {
		facts[i].Value = []byte(v)
	}
	b := p.NewBatch()
	outcomes, err := b.Run(facts)
	require.NoError(tb, err)
	require.Len(tb, outcomes, len(facts))
	return outcomes, b.Stats()
}

// texts are the records of an outcome.
func texts(o Outcome) []string {
	var all []string
	for _, r := range o.Records {
		all = append(all, string(r))
	}
	return all
}
