package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"enricher/config"
)

// clientOptions are the options of the connection that every Kafka client of the service gets; the parts add what they read and write. The problems are
// those of the files that the configuration names.
func clientOptions(cfg *config.Config, log *slog.Logger) ([]kgo.Opt, []config.Problem) {
	k := cfg.Kafka
	opts := []kgo.Opt{
		kgo.SeedBrokers(k.Brokers...),
		kgo.ClientID(k.ClientID),
		kgo.WithLogger(clientLogger{log}),
	}
	if k.Rack != "" {
		opts = append(opts, kgo.Rack(k.Rack))
	}
	var problems []config.Problem
	if k.TLS.Enabled {
		t, problem := tlsConfig(cfg)
		if problem != nil {
			problems = append(problems, *problem)
		} else {
			opts = append(opts, kgo.DialTLSConfig(t))
		}
	}
	if m := mechanism(k.SASL); m != nil {
		opts = append(opts, kgo.SASL(m))
	}
	return opts, problems
}

// mechanism is the way to say who the service is; nil for none. config refuses names that are not built.
func mechanism(s config.SASL) sasl.Mechanism {
	user, pass := s.Username, s.Password.Reveal()
	switch s.Mechanism {
	case "PLAIN":
		return plain.Auth{User: user, Pass: pass}.AsMechanism()
	case "SCRAM-SHA-256":
		return scram.Auth{User: user, Pass: pass}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return scram.Auth{User: user, Pass: pass}.AsSha512Mechanism()
	default:
		return nil
	}
}

// tlsConfig reads the files of kafka.tls. The client certificate is read again at every handshake, so that one that is renewed on disk is used by the next
// connection; a renewal that can't be read fails that connection and the client tries again.
func tlsConfig(cfg *config.Config) (*tls.Config, *config.Problem) {
	t := cfg.Kafka.TLS
	problem := func(key, what, right string) *config.Problem {
		p := cfg.Problem("kafka.tls."+key, what, right)
		return &p
	}
	c := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		ServerName:         t.ServerName,
		InsecureSkipVerify: t.InsecureSkipVerify, //nolint:gosec // the configuration asks for it by this name
	}
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, problem("ca_file", err.Error(), "")
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, problem("ca_file", t.CAFile+" holds no certificate that can be read", "PEM blocks of the authorities that sign the brokers' certificates")
		}
	}
	if t.CertFile != "" {
		load := func() (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
			if err != nil {
				return nil, fmt.Errorf("client certificate %s: %w", t.CertFile, err)
			}
			return &pair, nil
		}
		if _, err := load(); err != nil {
			return nil, problem("cert_file", err.Error(), "a PEM certificate, and its key in kafka.tls.key_file")
		}
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return load() }
	}
	return c, nil
}
