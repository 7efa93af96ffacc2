package lookup

import (
	"enricher/record"
)

// PlanError is one problem of the configuration.
type PlanError struct {
	// Path is the place in the configuration, `lookups[0].on.dt`.
	Path string
	// Message says what is wrong and what would be right.
	Message string
}

func (e *PlanError) Error() string { return e.Path + ": " + e.Message }

// Plan is the compiled lookups and projection. It does not change and may be
// used by many goroutines, each with a Batch of its own.
type Plan struct {
	steps      []step
	dimensions []Dimension // the ones that steps read
	needs      []needs     // of dimensions: what their views must be able to do
	fields     []field     // all fields that steps add, in order; the shape's fields
	outputs    []output    // output.select; empty means the whole record
	shape      *record.Shape
	maxRows    int
	maxBytes   int
	batchBytes int
	headers    bool
	warnings   []PlanError
}

// needs is what the steps ask of the views of a dimension.
type needs struct {
	index  bool // some step joins by an index
	latest int  // how many of the greatest partitions steps look into at most
}

// columnRef is a column of a dimension and how its values are compared.
type columnRef struct {
	index int
	typ   record.Type
}

// step is one compiled lookup.
type step struct {
	dimension int // index into Plan.dimensions
	name      string
	inner     bool
	kind      joinKind
	index     int // the index of kind joinIndex, a number of Dimension.Indexes
	latest    int // read in so many of the greatest partitions; 0: in the one of the key
	rows      rowsMode
	conflict  conflict

	// The key of the step is the codes of operands one after the other:
	// operands[:partitionOps] the partition, operands[partitionOps:keyOps] the key,
	// its prefix or the index, operands[keyOps:] the further conditions, whose
	// columns are conditions. A partition that stands beside an index does not
	// restrict what is read, for its columns are in the index or conditions: it is
	// there to give the right reason for a miss.
	operands     []operand
	partitionOps int
	keyOps       int
	conditions   []columnRef

	// where: the codes of these columns must be wanted.
	where  []columnRef
	wanted []byte

	into     []byte // `"customer":`, nil without into
	selected []selected
	miss     []byte // members of a miss: `"a":null,"b":null`
	fields   []int  // indexes into Plan.fields

	info StepInfo
}

// selected is one selected column.
type selected struct {
	name   string
	column int
	prefix []byte // `"name":`, with a comma before it unless it is the first
}

type rowsMode uint8

const (
	rowsEach rowsMode = iota
	rowsArray
	rowsFirst
)

type conflict uint8

const (
	conflictFail conflict = iota
	conflictOverwrite
	conflictKeep
)

// field is one top-level field that a step adds.
type field struct {
	name     string
	prefix   []byte // `"name":`
	step     int
	value    int // index of its value among the values of a row
	conflict conflict
	miss     []byte // its value after a miss: null or []
}

// output is one field of output.select.
type output struct {
	name   string
	prefix []byte // `"name":`, with a comma before it unless it is the first
	value  ref
}

// StepInfo describes a step for people.
type StepInfo struct {
	Dimension  string       `json:"dimension"`
	Kind       string       `json:"kind"` // full key | prefix | latest partition | index
	Why        string       `json:"why"`
	Partitions string       `json:"partitions,omitempty"` // latest | latest_two
	On         []ColumnInfo `json:"on"`
	Where      []ColumnInfo `json:"where,omitempty"`
	Join       string       `json:"join"`
	Rows       string       `json:"rows"`
	OnConflict string       `json:"on_conflict"`
	Into       string       `json:"into,omitempty"`
	Fields     []FieldInfo  `json:"fields"`
}

// ColumnInfo describes a column of a join condition or of where.
type ColumnInfo struct {
	Column string `json:"column"`
	Type   string `json:"type"`
	Role   string `json:"role"`  // partition | key | index | condition
	Value  string `json:"value"` // as written in the configuration, or JSON
	Source string `json:"source"`
}

// FieldInfo describes a field that a step adds.
type FieldInfo struct {
	Field  string `json:"field"`
	Column string `json:"column"`
	Type   string `json:"type"`
}

// Describe tells what each step does and why it reads that way, in order.
func (p *Plan) Describe() []StepInfo {
	infos := make([]StepInfo, len(p.steps))
	for i := range p.steps {
		infos[i] = p.steps[i].info
	}
	return infos
}

// Fields are the names of the top-level fields of the output that the plan
// knows: those of output.select, else the added ones, in order.
func (p *Plan) Fields() []string {
	var names []string
	for _, o := range p.outputs {
		names = append(names, o.name)
	}
	if len(p.outputs) == 0 {
		for _, f := range p.fields {
			names = append(names, f.name)
		}
	}
	return names
}

// NeedsHeaders tells whether facts must come with their headers.
func (p *Plan) NeedsHeaders() bool { return p.headers }

// Warnings are settings that are allowed but hardly meant, to be logged once.
func (p *Plan) Warnings() []PlanError { return p.warnings }
