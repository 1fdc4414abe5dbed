// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/apiserver/pkg/server/routes"
	"k8s.io/apiserver/pkg/util/compatibility"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/klog/v2"
	aggregatorapiserver "k8s.io/kube-aggregator/pkg/apiserver"

	"github.com/tarn-dev/tarn/envtest/faults"
	"github.com/tarn-dev/tarn/envtest/internal/access"
	"github.com/tarn-dev/tarn/envtest/internal/admission"
	"github.com/tarn-dev/tarn/envtest/internal/aggregation"
	"github.com/tarn-dev/tarn/envtest/internal/bootstrap"
	"github.com/tarn-dev/tarn/envtest/internal/builtin"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
	"github.com/tarn-dev/tarn/envtest/internal/catalog"
	"github.com/tarn-dev/tarn/envtest/internal/commandline"
	"github.com/tarn-dev/tarn/envtest/internal/contents"
	"github.com/tarn-dev/tarn/envtest/internal/custom"
	"github.com/tarn-dev/tarn/envtest/internal/etcd"
	"github.com/tarn-dev/tarn/envtest/internal/flags"
	"github.com/tarn-dev/tarn/envtest/internal/serving"
	"github.com/tarn-dev/tarn/envtest/internal/stores"
)

// Server is the API server of one environment: k8s.io/apiserver's generic server with the CRD server's handlers and the
// built-in kinds in it, behind a listener of our own.
type Server struct {
	from      Config
	crds      *crdserver.CustomResourceDefinitions
	catalog   *catalog.Catalog
	loopback  *serving.Loopback
	custom    custom.Stores
	Installer *custom.Installer
	Contents  *contents.Contents // nil if the etcd is shared with other servers
	openAPI   *catalog.OpenAPI
	others    *aggregation.Aggregation
	hooks     hooks
	gates
	life
}

// Config is what a server is made of.
type Config struct {
	Etcd       stores.Backing
	Listener   *serving.Listener
	Users      *access.Users
	WatchCache stores.Decorate
	Checks     *stores.Consistency // nil if watch caches are not checked
	Faults     *faults.Injector    // nil without
	Plugins    *flags.Plugins      // of admission, switched on and off
	Modes      []string            // of the authorizer
	Webhooks   webhook.ServiceResolver
	Services   aggregatorapiserver.ServiceResolver // of APIServices; nil if they are found where they are
	Command    *commandline.Process                // nil without a command line
}

// gates are what requests pass beside the handler chain, and on their way to webhooks.
type gates struct {
	ready    chan struct{}    // closed when requests of others are answered; nil if nobody can know of the server before
	handlers serving.Requests // inside the handler chain, where the server's own time-outs do not cut a handler off
	webhooks *admission.Webhooks
}

// life is how long the parts of a server live.
type life struct {
	run     context.Context
	cancel  context.CancelFunc // ends run
	drained chan struct{}      // closed when no handler runs any more
}

// New puts the parts together; [Server.Begin] runs them.
func New(c Config) (_ *Server, err error) {
	s := &Server{from: c, hooks: hooks{patience: hookPatience}, catalog: catalog.New(crdserver.Codecs)}
	s.webhooks = admission.NewWebhooks(c.Faults)
	s.drained = make(chan struct{})
	if c.Command != nil {
		s.ready = make(chan struct{})
	}
	s.run, s.cancel = context.WithCancel(klog.NewContext(context.Background(), logr.Discard()))
	defer func() {
		if err != nil {
			s.abandon()
		}
	}()
	s.loopback, err = serving.NewLoopback(c.Users.Loopback())
	if err != nil {
		return nil, err
	}
	s.others = aggregation.New(s.aggregated())
	if own, ok := c.Etcd.(*etcd.Server); ok {
		s.Contents = contents.New(s.run, own)
		stores.LearnProgress(s.run)
	}
	made := stores.New(c.Etcd, c.WatchCache, c.Checks, c.Faults)
	// The built-in kinds come first: a decorator that fails must do so before the CRD server makes controllers, which end
	// only if they ran.
	rights, err := s.rights()
	if err != nil {
		return nil, err
	}
	kinds, err := builtin.New(made.Builtin(s.known), rights)
	if err != nil {
		return nil, fmt.Errorf("create the built-in kinds: %w", err)
	}
	c.Users.Authenticate(rights, kinds.Tokens)
	if err := s.assemble(made, rights, kinds); err != nil {
		kinds.Destroy() // no server owns them
		return nil, err
	}
	return s, nil
}

