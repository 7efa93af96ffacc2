package main

import (
	"errors"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// program starts the program as a process of its own.
func (b *bench) program(file string) (*exec.Cmd, *syncBuffer) {
	b.t.Helper()
	cmd := exec.Command(os.Args[0], "run", "-c", file)
	stderr := &syncBuffer{}
	cmd.Env, cmd.Stderr = append(os.Environ(), asProgram+"=1"), stderr
	require.NoError(b.t, cmd.Start())
	b.t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd, stderr
}

func TestSignals(t *testing.T) {
	t.Run("one", func(t *testing.T) {
		b := newBench(t, "customer", "facts", "out")
		b.produce("facts", "a", `{"cust":1}`)
		cmd, stderr := b.program(b.config(""))
		b.output(1)
		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		require.NoError(t, cmd.Wait(), stderr)
		assert.Contains(t, stderr.String(), "signal: terminated")
	})
	t.Run("one during the warm-up", func(t *testing.T) {
		b := newBench(t, "facts", "out")
		cmd, stderr := b.program(b.config(""))
		b.await("/readyz", 503, "topic_missing")
		require.NoError(t, cmd.Process.Signal(os.Interrupt))
		require.NoError(t, cmd.Wait(), stderr)
	})
	t.Run("one while the broker hangs in a write", func(t *testing.T) {
		b := newBench(t, "customer", "facts", "out")
		cmd, stderr := b.program(b.config("processing: {shutdown_grace: 1s}"))
		b.hangInWrite(cmd, stderr)
		began := time.Now()
		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		require.NoError(t, cmd.Wait(), stderr)
		assert.Less(t, time.Since(began), 1*time.Second+closeMargin+2*time.Second) // the race detector alone takes a second to exit
	})
	t.Run("one while the broker is gone", func(t *testing.T) {
		b := newBench(t, "customer", "facts", "out")
		cmd, stderr := b.program(b.config("processing: {shutdown_grace: 1s}"))
		b.await("/readyz", 200, "")
		b.kafka.Close()
		began := time.Now()
		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		require.NoError(t, cmd.Wait(), stderr)
		assert.Less(t, time.Since(began), 1*time.Second+closeMargin+2*time.Second) // the race detector alone takes a second to exit
	})
	t.Run("a second one", func(t *testing.T) {
		b := newBench(t, "customer", "facts", "out")
		cmd, stderr := b.program(b.config("processing: {shutdown_grace: 60s}"))
		b.hangInWrite(cmd, stderr)
		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		b.await("/readyz", 503, "stopping")
		began := time.Now()
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		tick := time.NewTicker(sameSignal)
		defer tick.Stop()
		var err error
		for running := true; running; {
			select {
			case err = <-ended:
				running = false
			case <-tick.C: // from here on it is not the first signal any more
				_ = cmd.Process.Signal(syscall.SIGTERM)
			}
		}
		exit, ok := errors.AsType[*exec.ExitError](err)
		require.True(t, ok, "%v", err)
		assert.Equal(t, exitFailed, exit.ExitCode())
		assert.Less(t, time.Since(began), 2*time.Second)
		assert.Equal(t, "enricher: ended at once by a second signal; the next start goes on at the last commit", stderr.lastLine())
	})
}

// hangInWrite brings the program to where it has written an output record that the broker does not answer, nor anything else after it.
func (b *bench) hangInWrite(cmd *exec.Cmd, stderr *syncBuffer) {
	b.t.Helper()
	b.await("/readyz", 200, "")
	hung, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	b.t.Cleanup(func() { close(release) })
	b.kafka.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.kafka.KeepControl()
		if req.(*kmsg.ProduceRequest).TransactionID == nil { // a record of the test itself
			return nil, nil, false
		}
		once.Do(func() { close(hung) })
		<-release
		return nil, nil, false
	})
	b.produce("facts", "a", `{"cust":1}`)
	select {
	case <-hung:
	case <-time.After(30 * time.Second):
		b.t.Fatalf("%s wrote nothing:\n%s", cmd.Path, stderr)
	}
}

func TestAReaderThatGoesAwayIsNoCrash(t *testing.T) {
	temp := t.TempDir()
	cmd := exec.Command(os.Args[0], "demo")
	stderr := &syncBuffer{}
	cmd.Env, cmd.Stderr = append(os.Environ(), asProgram+"=1", "TMPDIR="+temp), stderr
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, err = stdout.Read(make([]byte, 10))
	require.NoError(t, err)
	require.NoError(t, stdout.Close())
	exit, ok := errors.AsType[*exec.ExitError](cmd.Wait())
	require.True(t, ok)
	assert.Equal(t, exitFailed, exit.ExitCode(), stderr)
	assert.Contains(t, stderr.lastLine(), "broken pipe")
	left, err := os.ReadDir(temp)
	require.NoError(t, err)
	assert.Empty(t, left, "the demo's folder is removed")
}

func TestAwaitEnd(t *testing.T) {
	boom := errors.New("boom")
	synctest.Test(t, func(t *testing.T) {
		done, stopping := make(chan error, 1), make(chan struct{})
		done <- boom
		ended, err := awaitEnd(done, stopping, time.Second)
		assert.True(t, ended)
		require.ErrorIs(t, err, boom, "it ends by itself")

		close(stopping)
		time.AfterFunc(time.Second-1, func() { done <- boom })
		ended, err = awaitEnd(done, stopping, time.Second)
		assert.True(t, ended)
		require.ErrorIs(t, err, boom, "it ends in time")

		began := time.Now()
		ended, _ = awaitEnd(done, stopping, time.Second)
		assert.False(t, ended)
		assert.Equal(t, time.Second, time.Since(began))
	})
}

func TestDrainTimeLeavesTimeToClose(t *testing.T) {
	assert.Equal(t, 22*time.Second+500*time.Millisecond, drainTime(30*time.Second))
	assert.Equal(t, 750*time.Millisecond, drainTime(time.Second))
	assert.Equal(t, 292*time.Second, drainTime(5*time.Minute))
	assert.Zero(t, drainTime(0))
}
