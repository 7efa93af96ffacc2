package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"enricher/changelog"
	"enricher/config"
	"enricher/dimstore"
	"enricher/lookup"
	"enricher/record"
)

// storeMemory is the value of dimensions[].store that keeps the rows in memory.
const storeMemory = "memory"

// dimensionPlan is what the configuration means for one dimension.
type dimensionPlan struct {
	config.Dimension

	Schema *record.Schema
	// IndexColumns are the columns of each of the Indexes, by their places in Schema.
	IndexColumns [][]int
	// Fingerprint changes with everything that decides how a changelog record becomes a row: rows on disk under another one are not used.
	Fingerprint string
}

// servicePlan is what the configuration means for the parts: pure, nothing is opened or asked.
type servicePlan struct {
	Dimensions []dimensionPlan // as in the configuration
	Lookup     *lookup.Plan
	Memory     memorySplit
}

// newPlan works the configuration out. table gives the rows of a dimension; nil when the plan is only to be checked or shown. The error is a
// *config.InvalidError with all problems.
func newPlan(cfg *config.Config, table func(dimension string) lookup.Table) (servicePlan, error) {
	var plan servicePlan
	var problems []config.Problem
	for i, d := range cfg.Dimensions {
		schema, err := schemaOf(cfg, d)
		if err != nil {
			problems = append(problems, cfg.Problem("dimensions["+strconv.Itoa(i)+"]", err.Error(), ""))
			continue
		}
		if a := autoPartition(d); a != nil {
			if _, err := changelog.NewRetention(schema, *a); err != nil { // config has looked at all but the format
				message := strings.TrimPrefix(err.Error(), "auto_partition: ")
				problems = append(problems, cfg.Problem("dimensions["+strconv.Itoa(i)+"].auto_partition.format", message, "such as yyyyMMdd"))
			}
		}
		plan.Dimensions = append(plan.Dimensions, dimensionPlan{d, schema, indexesOf(d, schema), fingerprint(d, schema)})
	}
	inMemory := 0
	for _, d := range cfg.Dimensions {
		if d.Store == storeMemory {
			inMemory++
		}
	}
	memory, err := splitMemory(int64(cfg.Store.Memory), len(cfg.Dimensions)-inMemory, inMemory)
	if err != nil {
		problems = append(problems, cfg.Problem("store.memory", err.Error(), ""))
	}
	plan.Memory = memory
	if len(plan.Dimensions) == len(cfg.Dimensions) { // else lookups would be blamed for a dimension that has a problem of its own
		plan.Lookup, err = lookup.Compile(lookupOptions(cfg, plan.Dimensions, table))
		problems = append(problems, planProblems(cfg, err)...)
	}
	return plan, config.NewInvalidError(problems)
}

// storeIndexes are the indexes as the store keeps them.
func (d *dimensionPlan) storeIndexes() []dimstore.Index {
	var indexes []dimstore.Index
	for _, columns := range d.IndexColumns {
		index := dimstore.Index{Columns: columns}
		for _, c := range columns {
			index.Types = append(index.Types, d.Schema.Columns[c].Type)
		}
		indexes = append(indexes, index)
	}
	return indexes
}

// storeKeyTypes are the types of the columns of a key in the store: the primary key without the partition columns.
func (d *dimensionPlan) storeKeyTypes() []record.Type {
	var types []record.Type
	for _, c := range d.Schema.PrimaryKey {
		if !slices.Contains(d.Schema.PartitionBy, c) {
			types = append(types, d.Schema.Columns[c].Type)
		}
	}
	return types
}

// storeVersion is what the store compares versions by.
func (d *dimensionPlan) storeVersion() string {
	if _, ok := versionColumn(d.Version); ok {
		return dimstore.VersionColumn
	}
	return d.Version
}

// schemaOf gives the columns of a dimension that are stored: the declared ones, those of its keys and indexes, and those that its lookups use.
func schemaOf(cfg *config.Config, d config.Dimension) (*record.Schema, error) {
	declared := make([]record.Column, len(d.Columns))
	for i, c := range d.Columns {
		t, err := record.ParseType(c.Type)
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", c.Name, err)
		}
		declared[i] = record.Column{Name: c.Name, Type: t}
	}
	return record.NewSchema(declared, usedColumns(cfg.Lookups, d), d.PrimaryKey, d.PartitionBy)
}

// indexesOf resolves the columns of the indexes; schemaOf has put all of them into the schema.
func indexesOf(d config.Dimension, s *record.Schema) [][]int {
	var indexes [][]int
	for _, names := range d.Indexes {
		columns := make([]int, len(names))
		for i, name := range names {
			columns[i] = s.Index(name)
		}
		indexes = append(indexes, columns)
	}
	return indexes
}

