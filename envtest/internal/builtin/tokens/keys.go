// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package tokens

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strings"
)

// TokenKeys sign and check the tokens of service accounts, which are JSON web tokens of one issuer. They do not change, and are
// safe for concurrent use.
type TokenKeys struct {
	// Issuer is a URL: it names the signer, and the keys are found there.
	Issuer string

	signer crypto.Signer
	known  []crypto.PublicKey
}

// NewTokenKeys makes keys that sign with signer, and accept the tokens of the known keys. A nil signer is a new key.
func NewTokenKeys(issuer string, signer crypto.Signer, known ...crypto.PublicKey) (*TokenKeys, error) {
	if signer == nil {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return nil, fmt.Errorf("make the key for tokens of service accounts: %w", err)
		}
		signer = key
	}
	if len(known) == 0 {
		known = []crypto.PublicKey{signer.Public()}
	}
	for _, key := range append([]crypto.PublicKey{signer.Public()}, known...) {
		if _, err := algorithm(key); err != nil {
			return nil, err
		}
	}
	return &TokenKeys{Issuer: issuer, signer: signer, known: known}, nil
}

// algorithm is the name of how a key signs.
func algorithm(key crypto.PublicKey) (string, error) {
	switch k := key.(type) {
	case *rsa.PublicKey:
		return "RS256", nil
	case *ecdsa.PublicKey:
		switch k.Curve {
		case elliptic.P256():
			return "ES256", nil
		case elliptic.P384():
			return "ES384", nil
		case elliptic.P521():
			return "ES512", nil
		}
	}
	return "", fmt.Errorf("a %T cannot sign tokens of service accounts: use an RSA key, or an ECDSA key of P-256, P-384 or P-521", key)
}

// keyID names a key by its content.
func keyID(key crypto.PublicKey) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return "", fmt.Errorf("encode the key of tokens: %w", err)
	}
	sum := sha256.Sum256(der)
	return base64.RawURLEncoding.EncodeToString(sum[:]), nil
}

// Sign makes a token of claims.
func (k *TokenKeys) Sign(claims any) (string, error) {
	name, err := algorithm(k.signer.Public())
	if err != nil {
		return "", err
	}
	id, err := keyID(k.signer.Public())
	if err != nil {
		return "", err
	}
	header, err := json.Marshal(map[string]string{"alg": name, "kid": id})
	if err != nil {
		return "", err
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		return "", fmt.Errorf("encode the claims of a token: %w", err)
	}
	text := base64.RawURLEncoding.EncodeToString(header) + "." + base64.RawURLEncoding.EncodeToString(payload)
	hash := hashOf(name)
	signature, err := k.signer.Sign(rand.Reader, digest(hash, text), hash)
	if err != nil {
		return "", fmt.Errorf("sign a token: %w", err)
	}
	if key, ok := k.signer.Public().(*ecdsa.PublicKey); ok {
		if signature, err = joinECDSA(key, signature); err != nil {
			return "", err
		}
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(signature), nil
}

func hashOf(algorithm string) crypto.Hash {
	switch algorithm {
	case "ES384":
		return crypto.SHA384
	case "ES512":
		return crypto.SHA512
	}
	return crypto.SHA256
}

func digest(hash crypto.Hash, text string) []byte {
	h := hash.New()
	h.Write([]byte(text))
	return h.Sum(nil)
}

// errNotOurs is the error of a token that no known key signed.
var errNotOurs = errors.New("invalid signature: no known key signed the token")

// Open checks the signature of a token and returns its claims.
func (k *TokenKeys) Open(token string) ([]byte, error) {
	text, last, ok := cutLast(token, ".")
	if !ok {
		return nil, errNotOurs
	}
	first, payload, ok := strings.Cut(text, ".")
	if !ok {
		return nil, errNotOurs
	}
	var header struct{ Alg string }
	head, err := base64.RawURLEncoding.DecodeString(first)
	if err == nil {
		err = json.Unmarshal(head, &header)
	}
	signature, err2 := base64.RawURLEncoding.DecodeString(last)
	if err != nil || err2 != nil {
		return nil, errNotOurs
	}
	for _, key := range k.known {
		if name, _ := algorithm(key); name == header.Alg && verifies(key, digest(hashOf(name), text), hashOf(name), signature) {
			return base64.RawURLEncoding.DecodeString(payload)
		}
	}
	return nil, errNotOurs
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

func verifies(key crypto.PublicKey, sum []byte, hash crypto.Hash, signature []byte) bool {
	switch k := key.(type) {
	case *rsa.PublicKey:
		return rsa.VerifyPKCS1v15(k, hash, sum, signature) == nil
	case *ecdsa.PublicKey:
		size := coordinate(k)
		if len(signature) != 2*size {
			return false
		}
		return ecdsa.Verify(k, sum, new(big.Int).SetBytes(signature[:size]), new(big.Int).SetBytes(signature[size:]))
	}
	return false
}

// coordinate is the length of half a signature, in bytes.
func coordinate(key *ecdsa.PublicKey) int { return (key.Curve.Params().BitSize + 7) / 8 }
