package lookup

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"enricher/record"
)

// world makes random dimensions, configurations and facts out of few values, so
// that keys meet often.
type world struct {
	*rand.Rand
	dims   []Dimension
	oracle map[string]*oracleDimension
}

func one[T any](w *world, of ...T) T { return of[w.IntN(len(of))] }

func (w *world) chance(percent int) bool { return w.IntN(100) < percent }

var scalars = []string{
	`0`, `1`, `2`, `10`, `-1`, `1.0`, `2e0`, `0.1e2`, `7.5`, `-0`, `"1"`, `"2"`, `"10"`, `"a"`, `"b"`, `"A"`, `""`, `"1.0"`, `"\u0061"`, `"a\u0000b"`,
	`true`, `false`, `"true"`, `1`, `2`, `"a"`,
}

var nested = []string{`null`, `{}`, `[]`, `{"a":1}`, `{"a":"a","b":{"a":2}}`, `[1,"a"]`, `[[2],{"a":1}]`, ` { "a" : [ 1 , 2 ] } `}

func (w *world) value() string {
	if w.chance(12) {
		return one(w, nested...)
	}
	return one(w, scalars...)
}

// typed is a value that converts to the type.
func (w *world) typed(t record.Type) string {
	for {
		v := one(w, scalars...)
		if _, ok := meaning(t, parseJSON([]byte(v))); ok {
			return v
		}
	}
}

func (w *world) dimension(tb testing.TB, name string, columns, primaryKey, partitionBy []string, indexes ...[]string) {
	tb.Helper()
	d := indexed(tb, dimension(tb, name, columns, primaryKey, partitionBy), indexes...)
	o := &oracleDimension{types: map[string]record.Type{}, primaryKey: primaryKey, partition: partitionBy, indexes: indexes}
	if len(partitionBy) > 0 {
		w.age(d, o)
	}
	for i, c := range d.Schema.Columns {
		o.types[c.Name] = c.Type
		if i < d.Schema.Declared {
			o.declared = append(o.declared, c.Name)
		}
	}
	seen := map[string]bool{}
	for range w.IntN(40) {
		var members, key []string
		for _, c := range d.Schema.Columns {
			v := w.value()
			switch {
			case slices.Contains(primaryKey, c.Name):
				v = w.typed(c.Type)
				m, _ := meaning(c.Type, parseJSON([]byte(v)))
				key = append(key, strconv.Quote(m))
			case c.Type != record.Any && w.chance(80):
				v = w.typed(c.Type)
			case w.chance(10):
				continue
			}
			members = append(members, fmt.Sprintf("%q:%s", c.Name, v))
		}
		text := "{" + strings.Join(members, ",") + "}"
		if seen[fmt.Sprint(key)] {
			continue
		}
		seen[fmt.Sprint(key)] = true
		fake(d).put(tb, text)
		o.rows = append(o.rows, parseJSON([]byte(text)).(object))
	}
	w.Shuffle(len(o.rows), func(i, j int) { o.rows[i], o.rows[j] = o.rows[j], o.rows[i] })
	w.dims = append(w.dims, d)
	w.oracle[name] = o
}

// age lets some values of the first partition column stand for partitions that are
// older than the retention.
func (w *world) age(d Dimension, o *oracleDimension) {
	first := d.Schema.Columns[d.Schema.PartitionBy[0]]
	var codes [][]byte
	for range 3 {
		v := []byte(w.typed(first.Type))
		m, _ := meaning(first.Type, parseJSON(v))
		code, err := record.AppendKey(nil, first.Type, v)
		if err != nil {
			panic(err)
		}
		o.expired, codes = append(o.expired, m), append(codes, code)
	}
	fake(d).expired = func(partition []byte) bool {
		return slices.ContainsFunc(codes, func(code []byte) bool { return bytes.HasPrefix(partition, code) })
	}
}

// names are used for fields of facts and of lookups alike.
var fieldNames = []string{"a", "b", "c", "d", "e"}

func (w *world) path() string {
	switch w.IntN(20) {
	case 0:
		return one(w, fieldNames...) + "." + one(w, "a", "b", "v", "w")
	case 1:
		return "/" + one(w, fieldNames...) + "/" + one(w, "a", "0", "1", "v", "w")
	case 2:
		return "/" + one(w, fieldNames...) + "/" + one(w, "0", "1", "a") + "/" + one(w, "0", "a", "v")
	default:
		return one(w, fieldNames...)
	}
}

func (w *world) operand(t record.Type) Operand {
	switch w.IntN(12) {
	case 0:
		return constant(w.typed(t))
	case 1:
		if t == record.Bool {
			return path("$key")
		}
		return path(one(w, "$key", "$topic", "$partition", "$offset"))
	default:
		return path(w.path())
	}
}

