package dimstore

// SetSpace lets tests say what the file system has; it holds for stores opened later as well.
func (d *Dir) SetSpace(statfs func(path string) (free, total uint64, err error)) { d.statfs = statfs }

// Path is the folder of the generation.
func (s *Store) Path() string { return s.path }
