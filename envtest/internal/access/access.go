// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"crypto/tls"
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
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/rest"

	"github.com/tarn-dev/tarn/envtest/internal/serving"
)

// Users makes the credentials of one server's users, and authenticates requests. It is safe for concurrent use.
type Users struct {
	address   string                                // host and port of the server
	servingCA []byte                                // PEM
	clients   *serving.Authority                    // makes certificates of users; nil if others make them
	self      *rest.Config                          // of the server's own user; nil if issue makes it
	first     []authenticator.Request               // are asked before all others
	clientCA  dynamiccertificates.CAContentProvider // signs certificates of users; nil if none are
	tokens    *userTokens
	static    authenticator.Token // knows further tokens; may be nil
	accounts  authenticator.Token // knows tokens of service accounts; set before authenticator is called
	audiences []string            // of tokens that are for this server; likewise
	anonymous bool                // requests without a credential are served
	front     front
}

// front is about proxies in front of API servers, which name the user.
type front struct {
	header *authenticatorfactory.RequestHeaderConfig // how they say it; nil if none is believed
	// Credentials returns the certificate and the key with which this server is such a proxy, none if it has none.
	credentials func() (cert, key []byte)
}

// Config is whom a command line lets in.
type Config struct {
	Address   string                                // host and port of the server
	Anonymous bool                                  // requests without a credential are served
	ClientCA  dynamiccertificates.CAContentProvider // signs certificates of users; nil if none are
	Static    authenticator.Token                   // knows tokens; may be nil

	Header      *authenticatorfactory.RequestHeaderConfig // how proxies in front name the user; nil if none is trusted
	Credentials func() (cert, key []byte)                 // with which this server is such a proxy
}

// Configure makes no authority, and so issues no certificates: others do.
func Configure(c Config) *Users {
	a := &Users{address: c.Address, clientCA: c.ClientCA, tokens: newTokens(), static: c.Static, anonymous: c.Anonymous,
		front: front{header: c.Header, credentials: c.Credentials}}
	if h := c.Header; h != nil {
		a.first = []authenticator.Request{headerrequest.NewDynamicVerifyOptionsSecure(h.CAContentProvider.VerifyOptions,
			h.AllowedClientNames, h.UsernameHeaders, h.UIDHeaders, h.GroupHeaders, h.ExtraHeaderPrefixes)}
	}
	return a
}

// SetSelf gives the server's own user a configuration, which has the token.
func (a *Users) SetSelf(config *rest.Config, token string) {
	a.self = config
	a.tokens.add(token, user.APIServerUser, user.SystemPrivilegedGroup)
}

// FrontCredentials are the certificate and the key with which this server passes requests on to others, none if it has none.
func (a *Users) FrontCredentials() (cert, key []byte) { return a.front.credentials() }

// Secure makes the serving certificate and the users' authority. The returned configuration serves at the address, and tells clients
// the authority whose certificates count. A client certificate is optional, and the authenticator judges it.
func Secure(address string) (*Users, *tls.Config, error) {
	ca, err := serving.NewAuthority("tarn-serving-ca")
	if err != nil {
		return nil, nil, err
	}
	pair, err := ca.Serving()
	if err != nil {
		return nil, nil, err
	}
	users, err := newAccess(address, ca.Bundle())
	if err != nil {
		return nil, nil, err
	}
	return users, &tls.Config{
		Certificates: []tls.Certificate{pair},
		MinVersion:   tls.VersionTLS12,
		ClientAuth:   tls.RequestClientCert,
		ClientCAs:    users.clients.Pool(),
	}, nil
}

// newAccess makes an authority for users of the server at the address, whose clients trust servingCA.
func newAccess(address string, servingCA []byte) (*Users, error) {
	clients, err := serving.NewAuthority("tarn-client-ca")
	if err != nil {
		return nil, err
	}
	clientCA, err := dynamiccertificates.NewStaticCAContent("client-ca", clients.Bundle())
	if err != nil {
		return nil, fmt.Errorf("load the authority of users: %w", err)
	}
	a := &Users{
		address: address, servingCA: servingCA, clients: clients, clientCA: clientCA, tokens: newTokens(), anonymous: true,
	}
	return a, a.setFrontProxy()
}

// frontProxyName is the common name of the server's certificate in requests that it passes on to other servers.
const frontProxyName = "front-proxy-client"

// setFrontProxy makes the authority by which other servers trust a user's name from this server, and the certificate that
// only this server has.
func (a *Users) setFrontProxy() error {
	front, err := serving.NewAuthority("tarn-front-proxy-ca")
	if err != nil {
		return err
	}
	cert, key, err := front.Client(frontProxyName, nil)
	if err != nil {
		return err
	}
	ca, err := dynamiccertificates.NewStaticCAContent("front-proxy-ca", front.Bundle())
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

// Loopback is the configuration with which the server asks itself.
func (a *Users) Loopback() *rest.Config {
	if a.self != nil {
		return a.self
	}
	return a.byToken(user.APIServerUser, user.SystemPrivilegedGroup)
}

// byToken is a client configuration for a user, with a new token.
func (a *Users) byToken(name string, groups ...string) *rest.Config {
	return &rest.Config{
		Host:               "https://" + a.address,
		BearerToken:        a.tokens.issue(name, groups...),
		TLSClientConfig:    rest.TLSClientConfig{CAData: a.servingCA},
		QPS:                -1, // no throttling
		DisableCompression: true,
	}
}

// Issue is a client configuration for a user, with a new token and a new certificate. Either of them is enough.
func (a *Users) Issue(name string, groups ...string) (*rest.Config, error) {
	config := a.byToken(name, groups...)
	var err error
	if config.CertData, config.KeyData, err = a.clients.Client(name, groups); err != nil {
		return nil, err
	}
	return config, nil
}

// authenticator is put together as in kube-apiserver: a certificate counts before a token, a user with either is in the
// group of the authenticated, and a request without any is anonymous. An unknown credential is refused.
func (a *Users) authenticator() authenticator.Request {
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

// clockedCA judges each certificate by the time of a clock.
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
