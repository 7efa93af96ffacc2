package changelog

import "time"

// The ways of facts when a dimension is staler than max_staleness (Options.OnStale).
const (
	StaleHold  = "hold"  // they wait
	StaleServe = "serve" // they go on with the rows there are
	StaleFail  = "fail"  // Refresh returns ErrStale
)

// verdict is what facts that want to be looked up do.
type verdict uint8

const (
	pass verdict = iota
	hold
	fail
)

// standing is what decides about facts.
type standing struct {
	warm         bool
	refreshed    bool          // mode sync: the rows are of a refresh that is late enough; mode async: always
	outstanding  int64         // changes that are known of and not applied
	maxPending   int64         // 0: any number
	freshness    time.Duration // how long ago the rows are known to have been up to date
	maxStaleness time.Duration // 0: off
	onStale      string
}

// decide says what facts do, and after which time that changes by itself (0: never). A dimension that is not warm holds nobody: before the warm-up
// is over there are no facts, unless someone said that they may go on without it.
func (s standing) decide() (verdict, time.Duration) {
	stale := s.maxStaleness > 0 && s.freshness > s.maxStaleness
	switch {
	case !s.warm:
		return pass, 0
	case stale && s.onStale == StaleServe:
		return pass, 0
	case stale && s.onStale == StaleFail:
		return fail, 0
	case stale:
		return hold, 0
	case s.refreshed && (s.maxPending <= 0 || s.outstanding <= s.maxPending):
		return pass, 0
	case s.maxStaleness > 0:
		return hold, s.maxStaleness - s.freshness + 1
	}
	return hold, 0
}
