package changelog

import "github.com/prometheus/client_golang/prometheus"

// Metrics of all dimensions of a process.
type Metrics struct{}

// NewMetrics registers the metrics of dimensions.
func NewMetrics(prometheus.Registerer) *Metrics { return &Metrics{} }
