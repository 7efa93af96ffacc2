package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// roleVariable makes this program, or its test, the broker or the passthrough.
const roleVariable = "ENRICHER_BENCH_ROLE"

// serveRole runs the role that the environment names; false when it names none.
func serveRole(ctx context.Context) (bool, error) {
	switch role := os.Getenv(roleVariable); role {
	case "":
		return false, nil
	case "broker":
		return true, serveBroker(ctx, os.Stdin, os.Stdout)
	case "passthrough":
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		go func() { // it ends with its standard input, so that it never outlives the driver
			_, _ = io.Copy(io.Discard, os.Stdin)
			cancel()
		}()
		return true, servePassthrough(ctx, os.Args[1:])
	default:
		return true, fmt.Errorf("%s=%s: there is no such role", roleVariable, role)
	}
}

// world is what all runs share: the broker with its topics, the binary, a folder.
type world struct {
	dir    string // for everything that is written, removed at the end
	self   string // this program
	binary string
	log    io.Writer
	rows   int
	facts  int

	broker  *process
	address string
	client  *kgo.Client
	admin   *kadm.Client
	store   string // of the last first load, empty before
	runs    int    // gives groups and topics their names
}

// newWorld builds the binary, unless one is given, and starts the broker. close must follow also after an error.
func newWorld(ctx context.Context, dir string, o options, log io.Writer) (*world, error) {
	w := &world{dir: dir, binary: o.binary, log: log, rows: o.rows, facts: o.facts}
	var err error
	if w.self, err = os.Executable(); err != nil {
		return w, fmt.Errorf("find this program: %w", err)
	}
	if w.binary == "" {
		w.note("building the binary")
		w.binary = filepath.Join(dir, "enricher")
		if err := buildBinary(ctx, w.binary); err != nil {
			return w, err
		}
	}
	if w.broker, err = start("broker", w.self, append(environment(), roleVariable+"=broker"), nil); err != nil {
		return w, err
	}
	if w.address, err = w.broker.out.ReadString('\n'); err != nil {
		return w, w.broker.failed("no address")
	}
	w.address = strings.TrimSpace(w.address)
	w.client, err = kgo.NewClient(kgo.SeedBrokers(w.address), kgo.ProducerBatchCompression(kgo.SnappyCompression()),
		kgo.ProducerLinger(linger), kgo.MaxBufferedRecords(bufferedRecords))
	if err != nil {
		return w, fmt.Errorf("make Kafka client: %w", err)
	}
	w.admin = kadm.NewClient(w.client)
	return w, nil
}

func buildBinary(ctx context.Context, path string) error {
	build := exec.CommandContext(ctx, "go", "build", "-o", path, "enricher/cmd/enricher")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the binary: %w\n%s", err, out)
	}
	return nil
}

func (w *world) close() {
	if w.client != nil {
		w.client.Close()
	}
	if w.broker != nil {
		w.broker.stop()
	}
}

// environment is the own one without what would change a service's configuration.
func environment() []string {
	return slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "ENRICHER_") })
}

func (w *world) note(format string, args ...any) {
	fmt.Fprintf(w.log, time.Now().Format("15:04:05 ")+format+"\n", args...)
}

// setDelay makes the broker late for the connections from now on.
func (w *world) setDelay(d time.Duration) error {
	if _, err := fmt.Fprintf(w.broker.stdin, "delay %s\n", d); err != nil {
		return w.broker.failed("command: " + err.Error())
	}
	if answer, err := w.broker.out.ReadString('\n'); err != nil || answer != "ok\n" {
		return w.broker.failed("no answer to a command")
	}
	return nil
}

