package record

func AppendKey(dst []byte, t Type, raw []byte) ([]byte, error)      { panic("BUG: not built yet") }
func AppendKeyText(dst []byte, t Type, text []byte) ([]byte, error) { panic("BUG: not built yet") }
func AppendKeyInt(dst []byte, t Type, v int64) ([]byte, error)      { panic("BUG: not built yet") }
func DecodeKey(dst []byte, t Type, key []byte) (json, rest []byte, err error) {
	panic("BUG: not built yet")
}

type SyntaxError struct {
	Offset  int
	Message string
}

func (e *SyntaxError) Error() string { return e.Message }

type Shape struct{}

func Compile(paths []Path, fields []string) *Shape { panic("BUG: not built yet") }

type Doc struct{}
type Span struct{ Start, End int }
type Edit struct {
	Span  Span
	Value []byte
}

func (s *Shape) Scan(d *Doc, src []byte) error                        { panic("BUG: not built yet") }
func (d *Doc) Value(i int) []byte                                     { panic("BUG: not built yet") }
func (d *Doc) Occurrences(f int) []Span                               { panic("BUG: not built yet") }
func (d *Doc) Members() int                                           { panic("BUG: not built yet") }
func (d *Doc) AppendSpliced(dst, members []byte, edits []Edit) []byte { panic("BUG: not built yet") }
func Valid(src []byte) error                                          { panic("BUG: not built yet") }
func AppendQuoted(dst []byte, s string) []byte                        { panic("BUG: not built yet") }
