package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/stretchr/testify/require"
	tc "github.com/testcontainers/testcontainers-go"
	tclog "github.com/testcontainers/testcontainers-go/log"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

const (
	localImage  = "enricher-test/kafka:4.4.0" // what kafka-image.sh builds
	publicImage = "apache/kafka:4.4.0"
	ownerLabel  = "enricher-test-pid" // the test process that a container belongs to
)

// startScript formats the disk once and then becomes the broker, as process 1
// of the container, so that it gets the signals. It works in the public image
// and in the one of kafka-image.sh: both have java, a shell, Kafka's jars and
// kafka's folders in the same places.
const startScript = `set -e
cd /tmp
java_() { exec java -Xms64m -Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 \
  -Dlog4j2.configurationFile=/etc/enricher-test/log4j2.xml -cp "/opt/kafka/libs/*" "$@"; }
(java_ kafka.tools.StorageTool format --ignore-formatted -t AAAAAAAAAAAAAAAAAAAAAQ -c /etc/enricher-test/server.properties \
  --add-scram "SCRAM-SHA-256=[name=` + scramUser + `,password=` + scramPassword + `]" \
  --add-scram "SCRAM-SHA-512=[name=` + scramUser + `,password=` + scramPassword + `]")
java_ kafka.Kafka /etc/enricher-test/server.properties
`

const log4j2 = `<Configuration status="WARN"><Appenders><Console name="c"><PatternLayout pattern="[%d] %p %m (%c)%n"/></Console></Appenders>
<Loggers><Root level="INFO"><AppenderRef ref="c"/></Root></Loggers></Configuration>
`

// properties of one broker that is its own controller. The intervals are short
// so that what takes minutes in production takes seconds here; a small cleaner
// buffer fits the small heap; topics are never created by the way.
const properties = `process.roles=broker,controller
node.id=1
controller.quorum.voters=1@localhost:9093
controller.listener.names=CONTROLLER
inter.broker.listener.name=INSIDE
listeners=PLAIN://:9092,CONTROLLER://:9093,INSIDE://:9094,SASL://:9095,MUTUAL://:9096
listener.security.protocol.map=CONTROLLER:PLAINTEXT,INSIDE:PLAINTEXT,PLAIN:PLAINTEXT,SASL:SASL_SSL,MUTUAL:SSL
log.dirs=/var/lib/kafka/data
auto.create.topics.enable=false
num.partitions=4
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=2000
log.cleaner.backoff.ms=500
log.cleaner.dedupe.buffer.size=8388608
log.segment.delete.delay.ms=1000
log.message.timestamp.after.max.ms=3600000
broker.session.timeout.ms=6000
broker.heartbeat.interval.ms=1000
listener.name.sasl.sasl.enabled.mechanisms=SCRAM-SHA-256,SCRAM-SHA-512,PLAIN
listener.name.sasl.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.sasl.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.sasl.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_` + plainUser + `="` + plainPassword + `";
ssl.keystore.type=PEM
ssl.keystore.location=/etc/enricher-test/server.pem
ssl.truststore.type=PEM
ssl.truststore.location=/etc/enricher-test/ca.pem
listener.name.mutual.ssl.client.auth=required
`

// quiet is Testcontainers' logger: the tests print what they start themselves.
type quiet struct{}

// Printf drops the line.
func (quiet) Printf(string, ...any) {}

// dockerBroker is Apache Kafka in a container.
type dockerBroker struct {
	container *tc.DockerContainer
	engine    *client.Client
	ports     []int // plain, sasl, mutual
	certs     *pki
}

// dockerKafka finds the engine and the image. An error says why there is no
// real broker here; a broker that fails to start is not that, but a failure.
func dockerKafka(ctx context.Context) (testBroker, error) {
	engine, err := client.New(client.FromEnv)
	if err != nil {
		return testBroker{}, err
	}
	pinged, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if _, err = engine.Ping(pinged, client.PingOptions{}); err != nil {
		return testBroker{}, fmt.Errorf("no container engine: %w", err)
	}
	image, err := findImage(ctx, engine)
	if err != nil {
		return testBroker{}, err
	}
	// Not Testcontainers' reaper: it is one more image to pull. Containers carry
	// the process that they belong to instead.
	if err = os.Setenv("TESTCONTAINERS_RYUK_DISABLED", "true"); err != nil {
		return testBroker{}, err
	}
	tclog.SetDefault(quiet{})
	removeLeftovers(ctx, engine)
	return testBroker{
		what: "Apache Kafka, image " + image,
		start: func(abortCheck time.Duration) (broker, error) {
			return runDocker(ctx, engine, image, abortCheck)
		},
	}, nil
}

// findImage takes the image that KAFKA_IMAGE names, the locally built one, or
// the public one, which is pulled when it is not there.
func findImage(ctx context.Context, engine *client.Client) (string, error) {
	image := os.Getenv("KAFKA_IMAGE")
	if image == "" {
		if _, err := engine.ImageInspect(ctx, localImage); err == nil {
			return localImage, nil
		}
		image = publicImage
	}
	if _, err := engine.ImageInspect(ctx, image); err == nil {
		return image, nil
	}
	pull, err := engine.ImagePull(ctx, image, client.ImagePullOptions{})
	if err == nil {
		err = errors.Join(pull.Wait(ctx), pull.Close())
	}
	if err != nil {
		return "", fmt.Errorf("pull image %s: %w", image, err)
	}
	return image, nil
}

// removeLeftovers removes the containers of test processes that were killed.
func removeLeftovers(ctx context.Context, engine *client.Client) {
	filter := client.Filters{}.Add("label", ownerLabel)
	list, err := engine.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: filter})
	if err != nil {
		return
	}
	for _, c := range list.Items {
		pid, err := strconv.Atoi(c.Labels[ownerLabel])
		if err == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			_, _ = engine.ContainerRemove(ctx, c.ID, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
		}
	}
}

