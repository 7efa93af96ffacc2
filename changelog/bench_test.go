package changelog

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"enricher/dimstore"
)

// discard is a sink that keeps positions only: what is left is Kafka and decoding.
type discard struct{ *memSink }

func (d discard) Apply(changes []dimstore.Change, positions []dimstore.Position) (dimstore.Applied, error) {
	_, err := d.memSink.Apply(nil, positions)
	return dimstore.Applied{Upserts: len(changes)}, err
}

// BenchmarkLoad is a first load, from the first look at the topic to warm. The brokers (kfake) run in the same process, on the same cores.
func BenchmarkLoad(b *testing.B) {
	const rows, buckets = 500_000, 4
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(buckets, topic))
	require.NoError(b, err)
	defer cluster.Close()
	seed(b, cluster, rows, buckets)
	schema := newSchema(b, "c_custkey:int c_name:string c_address:string c_nationkey:int c_phone:string c_acctbal:decimal c_mktsegment:string", "c_custkey", "")

	load := func(b *testing.B, sink Sink) {
		b.Helper()
		d, err := New(Options{
			Name: topic, Topic: topic, Schema: schema, OnError: Fail, Sink: sink,
			Client: []kgo.Opt{kgo.SeedBrokers(cluster.ListenAddrs()...)},
		})
		require.NoError(b, err)
		ctx, cancel := context.WithCancel(b.Context())
		done := make(chan error, 1)
		go func() { done <- d.Run(ctx) }()
		select {
		case <-d.Warm():
		case err := <-done:
			b.Fatal(err)
		}
		cancel()
		require.NoError(b, <-done)
		require.EqualValues(b, rows, d.Status().RecordsRead)
	}
	report := func(b *testing.B) {
		b.Helper()
		b.ReportMetric(float64(rows)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
	}
	b.Run("nothing stored", func(b *testing.B) {
		for b.Loop() {
			load(b, discard{newMemSink()})
		}
		report(b)
	})
	b.Run("badger", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			dir, err := dimstore.OpenDir(b.TempDir())
			require.NoError(b, err)
			store, err := dir.OpenStore(dimstore.Options{Name: topic, Fingerprint: "x", Memory: 256 << 20, DeleteMarkTTL: 24 * time.Hour})
			require.NoError(b, err)
			b.StartTimer()
			load(b, store)
			b.StopTimer()
			require.EqualValues(b, rows, store.Rows())
			require.NoError(b, store.Close())
			require.NoError(b, dir.Close())
			b.StartTimer()
		}
		report(b)
	})
}

func seed(b *testing.B, cluster *kfake.Cluster, rows, buckets int) {
	b.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MaxBufferedRecords(100_000))
	require.NoError(b, err)
	defer cl.Close()
	for i := range rows {
		cl.Produce(b.Context(), &kgo.Record{
			Topic: topic, Partition: int32(i % buckets), Key: fmt.Append(nil, i),
			Value: fmt.Appendf(nil, `{"c_custkey":%d,"c_name":"Customer#%09d","c_address":"IVhzIApeRb ot,c,E","c_nationkey":%d,"c_phone":"25-989-741-2988","c_acctbal":%d.%02d,"c_mktsegment":"BUILDING"}`,
				i, i, i%25, i%10_000, i%100),
		}, func(_ *kgo.Record, err error) { require.NoError(b, err) })
	}
	require.NoError(b, cl.Flush(b.Context()))
}
