package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"enricher/config"
)

// minimal is a configuration with everything that is required, and then more.
func minimal(broker, more string) string {
	return fmt.Sprintf(`input: {topics: [orders], group: g}
output: {topic: out}
dimensions: [{name: customer, topic: customer, primary_key: [id]}]
lookups: [{dimension: customer, on: {id: cust}, select: [name]}]
kafka:
  brokers: [%q]
%s`, broker, more)
}

func parse(t *testing.T, text string) *config.Config {
	t.Helper()
	cfg, err := config.Parse("test.yaml", []byte(text), nil)
	require.NoError(t, err)
	return cfg
}

// authority is a certificate authority with its file.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string
}

func newAuthority(t *testing.T, name string) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return authority{cert, key, writePEM(t, name+".pem", "CERTIFICATE", der)}
}

// issue signs a certificate for this name and writes it and its key.
func (a authority) issue(t *testing.T, name string, ips ...net.IP) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{name}, IPAddresses: ips, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	require.NoError(t, err)
	keyDER, err := x509.MarshalECPrivateKey(key)
	require.NoError(t, err)
	return writePEM(t, name+".crt", "CERTIFICATE", der), writePEM(t, name+".key", "EC PRIVATE KEY", keyDER)
}

func writePEM(t *testing.T, name, kind string, der []byte) string {
	t.Helper()
	return writeFile(t, name, string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})))
}

func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

func cluster(t *testing.T, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1)}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// ping connects with what the configuration says.
func ping(t *testing.T, text string) error {
	t.Helper()
	opts, problems := clientOptions(parse(t, text), slog.New(slog.DiscardHandler))
	require.Empty(t, problems)
	client, err := kgo.NewClient(append(opts, kgo.RequestRetries(0))...)
	require.NoError(t, err)
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	return client.Ping(ctx)
}

func TestSASL(t *testing.T) {
	broker := cluster(t, kfake.EnableSASL(), kfake.Superuser("PLAIN", "p", "secret"),
		kfake.Superuser("SCRAM-SHA-256", "s256", "secret"), kfake.Superuser("SCRAM-SHA-512", "s512", "secret")).ListenAddrs()[0]
	file := writeFile(t, "password", "secret\n")
	cases := map[string]struct {
		sasl string
		ok   bool
	}{
		"PLAIN":                    {`{mechanism: PLAIN, username: p, password: secret}`, true},
		"SCRAM-SHA-256":            {`{mechanism: SCRAM-SHA-256, username: s256, password: secret}`, true},
		"SCRAM-SHA-512":            {`{mechanism: SCRAM-SHA-512, username: s512, password: secret}`, true},
		"password in a file":       {fmt.Sprintf(`{mechanism: SCRAM-SHA-512, username: s512, password_file: %q}`, file), true},
		"wrong password":           {`{mechanism: SCRAM-SHA-512, username: s512, password: wrong}`, false},
		"PLAIN, wrong password":    {`{mechanism: PLAIN, username: p, password: wrong}`, false},
		"user of other mechanism":  {`{mechanism: SCRAM-SHA-256, username: s512, password: secret}`, false},
		"no mechanism (no answer)": {`{}`, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			err := ping(t, minimal(broker, "  sasl: "+c.sasl))
			if c.ok {
				require.NoError(t, err)
				return
			}
			require.Error(t, err)
		})
	}
}

func TestTLS(t *testing.T) {
	ours, theirs := newAuthority(t, "ours"), newAuthority(t, "theirs")
	serverCert, serverKey := ours.issue(t, "kafka.internal")
	pair, err := tls.LoadX509KeyPair(serverCert, serverKey)
	require.NoError(t, err)
	clients := x509.NewCertPool()
	clients.AddCert(ours.cert)
	oneSided := cluster(t, kfake.TLS(&tls.Config{Certificates: []tls.Certificate{pair}})).ListenAddrs()[0]
	mutual := cluster(t, kfake.TLS(&tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients})).ListenAddrs()[0]
	cert, key := ours.issue(t, "client")
	foreignCert, foreignKey := theirs.issue(t, "client")
	cases := map[string]struct {
		broker, tls, err string
	}{
		"own authority, server name":     {oneSided, fmt.Sprintf(`{enabled: true, ca_file: %q, server_name: kafka.internal}`, ours.file), ""},
		"the certificate's name differs": {oneSided, fmt.Sprintf(`{enabled: true, ca_file: %q}`, ours.file), "127.0.0.1"},
		"other authority":                {oneSided, fmt.Sprintf(`{enabled: true, ca_file: %q, server_name: kafka.internal}`, theirs.file), "unknown authority"},
		"the system's authorities":       {oneSided, `{enabled: true, server_name: kafka.internal}`, "unknown authority"},
		"insecure":                       {oneSided, `{enabled: true, insecure_skip_verify: true}`, ""},
		"client certificate": {
			mutual, fmt.Sprintf(`{enabled: true, ca_file: %q, server_name: kafka.internal, cert_file: %q, key_file: %q}`, ours.file, cert, key), "",
		},
		"no client certificate": {mutual, fmt.Sprintf(`{enabled: true, ca_file: %q, server_name: kafka.internal}`, ours.file), "certificate required"},
		"foreign client certificate": {
			mutual, fmt.Sprintf(`{enabled: true, ca_file: %q, server_name: kafka.internal, cert_file: %q, key_file: %q}`, ours.file, foreignCert, foreignKey), "certificate",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			err := ping(t, minimal(c.broker, "  tls: "+c.tls))
			if c.err == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.err)
		})
	}
}

func TestTLSFilesThatCannotBeUsed(t *testing.T) {
	ca := newAuthority(t, "ours")
	cert, _ := ca.issue(t, "a")
	_, otherKey := ca.issue(t, "b")
	text := writeFile(t, "text", "not PEM")
	cases := map[string]struct{ tls, problem string }{
		"no certificate in ca_file": {
			fmt.Sprintf(`{enabled: true, ca_file: %q}`, text),
			"test.yaml:7: kafka.tls.ca_file: " + text + " holds no certificate that can be read (PEM blocks of the authorities that sign the brokers' certificates)",
		},
		"key of another certificate": {
			fmt.Sprintf(`{enabled: true, cert_file: %q, key_file: %q}`, cert, otherKey),
			"test.yaml:7: kafka.tls.cert_file: client certificate " + cert + ": tls: private key does not match public key (a PEM certificate, and its key in kafka.tls.key_file)",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, problems := clientOptions(parse(t, minimal("localhost:9092", "  tls: "+c.tls)), slog.New(slog.DiscardHandler))
			require.Len(t, problems, 1)
			assert.Equal(t, c.problem, problems[0].String())
		})
	}
}

func TestClientIDAndRack(t *testing.T) {
	opts, problems := clientOptions(parse(t, minimal("localhost:9092", "  client_id: me\n  rack: eu-1a")), slog.New(slog.DiscardHandler))
	require.Empty(t, problems)
	client, err := kgo.NewClient(opts...)
	require.NoError(t, err)
	defer client.Close()
	assert.Equal(t, "me", client.OptValue(kgo.ClientID))
	assert.Equal(t, "eu-1a", client.OptValue(kgo.Rack))
	assert.Equal(t, []string{"localhost:9092"}, client.OptValue(kgo.SeedBrokers))
}
