package lookup

import (
	"fmt"
	"slices"
	"strings"

	"enricher/record"
)

// joinKind is how rows are found.
type joinKind uint8

const (
	joinFullKey joinKind = iota // by Get: 0 or 1 row of a partition
	joinPrefix                  // by Scan: 0..n rows of a partition
	joinIndex                   // by ScanIndex: 0..n rows of all partitions
)

// joinPlan is how a join condition reads its dimension.
type joinPlan struct {
	kind      joinKind
	index     int   // of joinIndex: the number of the index
	latest    int   // how many of the greatest partitions are read, 0: the one of the condition
	key       []int // columns of the key, of its prefix or of the index, in order; without the partition columns
	partition []int // the partition columns in order, when the condition has them all
	why       string
	problem   string // why the condition is refused; the rest is unset then
}

// name names the kind for people.
func (j joinPlan) name() string {
	switch {
	case j.latest > 0:
		return "latest partition"
	case j.kind == joinPrefix:
		return "prefix"
	case j.kind == joinIndex:
		return "index"
	default:
		return "full key"
	}
}

// joinCondition is a join condition that is to be planned.
type joinCondition struct {
	schema  *record.Schema
	indexes [][]int
	latest  int   // what `partitions` asks for: 0, 1 or 2; partition columns are then not in on
	on      []int // columns in any order
}

func (c joinCondition) lacks(columns []int) []int {
	return slices.DeleteFunc(slices.Clone(columns), func(i int) bool { return slices.Contains(c.on, i) })
}

func (c joinCondition) names(columns []int) string { return columnNames(c.schema, columns) }

// planJoin decides how the rows are read for a condition on these columns
// (indexes into the schema), in any order: by the full key, by the longest prefix
// of the key inside a partition, by either inside the greatest partitions, by the
// index with most columns (of several the one declared first), or not at all.
func planJoin(s *record.Schema, indexes [][]int, latest int, on []int) joinPlan {
	c := joinCondition{schema: s, indexes: indexes, latest: latest, on: on}
	if latest > 0 {
		return c.inLatest()
	}
	var partition []int
	if len(c.lacks(s.PartitionBy)) == 0 {
		partition = s.PartitionBy
	}
	missing := c.lacks(s.PrimaryKey)
	if len(missing) == 0 {
		return joinPlan{key: s.Key, partition: partition, why: fmt.Sprintf("on has all primary key columns (%s): 0 or 1 row", c.names(s.PrimaryKey))}
	}
	if n := c.prefix(); n > 0 && len(partition) == len(s.PartitionBy) {
		why := fmt.Sprintf("on has the first %d of the key columns (%s), without %s: 0..n rows in key order", n, c.names(s.Key), c.names(missing))
		if len(partition) > 0 {
			why = fmt.Sprintf("on has all partition columns (%s) and the first %d of the key columns (%s), without %s: 0..n rows in key order",
				c.names(partition), n, c.names(s.Key), c.names(missing))
		}
		return joinPlan{kind: joinPrefix, key: s.Key[:n], partition: partition, why: why}
	}
	if best := c.index(); best >= 0 {
		order := "in key order"
		if len(s.PartitionBy) > 0 {
			order = "of all partitions, in order of partition and key"
		}
		why := fmt.Sprintf("on has all columns of the index (%s): 0..n rows %s", c.names(indexes[best]), order)
		return joinPlan{kind: joinIndex, index: best, key: indexes[best], partition: partition, why: why}
	}
	return joinPlan{problem: c.refusal()}
}

// inLatest plans a condition without partition columns that is read inside the
// greatest partitions.
func (c joinCondition) inLatest() joinPlan {
	s := c.schema
	missing, n := c.lacks(s.Key), c.prefix()
	which := "the greatest partition"
	if c.latest > 1 {
		which = fmt.Sprintf("each of the %d greatest partitions", c.latest)
	}
	which += " (" + c.names(s.PartitionBy) + ")"
	switch {
	case len(s.Key) == 0:
		return joinPlan{latest: c.latest, why: "the primary key is the partition columns: the row of " + which}
	case len(missing) == 0:
		return joinPlan{latest: c.latest, key: s.Key, why: fmt.Sprintf("on has all key columns but those of the partition (%s): 0 or 1 row in %s", c.names(s.Key), which)}
	case n > 0:
		why := fmt.Sprintf("on has the first %d of the key columns (%s), without %s: 0..n rows in %s, in key order", n, c.names(s.Key), c.names(missing), which)
		return joinPlan{kind: joinPrefix, latest: c.latest, key: s.Key[:n], why: why}
	}
	return joinPlan{problem: c.refusal()}
}

// prefix is how many of the first key columns the condition has.
func (c joinCondition) prefix() int {
	n := 0
	for n < len(c.schema.Key) && slices.Contains(c.on, c.schema.Key[n]) {
		n++
	}
	return n
}

// index is the index with most columns that the condition has all of, -1 when
// there is none.
func (c joinCondition) index() int {
	best := -1
	for i, columns := range c.indexes {
		if len(c.lacks(columns)) == 0 && (best < 0 || len(columns) > len(c.indexes[best])) {
			best = i
		}
	}
	return best
}

// refusal says what a condition lacks and what would be accepted.
func (c joinCondition) refusal() string {
	s, with := c.schema, ""
	missing := c.lacks(s.PrimaryKey)
	if c.latest > 0 {
		missing, with = c.lacks(s.Key), " with partitions: latest or latest_two"
	}
	text := fmt.Sprintf("no way to find rows with these columns: of the primary key %s is missing; accepted%s: %s; further columns may stand beside",
		c.names(missing), with, strings.Join(c.accepted(), ", or "))
	switch index := c.index(); {
	case c.latest > 0 && index >= 0:
		text += fmt.Sprintf("; the index (%s) finds rows over all partitions: leave partitions out to join on it", c.names(c.indexes[index]))
	case c.latest == 0 && c.prefix() > 0:
		text += "; a prefix of the key needs the partition columns too, here " + c.names(c.lacks(s.PartitionBy))
	}
	return text
}

// accepted lists the conditions that find rows, in order of precedence.
func (c joinCondition) accepted() []string {
	s := c.schema
	if c.latest > 0 {
		all := []string{fmt.Sprintf("all of %s (full key)", c.names(s.Key))}
		if len(s.Key) > 1 {
			all = append(all, fmt.Sprintf("at least %s (prefix: the first of the key columns %s, in this order)", c.names(s.Key[:1]), c.names(s.Key)))
		}
		return all
	}
	all := []string{fmt.Sprintf("all of %s (full key)", c.names(s.PrimaryKey))}
	if len(s.Key) > 1 {
		partition := ""
		if len(s.PartitionBy) > 0 {
			partition = "all partition columns and "
		}
		all = append(all, fmt.Sprintf("at least %s (prefix: %sthe first of the key columns %s, in this order)",
			c.names(slices.Concat(s.PartitionBy, s.Key[:1])), partition, c.names(s.Key)))
	}
	if len(s.PartitionBy) > 0 {
		least := ""
		if len(s.Key) > 0 {
			least = fmt.Sprintf("at least %s with ", c.names(s.Key[:1]))
		}
		all = append(all, fmt.Sprintf("%spartitions: latest or latest_two instead of %s", least, c.names(s.PartitionBy)))
	}
	for _, index := range c.indexes {
		all = append(all, fmt.Sprintf("all of %s (index)", c.names(index)))
	}
	return all
}

func columnNames(s *record.Schema, columns []int) string {
	var names []string
	for _, i := range columns {
		names = append(names, s.Columns[i].Name)
	}
	return strings.Join(names, ", ")
}