func runDocker(ctx context.Context, engine *client.Client, image string, abortCheck time.Duration) (broker, error) {
	ports, err := freePorts(3)
	if err != nil {
		return nil, err
	}
	certs, err := newPKI()
	if err != nil {
		return nil, err
	}
	b := &dockerBroker{engine: engine, ports: ports, certs: certs}
	server := bytes.Join([][]byte{certs.serverKey, certs.serverCert, certs.ca}, nil)
	config := properties + fmt.Sprintf("advertised.listeners=PLAIN://%s,INSIDE://localhost:9094,SASL://%s,MUTUAL://%s\n",
		localhost(ports[0]), localhost(ports[1]), localhost(ports[2])) +
		fmt.Sprintf("transaction.abort.timed.out.transaction.cleanup.interval.ms=%d\n", abortCheck.Milliseconds())
	b.container, err = tc.Run(ctx, image,
		bind(map[int]int{9092: ports[0], 9095: ports[1], 9096: ports[2]}),
		tc.WithEntrypoint("/bin/sh", "-c", startScript),
		tc.WithLabels(map[string]string{ownerLabel: strconv.Itoa(os.Getpid())}),
		tc.WithFiles(
			containerFile("server.properties", []byte(config)), containerFile("log4j2.xml", []byte(log4j2)),
			containerFile("server.pem", server), containerFile("ca.pem", certs.ca)),
	)
	if err != nil {
		return nil, fmt.Errorf("run %s: %w%s", image, err, b.log(ctx))
	}
	if err = ping(ctx, b.plain(), 90*time.Second); err != nil {
		err = fmt.Errorf("broker of image %s: %w%s", image, err, b.log(ctx))
		b.close()
		return nil, err
	}
	return b, nil
}

// bind publishes container ports on fixed ports of 127.0.0.1.
func bind(ports map[int]int) tc.CustomizeRequestOption {
	return func(req *tc.GenericContainerRequest) error {
		for inside := range ports {
			req.ExposedPorts = append(req.ExposedPorts, fmt.Sprintf("%d/tcp", inside))
		}
		return tc.WithHostConfigModifier(func(hc *container.HostConfig) {
			hc.PortBindings = network.PortMap{}
			for inside, host := range ports {
				hc.PortBindings[network.MustParsePort(fmt.Sprintf("%d/tcp", inside))] = []network.PortBinding{
					{HostIP: netip.MustParseAddr("127.0.0.1"), HostPort: strconv.Itoa(host)},
				}
			}
		})(req)
	}
}

func containerFile(name string, body []byte) tc.ContainerFile {
	return tc.ContainerFile{Reader: bytes.NewReader(body), ContainerFilePath: "/etc/enricher-test/" + name, FileMode: 0o644}
}

func (b *dockerBroker) plain() endpoint { return endpoint{addr: localhost(b.ports[0])} }

func (b *dockerBroker) sasl(*testing.T) endpoint {
	user := scram.Auth{User: scramUser, Pass: scramPassword}
	return endpoint{addr: localhost(b.ports[1]), certs: b.certs, opts: []kgo.Opt{b.certs.dialTLS(false), kgo.SASL(user.AsSha512Mechanism())}}
}

func (b *dockerBroker) mutual(*testing.T) endpoint {
	return endpoint{addr: localhost(b.ports[2]), certs: b.certs, opts: []kgo.Opt{b.certs.dialTLS(true)}}
}

func (b *dockerBroker) stop(t *testing.T) {
	t.Helper()
	limit := 20 * time.Second
	require.NoError(t, b.container.Stop(context.Background(), &limit), "stop the broker")
}

func (b *dockerBroker) kill(t *testing.T) {
	t.Helper()
	_, err := b.engine.ContainerKill(context.Background(), b.container.GetContainerID(), client.ContainerKillOptions{Signal: "SIGKILL"})
	require.NoError(t, err, "kill the broker")
}

// restart does not use the container's Start, which would run Testcontainers'
// hooks of a first start again.
func (b *dockerBroker) restart(t *testing.T) {
	t.Helper()
	_, err := b.engine.ContainerStart(context.Background(), b.container.GetContainerID(), client.ContainerStartOptions{})
	require.NoError(t, err, "start the broker again")
}

func (b *dockerBroker) freeze(t *testing.T) (thaw func()) {
	t.Helper()
	var err error
	for range 10 { // a loaded machine may not freeze all processes in the time that the engine gives it
		if _, err = b.engine.ContainerPause(context.Background(), b.container.GetContainerID(), client.ContainerPauseOptions{}); err == nil {
			break
		}
	}
	require.NoError(t, err, "pause the broker")
	return sync.OnceFunc(func() {
		_, _ = b.engine.ContainerUnpause(context.Background(), b.container.GetContainerID(), client.ContainerUnpauseOptions{})
	})
}

func (b *dockerBroker) enforce(*testing.T, string, int32) {}

func (b *dockerBroker) compact() {}

func (b *dockerBroker) close() {
	_ = tc.TerminateContainer(b.container, tc.StopTimeout(0))
}

// log is the end of the broker's log, for an error message.
func (b *dockerBroker) log(ctx context.Context) string {
	if b.container == nil {
		return ""
	}
	r, err := b.container.Logs(ctx)
	if err != nil {
		return ""
	}
	defer r.Close()
	all, _ := io.ReadAll(r)
	return "\nbroker log:\n" + strings.ToValidUTF8(string(all[max(0, len(all)-6000):]), "?")
}
