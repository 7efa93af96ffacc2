package dimstore_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"enricher/dimstore"
)

func TestStore(t *testing.T) {
	for name, o := range map[string]dimstore.Options{
		"roomy": {Memory: 256 << 20},
		"tight": {Memory: 1 << 20},
		"zstd":  {Memory: 64 << 20, Compression: "zstd"},
	} {
		t.Run(name, func(t *testing.T) {
			testConformance(t, true, func(t *testing.T) factory {
				t.Helper()
				path := t.TempDir()
				return func(t *testing.T) conformingStore {
					t.Helper()
					return openStore(t, path, o)
				}
			})
		})
	}
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
