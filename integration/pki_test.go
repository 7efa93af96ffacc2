package integration

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// pki is a certificate authority of the tests with one server and one client
// certificate, all in PEM (keys in PKCS #8, as Kafka's PEM store wants them).
type pki struct {
	ca                    []byte
	serverCert, serverKey []byte
	clientCert, clientKey []byte
}

// newPKI makes an authority that is valid for a day.
func newPKI() (*pki, error) {
	now := time.Now()
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, root, root, &caKey.PublicKey, caKey)
	if err != nil {
		return nil, err
	}
	p := &pki{ca: pemBlock("CERTIFICATE", der)}
	issue := func(serial int64, name string, usage x509.ExtKeyUsage) (cert, key []byte, err error) {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return nil, nil, err
		}
		c := &x509.Certificate{
			SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name},
			NotBefore: root.NotBefore, NotAfter: root.NotAfter,
			KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{usage},
			DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		}
		der, err := x509.CreateCertificate(rand.Reader, c, root, &k.PublicKey, caKey)
		if err != nil {
			return nil, nil, err
		}
		pkcs8, err := x509.MarshalPKCS8PrivateKey(k)
		return pemBlock("CERTIFICATE", der), pemBlock("PRIVATE KEY", pkcs8), err
	}
	if p.serverCert, p.serverKey, err = issue(2, "broker", x509.ExtKeyUsageServerAuth); err != nil {
		return nil, err
	}
	p.clientCert, p.clientKey, err = issue(3, "enricher", x509.ExtKeyUsageClientAuth)
	return p, err
}

func pemBlock(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// files writes what the service under test needs and returns their paths.
func (p *pki) files(t *testing.T) (ca, cert, key string) {
	t.Helper()
	dir := t.TempDir()
	write := func(name string, body []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, body, 0o600))
		return path
	}
	return write("ca.pem", p.ca), write("client.pem", p.clientCert), write("client.key", p.clientKey)
}
