package dimstore_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"enricher/dimstore"
	"enricher/record"
)

// rounds is how often a random or concurrent test repeats itself. The race detector, which makes Badger twenty times slower, needs less of
// that: what it looks for are accesses without order, not rare moments.
func rounds(n, raced int) int {
	if raceDetector {
		return raced
	}
	return n
}

func TestStore(t *testing.T) {
	options := map[string]dimstore.Options{
		"roomy": {Memory: 256 << 20},
		"tight": {Memory: 1 << 20},
		"zstd":  {Memory: 64 << 20, Compression: "zstd"},
		"cache": {Memory: 1 << 20, CacheBytes: 256 << 10},
	}
	if raceDetector { // no other has goroutines that this one lacks: it has the most flushes and compactions too
		options = map[string]dimstore.Options{"cache": options["cache"]}
	}
	for name, o := range options {
		t.Run(name, func(t *testing.T) {
			testConformance(t, true, func(t *testing.T) factory {
				t.Helper()
				path := t.TempDir()
				return func(t *testing.T, with dimstore.Options) conformingStore {
					t.Helper()
					o.Version, o.Indexes = with.Version, with.Indexes
					s := openStore(t, path, o)
					s.CacheEarly()
					return s
				}
			})
		})
	}
}

// TestOptions refuses what no caller may ask for.
func TestOptions(t *testing.T) {
	d, err := dimstore.OpenDir(t.TempDir())
	require.NoError(t, err)
	for want, o := range map[string]dimstore.Options{
		"needs a name":          {},
		"none of offset":        {Name: "a", Version: "column:v"},
		"256 indexes":           {Name: "a", Indexes: make([]dimstore.Index, 256)},
		"0 columns and 0 types": {Name: "a", Indexes: make([]dimstore.Index, 1)},
		"1 columns and 2 types": {Name: "a", Indexes: []dimstore.Index{{Columns: []int{1}, Types: []record.Type{record.Int, record.Int}}}},
	} {
		_, err := d.OpenStore(o)
		require.ErrorContains(t, err, want)
	}
	require.NoError(t, d.Close())
}

// closing closes the directory with the store.
type closing struct {
	*dimstore.Store
	dir *dimstore.Dir
}

func (c closing) Close() error {
	if err := c.Store.Close(); err != nil {
		return err
	}
	_ = c.dir.Close() // a second time it is closed
	return nil
}

// Begin is dimstore.Store.Begin as the suite knows it.
func (c closing) Begin(reason string) (loadingStore, error) {
	l, err := c.Store.Begin(reason)
	if err != nil {
		return nil, err
	}
	return l, nil
}

func openStore(t *testing.T, path string, o dimstore.Options) closing {
	t.Helper()
	d, err := dimstore.OpenDir(path)
	require.NoError(t, err)
	o.Name, o.Fingerprint, o.DeleteMarkTTL = "customer", "1", time.Hour
	s, err := d.OpenStore(o)
	require.NoError(t, err)
	require.Empty(t, s.Discarded())
	return closing{s, d}
}
