package dimstore

// SetSpace lets tests say what the file system has; it holds for stores opened later as well.
func (d *Dir) SetSpace(statfs func(path string) (free, total uint64, err error)) { d.statfs = statfs }

// Path is the folder of the generation.
func (s *Store) Path() string { return s.current.Load().path }

// DirError is dirError.
func DirError(dir string, err error) error { return dirError(dir, err) }

// OpenError is openError.
func OpenError(what string, err error) error { return openError(what, err) }

// Environment is environment.
func Environment(err error) bool { return environment(err) }

// FolderName is folderName.
func FolderName(name string) string { return folderName(name) }
