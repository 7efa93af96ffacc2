package lookup

// Compile checks the options and compiles them.
func Compile(o Options) (*Plan, error) { panic("BUG: not built yet") }
