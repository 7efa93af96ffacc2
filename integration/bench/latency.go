package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// latencyCase is what -cases calls the latency of changes.
const latencyCase = "latency"

const (
	latencyKeys     = 100
	latencyWarmup   = 10               // changes that are not counted: the service is joining its group
	latencyPatience = 20 * time.Second // for one change
	factInterval    = time.Millisecond
)

// latencyResult is how long after the acknowledged write of a dimension row a fact is written that sees it.
type latencyResult struct {
	Changes int     `json:"changes"`
	Median  float64 `json:"p50_ms"`
	P99     float64 `json:"p99_ms"`
	Most    float64 `json:"max_ms"`
}

// changeLatency changes rows one after the other. After each acknowledgment it writes a fact for the row every millisecond until one has come out with
// the new row: the first such fact, by when it was written, is the answer.
func (w *world) changeLatency(ctx context.Context, broker string, changes int) (r latencyResult, err error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(broker), kgo.ProducerLinger(0))
	if err != nil {
		return r, fmt.Errorf("make Kafka client: %w", err)
	}
	defer client.Close()
	w.runs++
	names := map[string]string{}
	admin := kadm.NewClient(client)
	for _, what := range []string{"rows", "facts", "out"} {
		names[what] = fmt.Sprintf("bench-%d-%s", time.Now().UnixNano(), what)
		configs := map[string]*string{}
		if compact := "compact"; what == "rows" {
			configs["cleanup.policy"] = &compact
		}
		if _, err := admin.CreateTopic(ctx, partitions, 1, configs, names[what]); err != nil {
			return r, fmt.Errorf("create topic %s: %w", names[what], err)
		}
	}
	defer func() {
		_, _ = admin.DeleteTopics(context.WithoutCancel(ctx), names["rows"], names["facts"], names["out"])
	}()
	s, err := w.startService(ctx, latencyConfiguration(broker, filepath.Join(w.dir, fmt.Sprintf("store-%d", w.runs)), names))
	if err != nil {
		return r, err
	}
	defer s.stop()
	reader, err := kgo.NewClient(kgo.SeedBrokers(broker), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeTopics(names["out"]),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(50*time.Millisecond))
	if err != nil {
		return r, fmt.Errorf("make Kafka client: %w", err)
	}
	defer reader.Close()
	var took []time.Duration
	for i := 1; i <= latencyWarmup+changes; i++ { // null is 0
		d, err := oneChange(ctx, client, reader, names, i)
		if err != nil {
			return r, errors.Join(err, s.ended())
		}
		if i > latencyWarmup {
			took = append(took, d)
		}
	}
	slices.Sort(took)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	return latencyResult{len(took), ms(took[len(took)/2]), ms(took[len(took)*99/100]), ms(took[len(took)-1])}, nil
}

// oneChange is the time from the acknowledgment of change i to the first fact that sees it.
func oneChange(ctx context.Context, client, reader *kgo.Client, names map[string]string, i int) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, latencyPatience)
	defer cancel()
	key := []byte(strconv.Itoa(i % latencyKeys))
	change := &kgo.Record{Topic: names["rows"], Key: key, Value: fmt.Appendf(nil, `{"id":%s,"change":%d}`, key, i)}
	if err := client.ProduceSync(ctx, change).FirstErr(); err != nil {
		return 0, fmt.Errorf("write a row: %w", err)
	}
	acknowledged := time.Now()
	writing, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(factInterval)
		defer tick.Stop()
		for writing.Err() == nil {
			fact := fmt.Appendf(nil, `{"row":%s,"of":%d,"after":%d}`, key, i, time.Since(acknowledged))
			client.Produce(ctx, &kgo.Record{Topic: names["facts"], Key: key, Value: fact}, nil)
			select {
			case <-tick.C:
			case <-writing.Done():
			}
		}
	}()
	defer func() { stop(); <-ended }()
	for {
		fetches := reader.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			return 0, fmt.Errorf("change %d is in no fact after %s: %w", i, latencyPatience, err)
		}
		for it := fetches.RecordIter(); !it.Done(); {
			var fact struct {
				Of, Change int
				After      time.Duration
			}
			value := it.Next().Value
			if err := json.Unmarshal(value, &fact); err != nil {
				return 0, fmt.Errorf("read the output: %w: %s", err, value)
			}
			if fact.Of == i && fact.Change == i { // facts of one key come out in order
				return fact.After, nil
			}
		}
	}
}

func latencyConfiguration(broker, store string, names map[string]string) string {
	return fmt.Sprintf(`kafka: {brokers: ["%[1]s"]}
input: {topics: ["%[2]s"], group: "%[2]s"}
dimensions: [{name: rows, topic: "%[3]s", columns: {id: int, change: int}, primary_key: [id]}]
lookups: [{dimension: rows, on: {id: row}, select: [change]}]
output: {topic: "%[4]s"}
store: {dir: "%[5]s", min_free_disk: 64MiB}
admin: {listen: 127.0.0.1:0}
log: {level: info, format: json}
`, broker, names["facts"], names["rows"], names["out"], store)
}
