package pipeline

import (
	"context"
	"sync"
)

// gate keeps polling and the ends of transactions apart: the client must not be polled while a transaction begins or ends. Whoever closes
// the gate interrupts the poll that is under way and waits for it.
type gate struct {
	mu      sync.Mutex
	changed sync.Cond
	closed  bool
	polling bool
	cancel  context.CancelFunc // of the poll under way
}

func newGate() *gate {
	g := &gate{}
	g.changed.L = &g.mu
	return g
}

// enter waits until the gate is open and returns the context of one poll, which ends when the gate closes. leave must follow.
func (g *gate) enter(ctx context.Context) context.Context {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.closed {
		g.changed.Wait()
	}
	g.polling = true
	ctx, g.cancel = context.WithCancel(ctx)
	return ctx
}

// leave ends what enter began.
func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cancel()
	g.polling = false
	g.changed.Broadcast()
}

// close interrupts the poll under way, waits for it, and keeps the next one out until open.
func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	if g.polling {
		g.cancel()
	}
	for g.polling {
		g.changed.Wait()
	}
}

// open lets polls through again.
func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = false
	g.changed.Broadcast()
}
