package dimstore_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"enricher/dimstore"
	"enricher/record"
)

// open opens a store that may be found damaged.
func open(t *testing.T, path string) closing {
	t.Helper()
	d, err := dimstore.OpenDir(path)
	require.NoError(t, err)
	o := tight
	o.Name, o.Fingerprint, o.DeleteMarkTTL = "customer", "1", 1<<40
	s, err := d.OpenStore(o)
	require.NoError(t, err)
	return closing{s, d}
}

// checkReplaced checks that the generation was moved aside and an empty one works in its place.
func checkReplaced(t *testing.T, path string, s closing) {
	t.Helper()
	require.Equal(t, "damaged", s.Discarded())
	aside := filepath.Join(path, "customer", "damaged")
	left, err := os.ReadDir(aside)
	require.NoError(t, err)
	require.NotEmpty(t, left, "the damaged generation is kept")
	require.NotEqual(t, aside, s.Path())
	new(models).at(0).check(t, s)
	require.False(t, s.Complete())
	require.NoError(t, applyHistory(s, 0, 100))
	require.NoError(t, s.Close())
	s = open(t, path)
	require.Empty(t, s.Discarded(), "only once")
	new(models).at(100).check(t, s)
}

// flip changes a bit of the byte that at names, given the size.
func flip(path string, at func(size int) int) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	b[at(len(b))] ^= 0x40
	return os.WriteFile(path, b, 0o600)
}

func middle(size int) int { return size / 2 }

// TestDamage damages a store that was closed in order. Nothing of it may be used.
func TestDamage(t *testing.T) {
	whole := t.TempDir()
	s := openStore(t, whole, tight)
	for i := range int64(50) {
		require.NoError(t, applyHistory(s, i*1000, 1000))
	}
	require.NoError(t, s.MarkComplete())
	require.NoError(t, s.Close())
	require.Greater(t, len(files(t, whole, ".sst")), 1)
	cut := func(path string, size func(int64) int64) error {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		return os.Truncate(path, size(info.Size()))
	}
	half := func(n int64) int64 { return n / 2 }
	table := func(g string) string { return files(t, g, ".sst")[0] }
	manifest := func(g string) string { return filepath.Join(g, "MANIFEST") }
	for name, damage := range map[string]func(g string) error{
		"nothing in MANIFEST":         func(g string) error { return os.Truncate(manifest(g), 0) },
		"no MANIFEST":                 func(g string) error { return os.Remove(manifest(g)) },
		"half a MANIFEST":             func(g string) error { return cut(manifest(g), half) },
		"MANIFEST without its end":    func(g string) error { return cut(manifest(g), func(n int64) int64 { return n - 1 }) },
		"MANIFEST without any change": func(g string) error { return os.Truncate(manifest(g), 16) },
		"a byte of MANIFEST":          func(g string) error { return flip(manifest(g), middle) },
		"no table":                    func(g string) error { return os.Remove(table(g)) },
		"nothing in a table":          func(g string) error { return os.Truncate(table(g), 0) },
		"three bytes of a table":      func(g string) error { return os.Truncate(table(g), 3) },
		"half a table":                func(g string) error { return cut(table(g), half) },
		"a longer table":              func(g string) error { return cut(table(g), func(n int64) int64 { return n + 1 }) },
		"a table of zeros": func(g string) error {
			info, err := os.Stat(table(g))
			return errors.Join(err, os.WriteFile(table(g), make([]byte, info.Size()), 0o600))
		},
		"the first byte of a table": func(g string) error { return flip(table(g), func(int) int { return 0 }) },
		"the last byte of a table":  func(g string) error { return flip(table(g), func(n int) int { return n - 1 }) },
		"the index of a table":      func(g string) error { return flip(table(g), func(n int) int { return n - 100 }) },
		"the middle of every table": func(g string) error {
			var err error
			for _, f := range files(t, g, ".sst") {
				err = errors.Join(err, flip(f, middle))
			}
			return err
		},
		"the key registry": func(g string) error { return flip(filepath.Join(g, "KEYREGISTRY"), func(int) int { return 20 }) },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "copy")
			require.NoError(t, os.CopyFS(path, os.DirFS(whole)))
			require.NoError(t, damage(filepath.Join(path, "customer", "000001")))
			s := open(t, path)
			checkReplaced(t, path, s)
			require.NoError(t, s.Close())
		})
	}
}

// TestDamageAfterKill damages anything of a store whose process was killed. What is opened must be the state after some batch, or empty.
func TestDamageAfterKill(t *testing.T) {
	whole := t.TempDir()
	acknowledged := killChild(t, whole, 150)
	path := filepath.Join(t.TempDir(), "copy")
	require.NoError(t, os.CopyFS(path, os.DirFS(whole)))
	s := open(t, path)
	require.Empty(t, s.Discarded())
	require.GreaterOrEqual(t, position(s), acknowledged)
	require.NoError(t, s.Close())

	rng := rand.New(rand.NewPCG(3, 3))
	replaced, kept := 0, 0
	for range rounds(30, 12) {
		path := filepath.Join(t.TempDir(), "copy")
		require.NoError(t, os.CopyFS(path, os.DirFS(whole)))
		what := damageAnything(t, rng, filepath.Join(path, "customer", "000001"))
		s := open(t, path)
		if s.Discarded() != "" {
			checkReplaced(t, path, s)
			replaced++
		} else {
			next := position(s)
			t.Logf("%s: opened at %d of %d", what, next, acknowledged)
			new(models).at(next).check(t, s)
			kept++
		}
		require.NoError(t, s.Close())
	}
	assert.Positive(t, replaced)
	assert.Positive(t, kept)
}

