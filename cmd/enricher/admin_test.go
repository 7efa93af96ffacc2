package main

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The keys of the admin section reach the server; probes go on without the token.
func TestAdminToken(t *testing.T) {
	b := newBench(t, "customer", "facts", "out")
	token := writeFile(t, "token", "s3cret\n")
	config, err := os.ReadFile(b.config(""))
	require.NoError(t, err)
	r := b.start(writeFile(t, "token.yaml", strings.Replace(string(config), "admin: {", "admin: {pprof: true, token_file: "+token+", ", 1)))
	b.await("/readyz", 200, "")
	for _, path := range []string{"/status", "/debug/pprof/"} {
		code, body := b.get(path)
		assert.Equal(t, http.StatusUnauthorized, code, body)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+b.admin+path, http.NoBody)
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer s3cret")
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		assert.Equal(t, http.StatusOK, resp.StatusCode)
	}
	r.stop()
	assert.Equal(t, exitDone, r.end(t), r.stderr)
	assert.NotContains(t, r.stderr.String(), "s3cret")
}

func TestOnLoopback(t *testing.T) {
	for listen, want := range map[string]bool{
		"127.0.0.1:8080": true, "[::1]:8080": true, "localhost:8080": true, "127.1.2.3:0": true,
		":8080": false, "0.0.0.0:8080": false, "[::]:8080": false, "10.0.0.7:8080": false, "enricher:8080": false,
	} {
		assert.Equal(t, want, onLoopback(listen), listen)
	}
}
