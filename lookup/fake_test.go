package lookup

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
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
	// byIndex are the rows of each index by its key, in key order.
	byIndex []map[string][]fakeRow

	indexes [][]int
	expired func(partition []byte) bool // set: the views are PartitionViews

	gets, scans, reads, open, latests atomic.Int64
	failing                           error
	kind                              bool // for benchmarks: rows are handed out as they are
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
	v := &fakeView{t: t}
	switch {
	case t.indexes != nil && t.expired != nil:
		return struct {
			fakeIndexes
			fakePartitions
			View
		}{fakeIndexes{v}, fakePartitions{v}, v}
	case t.indexes != nil:
		return struct {
			fakeIndexes
			View
		}{fakeIndexes{v}, v}
	case t.expired != nil:
		return struct {
			fakePartitions
			View
		}{fakePartitions{v}, v}
	}
	return v
}

// fakeIndexes makes an IndexView of a view, fakePartitions a PartitionView.
type (
	fakeIndexes    struct{ v *fakeView }
	fakePartitions struct{ v *fakeView }
)

func (f fakeIndexes) ScanIndex(index int, key []byte, yield func(record.Row) bool) error {
	if f.v.closed {
		return errors.New("scan on a closed view")
	}
	f.v.t.scans.Add(1)
	if f.v.t.failing != nil {
		return f.v.t.failing
	}
	f.v.yieldAll(f.v.t.byIndex[index][string(key)], yield)
	return nil
}

func (f fakePartitions) Latest(n int) (latest [][]byte) {
	f.v.t.latests.Add(1)
	rows := f.v.t.rows
	for i := len(rows) - 1; i >= 0 && len(latest) < n; i-- {
		if len(latest) > 0 && bytes.Equal(latest[len(latest)-1], rows[i].partition) {
			continue
		}
		lent := rows[i].partition
		if !f.v.t.kind {
			lent = slices.Clone(lent)
			f.v.lent = append(f.v.lent, lent)
		}
		latest = append(latest, lent)
	}
	return latest
}

func (f fakePartitions) Expired(partition []byte) bool {
	if f.v.HasPartition(partition) {
		panic("asked about a partition that exists")
	}
	return f.v.t.expired(partition)
}

// yieldAll hands rows to yield as Scan does, until it returns false.
func (v *fakeView) yieldAll(rows []fakeRow, yield func(record.Row) bool) {
	for _, r := range rows {
		lent := r.row
		if !v.t.kind {
			lent = slices.Clone(r.row)
		}
		more := yield(lent)
		if !v.t.kind {
			scramble(lent)
		}
		if !more {
			return
		}
	}
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
	to := from
	for to < len(v.t.rows) && bytes.Equal(v.t.rows[to].partition, partition) && bytes.HasPrefix(v.t.rows[to].key, prefix) {
		to++
	}
	v.yieldAll(v.t.rows[from:to], yield)
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
	code := func(key []int) (code []byte, err error) {
		for _, i := range key {
			if code, err = record.AppendKey(code, t.schema.Columns[i].Type, columns[i]); err != nil {
				return nil, fmt.Errorf("%s of %s: %w", t.schema.Columns[i].Name, text, err)
			}
		}
		return code, nil
	}
	r := fakeRow{row: record.AppendRow(nil, columns)}
	var err error
	r.partition, err = code(t.schema.PartitionBy)
	require.NoError(tb, err)
	r.key, err = code(t.schema.Key)
	require.NoError(tb, err)
	at, known := slices.BinarySearchFunc(t.rows, r, compareRows)
	require.False(tb, known, "rows of a fake are not replaced: %s", text)
	t.rows = slices.Insert(t.rows, at, r)
	t.byKey[string(slices.Concat(r.partition, r.key))] = r.row
	for i, index := range t.indexes {
		key, err := code(index)
		if err != nil {
			continue // null, or nothing that equals anything
		}
		rows := t.byIndex[i][string(key)]
		at, _ := slices.BinarySearchFunc(rows, r, compareRows)
		t.byIndex[i][string(key)] = slices.Insert(rows, at, r)
	}
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
	return fill(tb, Dimension{Name: name, Schema: schema, Table: t}, rows...)
}

// indexed gives a dimension indexes, before it has rows.
func indexed(tb testing.TB, d Dimension, indexes ...[]string) Dimension {
	tb.Helper()
	t := fake(d)
	require.Empty(tb, t.rows)
	for _, names := range indexes {
		var index []int
		for _, name := range names {
			index = append(index, d.Schema.Index(name))
		}
		d.Indexes = append(d.Indexes, index)
		t.byIndex = append(t.byIndex, map[string][]fakeRow{})
	}
	t.indexes = d.Indexes
	return d
}

// aging makes PartitionViews of the views of a dimension; the partitions of one
// column with these values are older than the retention.
func aging(tb testing.TB, d Dimension, expired ...string) Dimension {
	tb.Helper()
	codes := map[string]bool{}
	for _, value := range expired {
		code, err := record.AppendKey(nil, d.Schema.Columns[d.Schema.PartitionBy[0]].Type, []byte(value))
		require.NoError(tb, err)
		codes[string(code)] = true
	}
	fake(d).expired = func(partition []byte) bool { return codes[string(partition)] }
	return d
}

// fill puts rows into a dimension.
func fill(tb testing.TB, d Dimension, rows ...string) Dimension {
	tb.Helper()
	for _, r := range rows {
		fake(d).put(tb, r)
	}
	return d
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