// on chooses the columns of a join condition.
func (w *world) on(d Dimension, s *Step) map[int]bool {
	on := map[int]bool{}
	byIndex := len(d.Indexes) > 0 && w.chance(40)
	if byIndex {
		for _, c := range one(w, d.Indexes...) {
			on[c] = true
		}
	} else if len(d.Schema.Key) > 0 {
		for _, c := range d.Schema.Key[:1+w.IntN(len(d.Schema.Key))] {
			on[c] = true
		}
	}
	for c := range d.Schema.Columns {
		if w.chance(8) {
			on[c] = true
		}
	}
	if len(d.Schema.PartitionBy) > 0 && !byIndex && w.chance(50) {
		s.Partitions = one(w, "latest", "latest_two")
	}
	for _, c := range d.Schema.PartitionBy {
		switch {
		case s.Partitions != "":
			delete(on, c)
		case !byIndex || w.chance(25):
			on[c] = true
		}
	}
	return on
}

func (w *world) step(used map[string]bool) Step {
	d := one(w, w.dims...)
	s := Step{
		Dimension: d.Name, Join: one(w, "", "left", "left", "inner"), Rows: one(w, "", "each", "each", "array", "first"),
		OnConflict: one(w, "", "fail", "keep", "overwrite", "overwrite"),
	}
	for c := range w.on(d, &s) {
		s.On = append(s.On, Condition{d.Schema.Columns[c].Name, w.operand(d.Schema.Columns[c].Type)})
	}
	free := func() string {
		for {
			if name := one(w, fieldNames...) + one(w, "", "1", "2", "3", "4"); !used[name] {
				used[name] = true
				return name
			}
		}
	}
	if w.chance(40) || s.Rows == "array" {
		s.Into = free()
	}
	s.Select.Fields = []SelectField{}
	if w.chance(15) && s.Into != "" && d.Schema.Declared > 0 {
		s.Select.All = true
	} else {
		for i := range w.IntN(4) {
			name := fmt.Sprint(one(w, "v", "w", "a", "b"), i)[:1+min(i, 1)]
			if s.Into == "" {
				name = free()
			}
			s.Select.Fields = append(s.Select.Fields, SelectField{name, one(w, d.Schema.Columns...).Name})
		}
	}
	if w.chance(20) {
		c := one(w, d.Schema.Columns...)
		s.Where = []Where{{c.Name, []byte(w.typed(c.Type))}}
	}
	return s
}

func (w *world) options() Options {
	o := Options{Dimensions: w.dims, MaxRows: one(w, 1, 2, 5, 100), BatchBytes: one(w, 0, 0, 1, 300, 2000)}
	used := map[string]bool{}
	for range 1 + w.IntN(4) {
		o.Steps = append(o.Steps, w.step(used))
	}
	if w.chance(40) {
		for i := range 1 + w.IntN(4) {
			p := w.path()
			if w.chance(40) {
				p = "/" + one(w, fieldNames...) + one(w, "", "1", "2")
			}
			o.Select = append(o.Select, Projection{fmt.Sprint("out", i), p})
		}
	}
	return o
}

func (w *world) fact() Fact {
	f := Fact{Topic: one(w, "a", "1"), Partition: int32(w.IntN(3)), Offset: int64(w.IntN(12))}
	if w.chance(80) {
		f.Key = []byte(one(w, "", "a", "1", "10", "true"))
	}
	var b bytes.Buffer
	space := func() { b.WriteString(one(w, "", "", "", " ", "\n\t")) }
	space()
	b.WriteByte('{')
	space()
	for i := range 2 + w.IntN(9) {
		if i > 0 {
			b.WriteByte(',')
		}
		space()
		name := one(w, fieldNames...)
		if w.chance(5) {
			name = fmt.Sprintf(`\u%04x`, name[0])
		}
		fmt.Fprintf(&b, `"%s"`, name)
		space()
		b.WriteByte(':')
		space()
		b.WriteString(w.value())
		space()
	}
	b.WriteByte('}')
	space()
	f.Value = b.Bytes()
	if w.chance(2) {
		f.Value = []byte(one(w, `[1]`, `"a"`, `7`))
	}
	return f
}

