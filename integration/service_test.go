package integration

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// standard is the configuration that most scenarios run: orders with the name
// of their customer. Scenarios replace pieces of it.
const standard = `
kafka: {brokers: ["$BROKER"]}
input: {topics: [$orders], group: $group, session_timeout: 6s}
dimensions:
  - {name: customer, topic: $customer, columns: {id: int, name: string}, primary_key: [id]}
lookups:
  - {dimension: customer, on: {id: cust}, select: [name]}
output: {topic: $out}
dead_letter: {topic: $dead}
processing: {commit_interval: 100ms, transaction_timeout: 5s, shutdown_grace: 20s}
store: {dir: $DIR, memory: 128MiB, min_free_disk: 64MiB}
admin: {listen: "$ADMIN"}
log: {level: info, format: json}
`

// A host is a place where a service runs: its store directory and its address
// outlive the process, so that it can be started again.
type host struct {
	c     *cluster
	dir   string
	admin string
	logs  bytes.Buffer // of all its processes, under mu
	mu    sync.Mutex
}

// newHost makes an empty place.
func (c *cluster) newHost(t *testing.T) *host {
	t.Helper()
	ports, err := freePorts(1)
	require.NoError(t, err)
	return &host{c: c, dir: filepath.Join(t.TempDir(), "store"), admin: localhost(ports[0])}
}

// A service is one process of the binary.
type service struct {
	host *host
	cmd  *exec.Cmd
	done chan struct{} // closed after the exit code is there
	code int
}

// config fills in the scenario's names: $BROKER, $DIR, $ADMIN, and any other
// $name, which becomes the scenario's topic or group of that name.
func (h *host) config(text string) string {
	return os.Expand(text, func(name string) string {
		switch name {
		case "$": // written $$
			return "$"
		case "BROKER":
			return h.c.addr
		case "DIR":
			return h.dir
		case "ADMIN":
			return h.admin
		}
		return h.c.topic(name)
	})
}

// run starts the service with a configuration.
func (h *host) run(t *testing.T, text string, env ...string) *service {
	t.Helper()
	inputs()
	file := filepath.Join(t.TempDir(), "enricher.yaml")
	require.NoError(t, os.WriteFile(file, []byte(h.config(text)), 0o600))
	s := &service{host: h, cmd: exec.Command(binary, "run", "-c", file), done: make(chan struct{})}
	s.cmd.Env = append(os.Environ(), env...)
	out, in, err := os.Pipe()
	require.NoError(t, err)
	s.cmd.Stdout, s.cmd.Stderr = in, in
	require.NoError(t, s.cmd.Start())
	_ = in.Close()
	go func() {
		lines := bufio.NewReader(out)
		for {
			line, err := lines.ReadString('\n')
			h.mu.Lock()
			fmt.Fprintf(&h.logs, "%d %s", s.cmd.Process.Pid, line)
			h.mu.Unlock()
			if err != nil {
				break
			}
		}
		_ = out.Close()
		_ = s.cmd.Wait()
		s.code = s.cmd.ProcessState.ExitCode()
		close(s.done)
	}()
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		<-s.done
		if t.Failed() {
			t.Log(s.tail())
		}
	})
	return s
}

// start runs the service and waits until it is ready.
func (h *host) start(t *testing.T, text string) *service {
	t.Helper()
	s := h.run(t, text)
	s.awaitReady(t, 60*time.Second)
	return s
}

// exited is the exit code once the process has ended; -1 for a signal.
func (s *service) exited() (code int, ok bool) {
	select {
	case <-s.done:
		return s.code, true
	default:
		return 0, false
	}
}

// awaitExit waits for the end of the process.
func (s *service) awaitExit(t *testing.T, limit time.Duration) int {
	t.Helper()
	select {
	case <-s.done:
	case <-time.After(limit):
		_ = s.cmd.Process.Signal(syscall.SIGQUIT) // its goroutines go to the log
		<-time.After(time.Second)
		t.Fatalf("the service did not end within %v\n%s", limit, s.tail())
	}
	return s.code
}

