// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"crypto"
	"fmt"

	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/util/keyutil"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/tokens"
)

// rights is what the built-in kinds ask about users. Its authenticator is set later: it knows the tokens that those kinds make.
func (s *server) rights(opts Options, users *access) (*kind.Access, error) {
	authorizer, rules, err := newAuthorizer(s.loopback.informers, opts.modes())
	if err != nil {
		return nil, err
	}
	keys, err := opts.tokenKeys(s.serving.address())
	if err != nil {
		return nil, err
	}
	users.audiences = []string{keys.Issuer}
	rights := &kind.Access{Authorizer: authorizer, Rules: rules, Keys: keys, Audiences: users.audiences}
	if s.faults != nil {
		rights.Now = s.faults.Now
		if users.clientCA != nil {
			users.clientCA = clockedCA{users.clientCA, s.faults.Now}
		}
	}
	return rights, nil
}

// tokenKeys are those that the flags name, or new ones of the server at the address, which is the issuer then: who checks a token
// finds the keys there.
func (o Options) tokenKeys(address string) (*tokens.TokenKeys, error) {
	if o.process == nil {
		return tokens.NewTokenKeys("https://"+address+"/", nil)
	}
	f := o.process.flags.Access
	key, err := keyutil.PrivateKeyFromFile(f.SigningKeyFile)
	if err != nil {
		return nil, fmt.Errorf("load the key that signs tokens of service accounts: %w", err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("the key in %s cannot sign", f.SigningKeyFile)
	}
	var known []crypto.PublicKey
	for _, file := range f.KeyFiles {
		keys, err := keyutil.PublicKeysFromFile(file)
		if err != nil {
			return nil, fmt.Errorf("load the keys of service accounts: %w", err)
		}
		for _, key := range keys {
			known = append(known, key)
		}
	}
	return tokens.NewTokenKeys(f.Issuers[0], signer, known...)
}

// serveKeys serves the keys by which others check tokens of service accounts.
func serveKeys(generic *genericapiserver.GenericAPIServer, keys *tokens.TokenKeys, address string) error {
	documents, err := keys.Documents(address)
	if err != nil {
		return err
	}
	for _, document := range documents {
		generic.Handler.GoRestfulContainer.Add(document)
	}
	return nil
}
