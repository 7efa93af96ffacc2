package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var address = regexp.MustCompile(`127\.0\.0\.1:\d+`)

func TestDemoOnce(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	code, stdout, stderr := call(t.Context(), "demo", "--once")
	require.Equal(t, exitDone, code, stderr)
	assert.Empty(t, stderr, "a newcomer's first look is quiet")
	golden(t, "demo.golden", address.ReplaceAllString(stdout, "127.0.0.1:PORT"))
	for line := range strings.SplitSeq(stdout, "\n") {
		assert.LessOrEqual(t, len([]rune(line)), 150, line)
	}
	left, err := os.ReadDir(temp)
	require.NoError(t, err)
	assert.Empty(t, left, "nothing is left behind")
}

func TestDemoGoesOnUntilItIsStopped(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out syncBuffer
	code := make(chan int, 1)
	go func() { code <- run(ctx, []string{"demo"}, nil, nil, &out, io.Discard) }()
	live := regexp.MustCompile(`\n  2001 .*→  (Ada Lovelace|Grace Hopper) `)
	require.Eventually(t, func() bool { return live.MatchString(out.String()) }, 30*time.Second, 20*time.Millisecond, "%s", &out)
	cancel()
	assert.Equal(t, exitDone, <-code)
}

func TestDemoConfigIsValid(t *testing.T) {
	code, stdout, _ := call(t.Context(), "demo", "--config")
	require.Equal(t, exitDone, code)
	file := filepath.Join(t.TempDir(), "enricher.yaml")
	require.NoError(t, os.WriteFile(file, []byte(stdout), 0o600))
	code, summary, stderr := call(t.Context(), "validate", "-c", file)
	assert.Equal(t, exitDone, code, stderr)
	assert.Contains(t, summary, "orders → orders_enriched, 1 dimension, 1 lookup")
}

func TestDemoEndsWhenItsOutputDoes(t *testing.T) {
	var errs bytes.Buffer
	assert.Equal(t, exitFailed, run(t.Context(), []string{"demo", "--once"}, nil, nil, brokenWriter{}, &errs))
	assert.Contains(t, errs.String(), "broken pipe")
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, syscall.EPIPE }
