package integration

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// fakeBroker is a kfake cluster of one node that listens on TCP. Its log lies
// on disk, so that a restarted one has what the stopped one had.
type fakeBroker struct {
	dir  string
	port int

	mu      sync.Mutex // the scenarios share a broker
	cluster *kfake.Cluster
}

// fakeKafka is the stand-in where there is no real broker.
func fakeKafka() testBroker {
	return testBroker{what: "kfake", start: func(time.Duration) (broker, error) { return runFake() }}
}

func runFake() (*fakeBroker, error) {
	dir, err := os.MkdirTemp("", "enricher-kfake-")
	if err != nil {
		return nil, err
	}
	ports, err := freePorts(1)
	if err != nil {
		return nil, err
	}
	b := &fakeBroker{dir: dir, port: ports[0]}
	return b, b.listen()
}

func (b *fakeBroker) listen() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	cluster, err := kfake.NewCluster(fakeOptions(kfake.Ports(b.port), kfake.DataDir(b.dir))...)
	if err != nil {
		return fmt.Errorf("kfake on port %d: %w", b.port, err)
	}
	b.cluster = cluster
	return nil
}

func fakeOptions(more ...kfake.Opt) []kfake.Opt {
	return append([]kfake.Opt{
		kfake.NumBrokers(1),
		kfake.DefaultNumPartitions(4),
		kfake.GroupMinSessionTimeout(2 * time.Second),
	}, more...)
}

func (b *fakeBroker) plain() endpoint { return endpoint{addr: localhost(b.port)} }

// sasl and mutual are clusters of their own: a kfake cluster has one listener.

func (b *fakeBroker) sasl(t *testing.T) endpoint {
	t.Helper()
	e := secureFake(t, tls.NoClientCert, kfake.EnableSASL(),
		kfake.Superuser("SCRAM-SHA-256", scramUser, scramPassword),
		kfake.Superuser("SCRAM-SHA-512", scramUser, scramPassword),
		kfake.Superuser("PLAIN", plainUser, plainPassword))
	user := scram.Auth{User: scramUser, Pass: scramPassword}
	e.opts = []kgo.Opt{e.certs.dialTLS(false), kgo.SASL(user.AsSha512Mechanism())}
	return e
}

func (b *fakeBroker) mutual(t *testing.T) endpoint {
	t.Helper()
	e := secureFake(t, tls.RequireAndVerifyClientCert)
	e.opts = []kgo.Opt{e.certs.dialTLS(true)}
	return e
}

func secureFake(t *testing.T, auth tls.ClientAuthType, opts ...kfake.Opt) endpoint {
	t.Helper()
	certs, err := newPKI()
	require.NoError(t, err)
	pair, err := tls.X509KeyPair(certs.serverCert, certs.serverKey)
	require.NoError(t, err)
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM(certs.ca)
	opts = append(opts, kfake.TLS(&tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, ClientAuth: auth, ClientCAs: clients,
	}))
	cluster, err := kfake.NewCluster(fakeOptions(opts...)...)
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	return endpoint{addr: cluster.ListenAddrs()[0], certs: certs}
}

func (b *fakeBroker) stop(*testing.T) { b.end() }

func (b *fakeBroker) kill(*testing.T) { b.end() }

func (b *fakeBroker) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cluster.Close()
}

func (b *fakeBroker) restart(t *testing.T) {
	t.Helper()
	require.NoError(t, b.listen())
}

// freeze holds the cluster's only goroutine in a control function.
func (b *fakeBroker) freeze(t *testing.T) (thaw func()) {
	t.Helper()
	frozen := make(chan struct{})
	b.cluster.Control(func(kmsg.Request) (kmsg.Response, error, bool) {
		<-frozen
		return nil, nil, false
	})
	thaw = sync.OnceFunc(func() { close(frozen) })
	t.Cleanup(thaw)
	return thaw
}

func (b *fakeBroker) compact() { b.cluster.Compact() }

func (b *fakeBroker) log(context.Context) string { return "" }

func (b *fakeBroker) close() {
	b.end()
	_ = os.RemoveAll(b.dir)
}

// enforce answers a batch as a real broker does when a record in it is from the
// far future, or has no key although the topic is compacted.
func (b *fakeBroker) enforce(t *testing.T, topic string, partitions int32) {
	t.Helper()
	info := b.cluster.TopicInfo(topic)
	require.NotNil(t, info, "topic %s", topic)
	policy := info.Configs["cleanup.policy"]
	compacted := policy != nil && *policy == "compact"
	for p := range partitions {
		refuse := func(err *kerr.Error, bad func(batch kmsg.RecordBatch, r kmsg.Record) bool) {
			b.cluster.Fault(kfake.Fault{
				Keys: []kmsg.Key{kmsg.Produce}, Topic: topic, Partitions: []int32{p}, Err: err, Count: -1,
				When: func(req kmsg.Request) bool { return anyRecord(req.(*kmsg.ProduceRequest), topic, info.TopicID, p, bad) },
			})
		}
		refuse(kerr.InvalidTimestamp, func(batch kmsg.RecordBatch, r kmsg.Record) bool {
			return batch.FirstTimestamp+r.TimestampDelta64 > time.Now().Add(time.Hour).UnixMilli()
		})
		if compacted {
			refuse(kerr.InvalidRecord, func(_ kmsg.RecordBatch, r kmsg.Record) bool { return r.Key == nil })
		}
	}
}

// anyRecord reports whether a record for one partition in the request is bad.
func anyRecord(req *kmsg.ProduceRequest, topic string, id [16]byte, partition int32, bad func(kmsg.RecordBatch, kmsg.Record) bool) bool {
	for _, t := range req.Topics {
		if t.Topic != topic && !bytes.Equal(t.TopicID[:], id[:]) {
			continue
		}
		for _, p := range t.Partitions {
			if p.Partition != partition {
				continue
			}
			var batch kmsg.RecordBatch
			if batch.ReadFrom(p.Records) != nil {
				continue
			}
			records, err := kfake.BatchRecords(batch)
			if err != nil {
				continue
			}
			for _, r := range records {
				if bad(batch, r) {
					return true
				}
			}
		}
	}
	return false
}
