package record

import "fmt"

// SyntaxError says why bytes are not the JSON that is asked for. The fact or the record is at fault, not the environment.
type SyntaxError struct {
	Offset  int    // of the first byte that can't stand where it stands; the length of the input when that ends too early
	Message string // what is wrong there
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("invalid JSON at byte %d: %s", e.Offset, e.Message)
}

// fault is the reason of a SyntaxError inside the scanner, where an error value would cost.
type fault uint8

const (
	faultNone fault = iota
	faultEnd
	faultEmpty
	faultNotObject
	faultTrailing
	faultValue
	faultName
	faultColon
	faultObjectNext
	faultArrayNext
	faultControl
	faultEscape
	faultUTF8
	faultNumber
	faultDepth
)

//nolint:gochecknoglobals // a table that never changes
var faultMessages = [...]string{
	faultNone:       "no fault",
	faultEnd:        "the input ends too early",
	faultEmpty:      "the input is empty",
	faultNotObject:  "not a JSON object",
	faultTrailing:   "bytes after the value",
	faultValue:      "no value begins here",
	faultName:       "no field name begins here",
	faultColon:      "no ':' after the field name",
	faultObjectNext: "neither ',' nor '}' after the field's value",
	faultArrayNext:  "neither ',' nor ']' after the element",
	faultControl:    "a control character inside a string",
	faultEscape:     "not an escape of JSON",
	faultUTF8:       "not valid UTF-8",
	faultNumber:     "not a number of JSON",
	faultDepth:      "nested deeper than 10,000 levels",
}

// syntaxError makes the error of a fault at offset i; what is missing at the end of the input is told as that.
func syntaxError(src []byte, i int, f fault) *SyntaxError {
	if i >= len(src) && f != faultEmpty {
		i, f = len(src), faultEnd
	}
	return &SyntaxError{Offset: i, Message: faultMessages[f]}
}
