package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// All problems of a configuration at once, each with its place; exit code 2.
func TestBadConfiguration(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "bad.yaml")
	require.NoError(t, os.WriteFile(file, []byte(`kafka:
  Brokers: ["a:1"]
input: {topics: orders, group: g}
dimensions:
  - {name: customer, topic: c, columns: {id: int, name: string}, primary_key: [id]}
  - {name: customer, topic: d, columns: {id: int, name: string}, primary_key: [id]}
lookups:
  - {dimension: customers, on: {id: cust}, select: [name]}
output: {topic: out}
processing: {commit_interval: 5}
`), 0o600))
	for _, cmd := range []string{"validate", "run"} {
		code, out, errs := command(t, cmd, "-c", file)
		all := out + errs
		assert.Equal(t, 2, code, "%s\n%s", cmd, all)
		for _, want := range []string{
			file + ":2: ", "brokers", file + ":3: ", "input.topics", file + ":6: ", file + ":8: ", "customers", file + ":10: ", "commit_interval",
		} {
			assert.Contains(t, all, want, cmd)
		}
	}
	code, out, errs := command(t, "run", "-c", filepath.Join(t.TempDir(), "nowhere.yaml"))
	assert.Equal(t, 2, code, out+errs)
	assert.Contains(t, out+errs, "nowhere.yaml")
	code, _, _ = command(t, "no-such-command")
	assert.Equal(t, 2, code)
}

// A second process on the directory names the directory and the first one.
func TestStoreLocked(t *testing.T) {
	t.Parallel()
	c := onShared(t)
	c.createAll(t, 1)
	c.rows(t, 1, 1)
	h := c.newHost(t)
	first := h.start(t, standard)
	second := &host{c: c, dir: h.dir, admin: c.newHost(t).admin}
	s := second.run(t, standard)
	assert.Equal(t, 1, s.awaitExit(t, 15*time.Second))
	assert.Contains(t, s.lastLine(), h.dir)
	assert.Contains(t, s.lastLine(), strconv.Itoa(first.cmd.Process.Pid))
	first.awaitReady(t, 5*time.Second)
	first.terminate(t)
}

// A file in the place of the store directory: exit code 1, nothing is moved.
func TestStoreUnusable(t *testing.T) {
	t.Parallel()
	c := onShared(t)
	h := c.newHost(t)
	require.NoError(t, os.WriteFile(h.dir, []byte("mine"), 0o600))
	s := h.run(t, standard)
	assert.Equal(t, 1, s.awaitExit(t, 15*time.Second))
	assert.Contains(t, s.lastLine(), h.dir)
	left, err := os.ReadFile(h.dir)
	require.NoError(t, err)
	assert.Equal(t, "mine", string(left))
}

// The committed offset lies outside the log: with `fail` the service ends and
// says the numbers, with `continue` it goes on and counts.
func TestGap(t *testing.T) {
	t.Parallel()
	const customers = 10
	c := onShared(t)
	c.createAll(t, 1)
	c.rows(t, customers, 1)
	produce := func(from, to int) {
		for id := from; id < to; id++ {
			c.produce(t, c.fact(id, 1, customers))
		}
	}
	w := c.follow(t, "out")
	h := c.newHost(t)
	produce(0, 30)
	s := h.start(t, standard)
	w.await(t, 30, 30*time.Second, s)
	s.terminate(t)
	produce(30, 60)
	c.deleteBefore(t, "orders", 0, 50)

	s = h.run(t, standard)
	require.Equal(t, 1, s.awaitExit(t, 30*time.Second), s.tail())
	for _, want := range []string{c.topic("orders"), "30", "50", "on_gap"} {
		assert.Contains(t, s.lastLine(), want, "the last line says what to do")
	}
	assert.Equal(t, 30, w.count())

	s = h.start(t, replace(t, standard, "session_timeout: 6s", "session_timeout: 6s, on_gap: continue"))
	w.await(t, 40, 30*time.Second, s)
	assert.InDelta(t, 20, s.metric(t, "enricher_input_gap_records_total", c.topic("orders")), 0)
	s.terminate(t)
	out := c.read(t, "out")
	require.Len(t, out, 40)
	for _, r := range out {
		id, err := factID(r)
		require.NoError(t, err)
		assert.False(t, id >= 30 && id < 50, "fact %d was deleted", id)
	}
}

// TLS with an own authority: each SASL mechanism, and a client certificate.
func TestSecurity(t *testing.T) {
	t.Parallel()
	check := func(t *testing.T, e endpoint, security string) {
		t.Helper()
		ca, cert, key := e.certs.files(t)
		security = strings.NewReplacer("$CA", ca, "$CERT", cert, "$KEY", key).Replace(security)
		c := on(t, e)
		c.createAll(t, 2)
		c.rows(t, 10, 2)
		c.load(t, 100, 10_000, 10, 2).wait(t)
		w := c.follow(t, "out")
		s := c.newHost(t).start(t, replace(t, standard, `["$BROKER"]`, `["$BROKER"], `+security))
		w.await(t, 100, 30*time.Second, s)
		s.terminate(t)
		c.exactlyOnce(t, 100, 10)
	}
	t.Run("SASL", func(t *testing.T) {
		t.Parallel()
		e := kafka.shared.sasl(t)
		for mechanism, user := range map[string][2]string{
			"SCRAM-SHA-256": {scramUser, scramPassword}, "SCRAM-SHA-512": {scramUser, scramPassword}, "PLAIN": {plainUser, plainPassword},
		} {
			t.Run(mechanism, func(t *testing.T) {
				check(t, e, fmt.Sprintf("tls: {enabled: true, ca_file: $CA}, sasl: {mechanism: %s, username: %s, password: %s}", mechanism, user[0], user[1]))
			})
		}
		t.Run("wrong password", func(t *testing.T) {
			ca, _, _ := e.certs.files(t)
			c := on(t, e)
			c.createAll(t, 1)
			s := c.newHost(t).run(t, replace(t, standard, `["$BROKER"]`, `["$BROKER"], tls: {enabled: true, ca_file: `+ca+
				`}, sasl: {mechanism: SCRAM-SHA-256, username: alice, password: WrongOne77}`))
			s.awaitLog(t, "SASL", 30*time.Second)
			s.awaitUnready(t, 10*time.Second)
			assert.NotContains(t, s.log(), "WrongOne77", "a password in the log")
		})
	})
	t.Run("client certificate", func(t *testing.T) {
		t.Parallel()
		check(t, kafka.shared.mutual(t), "tls: {enabled: true, ca_file: $CA, cert_file: $CERT, key_file: $KEY}")
	})
}
