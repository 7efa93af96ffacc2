package admin_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"enricher/admin"
)

func options() admin.Options {
	reg := prometheus.NewRegistry()
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "enricher_ready", Help: "x"}, func() float64 { return 1 }))
	return admin.Options{
		Address:  "127.0.0.1:0",
		Ready:    func() []admin.Reason { return nil },
		Status:   func() any { return map[string]string{"version": "v1"} },
		Gatherer: reg,
		Logger:   slog.New(slog.DiscardHandler),
	}
}

func get(t *testing.T, o admin.Options, method, path string, edit func(*http.Request)) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(method, path, http.NoBody)
	r.RemoteAddr, r.Host = "127.0.0.1:4711", "localhost:8080"
	if edit != nil {
		edit(r)
	}
	w := httptest.NewRecorder()
	admin.NewHandler(o).ServeHTTP(w, r)
	return w
}

func TestPaths(t *testing.T) {
	warming := options()
	warming.Ready = func() []admin.Reason { return []admin.Reason{{"warming_up", "customer: 40 %"}} }
	broken := options()
	broken.Status = func() any { return math.Inf(1) }
	cases := map[string]struct {
		o            admin.Options
		method, path string
		code         int
		body         string
	}{
		"live":              {options(), "GET", "/livez", 200, `{"live":true}`},
		"live while warm":   {warming, "GET", "/livez", 200, `{"live":true}`},
		"ready":             {options(), "GET", "/readyz", 200, `{"ready":true,"reasons":[]}`},
		"not ready":         {warming, "GET", "/readyz", 503, `{"ready":false,"reasons":[{"reason":"warming_up","detail":"customer: 40 %"}]}`},
		"status":            {options(), "GET", "/status", 200, `{"version":"v1"}`},
		"status not JSON":   {broken, "GET", "/status", 500, `{"error":{"reason":"internal","detail":"the answer can't be written as JSON"}}`},
		"unknown":           {options(), "GET", "/nope", 404, `{"error":{"reason":"not_found","detail":"no such path: the server knows /livez, /readyz, /metrics and /status, and with admin.pprof /debug/pprof/"}}`},
		"below a known one": {options(), "GET", "/status/x", 404, `{"error":{"reason":"not_found","detail":"no such path: the server knows /livez, /readyz, /metrics and /status, and with admin.pprof /debug/pprof/"}}`},
		"write":             {options(), "POST", "/status", 405, `{"error":{"reason":"method_not_allowed","detail":"only GET and HEAD"}}`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := get(t, c.o, c.method, c.path, nil)
			assert.Equal(t, c.code, w.Code)
			assert.JSONEq(t, c.body, w.Body.String())
			assert.Equal(t, "application/json", w.Header().Get("Content-Type"))
			assert.Equal(t, "no-store", w.Header().Get("Cache-Control"))
		})
	}
}

func TestMetrics(t *testing.T) {
	w := get(t, options(), "GET", "/metrics", nil)
	assert.Equal(t, 200, w.Code)
	assert.Contains(t, w.Body.String(), "enricher_ready 1\n")
}

func TestMetricsOfOneBrokenCollectorLeaveTheRest(t *testing.T) {
	o := options()
	o.Gatherer.(*prometheus.Registry).MustRegister(brokenCollector{})
	w := get(t, o, "GET", "/metrics", nil)
	assert.Equal(t, 200, w.Code)
	assert.Contains(t, w.Body.String(), "enricher_ready 1\n")
}

type brokenCollector struct{}

func (brokenCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- prometheus.NewDesc("broken", "x", nil, nil)
}

func (brokenCollector) Collect(ch chan<- prometheus.Metric) {
	ch <- prometheus.NewInvalidMetric(prometheus.NewDesc("broken", "x", nil, nil), errors.New("broken"))
}

