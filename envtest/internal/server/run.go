// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	crdserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/klog/v2"

	"github.com/tarn-dev/tarn/envtest/internal/admission"
	"github.com/tarn-dev/tarn/envtest/internal/aggregation"
	"github.com/tarn-dev/tarn/envtest/internal/bootstrap"
	"github.com/tarn-dev/tarn/envtest/internal/builtin"
	"github.com/tarn-dev/tarn/envtest/internal/catalog"
	"github.com/tarn-dev/tarn/envtest/internal/contents"
	"github.com/tarn-dev/tarn/envtest/internal/custom"
	"github.com/tarn-dev/tarn/envtest/internal/etcd"
	"github.com/tarn-dev/tarn/envtest/internal/serving"
	"github.com/tarn-dev/tarn/envtest/internal/stores"
)

// New puts the parts together; [Server.Begin] runs them.
func New(c Config) (_ *Server, err error) {
	on, err := newBase(c)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			on.abandon()
		}
	}()
	b := &builder{base: on, from: c}
	made := stores.New(c.Etcd, b.layers())
	// The built-in kinds come first: a decorator that fails must do so before the CRD server makes controllers, which end
	// only if they ran.
	rights, err := b.rights()
	if err != nil {
		return nil, err
	}
	kinds, err := builtin.New(made.Builtin(), rights)
	if err != nil {
		return nil, fmt.Errorf("create the built-in kinds: %w", err)
	}
	c.Users.Authenticate(rights, kinds.Tokens)
	s, err := b.assemble(made, rights, kinds)
	if err != nil {
		kinds.Destroy() // no server owns them
		return nil, err
	}
	return s, nil
}

// newBase makes the parts on which the server stands.
func newBase(c Config) (*base, error) {
	loopback, err := serving.NewLoopback(c.Users.Loopback())
	if err != nil {
		return nil, err
	}
	b := &base{
		loopback: loopback, catalog: catalog.New(crdserver.Codecs), custom: &custom.Stores{}, handlers: newHandlers(),
		webhooks: admission.NewWebhooks(c.Faults),
	}
	b.run, b.cancel = context.WithCancel(klog.NewContext(context.Background(), logr.Discard()))
	b.aggregation = aggregation.New(aggregationOf(c, b.run, b.loopback, b.catalog))
	if own, ok := c.Etcd.(*etcd.Server); ok {
		b.gate = contents.NewGate(own)
		stores.LearnProgress(b.run)
	}
	return b, nil
}

// abandon ends what New began when it fails. Plugins may already ask the server. Closing the listener fails their requests; Refuse
// prevents retries.
func (b *base) abandon() {
	b.cancel()
	b.handlers.close()
	b.loopback.Refuse()
}

// Begin serves requests, and returns when the server is ready and has what every server has from its start. secured may be nil if
// there is a command line, which names certificates.
func (s *Server) Begin(ctx context.Context, secured *tls.Config) (err error) {
	if secured == nil {
		if secured, err = s.command.Secure(s.run); err != nil {
			return err
		}
	}
	if err := s.start(ctx, secured); err != nil {
		return err
	}
	if err := s.bootstrap(ctx); err != nil {
		return err
	}
	if err := s.resume(ctx); err != nil {
		return err
	}
	if s.ready != nil {
		close(s.ready)
	}
	return nil
}

// bootstrap makes what a test may rely on.
func (s *Server) bootstrap(ctx context.Context) error {
	port, err := s.users.Port()
	if err != nil {
		return err
	}
	trust, err := s.users.Trust()
	if err != nil {
		return err
	}
	if err := bootstrap.Run(ctx, bootstrap.Config{Client: s.loopback.Kube, Informers: s.loopback.Informers, Port: port, Trust: trust}); err != nil {
		return err
	}
	s.hooks.bootstrapped.Store(true)
	return nil
}

// start serves requests and returns when the server is ready: informers are synced and hooks are done.
func (s *Server) start(ctx context.Context, secured *tls.Config) error {
	if ctx.Err() != nil { // to prepare takes a while, and depends on nothing
		return context.Cause(ctx)
	}
	generic := s.crds.GenericAPIServer
	s.listener.Serve(s.awaitReady(generic.Handler), secured)
	if generic.AuditBackend != nil {
		if err := generic.AuditBackend.Run(s.run.Done()); err != nil {
			return fmt.Errorf("failed to run the audit backend: %w", err)
		}
	}

	s.crds.Informers.Start(s.run.Done())
	s.loopback.Informers.Start(s.run.Done())
	if err := s.hooks.check(generic); err != nil {
		return err
	}
	generic.PrepareRun()
	if err := s.openAPI.Publish(generic); err != nil {
		return fmt.Errorf("publish OpenAPI documents: %w", err)
	}
	s.crds.Informers.WaitForCacheSync(ctx.Done())
	s.loopback.Informers.WaitForCacheSync(ctx.Done())
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("wait for the server's informers: %w", context.Cause(ctx))
	}
	if err := s.admission.Begin(); err != nil {
		return err
	}
	if err := s.hooks.run(ctx, s.run, s.crds); err != nil {
		return err
	}
	s.openAPI.Ready()
	return nil
}

// resume goes on with what an earlier life of the etcd, or another server, may have left there.
func (s *Server) resume(ctx context.Context) error {
	if s.contents != nil {
		return nil // the etcd was empty
	}
	return s.aggregation.Resume(ctx)
}

// Stop ends everything that was begun, in the order in which it depends on each other, and goes on if a part of it does not
// end. Requests get grace to end.
func (s *Server) Stop(grace time.Duration) error {
	s.cancel()
	if s.contents != nil {
		s.contents.Close()
	}
	hooks := s.hooks.end(s.run, s.crds)
	s.aggregation.End()
	s.loopback.Informers.Shutdown()
	s.crds.Informers.Shutdown()
	s.loopback.Close()
	err := s.listener.Stop(grace)
	s.handlers.close()
	if backend := s.crds.GenericAPIServer.AuditBackend; backend != nil {
		backend.Shutdown()
	}
	s.custom.Refuse() // before the CRD server destroys the stores that it knows of
	s.crds.GenericAPIServer.Destroy()
	s.custom.Close(custom.ReleasePatience)
	s.webhooks.Close() // conversions of stores were the last to be called
	return errors.Join(hooks, err)
}
