package integration

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// A cluster is what a scenario does to Kafka itself, with a prefix for the names
// of its topics so that scenarios can share a broker.
type cluster struct {
	endpoint
	prefix string
	client *kgo.Client // produces; partitions as the record says
	admin  *kadm.Client
}

var prefixes atomic.Int64

// on opens a scenario's view of a broker.
func on(t *testing.T, e endpoint) *cluster {
	t.Helper()
	opts := append([]kgo.Opt{
		kgo.SeedBrokers(e.addr), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(0), kgo.UnknownTopicRetries(-1), kgo.AlwaysRetryEOF(), // a new topic is not known at once, a container's port accepts before the broker listens
	}, e.opts...)
	client, err := kgo.NewClient(opts...)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return &cluster{
		endpoint: e, prefix: fmt.Sprintf("s%d-", prefixes.Add(1)),
		client: client, admin: kadm.NewClient(client),
	}
}

// onShared is a scenario's view of the shared broker.
func onShared(t *testing.T) *cluster {
	t.Helper()
	return on(t, kafka.shared.plain())
}

// topic is the scenario's own name of a topic.
func (c *cluster) topic(name string) string { return c.prefix + name }

// create makes a topic; configs are `key=value`.
func (c *cluster) create(t *testing.T, name string, partitions int32, configs ...string) {
	t.Helper()
	settings := map[string]*string{}
	for _, s := range configs {
		k, v, _ := cut(s)
		settings[k] = &v
	}
	_, err := c.admin.CreateTopic(t.Context(), partitions, 1, settings, c.topic(name))
	require.NoError(t, err, "create topic %s", name)
}

func cut(s string) (key, value string, ok bool) {
	for i := range s {
		if s[i] == '=' {
			return s[:i], s[i+1:], true
		}
	}
	return s, "", false
}

// createAll makes the topics of the standard configuration.
func (c *cluster) createAll(t *testing.T, partitions int32) {
	t.Helper()
	c.create(t, "orders", partitions)
	c.create(t, "customer", partitions, "cleanup.policy=compact")
	c.create(t, "out", partitions)
	c.create(t, "dead", 1)
}

// rec is a record for one of the scenario's topics; an empty key is null.
func (c *cluster) rec(topic string, partition int32, key, value string) *kgo.Record {
	r := &kgo.Record{Topic: c.topic(topic), Partition: partition, Value: []byte(value)}
	if key != "" {
		r.Key = []byte(key)
	}
	return r
}

// produce writes records and waits until they are acknowledged.
func (c *cluster) produce(t *testing.T, records ...*kgo.Record) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, c.client.ProduceSync(ctx, records...).FirstErr(), "produce")
}

// rows writes n customers, id 0 to n-1 over the partitions, named name-<id>.
func (c *cluster) rows(t *testing.T, n int, partitions int32) {
	t.Helper()
	c.bulk(t, n, func(i int) *kgo.Record {
		return c.rec("customer", int32(i)%partitions, strconv.Itoa(i), fmt.Sprintf(`{"id":%d,"name":"name-%d"}`, i, i))
	})
}

// bulk produces n records as fast as the broker takes them.
func (c *cluster) bulk(t *testing.T, n int, record func(i int) *kgo.Record) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var failed atomic.Pointer[error]
	for i := range n {
		c.client.Produce(ctx, record(i), func(_ *kgo.Record, err error) {
			if err != nil {
				failed.Store(&err)
			}
		})
	}
	require.NoError(t, c.client.Flush(ctx))
	if err := failed.Load(); err != nil {
		require.NoError(t, *err, "produce")
	}
}

// fact is a fact with its id and the customer that it names.
func (c *cluster) fact(id int, partitions int32, customers int) *kgo.Record {
	return c.rec("orders", int32(id)%partitions, "k"+strconv.Itoa(id), fmt.Sprintf(`{"fid":%d,"cust":%d}`, id, id%customers))
}

// enriched is what the standard configuration makes of fact id.
func enriched(id, customers int) string {
	return fmt.Sprintf(`{"fid":%d,"cust":%d,"name":"name-%d"}`, id, id%customers, id%customers)
}

// A load produces facts with the ids 0, 1, 2, ... in the background.
type load struct {
	n      atomic.Int64 // facts handed to the client so far
	acked  atomic.Int64 // facts that the broker has
	stop   context.CancelFunc
	done   sync.WaitGroup
	failed atomic.Pointer[error]
}

// load starts to produce at most limit facts at a steady rate per second.
func (c *cluster) load(t *testing.T, limit, rate, customers int, partitions int32) *load {
	t.Helper()
	const step = 20 * time.Millisecond
	l := &load{}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 4*time.Minute)
	steady, stop := context.WithCancel(ctx)
	l.stop = stop
	l.done.Go(func() {
		defer cancel()
		tick := time.NewTicker(step)
		defer tick.Stop()
		began, id := time.Now(), 0
		for id < limit && steady.Err() == nil {
			for due := min(limit, int(time.Since(began).Seconds()*float64(rate))+1); id < due; id++ {
				c.client.Produce(ctx, c.fact(id, partitions, customers), func(_ *kgo.Record, err error) {
					if err != nil {
						l.failed.Store(&err)
						return
					}
					l.acked.Add(1)
				})
			}
			l.n.Store(int64(id))
			<-tick.C
		}
		_ = c.client.Flush(ctx)
	})
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(l)
		}
		stop()
		l.done.Wait()
	})
	return l
}

