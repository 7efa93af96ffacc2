package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// binary is built once by TestMain.
var binary string

// TestMain makes the test binary the broker and the passthrough of the runs, or runs the tests.
func TestMain(m *testing.M) {
	ran, err := serveRole(context.Background())
	if !ran {
		err = testAll(m)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1) //nolint:forbidigo // the exit code of a test binary, or of a child
	}
}

func testAll(m *testing.M) error {
	dir, err := os.MkdirTemp("", "enricher-bench-test-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "enricher")
	if err := buildBinary(context.Background(), binary); err != nil {
		return err
	}
	m.Run()
	return nil
}

// small runs little enough for a test: it shows that everything works, and measures nothing.
func small(t *testing.T, ctx context.Context, stderr io.Writer, args ...string) (string, error) { //nolint:revive // t comes first
	t.Helper()
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	t.Setenv("ENRICHER_STORE__DIR", "/nowhere") // must not reach the service
	var stdout bytes.Buffer
	err := run(ctx, append([]string{"-rows", "3000", "-facts", "6000", "-rounds", "1", "-binary", binary}, args...), &stdout, stderr)
	left, readErr := os.ReadDir(dir)
	require.NoError(t, readErr)
	for _, entry := range left {
		assert.False(t, strings.HasPrefix(entry.Name(), "enricher-bench-"), "%s was left behind", entry.Name())
	}
	return stdout.String(), err
}

func TestBenchmarkMeasures(t *testing.T) {
	out, err := small(t, t.Context(), t.Output(), "-json", "-cases", "^uniform/[a-z_]*$|^zipf/exactly_once$|^three/at_least_once/5ms$")
	require.NoError(t, err)
	var r result
	require.NoError(t, json.Unmarshal([]byte(out), &r))
	require.Len(t, r.Load.Rounds, 1)
	assert.Positive(t, r.Load.RowsPerSecond.Median)
	assert.Positive(t, r.Load.Memory.Median)
	require.Len(t, r.Cases, 4)
	for _, c := range r.Cases {
		assert.Positive(t, c.FactsPerSecond.Median, c.Name)
		assert.Positive(t, c.Passthrough.Median, c.Name)
		assert.InDelta(t, c.FactsPerSecond.Median/c.Passthrough.Median, c.Ratio.Median, 1e-6, c.Name)
		assert.Positive(t, c.PeakMemory.Median, c.Name)
	}
	require.Len(t, r.Compare, 1)
	assert.Equal(t, "uniform", r.Compare[0].Name)
	assert.Positive(t, r.Compare[0].Ratio.Median)
}

func TestTableOfFirstLoad(t *testing.T) {
	out, err := small(t, t.Context(), t.Output(), "-cases", "^load$")
	require.NoError(t, err)
	assert.Contains(t, out, "first load")
	assert.NotContains(t, out, "passthrough")
}

func TestLatencyOfChanges(t *testing.T) {
	out, err := small(t, t.Context(), t.Output(), "-json", "-cases", "^latency$", "-changes", "20")
	require.NoError(t, err)
	var r result
	require.NoError(t, json.Unmarshal([]byte(out), &r))
	require.NotNil(t, r.Latency)
	assert.Equal(t, 20, r.Latency.Changes)
	assert.LessOrEqual(t, r.Latency.Median, r.Latency.P99)
	assert.Empty(t, r.Load.Rounds)
}

// stopper ends the run when the log shows a word.
type stopper struct {
	word string
	stop context.CancelFunc
}

func (s stopper) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(s.word)) {
		s.stop()
	}
	return len(p), nil
}

func TestInterruptLeavesNothing(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	began := time.Now()
	_, err := small(t, ctx, stopper{"first load", stop}, "-cases", "uniform/exactly_once$")
	require.ErrorIs(t, err, context.Canceled)
	assert.Less(t, time.Since(began), time.Minute)
}

func TestRefusedArguments(t *testing.T) {
	for _, args := range [][]string{{"-cases", "dual"}, {"-cases", "["}, {"-rows", "0"}, {"-facts", "999999999"}, {"-rounds", "0"}, {"-changes", "0"}, {"more"}} {
		assert.Error(t, run(t.Context(), args, io.Discard, io.Discard), args)
	}
}
