package lookup

import (
	"fmt"
	"slices"
	"strings"

	"enricher/record"
)

// joinPlan is how a join condition reads its dimension.
type joinPlan struct {
	prefix  bool
	key     []int // columns of the key, or of its prefix, in order; without the partition columns
	why     string
	problem string // why the condition is refused; the rest is unset then
}

// planJoin decides how the rows are read for a condition on these columns
// (indexes into the schema), in any order: by the full key, by the longest prefix
// of the key inside a partition, or not at all.
func planJoin(s *record.Schema, on []int) joinPlan {
	has := func(i int) bool { return slices.Contains(on, i) }
	lacks := func(columns []int) []int { return slices.DeleteFunc(slices.Clone(columns), has) }
	missing := lacks(s.PrimaryKey)
	if len(missing) == 0 {
		return joinPlan{key: s.Key, why: fmt.Sprintf("on has all primary key columns (%s): 0 or 1 row", columnNames(s, s.PrimaryKey))}
	}
	n := 0
	for n < len(s.Key) && has(s.Key[n]) {
		n++
	}
	if n > 0 && len(lacks(s.PartitionBy)) == 0 {
		why := fmt.Sprintf("on has the first %d of the key columns (%s), without %s: 0..n rows in key order", n, columnNames(s, s.Key),
			columnNames(s, missing))
		if len(s.PartitionBy) > 0 {
			why = fmt.Sprintf("on has all partition columns (%s) and the first %d of the key columns (%s), without %s: 0..n rows in key order",
				columnNames(s, s.PartitionBy), n, columnNames(s, s.Key), columnNames(s, missing))
		}
		return joinPlan{prefix: true, key: s.Key[:n], why: why}
	}
	return joinPlan{problem: refusal(s, missing, lacks(s.PartitionBy), n)}
}

// refusal lists what a condition lacks and what would be accepted.
func refusal(s *record.Schema, missing, partition []int, n int) string {
	accepted := fmt.Sprintf("all of %s (full key)", columnNames(s, s.PrimaryKey))
	if len(s.Key) > 1 {
		least := slices.Concat(s.PartitionBy, s.Key[:1])
		accepted += fmt.Sprintf(", or at least %s (prefix: %sthe first of the key columns %s, in this order)", columnNames(s, least),
			partitionText(s), columnNames(s, s.Key))
	}
	text := fmt.Sprintf("no way to find rows with these columns: of the primary key %s is missing; accepted: %s; further columns may stand beside", columnNames(s, missing), accepted)
	if n > 0 && len(partition) > 0 {
		text += "; a prefix of the key needs the partition columns too, here " + columnNames(s, partition)
	}
	return text
}

func partitionText(s *record.Schema) string {
	if len(s.PartitionBy) == 0 {
		return ""
	}
	return "all partition columns and "
}

func columnNames(s *record.Schema, columns []int) string {
	var names []string
	for _, i := range columns {
		names = append(names, s.Columns[i].Name)
	}
	return strings.Join(names, ", ")
}
