package dimstore_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"enricher/dimstore"
	"enricher/record"
)

// childVariable names the directory in a process that is started to be killed.
const childVariable = "DIMSTORE_TEST_CHILD"

func TestMain(m *testing.M) {
	if path := os.Getenv(childVariable); path != "" {
		work := map[string]func(path string) error{
			"": applyUntilKilled, "drop": dropUntilKilled, "publish": publishUntilKilled,
		}[os.Getenv(childVariable+"_WORK")]
		if err := work(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		return
	}
	m.Run()
}

// tight makes for small memtables, so that there are tables and compactions after a few thousand rows.
var tight = dimstore.Options{Memory: 1 << 20}

const historyBatch = 300

var historyBucket = dimstore.BucketID{Topic: "customer", Partition: 1}

// historyChange is the change at an offset of a history that is the same every time: 3,000 keys in 5 partitions, one change in ten a delete,
// now and then a row of several parts.
func historyChange(offset int64) dimstore.Change {
	rng := rand.New(rand.NewPCG(uint64(offset), 5))
	c := dimstore.Change{
		Bucket: historyBucket, Offset: offset, Timestamp: offset, Delete: rng.IntN(10) == 0,
		Partition: strconv.AppendInt(nil, int64(rng.IntN(5)), 10), Key: fmt.Appendf(nil, "%06d", rng.IntN(600)),
	}
	size := 50 + rng.IntN(100)
	if rng.IntN(2000) == 0 {
		size = 200_000
	}
	if !c.Delete {
		c.Row = record.Row(bytes.Repeat(fmt.Appendf(nil, "%08d", offset), size/8))
	}
	return c
}

// historyPosition is that after the changes below next.
func historyPosition(next int64) []dimstore.Position {
	return []dimstore.Position{{Bucket: historyBucket, TopicID: [16]byte{7}, Next: next}}
}

// applier is a store or a generation that is loaded.
type applier interface {
	Apply(changes []dimstore.Change, positions []dimstore.Position) (dimstore.Applied, error)
	Positions() []dimstore.Position
}

func applyHistory(s applier, first, n int64) error {
	changes := make([]dimstore.Change, n)
	for i := range changes {
		changes[i] = historyChange(first + int64(i))
	}
	_, err := s.Apply(changes, historyPosition(first+n))
	return err
}

// position is where a store of the history is, 0 for a new one.
func position(s applier) int64 {
	for _, p := range s.Positions() {
		return p.Next
	}
	return 0
}

// models holds the model of the history and moves it on. It can't go back, so it is made anew for that.
type models struct {
	m    *model
	next int64
}

func (h *models) at(next int64) *model {
	if h.m == nil || next < h.next {
		h.m, h.next = newModel(), 0
	}
	for h.next < next {
		h.m.apply([]dimstore.Change{historyChange(h.next)}, historyPosition(h.next+1))
		h.next++
	}
	return h.m
}

func applyUntilKilled(path string) error {
	d, err := dimstore.OpenDir(path)
	if err != nil {
		return err
	}
	o := tight
	o.Name, o.Fingerprint, o.DeleteMarkTTL = "customer", "1", 1<<40
	s, err := d.OpenStore(o)
	if err != nil {
		return err
	}
	for next := position(s); ; next += historyBatch {
		if err := applyHistory(s, next, historyBatch); err != nil {
			return err
		}
		fmt.Fprintln(os.Stdout, next+historyBatch)
	}
}

// killChild runs a process that applies the history to the directory, and kills it after it has acknowledged some batches. It returns the last
// position that it acknowledged.
func killChild(t *testing.T, path string, batches int) int64 {
	t.Helper()
	lines := killWorker(t, path, "", batches)
	acknowledged, err := strconv.ParseInt(lines[len(lines)-1], 10, 64)
	require.NoError(t, err)
	return acknowledged
}

// killWorker runs a process that works in the directory, kills it after some lines, and returns all that it has written.
func killWorker(t *testing.T, path, work string, lines int) []string {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), childVariable+"="+path, childVariable+"_WORK="+work)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	var written []string
	for in := bufio.NewScanner(out); in.Scan(); {
		if written = append(written, in.Text()); len(written) == lines {
			require.NoError(t, cmd.Process.Kill())
		}
	}
	require.ErrorContains(t, cmd.Wait(), "killed", "%s", stderr.String())
	return written
}

func TestKill(t *testing.T) {
	path := t.TempDir()
	rng := rand.New(rand.NewPCG(1, 1))
	var h models
	for range rounds(8, 3) {
		acknowledged := killChild(t, path, 1+rng.IntN(150))
		s := openStore(t, path, tight)
		next := position(s)
		require.GreaterOrEqual(t, next, acknowledged, "an acknowledged batch is there")
		require.LessOrEqual(t, next, acknowledged+historyBatch)
		h.at(next).check(t, s)
		if rng.IntN(2) == 0 {
			require.NoError(t, applyHistory(s, next, historyBatch))
		}
		require.NoError(t, s.Close())
	}
}

