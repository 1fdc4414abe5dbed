// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	certificates "crypto/x509"
	"fmt"
	"slices"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/request/anonymous"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	"k8s.io/apiserver/pkg/authentication/request/union"
	"k8s.io/apiserver/pkg/authentication/request/websocket"
	"k8s.io/apiserver/pkg/authentication/request/x509"
	tokenunion "k8s.io/apiserver/pkg/authentication/token/union"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/rest"
)

// access makes the credentials of one server's users, and tells from a request who sent it. It is safe for concurrent use.
type access struct {
	address   string                                // host and port of the server
	servingCA []byte                                // PEM
	clients   *authority                            // makes certificates of users; nil if others make them
	self      *rest.Config                          // of the server's own user; nil if issue makes it
	first     []authenticator.Request               // are asked before all others
	clientCA  dynamiccertificates.CAContentProvider // who signs certificates of users; nil if nobody does
	tokens    *userTokens
	static    authenticator.Token // knows further tokens; may be nil
	accounts  authenticator.Token // knows tokens of service accounts; set before authenticator is called
	audiences []string            // of tokens that are for this server; likewise
	anonymous bool                // who has no credential may ask
	front     front
}

// front is about proxies in front of API servers, which say who asks.
type front struct {
	header *authenticatorfactory.RequestHeaderConfig // how they say it; nil if none is believed
	// credentials returns the certificate and the key with which this server is such a proxy, none if it has none.
	credentials func() (cert, key []byte)
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
	a := &access{
		address: address, servingCA: servingCA, clients: clients, clientCA: clientCA, tokens: newTokens(), anonymous: true,
	}
	return a, a.setFrontProxy()
}

// frontProxyName is the common name of the server's certificate in requests that it passes on to other servers.
const frontProxyName = "front-proxy-client"

// setFrontProxy makes the authority by which other servers believe who asks, and the certificate that only this server has.
func (a *access) setFrontProxy() error {
	front, err := newAuthority("tarn-front-proxy-ca")
	if err != nil {
		return err
	}
	cert, key, err := front.client(frontProxyName, nil)
	if err != nil {
		return err
	}
	ca, err := dynamiccertificates.NewStaticCAContent("front-proxy-ca", front.bundle())
	if err != nil {
		return fmt.Errorf("load the authority of the front proxy: %w", err)
	}
	a.front.credentials = func() ([]byte, []byte) { return cert, key }
	a.front.header = &authenticatorfactory.RequestHeaderConfig{
		UsernameHeaders: headerrequest.StaticStringSlice{"X-Remote-User"}, UIDHeaders: headerrequest.StaticStringSlice{"X-Remote-Uid"},
		GroupHeaders: headerrequest.StaticStringSlice{"X-Remote-Group"}, ExtraHeaderPrefixes: headerrequest.StaticStringSlice{"X-Remote-Extra-"},
		AllowedClientNames: headerrequest.StaticStringSlice{frontProxyName}, CAContentProvider: ca,
	}
	return nil
}

// loopback is the configuration with which the server asks itself.
func (a *access) loopback() *rest.Config {
	if a.self != nil {
		return a.self
	}
	return a.byToken(serverUser, adminGroup)
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
	known := slices.Clone(a.first)
	if a.clientCA != nil {
		known = append(known, x509.NewDynamic(a.clientCA.VerifyOptions, x509.CommonNameUserConversion))
	}
	var tokens authenticator.Token = a.tokens
	if a.static != nil {
		tokens = tokenunion.New(a.static, a.tokens)
	}
	if a.accounts != nil {
		tokens = tokenunion.New(authenticator.WrapAudienceAgnosticToken(a.audiences, tokens), a.accounts)
	}
	known = append(known, bearertoken.New(tokens), websocket.NewProtocolAuthenticator(tokens))
	all := group.NewAuthenticatedGroupAdder(union.New(known...))
	if !a.anonymous {
		return all
	}
	return union.NewFailOnError(all, anonymous.NewAuthenticator(nil))
}

// clockedCA judges certificates by a clock, of which it asks for the time of each.
type clockedCA struct {
	dynamiccertificates.CAContentProvider
	now func() time.Time
}

// VerifyOptions implements dynamiccertificates.CAContentProvider.
func (c clockedCA) VerifyOptions() (certificates.VerifyOptions, bool) {
	options, ok := c.CAContentProvider.VerifyOptions()
	options.CurrentTime = c.now()
	return options, ok
}
