package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

// partitions is the number of Kafka partitions of every topic.
const partitions = 4

// serveBroker is the role of the broker: it prints its address, takes commands ("delay 5ms") and ends with its standard input, so that it never outlives
// the driver. Ctrl-C is the driver's to handle: the services shall drain first.
func serveBroker(ctx context.Context, stdin io.Reader, stdout io.Writer) error {
	signal.Ignore(os.Interrupt)
	var delay atomic.Int64
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.DefaultNumPartitions(partitions),
		kfake.ListenFn(func(network, address string) (net.Listener, error) {
			l, err := (&net.ListenConfig{}).Listen(ctx, network, address)
			return &lateListener{l, &delay}, err
		}))
	if err != nil {
		return fmt.Errorf("start kfake: %w", err)
	}
	defer cluster.Close()
	fmt.Fprintln(stdout, cluster.ListenAddrs()[0])
	lines := bufio.NewScanner(stdin)
	for lines.Scan() {
		d, err := time.ParseDuration(strings.TrimPrefix(lines.Text(), "delay "))
		if err != nil {
			return fmt.Errorf("broker: command %q: %w", lines.Text(), err)
		}
		delay.Store(int64(d))
		fmt.Fprintln(stdout, "ok")
	}
	return lines.Err()
}

// lateListener delays what comes in over connections that are accepted while delay, in nanoseconds, is not 0. The others cost nothing.
type lateListener struct {
	net.Listener

	delay *atomic.Int64
}

// Accept returns the next connection.
func (l *lateListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if d := time.Duration(l.delay.Load()); err == nil && d > 0 {
		return newLateConn(conn, d), nil
	}
	return conn, err
}

// lateConn is a connection whose incoming bytes arrive later by a fixed time. What is sent meanwhile is on its way at the same time, as in a long cable.
type lateConn struct {
	net.Conn

	arriving chan arrival
	closed   chan struct{}
	stop     atomic.Bool
	now      arrival // the reader's own
}

// arrival is a piece of the incoming bytes, or the error that ended them.
type arrival struct {
	at   time.Time
	data []byte
	err  error
}

func newLateConn(conn net.Conn, delay time.Duration) *lateConn {
	c := &lateConn{Conn: conn, arriving: make(chan arrival, 1024), closed: make(chan struct{})}
	go c.receive(delay) // ends with the connection
	return c
}

func (c *lateConn) receive(delay time.Duration) {
	for {
		data := make([]byte, 32<<10)
		n, err := c.Conn.Read(data)
		select {
		case c.arriving <- arrival{time.Now().Add(delay), data[:n], err}:
		case <-c.closed:
			return
		}
		if err != nil {
			return
		}
	}
}

// Read waits for the bytes that came first.
func (c *lateConn) Read(p []byte) (int, error) {
	for len(c.now.data) == 0 {
		if c.now.err != nil {
			return 0, c.now.err
		}
		select {
		case c.now = <-c.arriving:
		case <-c.closed:
			return 0, net.ErrClosed
		}
		if wait := time.Until(c.now.at); wait > 0 {
			time.Sleep(wait)
		}
	}
	n := copy(p, c.now.data)
	c.now.data = c.now.data[n:]
	return n, nil
}

// Close closes the connection and ends its reader.
func (c *lateConn) Close() error {
	if !c.stop.Swap(true) {
		close(c.closed)
	}
	return c.Conn.Close()
}