// wait waits until all facts are produced and returns how many there are.
func (l *load) wait(t *testing.T) int {
	t.Helper()
	l.done.Wait()
	if err := l.failed.Load(); err != nil {
		require.NoError(t, *err, "produce facts")
	}
	return int(l.n.Load())
}

// String says how far it is, for the message of a failure.
func (l *load) String() string {
	return fmt.Sprintf("%d facts produced, %d acknowledged", l.n.Load(), l.acked.Load())
}

// end produces no further facts and returns how many there are.
func (l *load) end(t *testing.T) int {
	t.Helper()
	l.stop()
	return l.wait(t)
}

// read returns the committed records of a topic from its beginning to its end,
// per partition in order. It waits until no transaction is open: the markers of a
// committed one may come after the answer to the commit.
func (c *cluster) read(t *testing.T, topic string) []*kgo.Record {
	t.Helper()
	c.noOpenTransaction(t, topic)
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	ends, err := c.admin.ListCommittedOffsets(ctx, c.topic(topic))
	require.NoError(t, err)
	require.NoError(t, ends.Error())
	left := map[int32]int64{} // partition: the end that is still to be reached
	starts, err := c.admin.ListStartOffsets(ctx, c.topic(topic))
	require.NoError(t, err)
	from := map[int32]kgo.Offset{}
	ends.Each(func(o kadm.ListedOffset) {
		start, _ := starts.Lookup(o.Topic, o.Partition)
		if o.Offset > start.Offset {
			left[o.Partition] = o.Offset
			from[o.Partition] = kgo.NewOffset().At(start.Offset)
		}
	})
	opts := append([]kgo.Opt{
		kgo.SeedBrokers(c.addr), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{c.topic(topic): from}),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(), kgo.FetchMaxWait(200 * time.Millisecond),
	}, c.opts...)
	reader, err := kgo.NewClient(opts...)
	require.NoError(t, err)
	defer reader.Close()
	records := map[int32][]*kgo.Record{}
	for len(left) > 0 {
		fetches := reader.PollFetches(ctx)
		require.NoError(t, ctx.Err(), "read topic %s: partitions and ends not reached: %v", topic, left)
		require.NoError(t, fetches.Err0(), "read topic %s", topic)
		fetches.EachRecord(func(r *kgo.Record) {
			if !r.Attrs.IsControl() {
				records[r.Partition] = append(records[r.Partition], r)
			}
			if end, ok := left[r.Partition]; ok && r.Offset+1 >= end {
				delete(left, r.Partition)
			}
		})
	}
	var all []*kgo.Record
	for _, p := range slices.Sorted(maps.Keys(records)) {
		all = append(all, records[p]...)
	}
	return all
}

// noOpenTransaction checks that nothing in a topic lies behind the last stable
// offset, where it would be hidden from read.
func (c *cluster) noOpenTransaction(t *testing.T, topic string) {
	t.Helper()
	require.EventuallyWithT(t, func(t *collect) {
		stable, err := c.admin.ListCommittedOffsets(context.Background(), c.topic(topic))
		require.NoError(t, err)
		ends, err := c.admin.ListEndOffsets(context.Background(), c.topic(topic))
		require.NoError(t, err)
		ends.Each(func(e kadm.ListedOffset) {
			s, _ := stable.Lookup(e.Topic, e.Partition)
			require.Equal(t, e.Offset, s.Offset, "topic %s, partition %d: an open transaction", topic, e.Partition)
		})
	}, 30*time.Second, 100*time.Millisecond)
}

// deleteBefore removes the records of a partition before an offset.
func (c *cluster) deleteBefore(t *testing.T, topic string, partition int32, offset int64) {
	t.Helper()
	o := kadm.Offsets{}
	o.AddOffset(c.topic(topic), partition, offset, -1)
	_, err := c.admin.DeleteRecords(t.Context(), o)
	require.NoError(t, err)
}

// transact writes records in a transaction of its own and ends it.
func (c *cluster) transact(t *testing.T, end kgo.TransactionEndTry, records ...*kgo.Record) {
	t.Helper()
	opts := append([]kgo.Opt{
		kgo.SeedBrokers(c.addr), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.TransactionalID(fmt.Sprintf("%stx%d", c.prefix, prefixes.Add(1))),
	}, c.opts...)
	client, err := kgo.NewClient(opts...)
	require.NoError(t, err)
	defer client.Close()
	require.NoError(t, client.BeginTransaction())
	require.NoError(t, client.ProduceSync(t.Context(), records...).FirstErr())
	require.NoError(t, client.EndTransaction(t.Context(), end))
}
