// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"fmt"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/request/anonymous"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/request/union"
	"k8s.io/apiserver/pkg/authentication/request/websocket"
	"k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/rest"
)

// access makes the credentials of one server's users, and tells from a request who sent it. It is safe for concurrent use.
type access struct {
	address   string // host and port of the server
	servingCA []byte // PEM
	clients   *authority
	clientCA  dynamiccertificates.CAContentProvider // who signs certificates of users
	tokens    *tokens
}

// newAccess makes an authority for users of the server at the address, whose clients trust servingCA.
func newAccess(address string, servingCA []byte) (*access, error) {
	clients, err := newAuthority("tarn-client-ca")
	if err != nil {
		return nil, err
	}
	clientCA, err := dynamiccertificates.NewStaticCAContent("client-ca", clients.bundle())
	if err != nil {
		return nil, fmt.Errorf("load the authority of users: %w", err)
	}
	return &access{address: address, servingCA: servingCA, clients: clients, clientCA: clientCA, tokens: newTokens()}, nil
}

// byToken is a client configuration for a user, with a new token.
func (a *access) byToken(name string, groups ...string) *rest.Config {
	return &rest.Config{
		Host:               "https://" + a.address,
		BearerToken:        a.tokens.issue(name, groups...),
		TLSClientConfig:    rest.TLSClientConfig{CAData: a.servingCA},
		QPS:                -1, // no throttling
		DisableCompression: true,
	}
}

// issue is a client configuration for a user, with a new token and a new certificate. Either of them is enough.
func (a *access) issue(name string, groups ...string) (*rest.Config, error) {
	config := a.byToken(name, groups...)
	var err error
	if config.CertData, config.KeyData, err = a.clients.client(name, groups); err != nil {
		return nil, err
	}
	return config, nil
}

// authenticator is put together as in kube-apiserver: a certificate counts before a token, who has either is in the group
// of the authenticated, and who has none is anonymous. A credential that is not known is refused.
func (a *access) authenticator() authenticator.Request {
	known := union.New(
		x509.NewDynamic(a.clientCA.VerifyOptions, x509.CommonNameUserConversion),
		bearertoken.New(a.tokens),
		websocket.NewProtocolAuthenticator(a.tokens),
	)
	return union.NewFailOnError(group.NewAuthenticatedGroupAdder(known), anonymous.NewAuthenticator(nil))
}
