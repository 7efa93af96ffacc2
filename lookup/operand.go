package lookup

type ref struct{}
type operand struct{}
