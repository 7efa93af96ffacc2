package dimstore_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"enricher/dimstore"
	"enricher/record"
)

// One record of the changelog may be several changes. Wherever an Apply in several transactions is cut off, a position beyond the record means that
// all of its changes are there.
func TestChangesOfOneOffsetAreNotCutApart(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, tight)
	const offsets = 1500
	changes := make([]dimstore.Change, 0, 3*offsets)
	key := func(offset int64, i int) []byte { return fmt.Appendf(nil, "%04d%d", offset, i) }
	for offset := range int64(offsets) {
		for i := range 3 {
			changes = append(changes, dimstore.Change{
				Bucket: historyBucket, Offset: offset, Timestamp: 1, Partition: []byte("p"), Key: key(offset, i), Row: record.Row(bytes.Repeat([]byte{'x'}, 150)),
			})
		}
	}
	_, err := s.Apply(changes, historyPosition(offsets))
	require.NoError(t, err)
	logs := files(t, s.Path(), ".mem")
	require.Len(t, logs, 1, "nothing is written out yet")
	log, err := os.ReadFile(logs[0])
	require.NoError(t, err)
	copied := filepath.Join(t.TempDir(), "copied")
	require.NoError(t, os.CopyFS(copied, os.DirFS(dir)))
	require.NoError(t, s.Close())

	end, seen := len(bytes.TrimRight(log, "\x00")), map[int64]bool{}
	for cut := end; cut > 0; cut -= end/40 + 1 {
		path := filepath.Join(t.TempDir(), "cut")
		require.NoError(t, os.CopyFS(path, os.DirFS(copied)))
		short := bytes.Clone(log)
		clear(short[cut:])
		require.NoError(t, os.WriteFile(files(t, path, ".mem")[0], short, 0o600))
		s := openStore(t, path, tight)
		next := position(s)
		seen[next] = true
		v := s.Read()
		for offset := range next {
			for i := range 3 {
				_, ok, err := v.Get([]byte("p"), key(offset, i))
				require.NoError(t, err)
				require.True(t, ok, "change %d of offset %d, below the position %d", i, offset, next)
			}
		}
		v.Close()
		require.NoError(t, s.Close())
	}
	assert.Greater(t, len(seen), 2, "the Apply was several transactions")
}
