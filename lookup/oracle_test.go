package lookup

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"enricher/record"
)

// The oracle: what lookups mean, written over maps of encoding/json without a
// thought for speed. It shares no code with the package, the codes of keys
// included: values are compared by a text of their own.

type object = map[string]any

// oracleDimension is a dimension as rows in no order.
type oracleDimension struct {
	types      map[string]record.Type
	declared   []string
	primaryKey []string
	partition  []string
	indexes    [][]string
	expired    []string // meanings of the first partition column
	rows       []object
}

func (d *oracleDimension) key() []string {
	return slices.DeleteFunc(slices.Clone(d.primaryKey), func(c string) bool { return slices.Contains(d.partition, c) })
}

var (
	jsonNumber  = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)
	jsonInteger = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)
)

// meaning is a text that is equal for values that are equal as the type; ok is
// false for what does not convert.
func meaning(t record.Type, v any) (text string, ok bool) {
	asText, isString := v.(string)
	number := ""
	if n, is := v.(json.Number); is {
		number = n.String()
	}
	if t == record.String {
		if isString {
			return asText, true
		}
		return number, jsonInteger.MatchString(number)
	}
	if t == record.Any {
		if b, is := v.(bool); is {
			return fmt.Sprint("B", b), true
		}
		if isString {
			return "S" + asText, true
		}
		return "N" + rational(number), number != ""
	}
	if isString && t != record.Bool && jsonNumber.MatchString(asText) {
		number = asText
	}
	switch t {
	case record.Bool:
		text = fmt.Sprint(v)
		return text, text == "true" || text == "false"
	case record.Int:
		text = rational(number)
		_, err := strconv.ParseInt(text, 10, 64)
		return text, err == nil
	case record.Decimal:
		return rational(number), number != ""
	case record.Double:
		f, err := strconv.ParseFloat(number, 64)
		return fmt.Sprint(f + 0), err == nil
	default:
		panic("no oracle for this type")
	}
}

func rational(number string) string {
	r, ok := new(big.Rat).SetString(number)
	if !ok {
		return ""
	}
	return r.RatString()
}

// compareMeaning orders two meanings by value.
func compareMeaning(t record.Type, a, b string) int {
	if t == record.Any && a[0] == b[0] && a[0] == 'N' {
		t, a, b = record.Decimal, a[1:], b[1:]
	}
	switch t {
	case record.Int, record.Decimal, record.Double:
		x, _ := new(big.Rat).SetString(a)
		y, _ := new(big.Rat).SetString(b)
		return x.Cmp(y)
	default:
		return strings.Compare(a, b)
	}
}

func parseJSON(text []byte) any {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		panic(fmt.Sprintf("oracle: %v in %s", err, text))
	}
	return v
}

// walk follows a path into a record; nil when it is absent.
func walk(v any, text string) any {
	names := strings.Split(text, ".")
	pointer := strings.HasPrefix(text, "/")
	if pointer {
		names = strings.Split(text[1:], "/")
	}
	for _, name := range names {
		if list, is := v.([]any); is && pointer {
			i, err := strconv.Atoi(name)
			if err != nil || i >= len(list) {
				return nil
			}
			v = list[i]
			continue
		}
		o, _ := v.(object)
		v = o[name]
	}
	return v
}

// want is what becomes of a fact by the oracle.
type want struct {
	kind    Kind
	class   string
	records []any
	misses  []map[string]int
}

func oracle(o Options, dims map[string]*oracleDimension, f Fact) (w want) {
	for range o.Steps {
		w.misses = append(w.misses, map[string]int{})
	}
	fact, is := parseJSON(f.Value).(object)
	if !is {
		return want{kind: Failed, class: ClassDecode, misses: w.misses}
	}
	for _, s := range o.Steps {
		for _, name := range addedNames(s, dims[s.Dimension]) {
			if _, there := fact[name]; there && (s.OnConflict == "" || s.OnConflict == "fail") {
				return want{kind: Failed, class: ClassConflict, misses: w.misses}
			}
		}
	}
	branches := []object{maps.Clone(fact)}
	for i, s := range o.Steps {
		var next []object
		for _, b := range branches {
			rows, reason := find(s, dims[s.Dimension], f, b)
			if reason != "" {
				w.misses[i][reason]++
				if s.Join == "inner" {
					continue
				}
			}
			for _, value := range shapes(s, dims[s.Dimension], rows) {
				r := maps.Clone(b)
				for name, v := range value {
					_, there := fact[name]
					if !there || s.OnConflict == "overwrite" && reason == "" {
						r[name] = v
					}
				}
				next = append(next, r)
			}
		}
		if len(next) > o.MaxRows {
			w.kind, w.class = Failed, ClassTooManyRows
			return w
		}
		branches = next
	}
	for _, b := range branches {
		var r any = b
		if len(o.Select) > 0 {
			p := object{}
			for _, out := range o.Select {
				p[out.Name] = walk(b, out.Path)
			}
			r = p
		}
		w.records = append(w.records, r)
	}
	if len(branches) == 0 {
		w.kind = Dropped
	}
	return w
}

func selectedColumns(s Step, d *oracleDimension) []SelectField {
	if !s.Select.All {
		return s.Select.Fields
	}
	var fields []SelectField
	for _, c := range d.declared {
		fields = append(fields, SelectField{c, c})
	}
	return fields
}

func addedNames(s Step, d *oracleDimension) (names []string) {
	if s.Into != "" {
		return []string{s.Into}
	}
	for _, f := range selectedColumns(s, d) {
		names = append(names, f.Name)
	}
	return names
}