// usedColumns are the columns of the dimension that lookups, indexes, topic names and the version name and that are not declared, sorted: the order of the lookups must
// not change the stored rows.
func usedColumns(lookups []config.Lookup, d config.Dimension) []string {
	names := slices.Concat(d.Indexes...)
	names = append(names, patternGroups(d.TopicPattern)...)
	if column, ok := versionColumn(d.Version); ok {
		names = append(names, column)
	}
	for _, l := range lookups {
		if l.Dimension != d.Name {
			continue
		}
		for _, c := range l.On {
			names = append(names, c.Column)
		}
		for _, c := range l.Where {
			names = append(names, c.Column)
		}
		for _, f := range l.Select.Fields {
			names = append(names, f.Column)
		}
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		return slices.ContainsFunc(d.Columns, func(c config.Column) bool { return c.Name == name })
	})
	slices.Sort(names)
	return slices.Compact(names)
}

// patternGroups are the columns that the names of topics give: the named groups.
func patternGroups(pattern string) []string {
	re, err := regexp.Compile(pattern)
	if err != nil || pattern == "" {
		return nil // config has refused what is no pattern
	}
	return slices.DeleteFunc(re.SubexpNames(), func(name string) bool { return name == "" })
}

// autoPartition is the retention of a dimension; nil for none.
func autoPartition(d config.Dimension) *changelog.AutoPartition {
	a := d.AutoPartition
	if !a.Enabled {
		return nil
	}
	return &changelog.AutoPartition{Column: a.Column, TimeUnit: a.TimeUnit, Format: a.Format, Retention: a.Retention, TimeZone: a.TimeZone}
}

// versionColumn is the column that `version: column:NAME` names.
func versionColumn(version string) (name string, ok bool) {
	return strings.CutPrefix(version, "column:")
}

func fingerprint(d config.Dimension, s *record.Schema) string {
	h := sha256.New()
	for _, part := range []string{d.Topic, d.TopicPattern, d.Format, d.KeyFormat, d.Version, s.Fingerprint()} {
		fmt.Fprintf(h, "%q,", part)
	}
	fmt.Fprintf(h, "%q,", d.Indexes) // in their order: entries are stored under the number of their index
	if a := autoPartition(d); a != nil {
		fmt.Fprintf(h, "%#v,", *a) // what a shorter retention has dropped is missing under a longer one
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

func lookupOptions(cfg *config.Config, dimensions []dimensionPlan, table func(string) lookup.Table) lookup.Options {
	o := lookup.Options{BatchBytes: runBytes, MaxBytes: factBytes}
	for _, d := range dimensions {
		dimension := lookup.Dimension{Name: d.Name, Schema: d.Schema, Indexes: d.IndexColumns}
		if table != nil {
			dimension.Table = table(d.Name)
		}
		o.Dimensions = append(o.Dimensions, dimension)
	}
	for _, l := range cfg.Lookups {
		step := lookup.Step{
			Dimension: l.Dimension, Join: l.Join, Into: l.Into, Rows: l.Rows, Partitions: l.Partitions, OnConflict: l.OnConflict,
			Select: lookup.Select{All: l.Select.All, List: l.Select.List},
		}
		for _, c := range l.On {
			step.On = append(step.On, lookup.Condition{Column: c.Column, Value: lookup.Operand(c.Value)})
		}
		for _, c := range l.Where {
			step.Where = append(step.Where, lookup.Where(c))
		}
		if l.Select.Fields != nil { // nil and empty differ
			step.Select.Fields = []lookup.SelectField{}
		}
		for _, f := range l.Select.Fields {
			step.Select.Fields = append(step.Select.Fields, lookup.SelectField(f))
		}
		o.Steps = append(o.Steps, step)
	}
	for _, p := range cfg.Output.Select {
		o.Select = append(o.Select, lookup.Projection(p))
	}
	return o
}

// planProblems gives the problems of lookup.Compile their places in the file.
func planProblems(cfg *config.Config, err error) []config.Problem {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var problems []config.Problem
		for _, e := range joined.Unwrap() {
			problems = append(problems, planProblems(cfg, e)...)
		}
		return problems
	}
	if p, ok := errors.AsType[*lookup.PlanError](err); ok {
		return []config.Problem{cfg.Problem(p.Path, p.Message, "")}
	}
	return []config.Problem{cfg.Problem("lookups", err.Error(), "")}
}
