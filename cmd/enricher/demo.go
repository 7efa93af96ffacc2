package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"enricher/config"
)

// demoPatience bounds every wait of the demo; on a slow machine the sample takes two seconds.
const demoPatience = 60 * time.Second

// demoBeat is the time between two orders of the live traffic.
const demoBeat = time.Second

func demoCommand() *cobra.Command {
	var once, show bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "See it work: an embedded Kafka, sample orders and customers, the real service",
		Long: `Demo starts a Kafka inside the process, writes sample customers and orders, runs the real service over them and prints each order before and after,
then goes on with live traffic until Ctrl-C. It needs nothing and leaves nothing behind.`,
		Example: `  enricher demo
  enricher demo --once
  enricher demo --config > enricher.yaml`,
		Args: cobra.NoArgs,
		RunE: action(func(cmd *cobra.Command) error {
			if show {
				_, err := io.WriteString(cmd.OutOrStdout(), demoConfig("localhost:9092", "127.0.0.1:8080", "./enricher-data"))
				return err
			}
			return demo(cmd.Context(), once, cmd.OutOrStdout(), cmd.ErrOrStderr())
		}),
	}
	cmd.Flags().BoolVar(&once, "once", false, "end after the sample")
	cmd.Flags().BoolVar(&show, "config", false, "print the configuration that the demo runs, with usual addresses, and end")
	return cmd
}

// demo runs the service over the sample, and then over live traffic until ctx ends, which is no error.
func demo(ctx context.Context, once bool, stdout, stderr io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "enricher-demo-")
	if err != nil {
		return fmt.Errorf("make a folder for the demo: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		return fmt.Errorf("start the embedded Kafka: %w", err)
	}
	defer cluster.Close()
	broker := cluster.ListenAddrs()[0]
	cfg, err := config.Parse("demo", []byte(demoConfig(broker, "127.0.0.1:0", filepath.Join(dir, "store"))), nil)
	if err != nil {
		return err
	}
	service, err := newApp(cfg, buildVersion(), newLogger(stderr, "warn", "text")) // quiet: the view is what there is to see
	if err != nil {
		return err
	}
	client, err := demoClient(broker)
	if err != nil {
		return err
	}
	defer client.Close()
	d := &demoRun{client: client, service: service, view: &demoView{w: stdout}, results: map[string]demoResult{}}
	if err := d.prepare(ctx); err != nil {
		return demoEnd(ctx, err)
	}
	running, stop := context.WithCancelCause(ctx)
	ended := make(chan error, 1)
	go func() {
		err := service.Run(running)
		stop(err)
		ended <- err
	}()
	err = demoEnd(ctx, d.play(running, broker, once))
	stop(nil)
	if end := <-ended; !errors.Is(err, end) {
		err = errors.Join(err, end)
	}
	return err
}

// demoEnd makes the end that a person asked for no error.
func demoEnd(ctx context.Context, err error) error {
	select {
	case <-ctx.Done():
		return nil
	default:
		return err
	}
}

func demoClient(broker string) (*kgo.Client, error) {
	return kgo.NewClient(
		kgo.SeedBrokers(broker),
		kgo.ConsumeTopics(demoOutput, demoDeadLetter),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxWait(100*time.Millisecond),
		kgo.ProducerLinger(0),
	)
}

// demoRun is the person at the other end of the topics: it writes customers and orders and reads what becomes of them.
type demoRun struct {
	client  *kgo.Client
	service *app
	view    *demoView
	results map[string]demoResult // by record key, not yet printed
}

// prepare makes the topics and writes the customers.
func (d *demoRun) prepare(ctx context.Context) error {
	admin := kadm.NewClient(d.client)
	compact := "compact"
	topics := map[string]map[string]*string{demoDimension: {"cleanup.policy": &compact}, demoFacts: nil, demoOutput: nil, demoDeadLetter: nil}
	for topic, configs := range topics {
		if _, err := admin.CreateTopic(ctx, 1, 1, configs, topic); err != nil {
			return fmt.Errorf("create topic %s: %w", topic, err)
		}
	}
	for _, c := range demoCustomers() {
		if _, err := d.write(ctx, c.record()); err != nil {
			return err
		}
	}
	return nil
}

// write writes one record and gives its offset.
func (d *demoRun) write(ctx context.Context, r *kgo.Record) (int64, error) {
	if err := d.client.ProduceSync(ctx, r).FirstErr(); err != nil {
		return 0, fmt.Errorf("write to topic %s: %w", r.Topic, err)
	}
	return r.Offset, nil
}

