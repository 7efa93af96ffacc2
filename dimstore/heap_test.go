package dimstore_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"enricher/dimstore"
	"enricher/record"
)

// TestHeap runs the suite of all stores.
func TestHeap(t *testing.T) {
	type variant struct {
		chunk int
		held  bool // a view is open all the time
	}
	variants := map[string]variant{
		"plain":        {chunk: 1 << 20},
		"small chunks": {chunk: 1 << 10},
		"a view open":  {chunk: 1 << 12, held: true},
	}
	if raceDetector { // the readers of the suite open views too
		variants = map[string]variant{"small chunks": variants["small chunks"]}
	}
	for name, c := range variants {
		t.Run(name, func(t *testing.T) {
			testConformance(t, false, func(t *testing.T) factory {
				t.Helper()
				path := t.TempDir()
				return func(t *testing.T, o dimstore.Options) conformingStore {
					t.Helper()
					s := openHeap(t, path, o)
					s.SetChunkSize(c.chunk)
					if c.held {
						return &heldHeap{heapClosing: s, view: s.Read()}
					}
					return s
				}
			})
		})
	}
}

// heapClosing closes the directory with the store.
type heapClosing struct {
	*dimstore.HeapStore
	dir *dimstore.Dir
}

func (c heapClosing) Close() error {
	if err := c.HeapStore.Close(); err != nil {
		return err
	}
	_ = c.dir.Close() // a second time it is closed
	return nil
}

// Begin is dimstore.HeapStore.Begin as the suite knows it.
func (c heapClosing) Begin(reason string) (loadingStore, error) {
	l, err := c.HeapStore.Begin(reason)
	if err != nil {
		return nil, err
	}
	return l, nil
}

// heldHeap has the view before last of every Apply open, so that there is always one for which the past is kept.
type heldHeap struct {
	heapClosing
	view, last dimstore.View
}

func (h *heldHeap) Apply(changes []dimstore.Change, positions []dimstore.Position) (dimstore.Applied, error) {
	a, err := h.heapClosing.Apply(changes, positions)
	if h.last != nil {
		h.last.Close()
	}
	if err == nil {
		h.last, h.view = h.view, h.Read()
	}
	return a, err
}

func (h *heldHeap) Close() error {
	for _, v := range []dimstore.View{h.last, h.view} {
		if v != nil {
			v.Close()
		}
	}
	h.last, h.view = nil, nil
	return h.heapClosing.Close()
}

func openHeap(t *testing.T, path string, o dimstore.Options) heapClosing {
	t.Helper()
	d, err := dimstore.OpenDir(path)
	require.NoError(t, err)
	o.Name, o.Fingerprint, o.DeleteMarkTTL = "customer", "1", time.Hour
	s, err := d.OpenHeap(o)
	require.NoError(t, err)
	require.Empty(t, s.Discarded())
	require.False(t, s.Complete())
	return heapClosing{s, d}
}

var _ = record.Row(nil)
