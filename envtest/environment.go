// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/tarn-dev/tarn/envtest/faults"
	"github.com/tarn-dev/tarn/envtest/internal/etcd"
	"github.com/tarn-dev/tarn/internal/object"
)

// Environment is an API server with its etcd in this process. New makes one. Its methods are safe for concurrent use.
type Environment struct {
	opts Options

	over chan struct{} // closed when nothing runs any more, by who ended it

	mu      sync.Mutex
	state   state                   // guarded by mu
	running running                 // guarded by mu; set in state up
	faults  *faults.Attachment      // guarded by mu; nil without an Injector, and before Start
	cancel  context.CancelCauseFunc // guarded by mu; set in state starting: ends Start
}

// state is where an environment is in its life; it never goes back.
type state int

const (
	created state = iota
	starting
	up
	stopped // or about to be
)

// running are the parts of a started environment.
type running struct {
	etcd    backing
	serving *serving
	access  *access
	server  *server
	admin   *rest.Config
	beside  *controllers
}

// New returns an environment that is not started.
func New(opts Options) *Environment {
	return &Environment{opts: opts, over: make(chan struct{})}
}

// Start starts the environment, once. It returns when the server answers requests, the default namespaces and the
// Service kubernetes exist, and the CRDs of the options are served. After an error nothing is left running. If ctx is
// cancelled, Start gives up. If Stop is called, Start gives up with ErrStopped. A started environment does not depend
// on ctx.
func (e *Environment) Start(ctx context.Context) error {
	if err := e.opts.validate(); err != nil {
		return err
	}
	if os.Getenv(verifyVariable) == "true" {
		object.VerifyAll()
	}
	crds, err := readCRDs(e.opts.CRDDirectoryPaths)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if !e.begin(cancel) {
		return ErrStartedBefore
	}
	e.attach()
	r, err := e.run(ctx)
	if err == nil {
		err = r.install(ctx, append(crds, e.opts.CRDs...))
	}
	if err == nil && r.server.contents != nil {
		r.server.contents.initial, err = r.server.snapshot(ctx)
	}
	if err == nil {
		r.beside, err = startControllers(e.opts.Controllers, r.access)
	}
	if err = e.started(r, err); err != nil {
		defer close(e.over)
		err = e.blame(err)
		return errors.Join(fmt.Errorf("start the environment: %w", err), r.stop(0))
	}
	return nil
}

// begin notes that Start is under way, unless it was before. cancel ends it.
func (e *Environment) begin(cancel context.CancelCauseFunc) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.state != created {
		return false
	}
	e.state, e.cancel = starting, cancel
	return true
}

// started notes how Start has ended: with err, or with what runs, unless Stop was called meanwhile. It returns what Start
// has to.
func (e *Environment) started(r running, err error) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.state == stopped && !errors.Is(err, ErrStopped) {
		err = errors.Join(ErrStopped, err) // some clients only say that they were cancelled
	}
	e.cancel = nil
	if err != nil {
		e.state = stopped
		return err
	}
	e.state, e.running = up, r
	if e.faults != nil {
		e.faults.Ready()
	}
	return nil
}

// run starts the parts one after the other. What it returns has to be stopped even if there is an error.
func (e *Environment) run(ctx context.Context) (r running, err error) {
	if e.opts.process != nil {
		return e.runProcess(ctx)
	}
	if r.serving, err = listen(); err != nil {
		return r, err
	}
	secured, err := r.secure()
	if err != nil {
		return r, err
	}
	if r.etcd, err = openEtcd(ctx, e.opts); err != nil {
		return r, err
	}
	if ctx.Err() != nil { // the next step takes a while, and depends on nothing
		return r, context.Cause(ctx)
	}
	if r.server, err = newServer(e.opts, r.etcd, r.serving, r.access); err != nil {
		return r, err
	}
	if err = r.server.start(ctx, secured); err != nil {
		return r, err
	}
	if err = r.server.bootstrap(ctx, r.access); err != nil {
		return r, err
	}
	if err = r.server.resume(ctx); err != nil {
		return r, err
	}
	r.admin, err = r.access.issue(adminName, adminGroup)
	return r, err
}

// openEtcd starts one in this process, or connects to the one of the options.
func openEtcd(ctx context.Context, opts Options) (backing, error) {
	if opts.Etcd != nil {
		outside, err := dial(ctx, opts.Etcd.config())
		if err != nil {
			return nil, err
		}
		return outside, nil
	}
	server, err := etcd.Start(opts.DataDirectory)
	if err != nil {
		return nil, err
	}
	return server, nil
}

