package dimstore_test

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"enricher/dimstore"
	"enricher/record"
)

// indexed is tight with indexes.
var indexed = dimstore.Options{Memory: 1 << 20, Indexes: testIndexes}

// indexedChange is historyChange with columns.
func indexedChange(offset int64) dimstore.Change {
	c := historyChange(offset)
	if !c.Delete {
		c.Row = record.Row(row(strconv.FormatInt(offset%7, 10), `"x"`, strconv.Quote(string(c.Row))))
	}
	return c
}

func indexedBatch(first int64) []dimstore.Change {
	changes := make([]dimstore.Change, historyBatch)
	for i := range changes {
		changes[i] = indexedChange(first + int64(i))
	}
	return changes
}

// dueDrop is the partition that is dropped when the history has come to next.
func dueDrop(next int64) (partition string, due bool) {
	round := next / historyBatch
	return strconv.FormatInt(round/2%5, 10), round%2 == 0
}

// child opens the store that a process works in until it is killed.
func child(path string) (*dimstore.Store, error) {
	d, err := dimstore.OpenDir(path)
	if err != nil {
		return nil, err
	}
	d.SetSweepRows(20)
	o := indexed
	o.Name, o.Fingerprint, o.DeleteMarkTTL = "customer", "1", 1<<40
	return d.OpenStore(o)
}

func dropUntilKilled(path string) error {
	s, err := child(path)
	if err != nil {
		return err
	}
	for next := position(s); ; next += historyBatch {
		if partition, due := dueDrop(next); due {
			if err := s.DropPartition([]byte(partition)); err != nil {
				return err
			}
			fmt.Fprintln(os.Stdout, "dropped", next)
		}
		if _, err := s.Apply(indexedBatch(next), historyPosition(next+historyBatch)); err != nil {
			return err
		}
		fmt.Fprintln(os.Stdout, "applied", next+historyBatch)
	}
}

// droppedModel is the model of what dropUntilKilled does up to a position, with the drop that is due there or without.
func droppedModel(next int64, last bool) *model {
	m := modelOf(indexed)
	for at := int64(0); ; at += historyBatch {
		if partition, due := dueDrop(at); due && (at < next || last) {
			m.drop(partition)
		}
		if at == next {
			return m
		}
		m.apply(indexedBatch(at), historyPosition(at+historyBatch))
	}
}

func TestKillWhileDropping(t *testing.T) {
	path := t.TempDir()
	rng := rand.New(rand.NewPCG(2, 2))
	for range rounds(10, 3) {
		lines := killWorker(t, path, "drop", 1+rng.IntN(80))
		kind, number, _ := strings.Cut(lines[len(lines)-1], " ")
		acknowledged, err := strconv.ParseInt(number, 10, 64)
		require.NoError(t, err)

		s := openStore(t, path, indexed)
		require.NoError(t, s.Audit(false), "while the rest of the removal runs, if there is one")
		next := position(s)
		require.GreaterOrEqual(t, next, acknowledged)
		require.LessOrEqual(t, next, acknowledged+historyBatch)
		partition, due := dueDrop(next)
		dropped := due && !slices.Contains(partitionList(s), partition)
		if kind == "dropped" && next == acknowledged {
			require.True(t, dropped, "an acknowledged drop")
		}
		m := droppedModel(next, dropped)
		m.check(t, s)
		s.AwaitSweep()
		require.NoError(t, s.Audit(true))
		m.check(t, s)
		require.NoError(t, s.Close())
	}
}

const publishedRows = 2000

// publishedBatch is a part of what generation n of publishUntilKilled consists of.
func publishedBatch(n int, offset int64) []dimstore.Change {
	var changes []dimstore.Change
	for i := range int64(500) {
		changes = append(changes, dimstore.Change{
			Bucket: historyBucket, Offset: offset + i, Partition: []byte("p"), Key: fmt.Appendf(nil, "%06d", offset+i),
			Row: record.Row(row(strconv.Itoa(n), `"x"`, strconv.Quote(strings.Repeat("r", 100)))),
		})
	}
	return changes
}

func publishUntilKilled(path string) error {
	s, err := child(path)
	if err != nil {
		return err
	}
	say := func(what string, n int) { fmt.Fprintln(os.Stdout, what, n) }
	for n := int(position(s)) + 1; ; n++ {
		l, err := s.Begin("test")
		if err != nil {
			return err
		}
		say("begun", n)
		for offset := int64(0); offset < publishedRows; offset += 500 {
			if _, err := l.Apply(publishedBatch(n, offset), nil); err != nil {
				return err
			}
			if n > 1 && offset == 500 {
				if _, err := s.Apply(publishedBatch(n-1, offset), nil); err != nil { // stale
					return err
				}
			}
		}
		if _, err := l.Apply(nil, historyPosition(int64(n))); err != nil {
			return err
		}
		say("applied", n)
		if n%5 == 0 {
			if err := l.Abandon(); err != nil {
				return err
			}
			if l, err = s.Begin("test"); err != nil {
				return err
			}
			for offset := int64(0); offset < publishedRows; offset += 500 {
				if _, err := l.Apply(publishedBatch(n, offset), historyPosition(int64(n))); err != nil {
					return err
				}
			}
			say("again", n)
		}
		if err := l.Publish(); err != nil {
			return err
		}
		say("published", n)
	}
}

