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

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"

	"github.com/tarn-dev/tarn/envtest/faults"
	"github.com/tarn-dev/tarn/envtest/internal/access"
	"github.com/tarn-dev/tarn/envtest/internal/commandline"
	"github.com/tarn-dev/tarn/envtest/internal/etcd"
	"github.com/tarn-dev/tarn/envtest/internal/server"
	"github.com/tarn-dev/tarn/envtest/internal/serving"
	"github.com/tarn-dev/tarn/envtest/internal/stores"
	"github.com/tarn-dev/tarn/internal/object"
)

// adminName is the user of Config.
const adminName = "kubernetes-admin"

// Environment is an API server with its etcd in this process. New makes one. Its methods are safe for concurrent use.
type Environment struct {
	opts *Options // of its own

	over chan struct{} // closed when nothing runs any more, by the function that ended it

	mu      sync.Mutex
	state   state                   // guarded by mu
	running *running                // guarded by mu; set in state up
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
	etcd    stores.Backing
	serving *serving.Listener
	access  *access.Users
	server  *server.Server
	admin   *rest.Config
	beside  *controllers
	checks  *stores.Consistency // nil without
}

// New returns an environment that is not started.
func New(opts Options) *Environment {
	return &Environment{opts: &opts, over: make(chan struct{})}
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
	crds, err := e.opts.crds()
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
		err = r.server.Installer.Install(ctx, crds)
	}
	if err == nil {
		err = r.server.KeepInitial(ctx)
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
func (e *Environment) started(r *running, err error) error {
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

// run starts the parts one after the other. The returned server has to be stopped even if there is an
// error.
func (e *Environment) run(ctx context.Context) (r *running, err error) {
	r = &running{checks: e.opts.consistency()}
	secured, err := r.open(e.opts.process)
	if err != nil {
		return r, err
	}
	if r.etcd, err = openEtcd(ctx, *e.opts); err != nil {
		return r, err
	}
	if ctx.Err() != nil { // the next step takes a while, and depends on nothing
		return r, context.Cause(ctx)
	}
	config, err := r.config(*e.opts)
	if err != nil {
		return r, err
	}
	if r.server, err = server.New(config); err != nil {
		return r, err
	}
	if err = r.server.Begin(ctx, secured); err != nil {
		return r, err
	}
	if e.opts.process == nil { // whoever started a process makes certificates
		r.admin, err = r.access.Issue(adminName, user.SystemPrivilegedGroup)
	}
	return r, err
}

// config is what the server is made of: the running parts, and the options.
func (r *running) config(o Options) (server.Config, error) {
	decorator, err := o.storageDecorator()
	if err != nil {
		return server.Config{}, err
	}
	config := server.Config{
		Etcd: r.etcd, Listener: r.serving, Users: r.access, WatchCache: stores.Decorate(decorator), Checks: r.checks,
		Faults: o.Faults, Plugins: o.plugins(), Modes: o.modes(), Webhooks: o.serviceResolver(), Command: o.process,
	}
	if o.ServiceResolver != nil {
		config.Services = o.ServiceResolver
	}
	return config, nil
}

// open listens, and makes the credentials and their checks. A command line, which may be nil, says how, and knows the
// certificates later.
func (r *running) open(p *commandline.Process) (secured *tls.Config, err error) {
	if p != nil {
		r.serving, r.access, err = p.Open()
		return nil, err
	}
	if r.serving, err = serving.Listen(); err != nil {
		return nil, err
	}
	r.access, secured, err = access.Secure(r.serving.Address())
	return secured, err
}

// openEtcd starts an etcd in this process, or connects to that of the options or of the command
// line.
func openEtcd(ctx context.Context, opts Options) (stores.Backing, error) {
	switch {
	case opts.process != nil:
		return connected(stores.Dial(ctx, opts.process.Flags.Etcd.StorageConfig))
	case opts.Etcd != nil:
		return connected(stores.Dial(ctx, opts.Etcd.config()))
	}
	server, err := etcd.Start(opts.DataDirectory)
	if err != nil {
		return nil, err
	}
	return server, nil
}

// connected returns an etcd that runs elsewhere, and none with an error.
func connected(outside *stores.Remote, err error) (stores.Backing, error) {
	if err != nil {
		return nil, err
	}
	return outside, nil
}

// stop stops the parts that there are, the last one first. An etcd that a test has stopped answers again before: what ends reads it.
func (r *running) stop(grace time.Duration) error {
	if own, ok := r.etcd.(*etcd.Server); ok {
		own.Resume()
	}
	errs := []error{r.beside.stop()}
	switch {
	case r.server != nil:
		errs = append(errs, r.server.Stop(grace), r.checks.Err())
	case r.serving != nil:
		errs = append(errs, r.serving.Stop(grace))
	}
	if r.etcd != nil {
		errs = append(errs, r.etcd.Stop())
	}
	return errors.Join(errs...)
}

// Stop stops the environment. It returns when no goroutine, connection, port or file of it is left. Requests in flight are cut
// off, unless the options give them time. Stop takes up to a second longer if a CRD whose resources were used has just been
// changed or deleted, because the CRD server keeps the old store for that long. A Start that is under way gives up. The
// controllers of the options end before the server does; Stop returns the errors of the controllers that have failed. A second
// Stop does nothing. After a Stop before Start, Start returns ErrStartedBefore.
func (e *Environment) Stop() error {
	e.mu.Lock()
	before, r, cancel := e.state, e.running, e.cancel
	e.state = stopped
	e.running = nil // its memory can go
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
	config, err := r.access.Issue(name, groups...)
	if err != nil {
		return nil, fmt.Errorf("add user %s: %w", name, err)
	}
	return config, nil
}

// parts returns what runs, or ErrNotRunning.
func (e *Environment) parts() (*running, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.state != up {
		return nil, ErrNotRunning
	}
	return e.running, nil
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

// blame ends all rules after Start has failed, and names the rules that may be the reason.
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