// shapes are the added fields of each record that a branch becomes.
func shapes(s Step, d *oracleDimension, rows []object) (all []object) {
	objects := []any{}
	for _, row := range rows {
		o := object{}
		for _, f := range selectedColumns(s, d) {
			o[f.Name] = row[f.Column]
		}
		objects = append(objects, o)
	}
	if s.Rows == "array" {
		return []object{{s.Into: objects}}
	}
	if s.Rows == "first" && len(objects) > 1 {
		objects = objects[:1]
	}
	for _, o := range objects {
		if s.Into != "" {
			all = append(all, object{s.Into: o})
		} else {
			all = append(all, o.(object))
		}
	}
	if len(objects) == 0 {
		miss := object{}
		for _, name := range addedNames(s, d) {
			miss[name] = nil
		}
		all = append(all, miss)
	}
	return all
}

// find gives the rows of a lookup in key order, or the reason of the miss.
func find(s Step, d *oracleDimension, f Fact, branch object) (rows []object, reason string) {
	wanted, mismatch := map[string]string{}, false
	for _, c := range s.On {
		v := operandValue(c.Value, f, branch)
		if v == nil {
			return nil, "null_key"
		}
		m, ok := meaning(d.types[c.Column], v)
		mismatch = mismatch || !ok
		wanted[c.Column] = m
	}
	if mismatch {
		return nil, "type_mismatch"
	}
	meets := func(row object, columns []string, wanted map[string]string) bool {
		for _, c := range columns {
			m, ok := meaning(d.types[c], row[c])
			if row[c] == nil || !ok || m != wanted[c] {
				return false
			}
		}
		return true
	}
	keyed := d.keyColumns(s, wanted)
	var conditions []string
	for c := range wanted {
		if !slices.Contains(keyed, c) {
			conditions = append(conditions, c)
		}
	}
	named := !slices.ContainsFunc(d.partition, func(c string) bool { _, has := wanted[c]; return !has })
	latest := d.latest(map[string]int{"latest": 1, "latest_two": 2}[s.Partitions])
	partition, found := false, false
	for _, row := range d.rows {
		partition = partition || named && meets(row, d.partition, wanted)
		inLatest := slices.ContainsFunc(latest, func(p object) bool { return d.compare(row, p, d.partition) == 0 })
		if s.Partitions != "" && !inLatest || !meets(row, keyed, wanted) {
			continue
		}
		found = true
		if !meets(row, conditions, wanted) {
			continue
		}
		passes := true
		for _, w := range s.Where {
			m, _ := meaning(d.types[w.Column], parseJSON(w.Const))
			passes = passes && meets(row, []string{w.Column}, map[string]string{w.Column: m})
		}
		if passes {
			rows = append(rows, row)
		}
	}
	slices.SortFunc(rows, func(a, b object) int {
		order := d.compare(a, b, d.partition)
		if s.Partitions != "" {
			order = -order
		}
		return cmp.Or(order, d.compare(a, b, d.key()))
	})
	switch {
	case len(rows) > 0:
		return rows, ""
	case s.Partitions != "" && len(latest) == 0:
		return nil, "no_partition"
	case len(d.partition) > 0 && named && !partition:
		if slices.Contains(d.expired, wanted[d.partition[0]]) {
			return nil, "expired_partition"
		}
		return nil, "no_partition"
	case found:
		return nil, "condition"
	default:
		return nil, "no_row"
	}
}

// keyColumns are the columns that find rows: of the key and the partition, or of
// the best index.
func (d *oracleDimension) keyColumns(s Step, wanted map[string]string) (keyed []string) {
	has := func(c string) bool { _, has := wanted[c]; return has }
	n := 0
	for key := d.key(); n < len(key) && has(key[n]); n++ {
		keyed = append(keyed, key[n])
	}
	if s.Partitions != "" {
		return keyed
	}
	keyed = append(keyed, d.partition...)
	if (n > 0 || len(d.key()) == 0) && !slices.ContainsFunc(d.partition, func(c string) bool { return !has(c) }) {
		return keyed
	}
	keyed = nil
	for _, index := range d.indexes {
		if len(index) > len(keyed) && !slices.ContainsFunc(index, func(c string) bool { return !has(c) }) {
			keyed = index
		}
	}
	return keyed
}

// compare orders two rows by columns, by value.
func (d *oracleDimension) compare(a, b object, columns []string) int {
	for _, c := range columns {
		x, _ := meaning(d.types[c], a[c])
		y, _ := meaning(d.types[c], b[c])
		if n := compareMeaning(d.types[c], x, y); n != 0 {
			return n
		}
	}
	return 0
}

// latest gives a row of each of the n greatest partitions.
func (d *oracleDimension) latest(n int) (latest []object) {
	sorted := slices.Clone(d.rows)
	slices.SortFunc(sorted, func(a, b object) int { return d.compare(b, a, d.partition) })
	for _, row := range sorted {
		if len(latest) < n && (len(latest) == 0 || d.compare(row, latest[len(latest)-1], d.partition) != 0) {
			latest = append(latest, row)
		}
	}
	return latest
}

func operandValue(o Operand, f Fact, branch object) any {
	if o.Const != nil {
		return parseJSON(o.Const)
	}
	switch o.Text {
	case "$key":
		if f.Key == nil {
			return nil
		}
		return string(f.Key)
	case "$topic":
		return f.Topic
	case "$partition":
		return json.Number(strconv.Itoa(int(f.Partition)))
	case "$offset":
		return json.Number(strconv.FormatInt(f.Offset, 10))
	}
	return walk(branch, o.Text)
}