func TestGuard(t *testing.T) {
	cases := map[string]struct {
		remote, host, header string
		code                 int
		detail               string
	}{
		"loopback":                    {"127.0.0.1:1", "localhost:8080", "", 200, ""},
		"loopback, other of 127/8":    {"127.9.9.9:1", "127.0.0.1", "", 200, ""},
		"loopback 6":                  {"[::1]:1", "[::1]:8080", "", 200, ""},
		"loopback 4 in 6":             {"[::ffff:127.0.0.1]:1", "LOCALHOST", "", 200, ""},
		"no host (HTTP/1.0)":          {"127.0.0.1:1", "", "", 200, ""},
		"a forwarded port":            {"127.0.0.1:1", "localhost:19999", "", 200, ""},
		"a forwarded address":         {"127.0.0.1:1", "192.168.1.4:8080", "", 200, ""},
		"a name below localhost":      {"127.0.0.1:1", "enricher.localhost", "", 200, ""},
		"other machine":               {"10.0.0.7:1", "localhost", "", 403, "same machine only"},
		"other machine 6":             {"[2001:db8::1]:1", "localhost", "", 403, "same machine only"},
		"not an address":              {"@", "localhost", "", 403, "same machine only"},
		"rebinding":                   {"127.0.0.1:1", "evil.example:8080", "", 403, "DNS rebinding"},
		"rebinding, localhost within": {"127.0.0.1:1", "localhost.evil.example", "", 403, "DNS rebinding"},
		"rebinding, notlocalhost":     {"127.0.0.1:1", "notlocalhost", "", 403, "DNS rebinding"},
		"typed by a person":           {"127.0.0.1:1", "localhost", "Sec-Fetch-Site: none", 200, ""},
		"another site":                {"127.0.0.1:1", "localhost", "Sec-Fetch-Site: cross-site", 403, "another site"},
		"another port":                {"127.0.0.1:1", "localhost", "Sec-Fetch-Site: same-site", 403, "another site"},
		"proxy":                       {"127.0.0.1:1", "localhost", "X-Forwarded-For", 403, "forwarded by a proxy"},
		"proxy, RFC 7239":             {"127.0.0.1:1", "localhost", "Forwarded", 403, "forwarded by a proxy"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			edit := func(r *http.Request) {
				r.RemoteAddr, r.Host = c.remote, c.host
				switch name, value, given := strings.Cut(c.header, ": "); {
				case given:
					r.Header.Set(name, value)
				case c.header != "":
					r.Header.Set(c.header, "for=10.0.0.7")
				}
			}
			w := get(t, options(), "GET", "/status", edit)
			assert.Equal(t, c.code, w.Code)
			if c.code != 200 {
				var answer struct{ Error admin.Reason }
				require.NoError(t, json.Unmarshal(w.Body.Bytes(), &answer))
				assert.Equal(t, "loopback_only", answer.Error.Reason)
				assert.Contains(t, answer.Error.Detail, c.detail)
			}
			for _, public := range []string{"/livez", "/readyz", "/metrics"} {
				assert.Equal(t, 200, get(t, options(), "GET", public, edit).Code, public)
			}
		})
	}
}

// start runs a server on a real listener and returns its address and a stop function that gives Run's error.
func start(t *testing.T, o admin.Options) (addr string, stop func() error) {
	t.Helper()
	s := admin.New(o)
	assert.Nil(t, s.Addr())
	require.NoError(t, s.Listen(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	return s.Addr().String(), func() error { cancel(); return <-done }
}

// With a token only who has it is answered, from wherever, and the one that is in the file now.
func TestToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	o := options()
	o.TokenFile, o.Pprof = file, true
	ask := func(path, authorization string) int {
		return get(t, o, http.MethodGet, path, func(r *http.Request) {
			r.RemoteAddr, r.Host = "10.0.0.7:4711", "enricher:8080"
			if authorization != "" {
				r.Header.Set("Authorization", authorization)
			}
		}).Code
	}
	write := func(content string) { require.NoError(t, os.WriteFile(file, []byte(content), 0o600)) }
	assert.Equal(t, http.StatusServiceUnavailable, ask("/status", "Bearer "), "no file")
	for _, empty := range []string{"", " \n"} {
		write(empty)
		assert.Equal(t, http.StatusServiceUnavailable, ask("/status", "Bearer "), "an empty token is none")
	}
	write(strings.Repeat("x", 5000))
	assert.Equal(t, http.StatusServiceUnavailable, ask("/status", "Bearer "+strings.Repeat("x", 5000)))
	require.ErrorContains(t, admin.New(o).Listen(t.Context()), "admin.token_file", "found at start")
	pipe := o
	pipe.TokenFile = filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(pipe.TokenFile, 0o600))
	require.ErrorContains(t, admin.New(pipe).Listen(t.Context()), "not a regular file", "it does not wait for a writer")
	assert.NotContains(t, get(t, pipe, http.MethodGet, "/status", nil).Body.String(), pipe.TokenFile, "paths are for the log")

	write("s3cret\n")
	for authorization, code := range map[string]int{
		"Bearer s3cret": 200, "bearer s3cret": 200, "": 401, "Bearer": 401, "Bearer ": 401, "Bearer s3cre": 401, "Bearer s3cret2": 401, "Basic s3cret": 401, "s3cret": 401,
	} {
		for _, path := range []string{"/status", "/debug/pprof/", "/debug/pprof/goroutine"} {
			assert.Equal(t, code, ask(path, authorization), "%s with %q", path, authorization)
		}
		assert.Equal(t, http.StatusOK, ask("/livez", authorization), "public")
		assert.Equal(t, http.StatusOK, ask("/metrics", authorization), "public")
	}
	assert.Equal(t, http.StatusNotFound, ask("/debug/pprof/cmdline", "Bearer s3cret"))
	w := get(t, o, http.MethodGet, "/status", nil)
	assert.Equal(t, http.StatusUnauthorized, w.Code, "loopback clients need it too")
	assert.Equal(t, "Bearer", w.Header().Get("WWW-Authenticate"))
	assert.NotContains(t, w.Body.String(), "s3cret")
	write("other")
	assert.Equal(t, http.StatusUnauthorized, ask("/status", "Bearer s3cret"), "the former one")
	assert.Equal(t, http.StatusOK, ask("/status", "Bearer other"))
}