// TestPowerLoss cuts the log of a memtable that was not written out yet while that of the next one is whole: what a power loss may leave.
func TestPowerLoss(t *testing.T) {
	first, second := t.TempDir(), t.TempDir()
	s := openStore(t, first, tight)
	for i := range int64(5) {
		require.NoError(t, applyHistory(s, i*10, 10))
	}
	require.NoError(t, os.CopyFS(second, os.DirFS(first))) // nothing goes on in the background: the memtable is far from full
	require.NoError(t, s.Close())
	before := filepath.Join(t.TempDir(), "before")
	require.NoError(t, os.CopyFS(before, os.DirFS(second)))
	s = openStore(t, second, tight)
	for i := range int64(5) {
		require.NoError(t, applyHistory(s, 50+i*10, 10))
	}
	logs := files(t, s.Path(), ".mem")
	require.NotEmpty(t, logs)
	newer, err := os.ReadFile(logs[len(logs)-1])
	require.NoError(t, err)
	require.NoError(t, s.Close())

	var h models
	for _, cut := range []float64{1, 0.9, 0.6, 0.3, 0.2} {
		t.Run(fmt.Sprint(cut), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "copy")
			require.NoError(t, os.CopyFS(path, os.DirFS(before)))
			log := files(t, path, ".mem")[0]
			b, err := os.ReadFile(log)
			require.NoError(t, err)
			end := len(bytes.TrimRight(b, "\x00"))
			clear(b[int(float64(end)*cut):])
			require.NoError(t, os.WriteFile(log, b, 0o600))
			require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(log), "00099.mem"), newer, 0o600))

			s := openStore(t, path, tight)
			next := position(s)
			if cut == 1 {
				assert.EqualValues(t, 100, next, "without a gap all of it counts")
			} else {
				assert.Less(t, next, int64(50), "nothing from behind the gap")
			}
			h.at(next).check(t, s)
			require.NoError(t, applyHistory(s, next, 50))
			h.at(next+50).check(t, s)
			require.NoError(t, s.Close())
			s = openStore(t, path, tight)
			h.at(next+50).check(t, s)
			require.NoError(t, s.Close())
		})
	}
}

func fileSize(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	return info.Size()
}

// files lists those of an extension below a folder, in order.
func files(t *testing.T, dir, extension string) []string {
	t.Helper()
	var out []string
	require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && strings.HasSuffix(path, extension) {
			out = append(out, path)
		}
		return err
	}))
	return out
}

// TestLeftovers puts everything into the folders that a kill may leave there, and things that are not ours.
func TestLeftovers(t *testing.T) {
	path := t.TempDir()
	s := openStore(t, path, tight)
	require.NoError(t, applyHistory(s, 0, 100))
	require.NoError(t, s.Close())
	root := filepath.Dir(s.Path())
	for _, leftover := range []string{".removing-000001", "000000", "notes"} {
		require.NoError(t, os.CopyFS(filepath.Join(root, leftover), os.DirFS(s.Path())))
	}
	for _, empty := range []string{"00077.mem", "000001.vlog", "x.mem", "MANIFEST-REWRITE", "000777.sst"} {
		require.NoError(t, os.WriteFile(filepath.Join(s.Path(), empty), nil, 0o600))
	}
	s = openStore(t, path, tight)
	var h models
	h.at(100).check(t, s)
	require.NoError(t, s.Close())
	_, err := os.Stat(filepath.Join(root, ".removing-000001"))
	require.ErrorIs(t, err, fs.ErrNotExist, "an interrupted removal is finished")
	_, err = os.Stat(filepath.Join(root, "notes"))
	require.NoError(t, err, "what is not ours stays")
}

// TestUnfinishedCreation has every state that a kill while a generation is begun can leave.
func TestUnfinishedCreation(t *testing.T) {
	whole := t.TempDir()
	s := openStore(t, whole, tight)
	require.NoError(t, s.Close())
	for name, spoil := range map[string]func(generation string) error{
		"only the folder": func(g string) error { return errors.Join(os.RemoveAll(g), os.Mkdir(g, 0o700)) },
		"no folder":       os.RemoveAll,
		"an empty database": func(g string) error {
			for _, f := range []string{"CLEAN", "000001.sst", "MANIFEST"} {
				if err := os.RemoveAll(filepath.Join(g, f)); err != nil {
					return err
				}
			}
			return os.WriteFile(filepath.Join(g, "00001.mem"), make([]byte, 4096), 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "copy")
			require.NoError(t, os.CopyFS(path, os.DirFS(whole)))
			require.NoError(t, spoil(filepath.Join(path, "customer", "000001")))
			s := openStore(t, path, tight)
			require.NoError(t, applyHistory(s, 0, 100))
			require.NoError(t, s.Close())
			s = openStore(t, path, tight)
			var h models
			h.at(100).check(t, s)
			require.NoError(t, s.Close())
		})
	}
}
