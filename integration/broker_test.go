package integration

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// A broker is one Kafka cluster of one node, real or fake.
type broker interface {
	// plain is the listener without TLS or credentials.
	plain() endpoint
	// sasl is the listener with TLS and the users of the constants below.
	sasl(t *testing.T) endpoint
	// mutual is the listener with TLS that demands a client certificate.
	mutual(t *testing.T) endpoint
	// stop ends the broker as an operator would, kill as a power cut would.
	stop(t *testing.T)
	kill(t *testing.T)
	// restart brings a stopped or killed one back: same disk, same addresses.
	restart(t *testing.T)
	// freeze makes it answer nothing until the returned function is called.
	freeze(t *testing.T) (thaw func())
	// enforce makes the broker refuse what a real one refuses: kfake accepts
	// invalid timestamps and null keys on compacted topics. Called after the
	// topic was created.
	enforce(t *testing.T, topic string, partitions int32)
	// compact runs the log cleaner now where that is possible; a real broker's
	// runs on its own.
	compact()
	// log is the end of what the broker printed.
	log(ctx context.Context) string
	close()
}

// The users of the SASL listener.
const (
	scramUser, scramPassword = "alice", "alice-secret"
	plainUser, plainPassword = "bob", "bob-secret"
)

// An endpoint is an address with what the tests' own clients need for it.
type endpoint struct {
	certs *pki // nil without TLS
	addr  string
	opts  []kgo.Opt
}

// testBroker is the broker of this test process, made by TestMain.
type testBroker struct {
	what   string // for the first line of the output
	shared broker
	start  func(abortCheck time.Duration) (broker, error)
}

var kafka testBroker

// How often a broker looks for transactions whose time is over. The shared one
// does it often, so that scenarios need not wait.
//
// One that is killed must not do it while it comes back. Kafka 4.4.0, controller
// and broker in one, takes up transactions at its start before it has lost and
// regained the leadership of its partitions; in that moment it "skips" partitions
// without a leader when it writes the markers of an abort. A later commit of the
// same producer then makes the aborted records visible. Kafka 3.9.1 does not.
const (
	abortCheckShared = time.Second
	abortCheckOwn    = 30 * time.Second
)

// ownBroker starts a broker that the scenario may stop and kill.
func ownBroker(t *testing.T) broker {
	t.Helper()
	b, err := kafka.start(abortCheckOwn)
	require.NoError(t, err, "start a broker")
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(b.log(context.Background()))
		}
		b.close()
	})
	awaitBroker(t, b.plain())
	return b
}

// awaitBroker waits until the broker answers.
func awaitBroker(t *testing.T, e endpoint) {
	t.Helper()
	require.NoError(t, ping(context.Background(), e, 90*time.Second), "broker %s", e.addr)
}

// ping waits until a transaction coordinator is there, which is the last thing
// that a broker has ready.
func ping(ctx context.Context, e endpoint, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	opts := append([]kgo.Opt{kgo.SeedBrokers(e.addr), kgo.RetryTimeout(2 * time.Second), kgo.AlwaysRetryEOF()}, e.opts...)
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return err
	}
	defer client.Close()
	for {
		if err = kadm.NewClient(client).FindTxnCoordinators(ctx, "ping").Error(); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no answer within %v: %w", limit, err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// freePorts reserves n ports at once so that they differ, then lets go of them.
// Fixed ports are what lets a restarted broker come back at the same address.
func freePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// localhost is the address of a port of this machine.
func localhost(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

// dialTLS is how the tests' own clients reach the TLS listeners.
func (p *pki) dialTLS(client bool) kgo.Opt {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(p.ca)
	c := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	if client {
		pair, err := tls.X509KeyPair(p.clientCert, p.clientKey)
		if err != nil {
			panic(err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return kgo.DialTLSConfig(c)
}