// fill writes the dimension and the facts that the cases read.
func (w *world) fill(ctx context.Context, cases []benchCase) error {
	compact := "compact"
	rows := newGenerator(1)
	if err := w.createTopic(ctx, dimensionTopic, map[string]*string{"cleanup.policy": &compact}); err != nil {
		return err
	}
	w.note("writing %d rows", w.rows)
	if err := w.produce(ctx, dimensionTopic, w.rows, rows.row); err != nil {
		return err
	}
	if err := w.createTopic(ctx, idleTopic, nil); err != nil {
		return err
	}
	for i, topic := range []string{uniformTopic, zipfTopic} {
		if !slices.ContainsFunc(cases, func(c benchCase) bool { return c.topic == topic }) {
			continue
		}
		g := newGenerator(uint64(2 + i))
		pick := g.uniform(w.rows)
		if topic == zipfTopic {
			pick = g.zipf(w.rows)
		}
		if err := w.createTopic(ctx, topic, nil); err != nil {
			return err
		}
		w.note("writing %d facts to %s", w.facts, topic)
		if err := w.produce(ctx, topic, w.facts, func(n int) *kgo.Record { return g.fact(n, w.rows, pick) }); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) createTopic(ctx context.Context, topic string, configs map[string]*string) error {
	if _, err := w.admin.CreateTopic(ctx, partitions, 1, configs, topic); err != nil {
		return fmt.Errorf("create topic %s: %w", topic, err)
	}
	return nil
}

func (w *world) deleteTopic(ctx context.Context, topic string) error {
	if _, err := w.admin.DeleteTopic(ctx, topic); err != nil {
		return fmt.Errorf("delete topic %s: %w", topic, err)
	}
	return nil
}

// produce writes records 0 to n-1.
func (w *world) produce(ctx context.Context, topic string, n int, record func(n int) *kgo.Record) error {
	var failure atomic.Pointer[error]
	for i := range n {
		if failure.Load() != nil || ctx.Err() != nil {
			break
		}
		r := record(i)
		r.Topic = topic
		w.client.Produce(ctx, r, func(_ *kgo.Record, err error) {
			if err != nil {
				failure.CompareAndSwap(nil, &err)
			}
		})
	}
	err := w.client.Flush(ctx)
	if f := failure.Load(); f != nil {
		err = *f
	}
	if err != nil {
		return fmt.Errorf("write to topic %s: %w", topic, err)
	}
	return nil
}

// committed is how many facts of a topic the group has committed.
func (w *world) committed(ctx context.Context, group, topic string) (int64, error) {
	offsets, err := w.admin.FetchOffsets(ctx, group)
	if errors.Is(err, kerr.GroupIDNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("fetch offsets of group %s: %w", group, err)
	}
	var sum int64
	for _, o := range offsets[topic] {
		sum += max(o.At, 0)
	}
	return sum, nil
}

// checkOutput looks whether the topic holds as many records as there are facts, and whether one of them has the fields.
func (w *world) checkOutput(ctx context.Context, topic string, fields []string) error {
	ends, err := w.admin.ListEndOffsets(ctx, topic)
	if err != nil {
		return fmt.Errorf("list ends of topic %s: %w", topic, err)
	}
	var sum int64
	begin := map[int32]kgo.Offset{}
	ends.Each(func(o kadm.ListedOffset) {
		sum += o.Offset
		begin[o.Partition] = kgo.NewOffset().AtStart()
	})
	if sum < int64(w.facts) {
		return fmt.Errorf("topic %s holds %d records, fewer than the %d facts", topic, sum, w.facts)
	}
	reader, err := kgo.NewClient(kgo.SeedBrokers(w.address), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxBytes(1<<20),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: begin}))
	if err != nil {
		return fmt.Errorf("make Kafka client: %w", err)
	}
	defer reader.Close()
	ctx, cancel := context.WithTimeout(ctx, stopPatience)
	defer cancel()
	records := reader.PollRecords(ctx, 1).Records()
	if len(records) == 0 {
		return fmt.Errorf("read topic %s: nothing came", topic)
	}
	for _, field := range fields {
		if value := string(records[0].Value); !strings.Contains(value, `,"`+field+`":"`) {
			return fmt.Errorf("topic %s: there is no %s in %s", topic, field, value)
		}
	}
	return nil
}
