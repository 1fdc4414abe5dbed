// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"

	"github.com/tarn-dev/tarn/envtest/faults"
	"github.com/tarn-dev/tarn/envtest/internal/etcd"
)

// StopEtcd stops the etcd of a running environment, as far as the server can tell: until StartEtcd, requests that need it fail, and
// reads that the watch cache answers alone do not; /readyz, /livez and /healthz fail; watches get nothing, and go on afterwards
// without a gap. What is stored is kept, and no lease expires. It returns when writes that were under way have ended. Stop and a
// second StopEtcd may follow. It is an error if the etcd is that of Options.Etcd, whose members the caller stops.
func (e *Environment) StopEtcd(ctx context.Context) error {
	own, err := e.ownEtcd(ctx)
	if err != nil {
		return fmt.Errorf("stop the etcd: %w", err)
	}
	own.Pause()
	return nil
}

// StartEtcd starts the etcd again that StopEtcd has stopped. If it runs, nothing happens. The errors are as with StopEtcd.
func (e *Environment) StartEtcd(ctx context.Context) error {
	own, err := e.ownEtcd(ctx)
	if err != nil {
		return fmt.Errorf("start the etcd: %w", err)
	}
	own.Resume()
	return nil
}

// CompactEtcd has the etcd forget what was replaced or deleted before a revision, which is a resourceVersion; zero is the newest one.
// Lists and watches of an older resourceVersion, and lists that go on from an older one, then get a 410, unless the watch cache has
// the events since then: it answers them without the etcd. It is an error if that revision was compacted already or is yet to come, if the etcd is stopped,
// or if it is that of Options.Etcd.
func (e *Environment) CompactEtcd(ctx context.Context, revision int64) error {
	own, err := e.ownEtcd(ctx)
	if err != nil {
		return fmt.Errorf("compact the etcd: %w", err)
	}
	if err := own.CompactTo(ctx, revision); err != nil {
		return fmt.Errorf("compact the etcd at revision %d: %w", revision, err)
	}
	return nil
}

// errOthersEtcd is the error of what can be done to the environment's own etcd alone.
var errOthersEtcd = errors.New("it is the one of Options.Etcd, which the environment does not run: do so to its members")

// ownEtcd returns the etcd of a running environment.
func (e *Environment) ownEtcd(ctx context.Context) (*etcd.Server, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	r, err := e.parts()
	if err != nil {
		return nil, err
	}
	own, ok := r.etcd.(*etcd.Server)
	if !ok {
		return nil, errOthersEtcd
	}
	return own, nil
}

// attach tells the Injector of the options that there is a server.
func (e *Environment) attach() {
	if e.opts.Faults == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.faults = e.opts.Faults.Attach()
}

// detach ends all rules.
func (e *Environment) detach() {
	e.mu.Lock()
	attached := e.faults
	e.mu.Unlock()
	if attached != nil {
		attached.Detach()
	}
}

// blame ends all rules after Start has failed, and names those that may be why.
func (e *Environment) blame(err error) error {
	e.mu.Lock()
	attached := e.faults
	e.mu.Unlock()
	if attached == nil {
		return err
	}
	defer attached.Detach()
	if hit := attached.Blame(); hit != "" {
		return fmt.Errorf("%w; these faults were in force: %s", err, hit)
	}
	return err
}

// addEtcdChecks lets /healthz, /livez and /readyz ask the etcd in this process, under the names that they have in kube-apiserver.
func addEtcdChecks(config *genericapiserver.Config, own *etcd.Server) {
	available := func(*http.Request) error { return own.Available() }
	config.AddHealthChecks(healthz.NamedCheck("etcd", available))
	config.AddReadyzChecks(healthz.NamedCheck("etcd-readiness", available))
}

// withFaults puts the rules of an Injector before a store, which has no other caller yet. The function ends what it began.
func withFaults(injector *faults.Injector, keys faults.Keys, store storage.Interface) (storage.Interface, func()) {
	if injector == nil {
		return store, func() {}
	}
	return injector.Storage(keys, store)
}

// webhookCalls are the connections to webhooks of one server. The zero value is ready, without faults. It is safe for concurrent use.
type webhookCalls struct {
	faults *faults.Injector // nil without

	mu         sync.Mutex
	transports map[http.RoundTripper]struct{} // guarded by mu; as many as there are ways to reach webhooks
}

// wrap lets the clients of webhooks that a resolver configures pass faults, and notes their connections.
func (c *webhookCalls) wrap(next webhook.AuthenticationInfoResolverWrapper) webhook.AuthenticationInfoResolverWrapper {
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

func (c *webhookCalls) wrapped(config *rest.Config, err error) (*rest.Config, error) {
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

// close closes the connections that no call uses. There are no calls any more.
func (c *webhookCalls) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for used := range c.transports {
		utilnet.CloseIdleConnectionsFor(used)
	}
	c.transports = nil
}
