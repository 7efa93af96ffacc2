package main

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"
)

// result is everything that was measured.
type result struct {
	Machine machine       `json:"machine"`
	Rows    int           `json:"rows"`
	Facts   int           `json:"facts_per_run"`
	Rounds  int           `json:"rounds"`
	Took    float64       `json:"seconds"`
	Load    loadLine      `json:"first_load"`
	Cases   []*caseLine   `json:"cases"`
	Compare []compareLine `json:"exactly_once_of_at_least_once"`
	// Latency of changes; nil when it was not measured.
	Latency *latencyResult `json:"latency,omitempty"`

	began time.Time
}

// machine is where it was measured.
type machine struct {
	Cores      int    `json:"cores"`
	Processor  string `json:"processor"`
	Go         string `json:"go"`
	OS         string `json:"os"`
	LoadBefore string `json:"load_average_before"`
	LoadAfter  string `json:"load_average_after"`
}

// loadLine is the first load.
type loadLine struct {
	RowsPerSecond spread       `json:"rows_per_second"`
	CPUMicros     spread       `json:"cpu_us_per_row"`
	Memory        spread       `json:"rss_anon"`
	PeakMemory    spread       `json:"peak_rss_anon"`
	Disk          spread       `json:"disk"`
	Rounds        []loadResult `json:"rounds"`
}

// caseLine is one case.
type caseLine struct {
	Name           string `json:"name"`
	FactsPerSecond spread `json:"facts_per_second"`
	Passthrough    spread `json:"passthrough_facts_per_second"`
	Ratio          spread `json:"ratio"`
	CPURatio       spread `json:"cpu_ratio"`
	CPUMicros      spread `json:"cpu_us_per_fact"`
	PassthroughCPU spread `json:"passthrough_cpu_us_per_fact"`
	PerCore        spread `json:"facts_per_second_and_core"`
	PeakMemory     spread `json:"peak_rss_anon"`
	CoresElsewhere spread `json:"cores_elsewhere"`
	Rounds         []pair `json:"rounds"`

	of benchCase
}

// compareLine is the speed of exactly once against at least once, of the same round.
type compareLine struct {
	Name  string `json:"name"`
	Ratio spread `json:"ratio"`
}

func newResult(o options, cases []benchCase) *result {
	r := &result{Rows: o.rows, Facts: o.facts, Rounds: o.rounds, began: time.Now()}
	r.Machine = machine{Cores: runtime.NumCPU(), Processor: processor(), Go: runtime.Version(), OS: runtime.GOOS + "/" + runtime.GOARCH, LoadBefore: loadAverage()}
	for _, c := range cases {
		r.Cases = append(r.Cases, &caseLine{Name: c.name(), of: c})
	}
	return r
}

// finish works the medians out; every line has at least one round, or there is no line.
func (r *result) finish() {
	r.Machine.LoadAfter = loadAverage()
	r.Took = time.Since(r.began).Seconds()
	if len(r.Load.Rounds) == 0 {
		return
	}
	l := &r.Load
	l.RowsPerSecond = spreadBy(l.Rounds, func(r loadResult) float64 { return r.RowsPerSecond })
	l.CPUMicros = spreadBy(l.Rounds, func(r loadResult) float64 { return r.CPUMicros })
	l.Memory = spreadBy(l.Rounds, func(r loadResult) float64 { return float64(r.Memory) })
	l.PeakMemory = spreadBy(l.Rounds, func(r loadResult) float64 { return float64(r.PeakMemory) })
	l.Disk = spreadBy(l.Rounds, func(r loadResult) float64 { return float64(r.Disk) })
	for _, c := range r.Cases {
		c.FactsPerSecond = spreadBy(c.Rounds, func(p pair) float64 { return p.Enricher.FactsPerSecond })
		c.Passthrough = spreadBy(c.Rounds, func(p pair) float64 { return p.Passthrough.FactsPerSecond })
		c.Ratio = spreadBy(c.Rounds, func(p pair) float64 { return p.Ratio })
		c.CPURatio = spreadBy(c.Rounds, func(p pair) float64 { return p.CPURatio })
		c.CPUMicros = spreadBy(c.Rounds, func(p pair) float64 { return p.Enricher.CPUMicros })
		c.PassthroughCPU = spreadBy(c.Rounds, func(p pair) float64 { return p.Passthrough.CPUMicros })
		c.PerCore = spreadBy(c.Rounds, func(p pair) float64 { return p.Enricher.PerCore })
		c.PeakMemory = spreadBy(c.Rounds, func(p pair) float64 { return float64(p.Enricher.PeakMemory) })
		c.CoresElsewhere = spreadBy(c.Rounds, func(p pair) float64 { return max(p.Enricher.CoresElsewhere, p.Passthrough.CoresElsewhere) })
	}
	r.compare()
}

