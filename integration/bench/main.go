package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// Bounds of what is kept in memory by the broker.
const (
	maxRows  = 10_000_000
	maxFacts = 5_000_000
	// maxChanges bounds the time: each takes about a commit interval.
	maxChanges = 10_000
)

// options are the flags.
type options struct {
	rows, facts, rounds int
	changes             int
	cases               string
	binary              string
	json                bool
	broker              string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ran, err := serveRole(ctx)
	if !ran {
		err = run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	}
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1) //nolint:forbidigo // the exit code of the program
	}
}

// run parses the flags, measures and prints.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	chosen, err := chooseCases(o.cases)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "enricher-bench-")
	if err != nil {
		return fmt.Errorf("make a folder: %w", err)
	}
	defer os.RemoveAll(dir)
	w, err := newWorld(ctx, dir, o, stderr)
	defer w.close()
	if err != nil {
		return err
	}
	result, err := w.measure(ctx, o, chosen)
	if err != nil {
		return err
	}
	if o.json {
		return result.writeJSON(stdout)
	}
	return result.writeTable(stdout)
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&o.rows, "rows", 1_000_000, "rows of the dimension")
	flags.IntVar(&o.facts, "facts", 600_000, "facts of one run")
	flags.IntVar(&o.rounds, "rounds", 3, "how often everything is repeated")
	flags.IntVar(&o.changes, "changes", 300, "changes whose latency is measured")
	flags.StringVar(&o.cases, "cases", ".", "run the cases whose names match this regular expression, repeat the first load when \""+loadCase+"\" does, and measure the latency of changes when \""+latencyCase+"\" does; names are like uniform/exactly_once, zipf/at_least_once/5ms")
	flags.StringVar(&o.broker, "broker", "", "measure the case \""+latencyCase+"\" on this broker, host:port, instead of the fake one; its topics are removed after")
	flags.StringVar(&o.binary, "binary", "", "measure this enricher instead of building one")
	flags.BoolVar(&o.json, "json", false, "print JSON, with the values of all rounds")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %s", flags.Arg(0))
	case o.rows < sites || o.rows > maxRows:
		return o, fmt.Errorf("-rows: from %d to %d", sites, maxRows)
	case o.facts < 1 || o.facts > maxFacts:
		return o, fmt.Errorf("-facts: from 1 to %d (the broker keeps them in memory)", maxFacts)
	case o.changes < 1 || o.changes > maxChanges:
		return o, fmt.Errorf("-changes: from 1 to %d", maxChanges)
	case o.rounds < 1:
		return o, errors.New("-rounds: at least 1")
	}
	return o, nil
}

// measure fills the topics and runs the first loads and the cases, in rounds.
func (w *world) measure(ctx context.Context, o options, c choice) (*result, error) {
	r := newResult(o, c.cases)
	if c.latency {
		l, err := w.changeLatency(ctx, cmp.Or(o.broker, w.address), o.changes)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", latencyCase, err)
		}
		r.Latency = &l
	}
	if c.load || len(c.cases) > 0 {
		if err := w.measureRounds(ctx, o, c, r); err != nil {
			return nil, err
		}
	}
	r.finish()
	return r, nil
}

// measureRounds fills the topics and runs the first loads and the cases.
func (w *world) measureRounds(ctx context.Context, o options, c choice, r *result) error {
	if err := w.fill(ctx, c.cases); err != nil {
		return err
	}
	for round := range o.rounds {
		if c.load || round == 0 {
			l, err := w.firstLoad(ctx)
			if err != nil {
				return fmt.Errorf("first load: %w", err)
			}
			w.note("round %d of %d: first load: %.0f rows/s", round+1, o.rounds, l.RowsPerSecond)
			r.Load.Rounds = append(r.Load.Rounds, l)
		}
		for i, of := range c.cases {
			pair, err := w.pair(ctx, of, round%2 == 1)
			if err != nil {
				return fmt.Errorf("%s: %w", of.name(), err)
			}
			w.note("round %d of %d: %s: %.0f facts/s, %.2f of the passthrough", round+1, o.rounds, of.name(), pair.Enricher.FactsPerSecond, pair.Ratio)
			r.Cases[i].Rounds = append(r.Cases[i].Rounds, pair)
		}
	}
	return nil
}

// pair is a case and its passthrough, one after the other.
type pair struct {
	Enricher    rates   `json:"enricher"`
	Passthrough rates   `json:"passthrough"`
	Ratio       float64 `json:"ratio"`     // of the facts per second
	CPURatio    float64 `json:"cpu_ratio"` // of the CPU per fact, the broker's included: what the ratio is where the cores are the limit and nobody else wants them
}

// pair runs a case and its passthrough; the order changes from round to round, so that neither always meets a warmer machine.
func (w *world) pair(ctx context.Context, c benchCase, caseFirst bool) (p pair, err error) {
	steps := []func() error{
		func() (err error) { p.Passthrough, err = w.passThrough(ctx, c); return err },
		func() (err error) { p.Enricher, err = w.enrich(ctx, c); return err },
	}
	if caseFirst {
		steps[0], steps[1] = steps[1], steps[0]
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return p, err
		}
	}
	p.Ratio = quotient(p.Enricher.FactsPerSecond, p.Passthrough.FactsPerSecond)
	p.CPURatio = quotient(p.Passthrough.TotalMicros, p.Enricher.TotalMicros)
	return p, nil
}

// quotient is 0 where there is nothing to divide by.
func quotient(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}
