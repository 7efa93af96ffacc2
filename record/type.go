package record

import (
	"errors"
	"fmt"
	"strings"
)

// Type is the declared type of a column: it decides which JSON values a key column takes and what two of them being equal means.
type Type uint8

// The types of columns. Any, the zero value, is the type of a column that is not declared.
const (
	Any       Type = iota // a number, a string or a bool, nothing equal across the kinds
	String                // a string, or a number written without fraction and exponent
	Int                   // 64 bit, signed
	Int32                 // 32 bit, signed
	Decimal               // any number, exact
	Double                // IEEE 754 binary64, finite
	Bool                  // true, false
	Date                  // a day of the proleptic Gregorian calendar, years 0000 to 9999
	Timestamp             // an instant, to the nanosecond
	Bytes                 // a byte string, base64 in JSON
)

// ErrNull says that the value is JSON null or absent: the lookup is not made (a null key), a row without it has no key.
var ErrNull = errors.New("null key")

// ErrMismatch says that the value does not convert to the type of the column.
var ErrMismatch = errors.New("value does not convert to the column's type")

// typeNames are the names of the types in the configuration; Any has none there.
//
//nolint:gochecknoglobals // a table that never changes
var typeNames = [...]string{
	Any: "any", String: "string", Int: "int", Int32: "int32", Decimal: "decimal", Double: "double",
	Bool: "bool", Date: "date", Timestamp: "timestamp", Bytes: "bytes",
}

// ParseType gives the type of a name in the configuration. The error lists the names there are.
func ParseType(name string) (Type, error) {
	for t := String; int(t) < len(typeNames); t++ {
		if typeNames[t] == name {
			return t, nil
		}
	}
	return Any, fmt.Errorf("parse type: unknown type %q (one of %s)", name, strings.Join(typeNames[String:], ", "))
}

// String is the name of the type in the configuration, "any" for a column that is not declared.
func (t Type) String() string {
	if int(t) < len(typeNames) {
		return typeNames[t]
	}
	return fmt.Sprintf("Type(%d)", uint8(t))
}
