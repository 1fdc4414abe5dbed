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
func (s *Server) rights() (*kind.Access, error) {
	keys, err := s.tokenKeys()
	if err != nil {
		return nil, err
	}
	var now func() time.Time
	if s.from.Faults != nil {
		now = s.from.Faults.Now
	}
	return s.from.Users.Rights(s.loopback.Informers, s.from.Modes, keys, now)
}

// tokenKeys are the keys of the flags, or new ones. With new keys the server's address is the issuer, where others find the
// keys to check a token.
func (s *Server) tokenKeys() (*tokens.TokenKeys, error) {
	if s.from.Command == nil {
		return tokens.NewTokenKeys("https://"+s.from.Listener.Address()+"/", nil)
	}
	return s.from.Command.TokenKeys()
}
