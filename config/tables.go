package config

import (
	"fmt"
	"slices"
	"strings"
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
		l.checkAutoPartition(d, at)
	}
}

func (l *loader) checkDimensionTopic(d *Dimension, at string) {
	topic, pattern := at+".topic", at+".topic_pattern"
	switch {
	case !l.ok(topic) || !l.ok(pattern):
	case d.Topic != "" && d.TopicPattern != "":
		l.fail(pattern, "is set beside topic", "one of the two")
	case d.Topic == "" && d.TopicPattern == "":
		l.fail(topic, "is required and missing", "topic: NAME")
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

func (l *loader) checkAutoPartition(d *Dimension, at string) {
	a, path := &d.AutoPartition, at+".auto_partition"
	if !a.Enabled || !l.ok(path) || !l.ok(path+".column") || !l.ok(at+".partition_by") {
		return
	}
	if !slices.Contains(d.PartitionBy, a.Column) {
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
		if k.Rows == "array" && k.Into == "" && l.ok(at+".rows") && l.ok(at+".into") {
			l.fail(at+".rows", "array needs a field to be put into", "into: NAME beside it")
		}
	}
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
