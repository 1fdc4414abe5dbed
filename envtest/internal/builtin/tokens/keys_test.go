// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package tokens

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"testing"
)

func TestTokensAreOfTheirKey(t *testing.T) {
	signers := map[string]crypto.Signer{}
	for name, curve := range map[string]elliptic.Curve{"ES256": elliptic.P256(), "ES384": elliptic.P384(), "ES512": elliptic.P521()} {
		key, err := ecdsa.GenerateKey(curve, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		signers[name] = key
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	signers["RS256"] = key
	other, err := NewTokenKeys("https://other", nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, signer := range signers {
		keys, err := NewTokenKeys("https://issuer", signer)
		if err != nil {
			t.Fatal(err)
		}
		token, err := keys.Sign(map[string]any{"iss": "https://issuer", "aud": "a"})
		if err != nil {
			t.Fatal(err)
		}
		payload, err := keys.Open(token)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var said map[string]any
		if err := json.Unmarshal(payload, &said); err != nil || said["iss"] != "https://issuer" {
			t.Errorf("%s: the token says %s: %v", name, payload, err)
		}
		for _, wrong := range []string{token[:len(token)-4] + "AAAA", token + ".", "a.b.c", "..", "", token[1:]} {
			if _, err := keys.Open(wrong); !errors.Is(err, errNotOurs) {
				t.Errorf("%s: opening a wrong token: %v", name, err)
			}
		}
		if _, err := other.Open(token); !errors.Is(err, errNotOurs) {
			t.Errorf("%s: opening with another key: %v", name, err)
		}
		if _, err := keys.Documents("127.0.0.1:1"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	weak, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewTokenKeys("https://issuer", weak); err == nil {
		t.Error("a key that cannot sign tokens was taken")
	}
}
