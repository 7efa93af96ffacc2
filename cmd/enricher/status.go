package main

import (
	"fmt"
	"strings"
	"time"

	"enricher/admin"
	"enricher/changelog"
	"enricher/lookup"
	"enricher/pipeline"
)

// phase is where the service is in its life.
type phase int32

const (
	phaseStarting phase = iota // stores are being opened
	phaseWarming               // dimensions are being read up to the ends seen at start
	phaseRunning               // facts flow
	phaseStopping
)

func (p phase) String() string {
	return [...]string{"starting", "warming_up", "running", "stopping"}[p]
}

// serviceStatus is what /status shows.
type serviceStatus struct {
	Version    versionInfo       `json:"version"`
	InstanceID string            `json:"instance_id,omitempty"` // known once the store directory is open
	StartedAt  time.Time         `json:"started_at"`
	Phase      string            `json:"phase"`
	Ready      bool              `json:"ready"`
	Reasons    []admin.Reason    `json:"reasons"`
	Dimensions []dimensionStatus `json:"dimensions"`
	Lookups    []lookupStatus    `json:"lookups"`
	Pipeline   *pipeline.Status  `json:"pipeline,omitempty"` // from the moment on that it joins the group
}

// dimensionStatus is one dimension in /status.
type dimensionStatus struct {
	changelog.Status

	// Cold: the service went on before the dimension was warm (processing.warmup.on_timeout: proceed); without a complete generation it answers as empty.
	Cold bool `json:"cold"`
	// Complete tells whether there is a complete generation, which is what lookups read.
	Complete bool `json:"complete"`
	// Cache is what is kept ready before the store (cache_keys); left out where nothing is.
	Cache *cacheStatus `json:"cache,omitempty"`
}

// cacheStatus is the cache of one dimension in /status. Bytes are those that are reserved; aside says that it is not used for a while, because it found too
// little.
type cacheStatus struct {
	Keys   int64  `json:"keys"`
	Bytes  int64  `json:"bytes"`
	Hits   uint64 `json:"hits"`
	Misses uint64 `json:"misses"`
	Aside  bool   `json:"aside"`
}

// lookupStatus is one step in /status: what it does and what came of it since the start.
type lookupStatus struct {
	lookup.StepInfo

	Matches int64            `json:"matches"`
	Misses  map[string]int64 `json:"misses"`
}

func (d *dimension) status() dimensionStatus {
	s := dimensionStatus{Cold: d.cold.Load() && !d.warm()}
	s.Name, s.Topic = d.plan.Name, or(d.plan.Topic, d.plan.TopicPattern)
	if feed := d.feed.Load(); feed != nil {
		s.Status = feed.Status()
	}
	if store := d.store.Load(); store != nil {
		s.Complete = store.Complete()
		if store.cache != nil {
			c := store.cache()
			s.Cache = &cacheStatus{Keys: c.Keys, Bytes: c.Bytes, Hits: c.Hits, Misses: c.Misses, Aside: c.Aside}
		}
	}
	return s
}

// dimensionReason is why a dimension keeps the service from being ready; false when it does not.
func dimensionReason(s dimensionStatus) (admin.Reason, bool) {
	switch {
	case s.Cold: // the configuration says to go on without it
		return admin.Reason{}, false
	case s.TopicMissing:
		return admin.Reason{Reason: "topic_missing", Detail: s.Name + ": " + or(s.WaitingFor, "the topic "+s.Topic+" is missing")}, true
	case !s.Warm:
		return admin.Reason{Reason: "warming_up", Detail: s.Name + ": " + warmupDetail(s)}, true
	case !s.Ready:
		return admin.Reason{Reason: unready(s.Reasons), Detail: s.Name + ": " + or(strings.Join(s.Reasons, "; "), s.LastError)}, true
	}
	return admin.Reason{}, false
}

// unready names why a dimension that is warm is not ready, by what its changelog says first.
func unready(reasons []string) string {
	if len(reasons) > 0 {
		for _, word := range []string{"paused", "stale"} {
			if strings.HasPrefix(reasons[0], word) {
				return "dimension_" + word
			}
		}
	}
	return "dimension_not_ready"
}