// abandon ends what New began when it fails. Plugins may already wait for an answer from the server that will not be:
// they get none when the listener is closed, and must not ask again.
func (s *Server) abandon() {
	s.cancel()
	close(s.drained)
	if s.loopback != nil {
		s.loopback.Requests.Refuse()
	}
}

// config fills in what the generic server needs. RecommendedOptions would bring flags, pollers and RSA keys.
func (s *Server) config(made *stores.Stores, rights *kind.Access, kinds *builtin.Kinds) (*genericapiserver.RecommendedConfig, error) {
	config := genericapiserver.NewRecommendedConfig(crdserver.Codecs)
	config.ExternalAddress = s.from.Listener.Address()
	config.LoopbackClientConfig = serving.Protobuf(s.loopback.Config)
	config.SharedInformerFactory = s.loopback.Informers
	config.EffectiveVersion = release{compatibility.DefaultBuildEffectiveVersion()}
	config.FeatureGate = utilfeature.DefaultFeatureGate
	config.MergedResourceConfig = crdserver.DefaultAPIResourceConfigSource()
	config.RESTOptionsGetter = made.Builtin(s.known)
	ping := []healthz.HealthChecker{healthz.PingHealthz} // the other default starts a goroutine that never ends
	config.HealthzChecks, config.LivezChecks, config.ReadyzChecks = ping, slices.Clone(ping), slices.Clone(ping)
	config.EnableProfiling = false         // would let any user change the process's log level
	config.EnableIndex = false             // would not list what other servers serve, and answers what nobody serves
	config.StorageObjectCountTracker = nil // weighs requests for priority and fairness, which is not used
	config.BuildHandlerChainFunc = s.chain
	config.AggregatedDiscoveryGroupManager = s.catalog.From(aggregated.BuiltinSource)
	var err error
	if s.openAPI, err = catalog.NewOpenAPI(&config.Config); err != nil {
		return nil, err
	}

	config.Authentication.Authenticator = rights.Authenticator
	config.Authentication.APIAudiences = rights.Audiences
	config.Authorization.Authorizer = rights.Authorizer
	if p := s.from.Command; p != nil {
		if err := p.Apply(config, kinds); err != nil {
			return nil, err
		}
		config.EffectiveVersion = release{config.EffectiveVersion}
	}
	stores.AddChecks(&config.Config, s.from.Etcd)
	return config, nil
}

// build makes the CRD server and installs the built-in kinds on it.
func (s *Server) build(
	config *genericapiserver.RecommendedConfig, made *stores.Stores, kinds *builtin.Kinds,
) (*crdserver.CustomResourceDefinitions, error) {
	crdConfig := crdserver.Config{
		GenericConfig: config,
		ExtraConfig: crdserver.ExtraConfig{
			CRDRESTOptionsGetter: made.Custom(s.custom.Track),
			MasterCount:          1,
			ServiceResolver:      s.from.Webhooks,
			AuthResolverWrapper:  s.webhooks.Authentication(&config.Config),
		},
	}
	crds, err := newCRDServer(&crdConfig)
	if err != nil {
		return nil, err
	}
	generic := crds.GenericAPIServer
	generic.AggregatedLegacyDiscoveryGroupManager = catalog.New(crdserver.Codecs).From(aggregated.BuiltinSource)
	s.catalog.Install(generic)
	routes.Index{}.Install(routes.ListedPathProviders{generic, s.others}, generic.Handler.NonGoRestfulMux)
	s.others.StandBefore(aggregation.Front{
		Crds: crds.Informers.Apiextensions().V1().CustomResourceDefinitions(), Director: generic.Handler.Director, OpenAPI: s.openAPI.V2,
	}, kinds.Groups)
	if err := installBuiltin(generic, kinds.Groups); err != nil {
		s.cancel()
		generic.RunPostStartHooks(s.run) // the controllers end only if they ran
		generic.Destroy()
		return nil, err
	}
	return crds, nil
}