func TestProfilesAreOffAndGuarded(t *testing.T) {
	o := options()
	assert.Equal(t, http.StatusNotFound, get(t, o, http.MethodGet, "/debug/pprof/", nil).Code)
	o.Pprof = true
	assert.Equal(t, http.StatusOK, get(t, o, http.MethodGet, "/debug/pprof/", nil).Code)
	elsewhere := func(r *http.Request) { r.RemoteAddr = "10.0.0.7:4711" }
	assert.Equal(t, http.StatusForbidden, get(t, o, http.MethodGet, "/debug/pprof/heap", elsewhere).Code)
}

func TestServe(t *testing.T) {
	addr, stop := start(t, options())
	resp, err := http.Get("http://" + addr + "/readyz")
	require.NoError(t, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	assert.JSONEq(t, `{"ready":true,"reasons":[]}`, string(body))
	require.NoError(t, stop())
	_, err = net.Dial("tcp", addr)
	assert.ErrorIs(t, err, syscall.ECONNREFUSED)
}

func TestAddressInUse(t *testing.T) {
	addr, stop := start(t, options())
	o := options()
	o.Address = addr
	err := admin.New(o).Listen(t.Context())
	require.ErrorIs(t, err, syscall.EADDRINUSE)
	assert.Contains(t, err.Error(), addr)
	require.NoError(t, stop())
}

func TestListenNeedsAnAddress(t *testing.T) {
	o := options()
	o.Address = ""
	assert.ErrorContains(t, admin.New(o).Listen(t.Context()), "address is empty")
}

func TestRunNeedsListen(t *testing.T) {
	assert.ErrorContains(t, admin.New(options()).Run(t.Context()), "BUG")
}

func TestCloseWithoutRunGivesTheAddressBack(t *testing.T) {
	s := admin.New(options())
	require.NoError(t, s.Close())
	require.NoError(t, s.Listen(t.Context()))
	addr := s.Addr().String()
	require.NoError(t, s.Close())
	require.NoError(t, s.Close())
	l, err := net.Listen("tcp", addr)
	require.NoError(t, err)
	require.NoError(t, l.Close())
}

func TestClose(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	o := options()
	o.Status = func() any { close(entered); <-release; return "late" }
	request := func(addr string) chan string {
		answer := make(chan string, 1)
		go func() {
			resp, err := http.Get("http://" + addr + "/status")
			if err != nil {
				answer <- "cut"
				return
			}
			defer resp.Body.Close()
			b, _ := io.ReadAll(resp.Body)
			answer <- strings.TrimSpace(string(b))
		}()
		<-entered
		return answer
	}
	t.Run("a request that is being answered is finished", func(t *testing.T) {
		addr, stop := start(t, o)
		answer := request(addr)
		stopped := make(chan error, 1)
		go func() { stopped <- stop() }()
		close(release)
		require.NoError(t, <-stopped)
		assert.Equal(t, `"late"`, <-answer)
	})
	t.Run("one that hangs is cut", func(t *testing.T) {
		entered, release = make(chan struct{}), make(chan struct{})
		o.CloseTimeout = 10 * time.Millisecond
		addr, stop := start(t, o)
		answer := request(addr)
		require.NoError(t, stop())
		assert.Equal(t, "cut", <-answer)
		close(release)
	})
}

func TestLargeHeadersAreRefused(t *testing.T) {
	addr, stop := start(t, options())
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	go func() {
		_, _ = io.WriteString(conn, "GET /livez HTTP/1.1\r\nHost: localhost\r\nX: "+strings.Repeat("x", 1<<20)+"\r\n\r\n")
	}()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	assert.Equal(t, http.StatusRequestHeaderFieldsTooLarge, resp.StatusCode)
	require.NoError(t, resp.Body.Close())
	require.NoError(t, conn.Close())
	require.NoError(t, stop())
}
