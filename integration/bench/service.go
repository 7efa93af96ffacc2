package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Times of a run.
const (
	sampleInterval = 20 * time.Millisecond
	statusInterval = 50 * time.Millisecond
	startPatience  = 20 * time.Second // until the service listens
	loadPatience   = 10 * time.Minute // until it is warm
	stallPatience  = 60 * time.Second // between two commits
	settlePatience = 5 * time.Second  // until /status knows of the last commit
	restAfterLoad  = 1 * time.Second  // before the memory is looked at
)

// service is a running binary.
type service struct {
	*process

	address chan string // of its admin server, sent once
	url     string
}

// serviceStatus is what the benchmark reads of /status.
type serviceStatus struct {
	Dimensions []struct {
		Warm  bool  `json:"warm"`
		Rows  int64 `json:"rows"`
		Bytes int64 `json:"bytes"`
	} `json:"dimensions"`
	Lookups []struct {
		Matches int64 `json:"matches"`
	} `json:"lookups"`
	Pipeline *struct {
		Facts map[string]int64 `json:"facts"`
	} `json:"pipeline"`
}

// startService runs the binary and waits for its admin server. What it needs is in the file.
func (w *world) startService(ctx context.Context, file string) (*service, error) {
	path := filepath.Join(w.dir, "enricher.yaml")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		return nil, fmt.Errorf("write the configuration: %w", err)
	}
	s := &service{address: make(chan string, 1)}
	var err error
	if s.process, err = start("enricher", w.binary, environment(), s.read, "run", "-c", path); err != nil {
		return nil, err
	}
	select {
	case address := <-s.address:
		s.url = "http://" + address + "/status"
		return s, nil
	case <-s.exited:
		err = s.ended()
	case <-time.After(startPatience):
		err = s.failed("no admin server")
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	s.stop()
	return nil, err
}

// read looks for the address in the log.
func (s *service) read(line string) {
	if !strings.Contains(line, "admin server listens") {
		return
	}
	var entry struct {
		Address string `json:"address"`
	}
	if json.Unmarshal([]byte(line), &entry) == nil && entry.Address != "" {
		select {
		case s.address <- entry.Address:
		default:
		}
	}
}

func (s *service) status(ctx context.Context) (serviceStatus, error) {
	var st serviceStatus
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, http.NoBody)
	if err != nil {
		return st, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return st, errors.Join(err, s.ended())
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return st, s.failed("/status answers " + resp.Status)
	}
	if err := json.NewDecoder(resp.Body).Decode(&st); err != nil {
		return st, fmt.Errorf("read /status: %w", err)
	}
	return st, nil
}

// until asks /status until it says yes.
func (s *service) until(ctx context.Context, what string, patience time.Duration, yes func(serviceStatus) bool) (serviceStatus, error) {
	for limit := time.Now().Add(patience); ; {
		st, err := s.status(ctx)
		if err != nil || yes(st) {
			return st, err
		}
		if time.Now().After(limit) {
			return st, s.failed(fmt.Sprintf("not %s after %s: %+v", what, patience, st))
		}
		if err := s.wait(ctx, statusInterval); err != nil {
			return st, err
		}
	}
}

// loadResult is one first load.
type loadResult struct {
	Seconds       float64 `json:"seconds"` // from the start of the process until it is warm
	RowsPerSecond float64 `json:"rows_per_second"`
	CPUMicros     float64 `json:"cpu_us_per_row"`
	Memory        int64   `json:"rss_anon"`      // bytes, a second after
	PeakMemory    int64   `json:"peak_rss_anon"` // bytes
	Disk          int64   `json:"disk"`          // bytes
}

// firstLoad starts the service on an empty store and lets it load. The store stays for the facts.
func (w *world) firstLoad(ctx context.Context) (r loadResult, err error) {
	if w.store != "" {
		if err := os.RemoveAll(w.store); err != nil {
			return r, fmt.Errorf("remove the store: %w", err)
		}
	}
	w.runs++
	w.store = filepath.Join(w.dir, fmt.Sprintf("store-%d", w.runs))
	began := time.Now()
	s, err := w.startService(ctx, configuration(w.address, w.store, fmt.Sprintf("load-%d", w.runs), idleTopic, idleTopic+"-out", exactlyOnce, 1, ""))
	if err != nil {
		return r, err
	}
	defer s.stop()
	look := func() usage {
		u, err := usageOf(s.pid())
		if err != nil {
			return usage{}
		}
		r.PeakMemory = max(r.PeakMemory, u.rssAnon)
		return u
	}
	warm := func(st serviceStatus) bool {
		look()
		return len(st.Dimensions) == 1 && st.Dimensions[0].Warm
	}
	if _, err = s.until(ctx, "warm", loadPatience, warm); err != nil {
		return r, err
	}
	r.Seconds = time.Since(began).Seconds()
	r.RowsPerSecond = float64(w.rows) / r.Seconds
	r.CPUMicros = look().cpu.Seconds() * 1e6 / float64(w.rows)
	if err := s.wait(ctx, restAfterLoad); err != nil {
		return r, err
	}
	r.Memory = look().rssAnon
	st, err := s.status(ctx)
	if err != nil {
		return r, err
	}
	r.Disk = st.Dimensions[0].Bytes
	if rows := st.Dimensions[0].Rows; rows != int64(w.rows) {
		return r, s.failed(fmt.Sprintf("it has %d rows of %d", rows, w.rows))
	}
	return r, nil
}

