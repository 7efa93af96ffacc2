package changelog

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics exports all dimensions of a process. It holds no numbers of its own: they are read from the dimensions when they are asked for.
type Metrics struct {
	mu   sync.Mutex
	dims []*Dimension

	rows, lag, freshness, changes, ratio, paused, rebuilds, refreshes, openTransaction, storeBytes *prometheus.Desc
}

// NewMetrics makes the metrics of dimensions and registers them.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, append([]string{"dimension"}, labels...), nil)
	}
	m := &Metrics{
		rows:      desc("enricher_dimension_rows", "Live rows in the store."),
		lag:       desc("enricher_dimension_lag_records", "Offsets between the positions in the store and the ends last seen, over all buckets."),
		freshness: desc("enricher_dimension_freshness_seconds", "Age of the last proof that every bucket was read to its end. Absent until warm."),
		changes:   desc("enricher_dimension_changes_total", "Changes by what became of them.", "op"),
		ratio:     desc("enricher_dimension_warmup_ratio", "Part of the offsets up to the ends seen at start that is applied."),
		paused:    desc("enricher_dimension_paused", "1 while changes are not applied, by reason.", "reason"),
		rebuilds:  desc("enricher_dimension_rebuilds_total", "Times that the dimension was loaded anew, by reason.", "reason"),
		refreshes: desc("enricher_dimension_refresh_total",
			"Refreshes by result: ok, error. In mode async, looks at the ends of all buckets.", "result"),
		openTransaction: desc("enricher_dimension_open_transaction_seconds",
			"How long the end of a bucket has stood still below its high watermark, at most over the buckets."),
		storeBytes: desc("enricher_store_bytes", "Bytes of the dimension on disk."),
	}
	reg.MustRegister(m)
	return m
}

func (m *Metrics) add(d *Dimension) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dims = append(m.dims, d)
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.rows, m.lag, m.freshness, m.changes, m.ratio, m.paused, m.rebuilds, m.refreshes, m.openTransaction, m.storeBytes} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	m.mu.Lock()
	dims := m.dims
	m.mu.Unlock()
	for _, d := range dims {
		m.collect(ch, d)
	}
}

func (m *Metrics) collect(ch chan<- prometheus.Metric, d *Dimension) {
	now := time.Now()
	gauge := func(desc *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, v, append([]string{d.o.Name}, labels...)...)
	}
	count := func(desc *prometheus.Desc, v int64, label string) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(v), d.o.Name, label)
	}
	gauge(m.rows, float64(d.o.Sink.Rows()))
	gauge(m.storeBytes, float64(d.o.Sink.Bytes()))

	s := &d.state
	s.mu.Lock()
	defer s.mu.Unlock()
	count(m.changes, s.upserts, "upsert")
	count(m.changes, s.deletes, "delete")
	count(m.changes, s.stale, "stale")
	count(m.changes, s.expired, "expired")
	count(m.changes, s.errors, "error")
	count(m.refreshes, s.refresh.ok, "ok")
	count(m.refreshes, s.refresh.failed, "error")
	paused := s.paused()
	for _, reason := range []string{pausedDisk, pausedMemory, pausedDeadLetter} {
		v := 0.0
		if _, ok := paused[reason]; ok {
			v = 1
		}
		gauge(m.paused, v, reason)
	}
	for reason, n := range s.rebuilds {
		count(m.rebuilds, n, reason)
	}
	f := s.shown()
	if f == nil {
		gauge(m.ratio, 0)
		return
	}
	ratio := f.track.ratio()
	if age, ok := s.freshness(now); ok {
		ratio = 1
		gauge(m.freshness, age.Seconds())
	}
	gauge(m.ratio, ratio)
	gauge(m.lag, float64(f.track.lag()))
	var open time.Duration
	for i := range f.track.buckets {
		open = max(open, f.track.buckets[i].openTransaction(now))
	}
	gauge(m.openTransaction, open.Seconds())
}