// runProcess is run for a command line. Nobody has a configuration of its administrator: whoever started the process makes
// certificates.
func (e *Environment) runProcess(ctx context.Context) (r running, err error) {
	p := e.opts.process
	if r.serving, r.access, err = p.open(); err != nil {
		return r, err
	}
	outside, err := dial(ctx, p.flags.Etcd.StorageConfig)
	if err != nil {
		return r, err
	}
	r.etcd = outside
	if r.server, err = newServer(e.opts, r.etcd, r.serving, r.access); err != nil {
		return r, err
	}
	secured, err := p.secure(r.server.run)
	if err != nil {
		return r, err
	}
	if err = r.server.start(ctx, secured); err != nil {
		return r, err
	}
	if err = r.server.bootstrap(ctx, r.access); err != nil {
		return r, err
	}
	if err = r.server.resume(ctx); err != nil {
		return r, err
	}
	close(r.server.ready)
	return r, nil
}

// secure makes the keys: those of the server, which it returns, and what makes and checks the credentials of users.
// Clients may show a certificate, and are told who signs those that count; what one is worth is for the authenticator.
func (r *running) secure() (*tls.Config, error) {
	ca, err := newAuthority("tarn-serving-ca")
	if err != nil {
		return nil, err
	}
	pair, err := ca.serving()
	if err != nil {
		return nil, err
	}
	if r.access, err = newAccess(r.serving.address(), ca.bundle()); err != nil {
		return nil, err
	}
	return &tls.Config{
		Certificates: []tls.Certificate{pair},
		MinVersion:   tls.VersionTLS12,
		ClientAuth:   tls.RequestClientCert,
		ClientCAs:    r.access.clients.pool(),
	}, nil
}

// stop stops the parts that there are, the last one first. An etcd that a test has stopped answers again before: what ends reads it.
func (r *running) stop(grace time.Duration) error {
	if own, ok := r.etcd.(*etcd.Server); ok {
		own.Resume()
	}
	errs := []error{r.beside.stop()}
	switch {
	case r.server != nil:
		errs = append(errs, r.server.stop(grace))
	case r.serving != nil:
		errs = append(errs, r.serving.stop(grace))
	}
	if r.etcd != nil {
		errs = append(errs, r.etcd.Stop())
	}
	return errors.Join(errs...)
}

// Stop stops the environment. It returns when no goroutine, connection, port or file of it is left. Requests in flight
// are cut off, unless the options give them time. Stop takes up to a second longer if a CRD whose resources were used
// has just been changed or deleted, because the CRD server keeps the old store for that long. A Start that is under way
// gives up. The controllers of the options end before the server does; the errors of those that have failed are among those that
// Stop returns. A second Stop does nothing, and neither does a Stop before Start.
func (e *Environment) Stop() error {
	e.mu.Lock()
	before, r, cancel := e.state, e.running, e.cancel
	e.state = stopped
	e.running = running{} // its memory can go
	e.mu.Unlock()
	switch {
	case before == up:
		defer close(e.over)
		e.detach() // what is held must not wait for the end of the grace period
		if err := r.stop(e.opts.StopGracePeriod); err != nil {
			return fmt.Errorf("stop the environment: %w", err)
		}
	case before == created:
		e.attach()
		e.detach() // rules have no server, and never will
		close(e.over)
	default: // another call ends it
		if cancel != nil {
			cancel(ErrStopped)
		}
		<-e.over
	}
	return nil
}

// Config returns a client configuration for an administrator, with a client certificate and a bearer token. Either of
// them is enough; the server looks at the certificate first. The caller may change the result, which is a copy. It is
// nil if the environment is not running.
func (e *Environment) Config() *rest.Config {
	r, err := e.parts()
	if err != nil {
		return nil
	}
	return rest.CopyConfig(r.admin)
}

// AddUser returns a client configuration for a user with a name and groups. The user may do what the RBAC objects on
// the server allow. The configuration has a client certificate, whose common name is the user and whose organizations
// are the groups, and a bearer token. Either of them is enough. The server adds the group system:authenticated. A
// second call for the same name makes further credentials.
func (e *Environment) AddUser(name string, groups ...string) (*rest.Config, error) {
	if name == "" {
		return nil, errors.New("add a user: the name is empty")
	}
	r, err := e.parts()
	if err != nil {
		return nil, fmt.Errorf("add user %s: %w", name, err)
	}
	config, err := r.access.issue(name, groups...)
	if err != nil {
		return nil, fmt.Errorf("add user %s: %w", name, err)
	}
	return config, nil
}

// parts returns what runs, or ErrNotRunning.
func (e *Environment) parts() (running, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.state != up {
		return running{}, ErrNotRunning
	}
	return e.running, nil
}
