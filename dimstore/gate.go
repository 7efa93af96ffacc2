package dimstore

import "sync"

// gate counts who is inside, so that a database is closed only when nobody reads from it: its memory maps go with it. The zero gate is shut.
type gate struct {
	mu     sync.Mutex
	empty  *sync.Cond
	inside int
	open   bool
}

func newGate() *gate {
	g := &gate{}
	g.empty = sync.NewCond(&g.mu)
	return g
}

// enter reports whether the gate is open; if so, leave must follow.
func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open {
		g.inside++
	}
	return g.open
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	if g.inside == 0 {
		g.empty.Broadcast()
	}
}

// shut lets nobody in any more and waits until all have left.
func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = false
	for g.inside > 0 {
		g.empty.Wait()
	}
}

func (g *gate) unlock() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = true
}
