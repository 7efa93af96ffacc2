package config

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// checkDimensions looks at each dimension and at their names, which are folders in
// one place: two that differ in case only are one on some file systems.
func (l *loader) checkDimensions(c *Config) {
	seen := map[string]int{}
	for i := range c.Dimensions {
		d, at := &c.Dimensions[i], indexed("dimensions", i)
		if d.Name != "" && l.ok(at+".name") {
			folded := strings.ToLower(d.Name)
			if first, twice := seen[folded]; twice {
				l.fail(at+".name", fmt.Sprintf("%s is also the name of dimensions[%d]", quote(d.Name), first), "a name of its own, upper and lower case being the same")
			} else {
				seen[folded] = i
			}
		}
		l.checkDimensionTopic(d, at)
		l.checkKeys(d, at)
		l.checkIndexes(d, at)
		l.checkRefresh(d, at+".refresh")
		l.checkAutoPartition(d, at)
		if d.Store == "memory" && d.CacheKeys.Count > 0 && l.ok(at+".store") && l.ok(at+".cache_keys") {
			l.fail(at+".cache_keys", "has no effect, store: memory keeps all rows ready", "leave it out, or store: badger")
		}
	}
}

// maxIndexes is how many indexes the store can number.
const maxIndexes = 255

// checkIndexes refuses a set of columns that is there already: which of the two a
// lookup uses could not be told, and both would be kept up to date.
func (l *loader) checkIndexes(d *Dimension, at string) {
	if path := at + ".indexes"; !l.ok(path) {
		return
	} else if len(d.Indexes) > maxIndexes {
		l.fail(path, fmt.Sprintf("has %d indexes", len(d.Indexes)), fmt.Sprintf("at most %d", maxIndexes))
		return
	}
	seen := map[string]int{}
	for i, columns := range d.Indexes {
		set := fmt.Sprintf("%q", slices.Sorted(slices.Values(columns)))
		if first, twice := seen[set]; twice {
			l.fail(indexed(at+".indexes", i), "has the columns of "+indexed(at+".indexes", first), "each set of columns once")
			continue
		}
		seen[set] = i
	}
}

func (l *loader) checkDimensionTopic(d *Dimension, at string) {
	topic, pattern := at+".topic", at+".topic_pattern"
	switch {
	case !l.ok(topic) || !l.ok(pattern):
	case d.Topic != "" && d.TopicPattern != "":
		l.fail(pattern, "is set beside topic", "one of the two")
	case d.Topic == "" && d.TopicPattern == "":
		l.fail(topic, "is required and missing", "topic: NAME, or topic_pattern: PATTERN")
	}
}

// checkKeys holds the key columns of a dimension against each other.
func (l *loader) checkKeys(d *Dimension, at string) {
	if !l.ok(at + ".primary_key") {
		return
	}
	pk := strings.Join(d.PrimaryKey, ", ")
	for i, column := range d.PartitionBy {
		if path := indexed(at+".partition_by", i); l.ok(path) && !slices.Contains(d.PrimaryKey, column) {
			l.fail(path, quote(column)+" is not in the primary key", "some of "+pk)
		}
	}
	if !l.ok(at+".partition_by") || !l.ok(at+".bucket_key") {
		return
	}
	var rest []string
	for _, column := range d.PrimaryKey {
		if !slices.Contains(d.PartitionBy, column) {
			rest = append(rest, column)
		}
	}
	if len(rest) < len(d.BucketKey) || !slices.Equal(rest[:len(d.BucketKey)], d.BucketKey) {
		l.fail(at+".bucket_key", "["+strings.Join(d.BucketKey, ", ")+"] is not the beginning of the primary key without the partition columns",
			"the first of "+strings.Join(rest, ", ")+", in this order")
	}
}

// checkRefresh refuses to look at the ends of a log without a pause.
func (l *loader) checkRefresh(d *Dimension, at string) {
	if path := at + ".interval"; d.Refresh.Mode == "async" && d.Refresh.Interval < time.Millisecond && l.ok(path) && l.ok(at+".mode") {
		l.fail(path, quote(d.Refresh.Interval.String())+" is too short for mode async", "at least 1ms, or mode: sync, which then refreshes before every batch")
	}
}

func (l *loader) checkAutoPartition(d *Dimension, at string) {
	a, path := &d.AutoPartition, at+".auto_partition"
	if !a.Enabled || !l.ok(path) || !l.ok(path+".column") || !l.ok(at+".partition_by") {
		return
	}
	if a.Column == "" {
		l.fail(path+".column", "is required and missing", "one of partition_by")
	} else if !slices.Contains(d.PartitionBy, a.Column) {
		l.fail(path+".column", quote(a.Column)+" is not a partition column", "one of partition_by")
	}
}

// checkLookups looks at what the lookups say about themselves. Whether a key of the
// dimension fits is for the package that compiles them.
func (l *loader) checkLookups(c *Config) {
	var names []string
	for _, d := range c.Dimensions {
		if d.Name != "" && !slices.Contains(names, d.Name) {
			names = append(names, d.Name)
		}
	}
	for i, k := range c.Lookups {
		at := indexed("lookups", i)
		if path := at + ".dimension"; l.ok("dimensions") && l.ok(path) && !slices.Contains(names, k.Dimension) {
			l.fail(path, quote(k.Dimension)+" is not a dimension", rightDimension(k.Dimension, names))
		}
		l.checkOn(&k, at)
		if k.Rows == "array" && k.Into == "" && l.ok(at+".rows") && l.ok(at+".into") {
			l.fail(at+".rows", "array needs a field to be put into", "into: NAME beside it")
		}
	}
}

// checkOn asks for a join condition. With partitions, the key may have no other
// columns than those whose place the latest partition takes.
func (l *loader) checkOn(k *Lookup, at string) {
	path := at + ".on"
	if len(k.On) > 0 || k.Partitions != "" || !l.ok(path) || !l.ok(at+".partitions") {
		return
	}
	what := "is required and missing"
	if l.written(path) {
		what = "is an empty mapping"
	}
	l.fail(path, what, "on: {id: customer_id}")
}

func rightDimension(name string, names []string) string {
	if near := nearest(name, names); near != "" {
		return "did you mean " + near + "?"
	}
	if len(names) == 0 {
		return "an entry of dimensions with this name"
	}
	return "one of " + strings.Join(names, ", ")
}
