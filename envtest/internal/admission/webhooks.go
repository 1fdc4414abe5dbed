// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"net/http"
	"sync"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	"k8s.io/component-base/tracing"

	"github.com/tarn-dev/tarn/envtest/faults"
)

// Webhooks are the connections to webhooks of one server. It is safe for concurrent use.
type Webhooks struct {
	faults *faults.Injector // nil without

	mu         sync.Mutex
	transports map[http.RoundTripper]struct{} // guarded by mu; as many as there are ways to reach webhooks
}

// NewWebhooks returns connections that pass the faults of an Injector, which may be nil.
func NewWebhooks(injector *faults.Injector) *Webhooks { return &Webhooks{faults: injector} }

// Authentication lets webhooks be called with the server's own credentials where they point at the server.
func (c *Webhooks) Authentication(config *genericapiserver.Config) webhook.AuthenticationInfoResolverWrapper {
	return c.wrap(webhook.NewDefaultAuthenticationInfoResolverWrapper(nil, nil, config.LoopbackClientConfig, tracing.NewNoopTracerProvider()))
}

// wrap lets the clients of webhooks that a resolver configures pass faults, and notes their connections.
func (c *Webhooks) wrap(next webhook.AuthenticationInfoResolverWrapper) webhook.AuthenticationInfoResolverWrapper {
	return func(delegate webhook.AuthenticationInfoResolver) webhook.AuthenticationInfoResolver {
		resolver := next(delegate)
		return &webhook.AuthenticationInfoResolverDelegator{
			ClientConfigForFunc: func(host string) (*rest.Config, error) { return c.wrapped(resolver.ClientConfigFor(host)) },
			ClientConfigForServiceFunc: func(name, namespace string, port int) (*rest.Config, error) {
				return c.wrapped(resolver.ClientConfigForService(name, namespace, port))
			},
		}
	}
}

func (c *Webhooks) wrapped(config *rest.Config, err error) (*rest.Config, error) {
	if err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config) // may be that of all clients of the server
	outer := config.WrapTransport
	config.WrapTransport = transport.Wrappers(func(next http.RoundTripper) http.RoundTripper { // the innermost
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.transports == nil {
			c.transports = map[http.RoundTripper]struct{}{}
		}
		c.transports[next] = struct{}{}
		if c.faults == nil {
			return next
		}
		return c.faults.RoundTripper(next)
	}, outer)
	return config, nil
}

// Close closes the connections that no call uses. There are no calls any more.
func (c *Webhooks) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for used := range c.transports {
		utilnet.CloseIdleConnectionsFor(used)
	}
	c.transports = nil
}