// installBuiltin installs the built-in kinds: the core group under /api, all others under /apis.
func installBuiltin(generic *genericapiserver.GenericAPIServer, groups []*genericapiserver.APIGroupInfo) error {
	var named []*genericapiserver.APIGroupInfo
	for _, group := range groups {
		if group.PrioritizedVersions[0].Group != "" {
			named = append(named, group)
			continue
		}
		if err := generic.InstallLegacyAPIGroup(genericapiserver.DefaultLegacyAPIPrefix, group); err != nil {
			return fmt.Errorf("install the core group: %w", err)
		}
	}
	if err := generic.InstallAPIGroups(named...); err != nil { // together: each call builds the OpenAPI models once
		return fmt.Errorf("install the built-in groups: %w", err)
	}
	for _, group := range named {
		for _, gv := range group.PrioritizedVersions {
			catalog.PrioritizeBuiltin(generic, gv)
		}
	}
	catalog.PrioritizeBuiltin(generic, apiextensionsv1.SchemeGroupVersion)
	return nil
}

// Begin serves requests, and returns when the server is ready and has what every server has from its start. secured may be nil if
// there is a command line, which names certificates.
func (s *Server) Begin(ctx context.Context, secured *tls.Config) (err error) {
	if secured == nil {
		if secured, err = s.from.Command.Secure(s.run); err != nil {
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
	port, err := s.from.Users.Port()
	if err != nil {
		return err
	}
	trust, err := s.from.Users.Trust()
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
	s.from.Listener.Serve(s.awaitReady(generic.Handler), secured)
	if generic.AuditBackend != nil {
		if err := generic.AuditBackend.Run(s.run.Done()); err != nil {
			return fmt.Errorf("failed to run the audit backend: %w", err)
		}
	}

	s.crds.Informers.Start(s.run.Done())
	s.loopback.Informers.Start(s.run.Done())
	if err := s.checkBootstrap(generic); err != nil {
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
	generic.RunPostStartHooks(s.run)
	s.hooks.ran = true
	if err := waitForHooks(ctx, s.crds); err != nil {
		return err
	}
	s.openAPI.Ready()
	return nil
}

// resume goes on with what an earlier life of the etcd, or another server, may have left there.
func (s *Server) resume(ctx context.Context) error {
	if s.Contents != nil {
		return nil // the etcd was empty
	}
	return s.others.Resume(ctx)
}

// Stop ends everything that was begun, in the order in which it depends on each other, and goes on if a part of it does not
// end. Requests get grace to end.
func (s *Server) Stop(grace time.Duration) error {
	s.cancel()
	s.Contents.Close()
	if !s.hooks.ran {
		s.crds.GenericAPIServer.RunPostStartHooks(s.run) // the CRD server's controllers end only if they ran
	}
	hooks := s.awaitHooks()
	s.others.End()
	s.loopback.Informers.Shutdown()
	s.crds.Informers.Shutdown()
	s.loopback.Close()
	err := s.from.Listener.Stop(grace)
	s.handlers.Close()
	close(s.drained)
	if backend := s.crds.GenericAPIServer.AuditBackend; backend != nil {
		backend.Shutdown()
	}
	s.custom.Refuse() // before the CRD server destroys those that it knows of
	s.crds.GenericAPIServer.Destroy()
	s.custom.Close(custom.ReleasePatience)
	s.webhooks.Close() // conversions of stores were the last to be called
	return errors.Join(hooks, err, s.from.Checks.Err())
}
