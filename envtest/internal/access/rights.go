// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/client-go/informers"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/tokens"
)

// Rights is what the built-in kinds ask about users, whom the modes let do things. Its authenticator is set later: it knows
// the tokens that those kinds make. now judges certificates and tokens; nil is the real time.
func (a *Users) Rights(
	factory informers.SharedInformerFactory, modes []string, keys *tokens.TokenKeys, now func() time.Time,
) (*kind.Access, error) {
	authorizer, rules, err := newAuthorizer(factory, modes)
	if err != nil {
		return nil, err
	}
	a.audiences = []string{keys.Issuer}
	rights := &kind.Access{Authorizer: authorizer, Rules: rules, Keys: keys, Audiences: a.audiences}
	if now != nil {
		rights.Now = now
		if a.clientCA != nil {
			a.clientCA = clockedCA{a.clientCA, now}
		}
	}
	return rights, nil
}

// Authenticate has rights know the user of a request. accounts knows tokens of service accounts.
func (a *Users) Authenticate(rights *kind.Access, accounts authenticator.Token) {
	a.accounts = accounts
	rights.Authenticator = a.authenticator()
}
