package main

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/plugin/kprom"
)

// newRegistry makes the registry of one service with what the process itself has to tell. ready is asked at every scrape.
func newRegistry(v versionInfo, ready func() bool) *prometheus.Registry {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	with := promauto.With(reg)
	with.NewGaugeVec(prometheus.GaugeOpts{Name: "enricher_build_info", Help: "Always 1; the labels say what was built."}, []string{"version", "commit", "go_version"}).
		WithLabelValues(v.Version, v.Commit, v.Go).Set(1)
	with.NewGaugeFunc(prometheus.GaugeOpts{Name: "enricher_ready", Help: "1 when /readyz answers 200, else 0."}, func() float64 {
		if ready() {
			return 1
		}
		return 0
	})
	return reg
}

// cacheMetrics count the lookups of the dimensions whose rows are kept ready (cache_keys). They are asked at every scrape.
type cacheMetrics struct {
	desc       *prometheus.Desc
	dimensions []*dimension
}

func newCacheMetrics(dimensions []*dimension) *cacheMetrics {
	return &cacheMetrics{prometheus.NewDesc("enricher_store_cache_total",
		"Lookups of keys and groups of rows in the cache before the store (cache_keys), by whether it knew them.", []string{"dimension", "result"}, nil), dimensions}
}

// Describe implements prometheus.Collector.
func (m *cacheMetrics) Describe(to chan<- *prometheus.Desc) { to <- m.desc }

// Collect implements prometheus.Collector.
func (m *cacheMetrics) Collect(to chan<- prometheus.Metric) {
	for _, d := range m.dimensions {
		if s := d.store.Load(); s != nil && s.cache != nil {
			stats := s.cache()
			to <- prometheus.MustNewConstMetric(m.desc, prometheus.CounterValue, float64(stats.Hits), d.plan.Name, "hit")
			to <- prometheus.MustNewConstMetric(m.desc, prometheus.CounterValue, float64(stats.Misses), d.plan.Name, "miss")
		}
	}
}

// clientMetrics are the client's own metrics of one role (the facts, one dimension). kprom's serve exactly one client, but a role may have several, at the
// same time or one after another (a producer that is rebuilt): the counters go on over all of them, and the buffer gauges, which kprom ties to its client,
// are replaced by sums over the clients that live.
type clientMetrics struct {
	*kprom.Metrics

	once    sync.Once
	mu      sync.Mutex
	clients map[*kgo.Client]struct{} // under mu
}

// newClientMetrics registers the gauges at once and the counters with the first client.
func newClientMetrics(reg prometheus.Registerer, role string) *clientMetrics {
	labels := prometheus.Labels{"client": role}
	m := &clientMetrics{
		Metrics: kprom.NewMetrics("enricher_kafka", kprom.Registerer(withoutGauges{reg}), kprom.WithStaticLabel(labels),
			kprom.FetchAndProduceDetail(kprom.ByTopic, kprom.Records, kprom.Batches, kprom.CompressedBytes, kprom.UncompressedBytes, kprom.ConsistentNaming)),
		clients: map[*kgo.Client]struct{}{},
	}
	gauge := func(name, help string, of func(*kgo.Client) int64) {
		promauto.With(reg).NewGaugeFunc(prometheus.GaugeOpts{Name: "enricher_kafka_" + name, Help: help, ConstLabels: labels}, func() float64 { return m.sum(of) })
	}
	gauge("buffered_produce_records", "Records that are not yet acknowledged.", (*kgo.Client).BufferedProduceRecords)
	gauge("buffered_produce_bytes", "Bytes of the records that are not yet acknowledged.", (*kgo.Client).BufferedProduceBytes)
	gauge("buffered_fetch_records", "Records that are fetched and not yet taken.", (*kgo.Client).BufferedFetchRecords)
	gauge("buffered_fetch_bytes", "Bytes of the records that are fetched and not yet taken.", (*kgo.Client).BufferedFetchBytes)
	return m
}

func (m *clientMetrics) sum(of func(*kgo.Client) int64) float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	var n int64
	for c := range m.clients {
		n += of(c)
	}
	return float64(n)
}

// OnNewClient is called by the client; see kgo.HookNewClient.
func (m *clientMetrics) OnNewClient(c *kgo.Client) {
	m.once.Do(func() { m.Metrics.OnNewClient(c) })
	m.mu.Lock()
	defer m.mu.Unlock()
	m.clients[c] = struct{}{}
}

// OnClientClosed is called by the client; see kgo.HookClientClosed. The counters stay.
func (m *clientMetrics) OnClientClosed(c *kgo.Client) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.clients, c)
}

// withoutGauges drops single metrics: of all that kprom registers only the buffer gauges are, the rest are vectors.
type withoutGauges struct{ prometheus.Registerer }

// MustRegister registers the vectors among cs.
func (w withoutGauges) MustRegister(cs ...prometheus.Collector) {
	for _, c := range cs {
		if _, single := c.(prometheus.Metric); !single {
			w.Registerer.MustRegister(c)
		}
	}
}