// signal sends a signal to the process.
func (s *service) signal(t *testing.T, sig os.Signal) {
	t.Helper()
	require.NoError(t, s.cmd.Process.Signal(sig), "signal %v", sig)
}

// terminate stops the service as an orchestrator does and demands exit code 0.
func (s *service) terminate(t *testing.T) time.Duration {
	t.Helper()
	began := time.Now()
	s.signal(t, syscall.SIGTERM)
	code := s.awaitExit(t, 25*time.Second)
	require.Zero(t, code, "exit code after SIGTERM\n%s", s.tail())
	return time.Since(began)
}

// kill9 ends the process without a warning.
func (s *service) kill9(t *testing.T) {
	t.Helper()
	s.signal(t, syscall.SIGKILL)
	<-s.done
}

// get asks the admin server; status 0 when it does not answer.
func (s *service) get(path string) (status int, body string) {
	client := http.Client{Timeout: 3 * time.Second}
	resp, err := client.Get("http://" + s.host.admin + path)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(all)
}

func (s *service) awaitReady(t *testing.T, limit time.Duration) {
	t.Helper()
	until(t, limit, []*service{s}, func() (string, bool) {
		status, body := s.get("/readyz")
		return fmt.Sprintf("/readyz says %d %s", status, body), status == http.StatusOK
	})
}

func (s *service) awaitUnready(t *testing.T, limit time.Duration) {
	t.Helper()
	until(t, limit, []*service{s}, func() (string, bool) {
		status, body := s.get("/readyz")
		return fmt.Sprintf("/readyz says %d %s", status, body), status == http.StatusServiceUnavailable
	})
}

// awaitLog waits for a piece of text in the log.
func (s *service) awaitLog(t *testing.T, text string, limit time.Duration) {
	t.Helper()
	until(t, limit, []*service{s}, func() (string, bool) {
		return fmt.Sprintf("no %q in the log", text), strings.Contains(s.log(), text)
	})
}

// metric sums the series of a metric whose labels contain all of the given
// texts, such as `op="upsert"`. An absent metric is 0.
func (s *service) metric(t *testing.T, name string, labels ...string) float64 {
	t.Helper()
	v, err := s.tryMetric(name, labels...)
	require.NoError(t, err)
	return v
}

func (s *service) tryMetric(name string, labels ...string) (float64, error) {
	status, body := s.get("/metrics")
	if status != http.StatusOK {
		return 0, fmt.Errorf("/metrics says %d %s", status, body)
	}
	sum := 0.0
	for line := range strings.Lines(body) {
		series, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok || (series != name && !strings.HasPrefix(series, name+"{")) {
			continue
		}
		matches := true
		for _, l := range labels {
			matches = matches && strings.Contains(series, l)
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, fmt.Errorf("metric line %q: %w", line, err)
		}
		if matches {
			sum += v
		}
	}
	return sum, nil
}

// log is what this process has printed.
func (s *service) log() string {
	s.host.mu.Lock()
	defer s.host.mu.Unlock()
	var b strings.Builder
	pid := strconv.Itoa(s.cmd.Process.Pid) + " "
	for line := range strings.Lines(s.host.logs.String()) {
		if rest, ok := strings.CutPrefix(line, pid); ok {
			b.WriteString(rest)
		}
	}
	return b.String()
}

// tail is the end of the log with a title.
func (s *service) tail() string {
	all := s.log()
	return fmt.Sprintf("--- log of pid %d (%s)\n%s\n---\n", s.cmd.Process.Pid, s.host.c.prefix, all[max(0, len(all)-5000):])
}

// lastLine is what a person sees above the prompt after the process ended.
func (s *service) lastLine() string {
	lines := strings.Split(strings.TrimSpace(s.log()), "\n")
	return lines[len(lines)-1]
}

// command runs the binary to its end.
func command(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	inputs()
	var out, errs bytes.Buffer
	cmd := exec.Command(binary, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// replace is strings.Replace that demands the text to be there.
func replace(t *testing.T, text, old, with string) string {
	t.Helper()
	require.Contains(t, text, old)
	return strings.ReplaceAll(text, old, with)
}