func TestKillWhilePublishing(t *testing.T) {
	path := t.TempDir()
	rng := rand.New(rand.NewPCG(4, 4))
	for range rounds(12, 4) {
		lines := killWorker(t, path, "publish", 1+rng.IntN(12))
		acknowledged := -1
		for _, line := range lines {
			if number, ok := strings.CutPrefix(line, "published "); ok {
				var err error
				acknowledged, err = strconv.Atoi(number)
				require.NoError(t, err)
			}
		}
		s := openStore(t, path, indexed)
		n := int(position(s))
		if acknowledged >= 0 {
			require.GreaterOrEqual(t, n, acknowledged)
			require.LessOrEqual(t, n, acknowledged+1)
		}
		folders, err := filepath.Glob(filepath.Join(path, "customer", "*"))
		require.NoError(t, err)
		hidden, err := filepath.Glob(filepath.Join(path, "customer", ".*"))
		require.NoError(t, err)
		require.Len(t, append(folders, hidden...), 1, "of all generations one is left")
		if n > 0 {
			require.True(t, s.Complete())
			require.EqualValues(t, publishedRows, s.Rows())
			require.Equal(t, publishedRows, len(byIndex(t, s, 0, strconv.Itoa(n)))) //nolint:testifylint // Len prints all of it
		}
		require.NoError(t, s.Audit(true))
		require.NoError(t, s.Close())
	}
}

// TestUnpublished has every state of the folders that a kill around Begin, Publish and the removal of the old generation can leave.
func TestUnpublished(t *testing.T) {
	one, two := t.TempDir(), t.TempDir()
	for path, name := range map[string]string{one: "one", two: "two"} {
		s := openStore(t, path, tight)
		apply(t, s, upsert(bucket0, 0, 1, "", "k", name))
		require.NoError(t, s.MarkComplete())
		require.NoError(t, s.Close())
	}
	put := func(from, folder string) func(root string) error {
		return func(root string) error {
			return os.CopyFS(filepath.Join(root, folder), os.DirFS(filepath.Join(from, "customer", "000001")))
		}
	}
	loading := func(folder string) func(root string) error {
		return func(root string) error {
			if err := os.MkdirAll(filepath.Join(root, folder), 0o700); err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(root, folder, "LOADING"), nil, 0o600)
		}
	}
	for name, c := range map[string]struct {
		states []func(root string) error
		want   string
	}{
		"a folder that has not its name yet":        {[]func(string) error{put(one, "000001"), loading(".beginning-000002")}, "one"},
		"an empty folder":                           {[]func(string) error{put(one, "000001"), loading("000002")}, "one"},
		"loaded":                                    {[]func(string) error{put(one, "000001"), put(two, "000002"), loading("000002")}, "one"},
		"published":                                 {[]func(string) error{put(one, "000001"), put(two, "000002")}, "two"},
		"published, the old one half removed":       {[]func(string) error{put(one, ".removing-000001"), put(two, "000002")}, "two"},
		"abandoned, half removed":                   {[]func(string) error{put(one, "000001"), put(two, ".removing-000002")}, "one"},
		"two loaded, from two kills":                {[]func(string) error{put(one, "000002"), loading("000003"), loading("000001")}, "one"},
		"published over a number with a digit more": {[]func(string) error{put(one, "999999"), put(two, "1000000")}, "two"},
	} {
		t.Run(name, func(t *testing.T) {
			path := t.TempDir()
			for _, state := range c.states {
				require.NoError(t, state(filepath.Join(path, "customer")))
			}
			s := openStore(t, path, tight)
			assert.Equal(t, c.want, get(t, s, "", "k"))
			assert.True(t, s.Complete())
			entries, err := os.ReadDir(filepath.Join(path, "customer"))
			require.NoError(t, err)
			assert.Len(t, entries, 1)
			l, err := s.Begin("test")
			require.NoError(t, err)
			_, err = l.Apply([]dimstore.Change{upsert(bucket0, 0, 1, "", "k", "three")}, nil)
			require.NoError(t, err)
			require.NoError(t, l.Publish())
			require.NoError(t, s.Close())
			s = openStore(t, path, tight)
			assert.Equal(t, "three", get(t, s, "", "k"))
			require.NoError(t, s.Close())
		})
	}
}

// TestRetired: an old generation stays as long as a view reads it, and its folder goes with the last one.
func TestRetired(t *testing.T) {
	path := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := openStore(t, path, tight)
		apply(t, s, upsert(bucket0, 0, 1, "", "k", "old"))
		first, second := s.Read(), s.Read()
		old := s.Path()
		l, err := s.Begin("test")
		require.NoError(t, err)
		require.NoError(t, l.Publish())
		require.NotEqual(t, old, s.Path())
		first.Close()
		synctest.Wait()
		require.DirExists(t, old)
		assert.Equal(t, "old", getIn(t, second, "", "k"))
		assert.Equal(t, "-", get(t, s, "", "k"))
		second.Close()
		time.Sleep(time.Minute)
		_, err = os.Stat(old)
		require.ErrorIs(t, err, fs.ErrNotExist)
		require.NoError(t, s.Close())
	})
}
