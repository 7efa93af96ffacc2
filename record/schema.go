package record

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
)

// Column is one column of a dimension: a top-level field of its records.
type Column struct {
	Name string
	Type Type // Any when it is not declared
}

// Schema is the columns of a dimension that are stored, and the roles they have. It does not change after NewSchema.
type Schema struct {
	Columns     []Column // declared ones first, in the order of the configuration, then undeclared ones that keys and lookups use
	Declared    int      // Columns[:Declared] are declared; they are what `select: "*"` means
	PrimaryKey  []int    // indexes into Columns, in order
	PartitionBy []int    // subset of PrimaryKey, in its own order
	Key         []int    // PrimaryKey without PartitionBy, in order: what the row key inside a partition consists of; may be empty
}

// layoutVersion goes into every fingerprint: raised whenever the encoding of keys or rows changes.
const layoutVersion = "record/1"

// NewSchema checks and resolves the columns of a dimension. Columns of extra and of the keys that are not declared come after the declared
// ones, with type Any. All problems come joined.
func NewSchema(declared []Column, extra, primaryKey, partitionBy []string) (*Schema, error) {
	s := &Schema{Declared: len(declared)}
	var problems []error
	for _, c := range declared {
		switch {
		case c.Name == "":
			problems = append(problems, errors.New("a declared column has no name"))
		case s.Index(c.Name) >= 0:
			problems = append(problems, fmt.Errorf("column %q is declared twice", c.Name))
		}
		s.Columns = append(s.Columns, c)
	}
	for _, name := range slices.Concat(extra, primaryKey) {
		if name == "" {
			problems = append(problems, errors.New("a column that is used has no name"))
		} else if s.Index(name) < 0 {
			s.Columns = append(s.Columns, Column{Name: name})
		}
	}
	if len(primaryKey) == 0 {
		problems = append(problems, errors.New("the primary key has no column"))
	}
	s.PrimaryKey, problems = s.resolve(primaryKey, "the primary key", problems)
	for _, name := range partitionBy {
		if !slices.Contains(primaryKey, name) {
			problems = append(problems, fmt.Errorf("the partition column %q is not in the primary key", name))
		}
	}
	if len(problems) == 0 {
		s.PartitionBy, problems = s.resolve(partitionBy, "the partition columns", problems)
	}
	if len(problems) > 0 {
		return nil, fmt.Errorf("new schema: %w", errors.Join(problems...))
	}
	for _, i := range s.PrimaryKey {
		if !slices.Contains(s.PartitionBy, i) {
			s.Key = append(s.Key, i)
		}
	}
	return s, nil
}

// resolve gives the indexes of names that all have a column by now, and reports those that come twice.
func (s *Schema) resolve(names []string, what string, problems []error) ([]int, []error) {
	var indexes []int
	for _, name := range names {
		i := s.Index(name)
		if slices.Contains(indexes, i) {
			problems = append(problems, fmt.Errorf("column %q comes twice in %s", name, what))
		}
		indexes = append(indexes, i)
	}
	return indexes, problems
}

// Index is the place of the column of this name, -1 when there is none.
func (s *Schema) Index(name string) int {
	return slices.IndexFunc(s.Columns, func(c Column) bool { return c.Name == name })
}

// Fingerprint changes when names, types, keys, partitions or the encoding of this package change: the rows on disk must then be read anew.
func (s *Schema) Fingerprint() string {
	b := strconv.AppendQuote(nil, layoutVersion)
	for _, c := range s.Columns {
		b = strconv.AppendQuote(b, c.Name)
		b = append(b, c.Type.String()...)
	}
	for _, role := range [][]int{{s.Declared}, s.PrimaryKey, s.PartitionBy} {
		b = append(b, ';')
		for _, i := range role {
			b = strconv.AppendInt(append(b, ','), int64(i), 10)
		}
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}
