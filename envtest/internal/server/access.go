// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"time"

	genericapiserver "k8s.io/apiserver/pkg/server"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/tokens"
)

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

// rights is what the built-in kinds ask about users.
func (b *builder) rights() (*kind.Access, error) {
	keys, err := b.tokenKeys()
	if err != nil {
		return nil, err
	}
	var now func() time.Time
	if b.from.Faults != nil {
		now = b.from.Faults.Now
	}
	return b.from.Users.Rights(b.loopback.Informers, b.from.Modes, keys, now)
}

// tokenKeys are the keys of the flags, or new ones. With new keys the server's address is the issuer, where others find the
// keys to check a token.
func (b *builder) tokenKeys() (*tokens.TokenKeys, error) {
	if b.from.Command == nil {
		return tokens.NewTokenKeys("https://"+b.from.Listener.Address()+"/", nil)
	}
	return b.from.Command.TokenKeys()
}
