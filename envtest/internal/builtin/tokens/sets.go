// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package tokens

import (
	"crypto/ecdsa"
	"crypto/rsa"
	"encoding/asn1"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"

	"github.com/emicklei/go-restful/v3"
)

// joinECDSA turns a signature in ASN.1 into the two numbers one after the other, as web tokens have it.
func joinECDSA(key *ecdsa.PublicKey, der []byte) ([]byte, error) {
	var numbers struct{ R, S *big.Int }
	if _, err := asn1.Unmarshal(der, &numbers); err != nil {
		return nil, fmt.Errorf("read a signature: %w", err)
	}
	size := coordinate(key)
	joined := make([]byte, 2*size)
	numbers.R.FillBytes(joined[:size])
	numbers.S.FillBytes(joined[size:])
	return joined, nil
}

// The paths by which others learn the keys. They are OpenID Connect's.
const (
	DiscoveryPath = "/.well-known/openid-configuration"
	KeySetPath    = "/openid/v1/jwks"
)

// webKey is a public key in the JSON form of web keys.
type webKey struct {
	Use string `json:"use"`
	Kty string `json:"kty"`
	Kid string `json:"kid"`
	Alg string `json:"alg"`
	Crv string `json:"crv,omitempty"`
	X   string `json:"x,omitempty"`
	Y   string `json:"y,omitempty"`
	N   string `json:"n,omitempty"`
	E   string `json:"e,omitempty"`
}

// Documents returns services of the two paths, for a server at the address (host and port). Each has one form, and refuses clients
// that want another one.
func (k *TokenKeys) Documents(address string) ([]*restful.WebService, error) {
	set, names := []webKey{}, []string{}
	for _, key := range k.known {
		id, err := keyID(key)
		if err != nil {
			return nil, err
		}
		name, err := algorithm(key)
		if err != nil {
			return nil, err
		}
		names = append(names, name)
		shown := webKey{Use: "sig", Kid: id, Alg: name}
		number := func(n []byte) string { return base64.RawURLEncoding.EncodeToString(n) }
		switch key := key.(type) {
		case *rsa.PublicKey:
			shown.Kty, shown.N, shown.E = "RSA", number(key.N.Bytes()), number(big.NewInt(int64(key.E)).Bytes())
		case *ecdsa.PublicKey:
			point, err := key.Bytes()
			if err != nil {
				return nil, fmt.Errorf("encode the key of tokens: %w", err)
			}
			size := coordinate(key) // after a byte that says that both coordinates follow
			shown.Kty, shown.Crv = "EC", key.Params().Name
			shown.X, shown.Y = number(point[1:1+size]), number(point[1+size:])
		}
		set = append(set, shown)
	}
	keys, err := json.Marshal(map[string]any{"keys": set})
	if err != nil {
		return nil, err
	}
	about, err := json.Marshal(map[string]any{
		"issuer": k.Issuer, "jwks_uri": "https://" + address + KeySetPath, "response_types_supported": []string{"id_token"},
		"subject_types_supported": []string{"public"}, "id_token_signing_alg_values_supported": names,
	})
	if err != nil {
		return nil, err
	}
	return []*restful.WebService{
		document(DiscoveryPath, "application/json", about, "getServiceAccountIssuerOpenIDConfiguration",
			"get service account issuer OpenID configuration, also known as the 'OIDC discovery doc'"),
		document(KeySetPath, "application/jwk-set+json", keys, "getServiceAccountIssuerOpenIDKeyset",
			"get service account issuer OpenID JSON Web Key Set (contains public token verification keys)"),
	}, nil
}

// document serves a text that may be cached for an hour. The last two arguments are what OpenAPI says of it.
func document(path, form string, body []byte, operation, doc string) *restful.WebService {
	service := new(restful.WebService).Path(path).Produces(form)
	return service.Route(service.GET("").Operation(operation).Doc(doc).Returns(http.StatusOK, "OK", "").To(
		func(_ *restful.Request, response *restful.Response) {
			response.Header().Set("Content-Type", form)
			response.Header().Set("Cache-Control", "public, max-age=3600")
			_, _ = response.Write(body) // a client that went away needs no answer
		}))
}
