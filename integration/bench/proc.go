package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// stopPatience is how long a child may take to stop by itself.
const stopPatience = 10 * time.Second

// keptLines is how much of a child's log is shown when it fails.
const keptLines = 40

// process is a child. It is ended by its process id.
type process struct {
	name  string
	cmd   *exec.Cmd
	stdin io.WriteCloser
	out   *bufio.Reader // its standard output

	exited chan struct{} // closed when it has ended
	err    error         // how it ended, after exited

	mu   sync.Mutex
	log  []string          // the last lines of its standard error, guarded by mu
	seen func(line string) // is shown every line of it
}

// start runs a program. seen may be nil.
func start(name, program string, env []string, seen func(line string), args ...string) (*process, error) {
	p := &process{name: name, cmd: exec.Command(program, args...), exited: make(chan struct{}), seen: seen} //nolint:noctx // stop ends it, in order
	p.cmd.Env = env
	stdin, err1 := p.cmd.StdinPipe()
	stdout, err2 := p.cmd.StdoutPipe()
	stderr, err3 := p.cmd.StderrPipe()
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p.stdin, p.out = stdin, bufio.NewReader(stdout)
	go func() { // ends with the child
		p.keep(stderr)
		p.err = p.cmd.Wait()
		close(p.exited)
	}()
	return p, nil
}

func (p *process) keep(stderr io.Reader) {
	lines := bufio.NewScanner(stderr)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		p.mu.Lock()
		p.log = append(p.log, line)
		p.log = p.log[max(0, len(p.log)-keptLines):]
		p.mu.Unlock()
		if p.seen != nil {
			p.seen(line)
		}
	}
	_, _ = io.Copy(io.Discard, stderr) // after a line that is too long
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// failed makes the error of a child that did not do what it should.
func (p *process) failed(what string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return fmt.Errorf("%s (process %d): %s; its last lines:\n%s", p.name, p.pid(), what, strings.Join(p.log, "\n"))
}

// ended is the error of a child that has ended too soon, nil while it runs.
func (p *process) ended() error {
	select {
	case <-p.exited:
		return p.failed("ended: " + p.cmd.ProcessState.String())
	default:
		return nil
	}
}

// stop asks the child to end, and ends it when it does not. It returns when the child is gone.
func (p *process) stop() {
	_ = p.stdin.Close()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.exited:
	case <-time.After(stopPatience):
		_ = p.cmd.Process.Kill()
		<-p.exited
	}
}

// usage is what /proc says of a process.
type usage struct {
	cpu     time.Duration // user and system, since its start
	rssAnon int64         // bytes
}

// clockTick is the unit of CPU times in /proc: USER_HZ, 100 per second on all of Go's Linux platforms.
const clockTick = time.Second / 100

func usageOf(pid int) (usage, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return usage{}, err
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return usage{}, err
	}
	cpu, err1 := parseStat(stat)
	rss, err2 := parseRssAnon(status)
	return usage{cpu, rss}, errors.Join(err1, err2)
}

// parseStat reads utime and stime, fields 14 and 15 of proc_pid_stat(5). The second field is a name that may hold anything.
func parseStat(stat []byte) (time.Duration, error) {
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 13 {
		return 0, fmt.Errorf("read /proc: no CPU time in %q", stat)
	}
	user, err1 := strconv.ParseInt(fields[11], 10, 64)
	system, err2 := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * clockTick, errors.Join(err1, err2)
}

// parseRssAnon reads the resident memory that no file backs. A process that has just ended has none.
func parseRssAnon(status []byte) (int64, error) {
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 64)
			return n << 10, err
		}
	}
	return 0, nil
}

// busyTime is the CPU time that the whole machine was busy, since its start. It is 0 where the kernel does not say.
func busyTime() time.Duration {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	return parseBusy(stat)
}

// parseBusy adds the first line's user, nice, system, irq, softirq and steal; see proc_stat(5). Time that the host took away is lost as well.
func parseBusy(stat []byte) time.Duration {
	line, _, _ := bytes.Cut(stat, []byte("\n"))
	fields := strings.Fields(string(line))
	var ticks int64
	for i, f := range fields {
		if i >= 1 && i <= 8 && i != 4 && i != 5 { // idle, iowait
			n, err := strconv.ParseInt(f, 10, 64)
			if err != nil {
				return 0
			}
			ticks += n
		}
	}
	return time.Duration(ticks) * clockTick
}

// loadAverage is the machine's load over the last minute as the kernel writes it.
func loadAverage() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "?"
	}
	one, _, _ := strings.Cut(string(b), " ")
	return one
}

// processor is the name of the CPU, as far as the kernel tells.
func processor() string {
	b, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown processor"
	}
	for line := range strings.Lines(string(b)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown processor"
}

// wait sleeps for d, or less when ctx or the child ends.
func (p *process) wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-p.exited:
		return p.ended()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