// enrich is one run of a case.
func (w *world) enrich(ctx context.Context, c benchCase) (rates, error) {
	return w.run(ctx, c, func(group, output string) (*process, func() error, error) {
		s, err := w.startService(ctx, configuration(w.address, w.store, group, c.topic, output, c.delivery, c.lookups, c.keys))
		if err != nil {
			return nil, nil, err
		}
		return s.process, func() error { return w.checkService(ctx, s, c, output) }, nil
	})
}

// checkService looks whether the service did what it was measured for.
func (w *world) checkService(ctx context.Context, s *service, c benchCase, output string) error {
	facts := int64(w.facts)
	st, err := s.until(ctx, "done", settlePatience, func(st serviceStatus) bool { return st.Pipeline != nil && st.Pipeline.Facts["written"] >= facts })
	if err != nil {
		return err
	}
	if n := st.Pipeline.Facts["written"]; n != facts {
		return s.failed(fmt.Sprintf("%d facts written of %d", n, facts))
	}
	for _, l := range st.Lookups {
		if l.Matches != facts {
			return s.failed(fmt.Sprintf("%d matches for %d facts", l.Matches, facts))
		}
	}
	fields := []string{"customer_name", "customer_phone", "customer_segment", "shipto_name", "payer_segment"}
	return w.checkOutput(ctx, output, fields[:min(len(fields), 1+2*c.lookups)])
}

// passThrough is one run of the yardstick.
func (w *world) passThrough(ctx context.Context, c benchCase) (rates, error) {
	return w.run(ctx, c, func(group, output string) (*process, func() error, error) {
		p, err := start("passthrough", w.self, append(environment(), roleVariable+"=passthrough"), nil,
			"-broker", w.address, "-group", group, "-input", c.topic, "-output", output, "-delivery", c.delivery)
		return p, func() error { return w.checkOutput(ctx, output, []string{"o_comment"}) }, err
	})
}

// run starts a process with a group and an output topic of its own, follows it until all facts are committed, checks what it did and ends it.
func (w *world) run(ctx context.Context, c benchCase, start func(group, output string) (*process, func() error, error)) (r rates, err error) {
	w.runs++
	group := fmt.Sprintf("group-%d", w.runs)
	output := fmt.Sprintf("out-%d", w.runs)
	if err := w.createTopic(ctx, output, nil); err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, w.deleteTopic(context.WithoutCancel(ctx), output)) }()
	if err := w.setDelay(c.delay); err != nil {
		return r, err
	}
	p, check, err := start(group, output)
	if err != nil {
		return r, err
	}
	defer p.stop()
	samples, err := w.follow(ctx, p, group, c.topic)
	if err != nil {
		return r, err
	}
	if err := w.setDelay(0); err != nil {
		return r, err
	}
	return rateOf(samples, int64(w.facts)), check()
}

// follow takes samples until all facts are committed.
func (w *world) follow(ctx context.Context, p *process, group, topic string) ([]sample, error) {
	var samples []sample
	var done int64
	moved := time.Now()
	for {
		n, err := w.committed(ctx, group, topic)
		if err != nil {
			return nil, errors.Join(err, p.ended(), w.broker.ended())
		}
		s, err := w.sample(p)
		if err != nil {
			return nil, errors.Join(err, p.ended())
		}
		s.done = n
		samples = append(samples, s)
		if n >= int64(w.facts) {
			return samples, nil
		}
		if n > done {
			done, moved = n, s.at
		}
		if s.at.Sub(moved) > stallPatience {
			return nil, p.failed(fmt.Sprintf("no commit for %s, %d of %d facts done", stallPatience, done, w.facts))
		}
		if err := p.wait(ctx, sampleInterval); err != nil {
			return nil, err
		}
	}
}

func (w *world) sample(p *process) (sample, error) {
	u, err := usageOf(p.pid())
	if err != nil {
		return sample{}, fmt.Errorf("look at %s: %w", p.name, err)
	}
	s := sample{at: time.Now(), cpu: u.cpu, own: u.cpu, busy: busyTime(), memory: u.rssAnon}
	for _, pid := range []int{w.broker.pid(), os.Getpid()} {
		if other, err := usageOf(pid); err == nil {
			s.own += other.cpu
		}
	}
	return s, nil
}
