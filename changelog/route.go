package changelog

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"enricher/record"
)

// route says which topics a dimension is read from, and what their names say of the rows in them.
type route struct {
	topic   string         // the only one; empty with a pattern
	pattern *regexp.Regexp // matches whole names
	text    string         // of the pattern, as it was written
	schema  *record.Schema
	columns []int // by group of the pattern: the column it fills, -1 for none
}

// origin is what the name of one topic says of its rows. It does not change.
type origin struct {
	topic string
	fills []fill
	// partition holds all rows of the topic, when named: the partition columns are all groups of the pattern. Records that say otherwise are
	// errors.
	partition []byte
	named     bool
}

// fill is a column that the name of a topic gives.
type fill struct {
	column int
	json   []byte
	code   []byte // of a column of the primary key; nil when it does not convert
	key    bool
}

// newRoute makes the route of a fixed topic, or of a pattern (RE2), which must match the whole name. Named groups fill the columns of their
// names; those that are no columns of the schema are of no use to anyone and are left out.
func newRoute(topic, pattern string, schema *record.Schema) (*route, error) {
	r := &route{topic: topic, text: pattern, schema: schema}
	switch {
	case topic != "" && pattern != "":
		return nil, errors.New("both a topic and a topic pattern are given")
	case topic == "" && pattern == "":
		return nil, errors.New("the topic is missing")
	case topic != "":
		return r, nil
	}
	var err error
	if r.pattern, err = regexp.Compile("^(?:" + pattern + ")$"); err != nil {
		return nil, fmt.Errorf("topic pattern %q: %w", pattern, err)
	}
	r.columns = make([]int, r.pattern.NumSubexp()+1)
	for i, name := range r.pattern.SubexpNames() {
		r.columns[i] = -1
		if name != "" && schema != nil {
			r.columns[i] = schema.Index(name)
		}
	}
	return r, nil
}

// name is how people know it.
func (r *route) name() string {
	if r.pattern != nil {
		return r.text
	}
	return r.topic
}

// bucket is how people know a bucket.
func (r *route) bucket(topic string, partition int32) string {
	if r.pattern == nil {
		return fmt.Sprintf("bucket %d", partition)
	}
	return fmt.Sprintf("bucket %d of topic %s", partition, topic)
}

func (r *route) matches(topic string) bool {
	if r.pattern == nil {
		return topic == r.topic
	}
	return r.pattern.MatchString(topic)
}

// origin reads the name of a topic that matches.
func (r *route) origin(topic string) *origin {
	o := &origin{topic: topic}
	if r.pattern == nil {
		return o
	}
	groups := r.pattern.FindStringSubmatchIndex(topic)
	for i, column := range r.columns {
		if column < 0 || len(groups) < 2*i+2 || groups[2*i] < 0 || o.fill(column) != nil {
			continue
		}
		o.fills = append(o.fills, r.fill(column, topic[groups[2*i]:groups[2*i+1]]))
	}
	r.nameOfPartition(o)
	return o
}

// fill makes a column's value of the text in a topic's name: a number where the column holds numbers and the text is one, else a string.
func (r *route) fill(column int, text string) fill {
	t := r.schema.Columns[column].Type
	f := fill{column: column, key: slices.Contains(r.schema.PrimaryKey, column)}
	switch {
	case t != record.Any && t != record.String && isLiteral([]byte(text)):
		f.json = []byte(text)
	default:
		f.json = record.AppendQuoted(nil, text)
	}
	if f.key {
		f.code, _ = record.AppendKey(nil, t, f.json) // nil: every record that needs it says so
	}
	return f
}

func (o *origin) fill(column int) *fill {
	for i := range o.fills {
		if o.fills[i].column == column {
			return &o.fills[i]
		}
	}
	return nil
}

func (r *route) nameOfPartition(o *origin) {
	partition := []byte{}
	for _, column := range r.schema.PartitionBy {
		f := o.fill(column)
		if f == nil || f.code == nil {
			return
		}
		partition = append(partition, f.code...)
	}
	o.partition, o.named = partition, len(r.schema.PartitionBy) > 0
}

// leaves returns the partition that leaves with a topic; false when the rows of the topic can't be told from those of the topics that stay.
func (r *route) leaves(topic string, stay []string) (partition []byte, ok bool) {
	o := r.origin(topic)
	if !o.named {
		return nil, false
	}
	for _, t := range stay {
		if other := r.origin(t); other.named && bytes.Equal(other.partition, o.partition) {
			return nil, false
		}
	}
	return o.partition, true
}

// roster is which of the topics that are read are there, by one listing after the other. A topic that was created again is there.
type roster struct {
	misses map[string]int // by topic that is known: listings in a row without it
}

// gone is after how many listings without it a topic has left.
const gone = 2

func (r *roster) know(topics ...string) {
	if r.misses == nil {
		r.misses = map[string]int{}
	}
	for _, t := range topics {
		if _, ok := r.misses[t]; !ok {
			r.misses[t] = 0
		}
	}
}

func (r *roster) forget(topic string) { delete(r.misses, topic) }

// listed takes in a successful listing of the topics that match and returns those of the known ones that have left by it. When all that are
// known are missing at once, it says more about rights, or about the broker, than about the topics, and does not count.
func (r *roster) listed(topics []string) (left []string) {
	missing := 0
	for t := range r.misses {
		if !slices.Contains(topics, t) {
			missing++
		}
	}
	if missing == len(r.misses) {
		return nil
	}
	for t, n := range r.misses {
		if slices.Contains(topics, t) {
			r.misses[t] = 0
			continue
		}
		if r.misses[t] = n + 1; n+1 >= gone {
			left = append(left, t)
		}
	}
	slices.Sort(left)
	return left
}

// missing are the topics that the last listing lacked.
func (r *roster) missing() (topics []string) {
	for t, n := range r.misses {
		if n > 0 {
			topics = append(topics, t)
		}
	}
	slices.Sort(topics)
	return topics
}