func TestOracle(t *testing.T) {
	worlds := 1500
	if testing.Short() {
		worlds = 300
	}
	compiled, kinds, reasons, joins := 0, map[string]int{}, map[string]int{}, map[string]int{}
	for seed := range uint64(worlds) {
		w := &world{Rand: rand.New(rand.NewPCG(seed, 1)), oracle: map[string]*oracleDimension{}}
		w.dimension(t, "one", []string{"k int", "v string", "w"}, []string{"k"}, nil, []string{"v"}, []string{"w", "v"})
		w.dimension(t, "two", []string{"p string", "k int", "m decimal", "v string", "w bool"}, []string{"k", "p", "m"}, []string{"p"},
			[]string{"w"}, []string{"v", "p"}, []string{"w", "v"}, []string{"m"})
		w.dimension(t, "loose", []string{"k", "m", "v"}, []string{"k", "m"}, nil, []string{"m"})
		w.dimension(t, "four", []string{"b bool", "s string", "d double", "v int", "w"}, []string{"d", "b", "s"}, nil)
		w.dimension(t, "days", []string{"q int", "p", "k decimal", "v string"}, []string{"p", "k", "q"}, []string{"q", "p"}, []string{"v"}, []string{"q", "v"})
		w.dimension(t, "only", []string{"p int", "v string"}, []string{"p"}, []string{"p"}, []string{"v"})
		o := w.options()
		p, err := Compile(o)
		if err != nil {
			require.NotContains(t, err.Error(), "no way to find rows", "seed %d", seed)
			continue // a path into an object that lacks it, the same name twice
		}
		compiled++
		for _, info := range p.Describe() {
			joins[info.Kind+" "+info.Partitions]++
		}
		b := p.NewBatch()
		for round := range 3 {
			var facts []Fact
			for range w.IntN(30) {
				facts = append(facts, w.fact())
			}
			outcomes, err := b.Run(facts)
			require.NoError(t, err)
			failed := o.BatchBytes > 0 // the counts are not those of the facts taken
			if failed && len(facts) > 0 {
				require.NotEmpty(t, outcomes)
				kinds["left"] += len(facts) - len(outcomes)
				facts = facts[:len(outcomes)]
			}
			require.Len(t, outcomes, len(facts))
			got := make([]map[string]int, len(o.Steps))
			for i := range got {
				got[i] = misses(b.Stats()[i])
				reasons["match"] += b.Stats()[i].Matches
			}
			all := make([]map[string]int, len(o.Steps))
			for i := range all {
				all[i] = map[string]int{}
			}
			for i, f := range facts {
				expected := oracle(o, w.oracle, f)
				where := fmt.Sprintf("seed %d, round %d, fact %s\nof %+v", seed, round, f.Value, o.Steps)
				agree(t, o, f, expected, outcomes[i], where)
				kinds[expected.kind.String()+expected.class]++
				if len(expected.records) > 1 {
					kinds["multiplied"]++
				}
				failed = failed || expected.class == ClassTooManyRows
				for s, counts := range expected.misses {
					for reason, n := range counts {
						all[s][reason] += n
						reasons[reason] += n
					}
				}
			}
			if !failed { // branches of such facts are counted up to the failure only
				require.Equal(t, all, got, "misses, seed %d", seed)
			}
		}
	}
	t.Log(compiled, kinds, reasons, joins)
	require.Greater(t, compiled, worlds/2)
	for _, kind := range []string{"left", "written", "multiplied", "dropped", "faileddecode", "failedconflict", "failedtoo_many_rows"} {
		assert.Greater(t, kinds[kind], worlds/20, kind)
	}
	for _, reason := range []string{"match", "no_row", "null_key", "type_mismatch", "no_partition", "expired_partition", "condition"} {
		assert.Greater(t, reasons[reason], worlds/20, reason)
	}
	for _, kind := range []string{"full key ", "prefix ", "index ", "latest partition latest", "latest partition latest_two"} {
		assert.Greater(t, joins[kind], worlds/20, kind)
	}
}

// agree compares an outcome with the oracle's.
func agree(t *testing.T, o Options, f Fact, expected want, got Outcome, where string) {
	t.Helper()
	require.Equal(t, expected.kind, got.Kind, where)
	require.Equal(t, expected.class, got.Class, where)
	if expected.kind != Written {
		return
	}
	require.Len(t, got.Records, len(expected.records), where)
	plain := len(o.Select) == 0
	for _, s := range o.Steps {
		plain = plain && s.OnConflict != "overwrite"
	}
	for i, r := range got.Records {
		require.NoError(t, record.Valid(r), where)
		require.Equal(t, expected.records[i], parseJSON(r), "%s\ngot %s", where, r)
		if plain { // nothing is overwritten: the fact's bytes stand around what was added
			brace := bytes.LastIndexByte(f.Value, '}')
			require.Equal(t, string(f.Value[:brace]), string(r[:brace]), where)
			require.Equal(t, string(f.Value[brace:]), string(r[len(r)-len(f.Value)+brace:]), where)
		}
	}
}
