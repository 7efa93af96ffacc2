package dimstore

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

const (
	lockFile     = "LOCK"
	instanceFile = "instance"
)

// Dir is store.dir: locked for this process, with the instance id. Safe for concurrent use.
type Dir struct {
	path      string
	lock      *os.File
	id        string
	statfs    func(path string) (free, total uint64, err error)
	sweepRows int // of a test
	usage     usage

	mu   sync.Mutex
	open map[string]bool // names of the stores that are open
}

// OpenDir makes the directory if need be, locks it against other processes, and reads or writes the instance id. The lock goes with the
// process, however it ends. Errors: ErrLocked, ErrUnusable, ErrNoSpace, each with what to do.
func OpenDir(path string) (*Dir, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open store directory %s: %w", path, err)
	}
	if err := os.MkdirAll(abs, 0o750); err != nil {
		return nil, dirError(abs, err)
	}
	lock, err := lockDir(abs)
	if err != nil {
		return nil, err
	}
	d := &Dir{path: abs, lock: lock, statfs: diskSpace, usage: usage{path: abs}, open: make(map[string]bool)}
	if d.id, err = instanceID(abs); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return d, nil
}

// InstanceID is the id that the first start on this directory gave itself: 32 hex digits.
func (d *Dir) InstanceID() string { return d.id }

// Free returns the free bytes of the file system, as an unprivileged process may use them.
func (d *Dir) Free() (uint64, error) {
	free, _, err := d.statfs(d.path)
	if err != nil {
		return 0, fmt.Errorf("free space of %s: %w", d.path, err)
	}
	return free, nil
}

// Close gives the lock back. All stores must be closed before.
func (d *Dir) Close() error {
	if err := d.lock.Close(); err != nil {
		return fmt.Errorf("unlock %s: %w", d.path, err)
	}
	return nil
}

// lockDir takes the lock and leaves the pid in it, for the message of whoever comes second.
func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o640)
	if err != nil {
		return nil, dirError(dir, err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		defer f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, lockedError(dir, f)
		}
		return nil, fmt.Errorf("%w: %s can't be locked (%w): use a local file system for store.dir", ErrUnusable, dir, err)
	}
	pid := []byte(strconv.Itoa(os.Getpid()) + "\n")
	if _, err := f.WriteAt(pid, 0); err != nil {
		return nil, errors.Join(dirError(dir, err), f.Close())
	}
	if err := f.Truncate(int64(len(pid))); err != nil {
		return nil, errors.Join(dirError(dir, err), f.Close())
	}
	return f, nil
}

func lockedError(dir string, f *os.File) error {
	who := "another process"
	buf := make([]byte, 32)
	n, _ := f.ReadAt(buf, 0)
	if pid, err := strconv.Atoi(string(bytes.TrimSpace(buf[:n]))); err == nil {
		who = fmt.Sprintf("the process with pid %d", pid)
	}
	return fmt.Errorf("%w: %s is used by %s: stop that process, or give each instance a store.dir of its own", ErrLocked, dir, who)
}

// instanceID reads the id, or makes one that survives a crash at any moment: either the file is whole or it is not there.
func instanceID(dir string) (string, error) {
	path := filepath.Join(dir, instanceFile)
	b, err := os.ReadFile(path)
	switch {
	case err == nil:
		id := strings.TrimSpace(string(b))
		if raw, err := hex.DecodeString(id); err != nil || len(raw) != 16 {
			return "", fmt.Errorf("%w: %s does not hold an instance id: remove that file to begin with a new id", ErrUnusable, path)
		}
		return id, nil
	case !errors.Is(err, fs.ErrNotExist):
		return "", dirError(dir, err)
	}
	raw := make([]byte, 16)
	_, _ = rand.Read(raw) // never fails, see crypto/rand
	id := hex.EncodeToString(raw)
	if err := writeFile(path, []byte(id+"\n")); err != nil {
		return "", dirError(dir, err)
	}
	return id, nil
}

// writeFile writes a file so that after a crash it is either whole or as before.
func writeFile(path string, data []byte) error {
	tmp := path + ".tmp"
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o640)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return err
	}
	if err := os.Rename(tmp, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// dirError says what to do about an error of the file system at the directory itself.
func dirError(dir string, err error) error {
	var remedy string
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return fmt.Errorf("%w: open store directory: %w: free some space on the file system of %s", ErrNoSpace, err, dir)
	case errors.Is(err, unix.EROFS):
		remedy = "its file system is mounted read-only: mount it for writing, or set store.dir to another directory"
	case errors.Is(err, fs.ErrPermission):
		remedy = fmt.Sprintf("give the user with uid %d the right to read and write it, or set store.dir to another directory", os.Geteuid())
	case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.EISDIR), errors.Is(err, fs.ErrExist):
		remedy = "something else stands in its place: move that away, or set store.dir to another directory"
	default:
		return fmt.Errorf("open store directory %s: %w", dir, err)
	}
	return fmt.Errorf("%w: %s: %w: %s", ErrUnusable, dir, err, remedy)
}
