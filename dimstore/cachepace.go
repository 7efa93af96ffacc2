package dimstore

import (
	"sync"
	"sync/atomic"
)

// pace lets the cache step aside while it finds little: a lookup that misses costs up to half as much again as one without the cache (looked
// for, copied, something else evicted), so below a rate of about 0.3 it costs more than it saves. After a while it is tried again, and after each
// trial in vain later. What it holds stays right meanwhile: commits go on removing.
type pace struct {
	lookups, hits atomic.Int64 // in the window
	aside         atomic.Int64 // lookups until the next trial; zero or less: in use
	mu            sync.Mutex
	pause         int64 // the last one, guarded by mu
}

const (
	paceWindow = 1 << 17 // lookups
	leastPause = 4 * paceWindow
	mostPause  = 256 * paceWindow
)

// worthwhile tells whether a view that is opened now should use the cache.
func (c *cache) worthwhile() bool { return c.pace.aside.Load() <= 0 }

// note is told what a view found, when it is closed.
func (c *cache) note(used bool, lookups, hits int64) {
	p := &c.pace
	if !used {
		p.aside.Add(-lookups)
		return
	}
	c.counters.hits.Add(uint64(hits))
	c.counters.misses.Add(uint64(lookups - hits))
	p.hits.Add(hits)
	if p.lookups.Add(lookups) < paceWindow || !p.mu.TryLock() {
		return
	}
	defer p.mu.Unlock()
	lookups, hits = p.lookups.Swap(0), p.hits.Swap(0)
	switch {
	case lookups < paceWindow: // another view came first
	case c.evicted() && worthless(lookups, hits):
		p.pause = min(max(leastPause, 2*p.pause), mostPause)
		p.aside.Store(p.pause)
	default:
		p.pause = 0
	}
}

// worthless: less than 0.3 of the lookups were hits.
func worthless(lookups, hits int64) bool { return hits*10 < lookups*3 }

// evicted tells whether something had to go since it was asked last: a cache that still fills up is no measure.
func (c *cache) evicted() bool {
	evicted := false
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		evicted = evicted || s.evicted
		s.evicted = false
		s.mu.Unlock()
	}
	return evicted
}