// compare finds the cases that differ only in their delivery.
func (r *result) compare() {
	for _, once := range r.Cases {
		other := once.of
		other.delivery = atLeastOnce
		for _, least := range r.Cases {
			if least.of != other || once == least {
				continue
			}
			ratios := make([]float64, r.Rounds)
			for i := range ratios {
				ratios[i] = quotient(once.Rounds[i].Enricher.FactsPerSecond, least.Rounds[i].Enricher.FactsPerSecond)
			}
			r.Compare = append(r.Compare, compareLine{strings.Replace(once.Name, "/"+exactlyOnce, "", 1), spreadOf(ratios)})
		}
	}
}

func (r *result) writeJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// writeTable prints the result for people.
func (r *result) writeTable(out io.Writer) error {
	m := r.Machine
	fmt.Fprintf(out, "enricher benchmark: %d cores (%s), %s, %s; load average %s before, %s after; took %.0f s\n",
		m.Cores, m.Processor, m.Go, m.OS, m.LoadBefore, m.LoadAfter, r.Took)
	fmt.Fprintf(out, "%d rows of about 200 bytes, %d facts of about 300 bytes per run, %d Kafka partitions, %s, a commit every %s; broker: kfake over TCP\n",
		r.Rows, r.Facts, partitions, compression, commitInterval)
	fmt.Fprintf(out, "Median (least .. greatest) of %d rounds. The broker and the driver run on the same cores: compare ratios, and distrust what is within the range.\n", r.Rounds)
	fmt.Fprintln(out, "By CPU: the ratio that the CPU times of all own processes give, for a machine that is busy elsewhere (last column) slows the two unevenly.")
	fmt.Fprintln(out)
	if l := r.Latency; l != nil {
		fmt.Fprintf(out, "latency of a change, from its acknowledgment to the first fact that sees it, over %d changes: p50 %.1f ms, p99 %.1f ms, at most %.1f ms\n\n",
			l.Changes, l.Median, l.P99, l.Most)
	}
	if len(r.Load.Rounds) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "first load\trows/s\tCPU µs/row\tRssAnon MiB after\tpeak\tdisk MiB")
	l := r.Load
	fmt.Fprintf(t, "\t%s\t%s\t%s\t%s\t%s\n", thousands(l.RowsPerSecond), decimals(l.CPUMicros, 1), mebibytes(l.Memory), mebibytes(l.PeakMemory), mebibytes(l.Disk))
	if err := t.Flush(); err != nil || len(r.Cases) == 0 {
		return err
	}
	fmt.Fprintln(t, "\ncase\tfacts/s\tpassthrough facts/s\tratio\tby CPU\tCPU µs/fact\tpassthrough\tfacts/s/core\tpeak RssAnon MiB\tcores elsewhere")
	for _, c := range r.Cases {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", c.Name, thousands(c.FactsPerSecond), thousands(c.Passthrough), decimals(c.Ratio, 2),
			decimals(c.CPURatio, 2), decimals(c.CPUMicros, 1), decimals(c.PassthroughCPU, 1), thousands(c.PerCore), mebibytes(c.PeakMemory), decimals(c.CoresElsewhere, 1))
	}
	if err := t.Flush(); err != nil || len(r.Compare) == 0 {
		return err
	}
	fmt.Fprintln(t, "\nexactly once / at least once\tratio")
	for _, c := range r.Compare {
		fmt.Fprintf(t, "%s\t%s\n", c.Name, decimals(c.Ratio, 2))
	}
	return t.Flush()
}

func decimals(s spread, n int) string {
	return fmt.Sprintf("%.*f (%.*f..%.*f)", n, s.Median, n, s.Min, n, s.Max)
}

func mebibytes(s spread) string {
	return fmt.Sprintf("%.0f (%.0f..%.0f)", s.Median/(1<<20), s.Min/(1<<20), s.Max/(1<<20))
}

// thousands prints 123,456 with its range in thousands.
func thousands(s spread) string {
	text := fmt.Sprintf("%.0f", s.Median)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return fmt.Sprintf("%s (%.0fK..%.0fK)", text, s.Min/1e3, s.Max/1e3)
}