// play writes the sample, prints what becomes of it and, unless once, goes on.
func (d *demoRun) play(ctx context.Context, broker string, once bool) error {
	select {
	case <-d.service.listening:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	d.view.intro(broker, d.service.admin.Addr().String())
	d.view.customers(demoCustomers())
	d.view.ordersHead("The facts: topic " + demoFacts + ", and what the lookup adds: topic " + demoOutput)
	for _, o := range demoOrders() {
		if err := d.order(ctx, o); err != nil {
			return err
		}
	}
	moved := demoMove()
	if err := d.change(ctx, moved); err != nil {
		return err
	}
	d.view.printf("\nA late update: %s moves to %s. Then she orders again\n\n", moved.Name, moved.Address)
	late := demoLateOrder()
	result, err := d.enrich(ctx, late)
	if err != nil {
		return err
	}
	d.view.order(late, result)
	d.view.bytes(late, result)
	if once {
		d.view.printf("\nThat was the sample. The configuration: enricher demo --config. Without --once the demo goes on with live traffic.\n")
		return d.view.err
	}
	return d.live(ctx)
}

// order writes an order, waits for its result and prints both.
func (d *demoRun) order(ctx context.Context, o demoOrder) error {
	result, err := d.enrich(ctx, o)
	if err != nil {
		return err
	}
	d.view.order(o, result)
	return d.view.err
}

// enrich writes an order and waits for what becomes of it.
func (d *demoRun) enrich(ctx context.Context, o demoOrder) (demoResult, error) {
	if _, err := d.write(ctx, o.record()); err != nil {
		return demoResult{}, err
	}
	key := string(o.record().Key)
	waiting, cancel := context.WithTimeout(ctx, demoPatience)
	defer cancel()
	for {
		if r, ok := d.results[key]; ok {
			delete(d.results, key)
			return r, nil
		}
		fetches := d.client.PollFetches(waiting)
		if waiting.Err() != nil {
			return demoResult{}, d.late(ctx, "order "+key)
		}
		if err := fetches.Err(); err != nil {
			return demoResult{}, fmt.Errorf("read the results: %w", err)
		}
		fetches.EachRecord(func(r *kgo.Record) { d.results[string(r.Key)] = demoResult{r} })
	}
}

// change writes a row and waits until the service has applied it.
func (d *demoRun) change(ctx context.Context, c demoCustomer) error {
	offset, err := d.write(ctx, c.record())
	if err != nil {
		return err
	}
	waiting, cancel := context.WithTimeout(ctx, demoPatience)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !d.applied(offset) {
		select {
		case <-tick.C:
		case <-waiting.Done():
			return d.late(ctx, fmt.Sprintf("customer %d", c.Key))
		}
	}
	return nil
}

func (d *demoRun) applied(offset int64) bool {
	for _, b := range d.service.dimensions[0].status().Buckets {
		if b.Position > offset {
			return true
		}
	}
	return false
}

// late is why a wait ended: the service did, or it took too long.
func (d *demoRun) late(ctx context.Context, what string) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	var reasons []string
	for _, r := range d.service.reasons() {
		reasons = append(reasons, r.Reason+" ("+r.Detail+")")
	}
	return fmt.Errorf("demo: no result of %s after %s; the service is %s", what, demoPatience, or(strings.Join(reasons, ", "), "ready"))
}

// live writes an order every beat, and a move now and then, until ctx ends.
func (d *demoRun) live(ctx context.Context) error {
	customers := slices.DeleteFunc(demoCustomers(), func(c demoCustomer) bool { return c.deleted || c.Key == 3 })
	d.view.ordersHead("Live traffic until Ctrl-C")
	tick := time.NewTicker(demoBeat)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		c := customers[rand.IntN(len(customers))]
		remark := ""
		if n%4 == 0 {
			c.Address = fmt.Sprintf("%d Harbor Street", 1+rand.IntN(99))
			if err := d.change(ctx, c); err != nil {
				return err
			}
			remark = "has just moved"
		}
		price := fmt.Sprintf("%d.%02d", 1+rand.IntN(200), rand.IntN(100))
		if err := d.order(ctx, newOrder(2000+n, c.Key, c.Dt, price, remark)); err != nil {
			return err
		}
	}
}
