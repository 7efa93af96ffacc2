package dimstore

import "errors"

// Errors of OpenDir and of a store. Each is wrapped with the operation and what to do.
var (
	// ErrLocked: another process uses the directory. The message names the directory and the other pid; only a person can mend it.
	ErrLocked = errors.New("store directory is in use")
	// ErrUnusable: the directory can't be used (no permission, read-only file system, a file in its place). Nothing was changed in it.
	ErrUnusable = errors.New("store directory is unusable")
	// ErrNoSpace: free disk is below the limit. Nothing was written; the same call may be repeated once there is space.
	ErrNoSpace = errors.New("not enough free disk")
	// ErrDamaged: stored data does not match its checksum. The next OpenStore moves the generation aside and begins an empty one.
	ErrDamaged = errors.New("stored data is damaged")
	// ErrTooLarge: one row is larger than the store takes. Nothing of the call was written.
	ErrTooLarge = errors.New("row is too large for the store")
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("store is closed")
)

// Dir is store.dir.
type Dir struct{}

// OpenDir locks the directory.
func OpenDir(path string) (*Dir, error) { return nil, errors.ErrUnsupported }

// InstanceID returns the id.
func (d *Dir) InstanceID() string { return "" }

// Close releases the lock.
func (d *Dir) Close() error { return nil }

// Free returns free bytes.
func (d *Dir) Free() (uint64, error) { return 0, errors.ErrUnsupported }

// OpenStore opens one dimension.
func (d *Dir) OpenStore(o Options) (*Store, error) { return nil, errors.ErrUnsupported }
