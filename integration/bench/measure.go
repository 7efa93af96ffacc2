package main

import (
	"slices"
	"time"
)

// sample is what was seen of a run at one moment.
type sample struct {
	at     time.Time
	done   int64         // facts committed
	cpu    time.Duration // of the measured process, since its start
	own    time.Duration // of the measured process, the broker and the driver
	busy   time.Duration // of the machine
	memory int64         // RssAnon of the measured process, bytes
}

// rates are what follows from the samples of one run.
type rates struct {
	FactsPerSecond float64 `json:"facts_per_second"`
	CPUMicros      float64 `json:"cpu_us_per_fact"` // of the measured process
	PerCore        float64 `json:"facts_per_second_and_core"`
	TotalMicros    float64 `json:"total_cpu_us_per_fact"` // with the broker and the driver
	CoresElsewhere float64 `json:"cores_elsewhere"`       // taken by other processes of the machine, and by its host
	PeakMemory     int64   `json:"peak_rss_anon"`         // bytes
	Facts          int64   `json:"facts_measured"`
}

// rateOf evaluates the samples of a run of total facts. It looks at the time between two commits: the first that brings the sum to a tenth of the facts,
// when everything is at speed, and the last before the end, for the end itself waits for the rest of its interval. A run that is too short for that is
// taken whole.
func rateOf(samples []sample, total int64) rates {
	from, to := window(samples, total)
	a, b := samples[from], samples[to]
	r := rates{Facts: b.done - a.done}
	for _, s := range samples {
		r.PeakMemory = max(r.PeakMemory, s.memory)
	}
	seconds, cpu := b.at.Sub(a.at).Seconds(), (b.cpu - a.cpu).Seconds()
	if r.Facts <= 0 || seconds <= 0 {
		return r
	}
	r.FactsPerSecond = float64(r.Facts) / seconds
	r.CPUMicros = cpu * 1e6 / float64(r.Facts)
	r.TotalMicros = (b.own - a.own).Seconds() * 1e6 / float64(r.Facts)
	if cpu > 0 {
		r.PerCore = float64(r.Facts) / cpu
	}
	r.CoresElsewhere = max(0, ((b.busy-a.busy)-(b.own-a.own)).Seconds()/seconds)
	return r
}

func window(samples []sample, total int64) (from, to int) {
	first, last := 0, len(samples)-1
	from, to = -1, -1
	for i, s := range samples {
		if s.done == 0 {
			first = i
			continue
		}
		committed := i > 0 && s.done > samples[i-1].done
		if committed && from < 0 && s.done >= total/10 {
			from = i
		}
		if committed && s.done < total {
			to = i
		}
	}
	if from >= 0 && to > from && samples[to].done-samples[from].done >= total/3 {
		return from, to
	}
	return first, last
}

// spread is a median with what it was taken from.
type spread struct {
	Median float64   `json:"median"`
	Min    float64   `json:"min"`
	Max    float64   `json:"max"`
	All    []float64 `json:"rounds"`
}

// spreadOf takes the values of the rounds, at least one, in their order.
func spreadOf(values []float64) spread {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return spread{(sorted[(n-1)/2] + sorted[n/2]) / 2, sorted[0], sorted[n-1], values}
}

// spreadBy takes one value of each round.
func spreadBy[T any](rounds []T, value func(T) float64) spread {
	values := make([]float64, len(rounds))
	for i, r := range rounds {
		values[i] = value(r)
	}
	return spreadOf(values)
}
