package pipeline

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"enricher/lookup"
)

// phase is a part of a fact's way, the values of the label of enricher_batch_phase_seconds.
type phase uint8

const (
	phasePoll phase = iota
	phaseRefresh
	phaseLookup
	phaseProduce
	phaseCommit
	phases
)

// Metrics are the pipeline's metrics. Facts count when they are committed.
type Metrics struct {
	facts   [outcomes]prometheus.Counter
	batches [phases]prometheus.Observer
	latency prometheus.Histogram
	letters *prometheus.CounterVec
	lookups *prometheus.CounterVec
	misses  *prometheus.CounterVec
	seconds *prometheus.HistogramVec
	gaps    *prometheus.CounterVec

	mu    sync.Mutex
	steps []stepMetrics // in the order of the plan, guarded by mu
	lag   lagCollector
}

// stepMetrics are the counters of one lookup, resolved once.
type stepMetrics struct {
	dimension    string
	match, miss  prometheus.Counter
	missByReason []prometheus.Counter
	seconds      prometheus.Observer
}

// NewMetrics registers the pipeline's metrics.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	auto := promauto.With(reg)
	m := &Metrics{}
	facts := auto.NewCounterVec(prometheus.CounterOpts{
		Name: "enricher_facts_total", Help: "Committed facts by how they ended: written, dropped, skipped, dead_lettered, passed.",
	}, []string{"outcome"})
	for o := range outcomes {
		m.facts[o] = facts.WithLabelValues(o.String())
	}
	batches := auto.NewHistogramVec(prometheus.HistogramOpts{
		Name: "enricher_batch_phase_seconds", Help: "Duration of the phases of a batch in seconds: poll, refresh, lookup, produce, commit.",
		Buckets: prometheus.ExponentialBuckets(0.0001, 4, 9),
	}, []string{"phase"})
	for i, name := range [phases]string{"poll", "refresh", "lookup", "produce", "commit"} {
		m.batches[i] = batches.WithLabelValues(name)
	}
	m.latency = auto.NewHistogram(prometheus.HistogramOpts{
		Name: "enricher_end_to_end_latency_seconds", Help: "Time from a fact's timestamp to the commit of its result, in seconds.",
		Buckets: prometheus.ExponentialBuckets(0.005, 2, 16),
	})
	m.letters = auto.NewCounterVec(prometheus.CounterOpts{
		Name: "enricher_dead_letters_total", Help: "Dead letters that are committed (facts) or acknowledged (records of dimensions) by stage and class.",
	}, []string{"stage", "class"})
	m.lookups = auto.NewCounterVec(prometheus.CounterOpts{
		Name: "enricher_lookup_total", Help: "Lookups by dimension and result: match, miss, error.",
	}, []string{"dimension", "result"})
	m.misses = auto.NewCounterVec(prometheus.CounterOpts{
		Name: "enricher_lookup_miss_total", Help: "Lookups without a match by dimension and reason.",
	}, []string{"dimension", "reason"})
	m.seconds = auto.NewHistogramVec(prometheus.HistogramOpts{
		Name: "enricher_lookup_duration_seconds", Help: "Duration of the lookups of one batch in one dimension, in seconds.",
		Buckets: prometheus.ExponentialBuckets(0.00001, 4, 10),
	}, []string{"dimension"})
	m.gaps = auto.NewCounterVec(prometheus.CounterOpts{
		Name: "enricher_input_gap_records_total", Help: "Facts that were gone from the log before they were read.",
	}, []string{"topic"})
	reg.MustRegister(&m.lag)
	return m
}

// observe makes the series of a pipeline's lookups, so that they exist before the first fact.
func (m *Metrics) observe(p *Pipeline) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.steps = m.steps[:0]
	for _, d := range p.o.Plan.Describe() {
		s := stepMetrics{
			dimension: d.Dimension, match: m.lookups.WithLabelValues(d.Dimension, "match"), miss: m.lookups.WithLabelValues(d.Dimension, "miss"),
			seconds: m.seconds.WithLabelValues(d.Dimension),
		}
		for r := range lookup.MissReasons {
			s.missByReason = append(s.missByReason, m.misses.WithLabelValues(d.Dimension, r.String()))
		}
		m.steps = append(m.steps, s)
	}
	for _, t := range p.o.Topics {
		m.gaps.WithLabelValues(t)
	}
	m.lag.mu.Lock()
	defer m.lag.mu.Unlock()
	m.lag.pipeline = p
}

func (m *Metrics) phase(p phase, d time.Duration) { m.batches[p].Observe(d.Seconds()) }

func (m *Metrics) gap(topic string, n int64) { m.gaps.WithLabelValues(topic).Add(float64(n)) }

// DimensionLetter counts a dead letter of a dimension's record, which is acknowledged.
func (m *Metrics) DimensionLetter(class string) {
	m.letters.WithLabelValues(StageDimension, class).Inc()
}

// lookedUp counts the lookups of a batch, whether or not it is committed: that is what the store did.
func (m *Metrics) lookedUp(b *batch) {
	m.phase(phaseLookup, b.lookedUp)
	m.mu.Lock()
	steps := m.steps
	m.mu.Unlock()
	for i := range b.lookups {
		step, s := &b.lookups[i], &steps[i]
		s.match.Add(float64(step.Matches))
		misses := int64(0)
		for reason, n := range step.Misses {
			misses += int64(n)
			if n > 0 {
				s.missByReason[reason].Add(float64(n))
			}
		}
		s.miss.Add(float64(misses))
		if i < len(b.stepTimes) {
			s.seconds.Observe(b.stepTimes[i].Seconds())
		}
	}
}

// committed counts batches whose offsets are committed.
func (m *Metrics) committed(done []*batch, now time.Time) {
	at := now.UnixMilli()
	for _, b := range done {
		for o, n := range b.counts {
			if n > 0 {
				m.facts[o].Add(float64(n))
			}
		}
		for _, f := range b.letters {
			m.letters.WithLabelValues(f.stage, f.class).Inc()
		}
		for _, stamp := range b.stamps {
			m.latency.Observe(float64(at-stamp) / 1000)
		}
	}
}

// lagCollector reads the input lag and the facts in flight when they are scraped.
type lagCollector struct {
	mu       sync.Mutex
	pipeline *Pipeline // guarded by mu
}

func lagDesc() *prometheus.Desc {
	return prometheus.NewDesc("enricher_input_lag_records", "Facts between the committed offsets and the ends of the Kafka partitions that this instance reads.", []string{"topic"}, nil)
}

// Describe implements prometheus.Collector.
func (c *lagCollector) Describe(ch chan<- *prometheus.Desc) { ch <- lagDesc() }

// Collect implements prometheus.Collector.
func (c *lagCollector) Collect(ch chan<- prometheus.Metric) {
	c.mu.Lock()
	p := c.pipeline
	c.mu.Unlock()
	if p == nil || !p.isMember() { // unknown, which is not 0
		return
	}
	lags := make(map[string]int64)
	for _, t := range p.o.Topics {
		lags[t] = 0
	}
	for _, in := range p.inputs() {
		lags[in.Topic] += in.Lag
	}
	for topic, lag := range lags {
		ch <- prometheus.MustNewConstMetric(lagDesc(), prometheus.GaugeValue, float64(lag), topic)
	}
}