// warmupDetail says how far the first reading is and what holds it up.
func warmupDetail(s dimensionStatus) string {
	var parts []string
	if p := s.Progress; p != nil {
		parts = append(parts, progressText(*p))
	}
	if s.WaitingFor != "" {
		parts = append(parts, "waiting: "+s.WaitingFor)
	}
	if s.Paused != "" {
		parts = append(parts, "paused: "+s.Paused)
	}
	if s.LastError != "" && !strings.Contains(s.WaitingFor, s.LastError) {
		parts = append(parts, "last error: "+s.LastError)
	}
	return or(strings.Join(parts, "; "), "not begun")
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// readiness puts the reasons of all parts together; empty when the service is ready.
func readiness(at phase, dimensions []dimensionStatus, facts []pipeline.Reason) []admin.Reason {
	switch at {
	case phaseStarting:
		return []admin.Reason{{Reason: "starting", Detail: "the store is being opened"}}
	case phaseStopping:
		return []admin.Reason{{Reason: "stopping", Detail: "the service was told to stop, or has to"}}
	case phaseWarming, phaseRunning:
	}
	var reasons []admin.Reason
	for _, d := range dimensions {
		if r, ok := dimensionReason(d); ok {
			reasons = append(reasons, r)
		}
	}
	if at == phaseWarming && len(reasons) == 0 { // between the last dimension and the group
		return []admin.Reason{{Reason: "not_a_group_member", Detail: "the service has not joined the group yet"}}
	}
	for _, r := range facts {
		reasons = append(reasons, admin.Reason(r))
	}
	return reasons
}

// lookupStatuses joins what the plan says of its steps with what the pipeline counted.
func lookupStatuses(steps []lookup.StepInfo, counted []pipeline.LookupStatus) []lookupStatus {
	out := make([]lookupStatus, len(steps))
	for i, step := range steps {
		out[i] = lookupStatus{StepInfo: step, Misses: map[string]int64{}}
		if i < len(counted) {
			out[i].Matches, out[i].Misses = counted[i].Matches, counted[i].Misses
		}
	}
	return out
}

// progressText is a warm-up's progress for people.
func progressText(p changelog.Progress) string {
	text := fmt.Sprintf("%.0f %%, %d rows, %.0f rows/s", 100*p.Ratio, p.Rows, p.RowsPerSecond)
	if p.SecondsLeft >= 0 {
		text += ", " + time.Duration(p.SecondsLeft*float64(time.Second)).Round(time.Second).String() + " left"
	}
	return text
}

// reasons are why the service is not ready now; for /readyz, so that it must be cheap and never wait.
func (a *app) reasons() []admin.Reason {
	return readiness(phase(a.phase.Load()), a.dimensionStatuses(), a.factReasons())
}

func (a *app) dimensionStatuses() []dimensionStatus {
	statuses := make([]dimensionStatus, len(a.dimensions))
	for i, d := range a.dimensions {
		statuses[i] = d.status()
	}
	return statuses
}

// factReasons are the pipeline's reasons once it runs.
func (a *app) factReasons() []pipeline.Reason {
	if p := a.pipeline.Load(); p != nil {
		return p.Unready()
	}
	return nil
}

// status is what /status shows now.
func (a *app) status() serviceStatus {
	s := serviceStatus{
		Version: a.version, StartedAt: a.startedAt, Phase: phase(a.phase.Load()).String(), Dimensions: a.dimensionStatuses(),
	}
	if id := a.instanceID.Load(); id != nil {
		s.InstanceID = *id
	}
	var counted []pipeline.LookupStatus
	if p := a.pipeline.Load(); p != nil {
		facts := p.Status()
		s.Pipeline, counted = &facts, facts.Lookups
	}
	s.Lookups = lookupStatuses(a.plan.Lookup.Describe(), counted)
	s.Reasons = append([]admin.Reason{}, readiness(phase(a.phase.Load()), s.Dimensions, a.factReasons())...)
	s.Ready = len(s.Reasons) == 0
	return s
}
