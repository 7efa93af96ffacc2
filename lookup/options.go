package lookup

import "enricher/record"

// Table is what a step needs of a dimension.
//
// Read may be called by many goroutines at once.
type Table interface{ Read() View }

// View is one consistent state of a table. It belongs to one goroutine.
type View interface {
	// Get returns the row with the whole key. The row is valid until Close.
	Get(partition, key []byte) (record.Row, bool, error)
	// Scan yields the rows of a partition whose key begins with prefix, in key
	// order, until yield returns false. A row is valid inside the call only.
	Scan(partition, prefix []byte, yield func(record.Row) bool) error
	// HasPartition tells whether the partition exists.
	HasPartition(partition []byte) bool
	Close()
}

// IndexView is a View of a dimension with indexes. Views of a dimension that a
// lookup joins by an index must be one.
type IndexView interface {
	View
	// ScanIndex yields the rows whose columns of Dimension.Indexes[index] have the
	// codes that key consists of, one after the other in the order of the index,
	// over all live partitions in the order of (partition, key), until yield returns
	// false. A row is valid inside the call only. A row in which one of the columns
	// is null, or has no code (record.AppendKey), is not in the index.
	ScanIndex(index int, key []byte, yield func(record.Row) bool) error
}

// PartitionView is a View of a partitioned dimension that knows the order and
// the age of its partitions. Views of a dimension that a lookup joins with
// partitions: latest or latest_two must be one. In other views of a partitioned
// dimension no partition is ever older than the retention.
type PartitionView interface {
	View
	// Latest returns the greatest partitions that exist, greatest first, at most n:
	// encoded tuples, valid until Close. It tells of the state whose rows the view
	// has, not of a later one: a partition that was just read to its end, or just
	// removed, must not be named here and be empty in Get and Scan. Partitions
	// later than the next unit of time never count. A Run calls it at most once.
	Latest(n int) [][]byte
	// Expired tells whether the partition is older than the retention. It is asked
	// only about a partition that HasPartition has denied; what is no date is not
	// expired.
	Expired(partition []byte) bool
}

// Dimension is a dimension that lookups may name. Table may be nil for a plan
// that is only compiled and described.
type Dimension struct {
	Name   string
	Schema *record.Schema
	// Indexes are the column sets beside the primary key that lookups may join on:
	// numbers of Schema.Columns, in the order of the configuration.
	Indexes [][]int
	Table   Table
}

// Operand is the right-hand side of a condition in `on`: a field path or record
// metadata as text, or a constant.
type Operand struct {
	// Text is a path (`o_custkey`, `customer.id`, `/customer/id`) or $key, $topic,
	// $partition, $offset, $timestamp, $headers.NAME. Unused when Const is set.
	Text string
	// Const is the JSON of X in {const: X}; nil when the operand is no constant.
	Const []byte
}

// Condition is one entry of `on`.
type Condition struct {
	Column string
	Value  Operand
}

// Where is one entry of `where`: the column of the row found equals a constant.
type Where struct {
	Column string
	Const  []byte // JSON
}

// SelectField is one selected column and the name of the field that it becomes.
type SelectField struct{ Name, Column string }

// Select is what a lookup adds.
type Select struct {
	// All is `select: "*"`: the declared columns in order. Fields is unused then.
	All bool
	// List says that the configuration has a list of columns, so that problems
	// name the index instead of the field.
	List bool
	// Fields in the order of the configuration. An empty slice that is not nil is
	// `[]`, none; nil means that select is missing.
	Fields []SelectField
}

// Step is one lookup of the configuration.
type Step struct {
	Dimension string
	On        []Condition // in the order of the file
	Join      string      // left ("" too) | inner
	Select    Select
	Into      string
	Where     []Where
	Rows      string // each ("" too) | array | first
	// Partitions is "" | latest | latest_two: the greatest partition or two of them
	// take the place of the partition columns, which `on` then lacks.
	Partitions string
	// OnConflict is fail ("" too) | overwrite | keep.
	OnConflict string
}

// Projection is one field of output.select.
type Projection struct{ Name, Path string }

// Options are what a plan is compiled from.
type Options struct {
	Steps      []Step
	Dimensions []Dimension
	// Select is output.select in order; empty means the fact plus the added fields.
	Select []Projection
	// MaxRows is how many records one fact may become (and how many rows one
	// lookup with `rows: each` may match); more is class too_many_rows. 0 = 10,000.
	MaxRows int
	// MaxBytes bounds the memory that one fact may take: the rows that one lookup
	// matches, and all output records of the fact together; more is class
	// too_large. 0 = 256 MiB.
	MaxBytes int
	// BatchBytes bounds, softly, the memory of one Run: when the rows, the branches
	// or the records of a batch are more, Run takes only as many facts from the front as
	// fit, at least one, and returns their outcomes; the caller runs the rest
	// next. 0 = no bound: always all facts.
	BatchBytes int
}

// Defaults of Options.
const (
	DefaultMaxRows  = 10_000
	DefaultMaxBytes = 256 << 20
)

// Header is one header of a fact.
type Header struct {
	Key   string
	Value []byte // nil = null
}

// Fact is one input record.
type Fact struct {
	Value, Key []byte // nil = null, which is not empty
	Topic      string
	Partition  int32
	Offset     int64
	Timestamp  int64    // milliseconds since the epoch
	Headers    []Header // read only when Plan.NeedsHeaders
}

// Kind is how a fact ended.
type Kind uint8

// The kinds of an outcome.
const (
	Written Kind = iota // Records holds one or more output values
	Dropped             // by an inner lookup without a match
	Passed              // the value is null: it is to be written as null
	Failed              // Class and Message say why
)

// String returns the kind's name in lower case.
func (k Kind) String() string {
	switch k {
	case Written:
		return "written"
	case Dropped:
		return "dropped"
	case Passed:
		return "passed"
	default:
		return "failed"
	}
}

// Classes of failed facts.
const (
	ClassDecode      = "decode"        // not one valid JSON object
	ClassConflict    = "conflict"      // the fact has a field that a lookup adds
	ClassTooManyRows = "too_many_rows" // more records than MaxRows
	ClassTooLarge    = "too_large"     // more memory than MaxBytes
)

// Outcome is what became of one fact.
type Outcome struct {
	Kind Kind
	// Records are the output values in order, when Written. Their bytes are the
	// caller's to keep; the slice of them is valid until the next Run.
	Records [][]byte
	// Class and Message describe a failure; Dimension names the dimension of the
	// lookup that failed, or that dropped the fact. Empty for decode.
	Class, Message, Dimension string
}

// MissReason says why a lookup found nothing.
type MissReason uint8

// The reasons of a miss; their precedence is in the package comment.
const (
	MissNoRow MissReason = iota
	MissNullKey
	MissTypeMismatch
	MissNoPartition
	MissExpiredPartition
	MissCondition
	MissReasons // how many there are
)

// String returns the reason as metrics and logs name it.
func (r MissReason) String() string {
	switch r {
	case MissNoRow:
		return "no_row"
	case MissNullKey:
		return "null_key"
	case MissTypeMismatch:
		return "type_mismatch"
	case MissNoPartition:
		return "no_partition"
	case MissExpiredPartition:
		return "expired_partition"
	default:
		return "condition"
	}
}

// StepStats counts what one step did in one Run. A step looks up once per
// branch: per fact, or per record that earlier steps made of it.
type StepStats struct {
	Matches int
	Misses  [MissReasons]int
	Errors  int // facts that failed at this step: conflict, too_many_rows, too_large
}
