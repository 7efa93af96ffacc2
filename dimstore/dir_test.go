package dimstore_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"enricher/dimstore"
)

func TestInstanceID(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b")
	d, err := dimstore.OpenDir(path)
	require.NoError(t, err)
	id := d.InstanceID()
	assert.Regexp(t, "^[0-9a-f]{32}$", id)
	require.NoError(t, d.Close())
	for range 2 {
		d, err = dimstore.OpenDir(path)
		require.NoError(t, err)
		assert.Equal(t, id, d.InstanceID(), "the same at every start")
		require.NoError(t, d.Close())
	}
	require.NoError(t, os.WriteFile(filepath.Join(path, "instance.tmp"), []byte("half"), 0o600), "as a kill leaves it")
	other, err := dimstore.OpenDir(t.TempDir())
	require.NoError(t, err)
	assert.NotEqual(t, id, other.InstanceID())
	require.NoError(t, other.Close())

	for _, content := range []string{"", "x", "zz" + id[2:], id + "0"} {
		require.NoError(t, os.WriteFile(filepath.Join(path, "instance"), []byte(content), 0o600))
		_, err = dimstore.OpenDir(path)
		require.ErrorIs(t, err, dimstore.ErrUnusable, "an id is never made up in the place of another")
		require.ErrorContains(t, err, filepath.Join(path, "instance"))
	}
	require.NoError(t, os.Remove(filepath.Join(path, "instance")))
	d, err = dimstore.OpenDir(path)
	require.NoError(t, err, "the failed attempts left no lock behind")
	require.NoError(t, d.Close())
}

func TestLock(t *testing.T) {
	path := t.TempDir()
	d, err := dimstore.OpenDir(path)
	require.NoError(t, err)
	before := list(t, path)
	_, err = dimstore.OpenDir(path)
	require.ErrorIs(t, err, dimstore.ErrLocked)
	require.ErrorContains(t, err, path)
	require.ErrorContains(t, err, "pid "+strconv.Itoa(os.Getpid()))
	assert.Equal(t, before, list(t, path))

	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), childVariable+"="+path)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err)
	assert.Contains(t, string(out), "pid "+strconv.Itoa(os.Getpid()), "another process is told the same")

	require.NoError(t, d.Close())
	d, err = dimstore.OpenDir(path)
	require.NoError(t, err)
	require.NoError(t, d.Close())
}

func list(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		out = append(out, path)
		return err
	}))
	return out
}

func TestUnusable(t *testing.T) {
	base := t.TempDir()
	file := filepath.Join(base, "file")
	require.NoError(t, os.WriteFile(file, []byte("precious"), 0o600))
	lock := filepath.Join(base, "lock")
	require.NoError(t, os.MkdirAll(filepath.Join(lock, "LOCK"), 0o700))
	for name, path := range map[string]string{
		"a file in its place":   file,
		"a file above it":       filepath.Join(file, "data"),
		"a folder for the lock": lock,
	} {
		t.Run(name, func(t *testing.T) {
			before := list(t, base)
			_, err := dimstore.OpenDir(path)
			require.ErrorIs(t, err, dimstore.ErrUnusable)
			require.ErrorContains(t, err, path)
			require.ErrorContains(t, err, "store.dir")
			assert.Equal(t, before, list(t, base), "nothing is moved or made")
		})
	}
	t.Run("a file in the place of the dimension", func(t *testing.T) {
		path := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(path, "customer"), []byte("precious"), 0o600))
		d, err := dimstore.OpenDir(path)
		require.NoError(t, err)
		_, err = d.OpenStore(dimstore.Options{Name: "customer"})
		require.ErrorIs(t, err, dimstore.ErrUnusable)
		require.NoError(t, d.Close())
	})
}

// TestDirErrors has what the file system may answer, since a test may run as root, whom no permission stops.
func TestDirErrors(t *testing.T) {
	for errno, want := range map[unix.Errno]struct {
		is   error
		text string
	}{
		unix.EACCES: {dimstore.ErrUnusable, "right to read and write"},
		unix.EPERM:  {dimstore.ErrUnusable, "right to read and write"},
		unix.EROFS:  {dimstore.ErrUnusable, "read-only"},
		unix.ENOSPC: {dimstore.ErrNoSpace, "free some space"},
	} {
		for _, err := range []error{
			dimstore.DirError("/data", &fs.PathError{Op: "open", Path: "/data", Err: errno}),
			dimstore.OpenError("open store of customer", &fs.PathError{Op: "open", Path: "/data", Err: errno}),
			// Badger flattens errors into text.
			dimstore.OpenError("open store of customer", fmt.Errorf("while opening memtables err: %+v", errno)), //nolint:errorlint // as Badger does
		} {
			require.ErrorIs(t, err, want.is)
			require.NotErrorIs(t, err, dimstore.ErrDamaged)
		}
		require.ErrorContains(t, dimstore.DirError("/data", errno), want.text)
	}
	for _, err := range []error{
		unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.ENOSPC, unix.EDQUOT, unix.EACCES, unix.EROFS,
		errors.New("while opening fid: 3 err: open 00003.mem: too many open files"),
		errors.New("while mmapping 000001.sst with size: 100 err: cannot allocate memory"),
	} {
		assert.True(t, dimstore.Environment(err), "%v is not damage", err)
	}
	for _, err := range []error{unix.EIO, errors.New("manifest has bad magic"), errors.New("file does not exist for table 7")} {
		assert.False(t, dimstore.Environment(err), "%v may be damage", err)
	}
}

// TestFileHandles opens a store with fewer file handles than it needs.
func TestFileHandles(t *testing.T) {
	path := t.TempDir()
	s := openStore(t, path, tight)
	require.NoError(t, applyHistory(s, 0, 1000))
	require.NoError(t, s.Close())
	before := list(t, path)

	d, err := dimstore.OpenDir(path)
	require.NoError(t, err)
	var limit unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	open, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	few := limit
	few.Cur = uint64(len(open) + 8)
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &few))
	o := tight
	o.Name, o.Fingerprint = "customer", "1"
	_, err = d.OpenStore(o)
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
	require.ErrorIs(t, err, unix.EMFILE)
	require.ErrorContains(t, err, "ulimit")
	require.NotErrorIs(t, err, dimstore.ErrDamaged)
	require.NoError(t, d.Close())
	after := list(t, path)
	assert.Subset(t, before, after, "nothing is set aside")

	s = openStore(t, path, tight)
	new(models).at(1000).check(t, s)
	require.NoError(t, s.Close())
}

func TestFolderName(t *testing.T) {
	long := string(make([]byte, 300))
	seen := make(map[string]string)
	for _, name := range []string{
		"customer", "Customer", "a.b-c_d", ".", "..", ".hidden", "a/b", "a%2Fb", "LOCK", "instance", "instance.tmp", "%4COCK", "ä", "a b", long, long + "x", "damaged",
	} {
		folder := dimstore.FolderName(name)
		assert.Equal(t, folder, filepath.Base(folder))
		assert.True(t, filepath.IsLocal(folder), folder)
		assert.Less(t, len(folder), 256)
		assert.NotContains(t, []string{"LOCK", "instance", "instance.tmp", "."}, folder)
		assert.Empty(t, seen[folder], "%q", name)
		seen[folder] = name
	}
	assert.Equal(t, "customer", dimstore.FolderName("customer"))
}