func damageAnything(t *testing.T, rng *rand.Rand, g string) string {
	t.Helper()
	all := files(t, g, "")
	var kinds []string
	for _, f := range all {
		if ext := filepath.Ext(f); ext != ".sst" || rng.IntN(4) == 0 {
			kinds = append(kinds, f)
		}
	}
	f := kinds[rng.IntN(len(kinds))]
	b, err := os.ReadFile(f)
	require.NoError(t, err)
	end := len(bytes.TrimRight(b, "\x00"))
	var what string
	switch op := rng.IntN(4); {
	case op == 0 || end == 0:
		what = "no " + filepath.Base(f)
		require.NoError(t, os.Remove(f))
	case op == 1:
		n := rng.IntN(end)
		what = fmt.Sprintf("%d bytes of %s", n, filepath.Base(f))
		require.NoError(t, os.Truncate(f, int64(n)))
	default:
		n := rng.IntN(end)
		what = fmt.Sprintf("byte %d of %s", n, filepath.Base(f))
		require.NoError(t, flip(f, func(int) int { return n }))
	}
	return what
}

// TestDamageWhileOpen changes a table under an open store: the row is not returned, and the next open replaces the generation.
func TestDamageWhileOpen(t *testing.T) {
	path := t.TempDir()
	s := openStore(t, path, tight)
	needle := bytes.Repeat([]byte("needle"), 20)
	_, err := s.Apply([]dimstore.Change{{Bucket: historyBucket, Partition: []byte("p"), Key: []byte("k"), Row: needle}}, nil)
	require.NoError(t, err)
	require.NoError(t, s.Close()) // writes the memtable out
	s = openStore(t, path, tight)
	table := files(t, path, ".sst")[0]
	b, err := os.ReadFile(table)
	require.NoError(t, err)
	f, err := os.OpenFile(table, os.O_RDWR, 0)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte("N"), int64(bytes.Index(b, needle)))
	require.NoError(t, err)
	require.NoError(t, f.Close())

	v := s.Read()
	_, _, err = v.Get([]byte("p"), []byte("k"))
	require.ErrorIs(t, err, dimstore.ErrDamaged)
	err = v.Scan([]byte("p"), nil, func(record.Row) bool { t.Error("a damaged row is shown"); return true })
	require.ErrorIs(t, err, dimstore.ErrDamaged)
	v.Close()
	_, err = s.Apply([]dimstore.Change{{Bucket: historyBucket, Offset: 1, Partition: []byte("p"), Key: []byte("k"), Row: needle}}, nil)
	require.ErrorIs(t, err, dimstore.ErrDamaged)
	require.NoError(t, s.Close())

	s = open(t, path)
	checkReplaced(t, path, s)
	require.NoError(t, s.Close())
}

// TestDamageTwice keeps the last damaged generation only.
func TestDamageTwice(t *testing.T) {
	path := t.TempDir()
	for i := range 3 {
		s := open(t, path)
		if i > 0 {
			require.Equal(t, "damaged", s.Discarded())
		}
		require.NoError(t, applyHistory(s, 0, 100))
		require.NoError(t, s.Close())
		require.NoError(t, os.WriteFile(filepath.Join(s.Path(), "round"), []byte{byte(i)}, 0o600))
		require.NoError(t, os.Truncate(filepath.Join(s.Path(), "MANIFEST"), 5))
	}
	s := open(t, path)
	require.Equal(t, "damaged", s.Discarded())
	require.NoError(t, s.Close())
	b, err := os.ReadFile(filepath.Join(path, "customer", "damaged", "round"))
	require.NoError(t, err)
	assert.Equal(t, []byte{2}, b)
	entries, err := os.ReadDir(filepath.Join(path, "customer"))
	require.NoError(t, err)
	assert.Len(t, entries, 2)
}

// TestMisfit drops what another definition or another version of this package wrote.
func TestMisfit(t *testing.T) {
	path := t.TempDir()
	s := openStore(t, path, tight)
	require.NoError(t, applyHistory(s, 0, 100))
	require.NoError(t, s.MarkComplete())
	require.NoError(t, s.Close())
	d, err := dimstore.OpenDir(path)
	require.NoError(t, err)
	o := tight
	o.Name, o.Fingerprint = "customer", "2"
	other, err := d.OpenStore(o)
	require.NoError(t, err)
	assert.Equal(t, "definition", other.Discarded())
	assert.False(t, other.Complete())
	newModel().check(t, closing{other, d})
	_, err = d.OpenStore(o)
	require.ErrorContains(t, err, "open already")
	require.NoError(t, other.Close())
	again, err := d.OpenStore(o)
	require.NoError(t, err)
	assert.Empty(t, again.Discarded())
	require.NoError(t, again.Close())
	require.NoError(t, d.Close())
	entries, err := os.ReadDir(filepath.Join(path, "customer"))
	require.NoError(t, err)
	assert.Len(t, entries, 1, "nothing is set aside")
}
