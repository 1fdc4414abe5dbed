// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package serving

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// certificateLifetime outlives every test run and every long debugging session.
const certificateLifetime = 365 * 24 * time.Hour

// Authority is a certificate authority. Its private key never leaves the process. It is safe for concurrent use.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority makes an authority of the name.
func NewAuthority(name string) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the key of %s: %w", name, err)
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	der, err := sign(template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	own, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("read the certificate of %s: %w", name, err)
	}
	return &Authority{cert: own, key: key}, nil
}

// Bundle is what has to be trusted, in PEM.
func (a *Authority) Bundle() []byte { return certificatePEM(a.cert.Raw) }

// Issue makes a key pair of its own for template, both in PEM.
func (a *Authority) Issue(template *x509.Certificate) (certPEM, keyPEM []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make the key of %s: %w", template.Subject.CommonName, err)
	}
	der, err := sign(template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		return nil, nil, err
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("encode the key of %s: %w", template.Subject.CommonName, err)
	}
	return certificatePEM(der), pem.EncodeToMemory(&pem.Block{Type: keyutil.ECPrivateKeyBlockType, Bytes: keyDER}), nil
}

// Serving makes the server's pair, for the loopback addresses.
func (a *Authority) Serving() (tls.Certificate, error) {
	certPEM, keyPEM, err := a.Issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: "tarn-apiserver"},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	})
	if err != nil {
		return tls.Certificate{}, err
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("load the server's certificate: %w", err)
	}
	return pair, nil
}

// Pool is what trusts the authority.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// Client makes a user's pair. Kubernetes reads the common name as the user's name, and each organization as a group.
func (a *Authority) Client(name string, groups []string) (certPEM, keyPEM []byte, err error) {
	return a.Issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: name, Organization: groups},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

// sign completes template and signs it with the issuer's key.
func sign(template, issuer *x509.Certificate, public *ecdsa.PublicKey, key *ecdsa.PrivateKey) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("make a serial number for %s: %w", template.Subject.CommonName, err)
	}
	template.SerialNumber = serial
	template.NotBefore = time.Now().Add(-time.Hour) // clocks of containers may differ a little
	template.NotAfter = time.Now().Add(certificateLifetime)
	der, err := x509.CreateCertificate(rand.Reader, template, issuer, public, key)
	if err != nil {
		return nil, fmt.Errorf("sign the certificate of %s: %w", template.Subject.CommonName, err)
	}
	return der, nil
}

func certificatePEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: der})
}
