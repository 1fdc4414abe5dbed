// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/go-logr/logr"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apimachineryversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/apiserver/pkg/server/routes"
	"k8s.io/apiserver/pkg/util/compatibility"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	basecompatibility "k8s.io/component-base/compatibility"
	"k8s.io/klog/v2"

	"github.com/tarn-dev/tarn/envtest/faults"
	"github.com/tarn-dev/tarn/envtest/internal/builtin"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
	"github.com/tarn-dev/tarn/envtest/internal/etcd"
)

const (
	// serverUser is the name by which kube-apiserver knows itself.
	serverUser = "system:apiserver"
	adminGroup = "system:masters"
)

// server is the API server of one environment: k8s.io/apiserver's generic server with the CRD server's handlers and the
// built-in kinds in it, behind a listener of our own.
type server struct {
	crds     *crdserver.CustomResourceDefinitions
	serving  *serving
	catalog  *catalog
	loopback *loopback
	custom   customStores
	contents *contents // nil if the etcd is shared with other servers
	checks   *consistency
	openAPI  *openAPI
	others   *aggregation
	hooks    hooks
	gates
	life
}

// gates are what requests pass beside the handler chain, and on their way to webhooks.
type gates struct {
	ready    chan struct{}    // closed when requests of others are answered; nil if nobody can know of the server before
	handlers requests         // inside the handler chain, where the server's own time-outs do not cut a handler off
	faults   *faults.Injector // the last before the handlers; nil without
	webhooks webhookCalls
}

// life is how long the parts of a server live.
type life struct {
	run     context.Context
	cancel  context.CancelFunc // ends run
	drained chan struct{}      // closed when no handler runs any more
}

// newServer puts the parts together; start runs them.
func newServer(opts Options, storage backing, listener *serving, users *access) (_ *server, err error) {
	s := &server{serving: listener, checks: newConsistency(opts), hooks: hooks{patience: hookPatience}}
	s.faults, s.webhooks.faults = opts.Faults, opts.Faults
	s.drained = make(chan struct{})
	if opts.process != nil {
		s.ready = make(chan struct{})
	}
	s.others = newAggregation(s, opts)
	s.run, s.cancel = context.WithCancel(klog.NewContext(context.Background(), logr.Discard()))
	defer func() {
		if err != nil {
			s.abandon()
		}
	}()
	s.loopback, err = newLoopback(users.loopback())
	if err != nil {
		return nil, err
	}
	s.others.credentials = users.front.credentials
	if s.contents = newContents(storage); s.contents != nil {
		learnProgress(s.run)
	}
	stores, err := newStores(opts, storage, s)
	if err != nil {
		return nil, err
	}
	// The built-in kinds come first: a decorator that fails must do so before the CRD server makes controllers, which end
	// only if they ran.
	rights, err := s.rights(opts, users)
	if err != nil {
		return nil, err
	}
	kinds, err := builtin.New(builtinOptions{stores}, rights)
	if err != nil {
		return nil, fmt.Errorf("create the built-in kinds: %w", err)
	}
	users.accounts = kinds.Tokens
	if s.contents != nil {
		s.contents.kinds = kinds
		s.custom.cleanup = &cleanup{s.contents, s.terminating}
	}
	rights.Authenticator = users.authenticator()
	config, err := s.config(opts, stores, rights, kinds)
	if err == nil {
		s.crds, err = s.build(config, stores, opts, kinds)
	}
	if err == nil {
		err = serveKeys(s.crds.GenericAPIServer, rights.Keys, listener.address())
	}
	if err != nil {
		kinds.Destroy() // no server owns them
		return nil, err
	}
	return s, nil
}

// abandon ends what newServer began when it fails. Plugins may already wait for an answer from the server that will not be:
// they get none when the listener is closed, and must not ask again.
func (s *server) abandon() {
	s.cancel()
	close(s.drained)
	if s.loopback != nil {
		s.loopback.requests.refuse()
	}
}

// config fills in what the generic server needs. RecommendedOptions would bring flags, pollers and RSA keys.
func (s *server) config(
	opts Options, stores *stores, rights *kind.Access, kinds *builtin.Kinds,
) (*genericapiserver.RecommendedConfig, error) {
	config := genericapiserver.NewRecommendedConfig(crdserver.Codecs)
	config.ExternalAddress = s.serving.address()
	config.LoopbackClientConfig = protobuf(s.loopback.config)
	config.SharedInformerFactory = s.loopback.informers
	config.EffectiveVersion = release{compatibility.DefaultBuildEffectiveVersion()}
	config.FeatureGate = utilfeature.DefaultFeatureGate
	config.MergedResourceConfig = crdserver.DefaultAPIResourceConfigSource()
	config.RESTOptionsGetter = builtinOptions{stores}
	ping := []healthz.HealthChecker{healthz.PingHealthz} // the other default starts a goroutine that never ends
	config.HealthzChecks, config.LivezChecks, config.ReadyzChecks = ping, slices.Clone(ping), slices.Clone(ping)
	config.EnableProfiling = false         // would let any user change the process's log level
	config.EnableIndex = false             // would not list what other servers serve, and answers what nobody serves
	config.StorageObjectCountTracker = nil // weighs requests for priority and fairness, which is not used
	config.BuildHandlerChainFunc = s.chain
	s.catalog = newCatalog(crdserver.Codecs)
	config.AggregatedDiscoveryGroupManager = catalogSource{s.catalog, aggregated.BuiltinSource}
	var err error
	if s.openAPI, err = newOpenAPI(&config.Config); err != nil {
		return nil, err
	}

	config.Authentication.Authenticator = rights.Authenticator
	config.Authentication.APIAudiences = rights.Audiences
	config.Authorization.Authorizer = rights.Authorizer
	if opts.process != nil {
		if err := opts.process.apply(config, kinds); err != nil {
			return nil, err
		}
	}
	switch backing := stores.etcd.(type) {
	case *remote:
		backing.addChecks(&config.Config)
	case *etcd.Server:
		addEtcdChecks(&config.Config, backing)
	}
	if err := s.setAdmission(&config.Config, opts, kinds); err != nil {
		return nil, err
	}
	return config, nil
}

// chain is the default handler chain, with five additions. Requests for what other servers serve go to them. Requests that
// write wait while the state is replaced. Requests for the OpenAPI documents wait until there are some. Faults happen last, to
// requests that are allowed. And handlers are counted at the inner end too: the outer end gives up on a request that its
// client has left, and Stop must not pull the storage away from the handler that still works on it.
func (s *server) chain(handler http.Handler, config *genericapiserver.Config) http.Handler {
	handler = s.others.wrap(s.contents.wrap(handler))
	if s.faults != nil {
		handler = s.faults.Handler(handler)
	}
	return s.awaitOpenAPI(genericapiserver.DefaultBuildHandlerChain(s.handlers.track(handler), config))
}

// awaitReady holds requests back until the server is ready, except its own: a client that asks whether it is would ask again
// a while later. It does so where others may know the address before, as that of a command line.
func (s *server) awaitReady(next http.Handler) http.Handler {
	if s.ready == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.TLS == nil || req.TLS.ServerName != genericapiserver.LoopbackClientServerNameOverride {
			select {
			case <-s.ready:
			case <-s.run.Done():
			case <-req.Context().Done():
			}
		}
		next.ServeHTTP(w, req)
	})
}

// build makes the CRD server and installs the built-in kinds on it.
func (s *server) build(
	config *genericapiserver.RecommendedConfig, stores *stores, opts Options, kinds *builtin.Kinds,
) (*crdserver.CustomResourceDefinitions, error) {
	crdConfig := crdserver.Config{
		GenericConfig: config,
		ExtraConfig: crdserver.ExtraConfig{
			CRDRESTOptionsGetter: customOptions{stores, &s.custom},
			MasterCount:          1,
			ServiceResolver:      opts.serviceResolver(),
			AuthResolverWrapper:  s.webhooks.wrap(webhookAuthentication(&config.Config)),
		},
	}
	crds, err := newCRDServer(&crdConfig)
	if err != nil {
		return nil, err
	}
	generic := crds.GenericAPIServer
	generic.AggregatedLegacyDiscoveryGroupManager = catalogSource{newCatalog(crdserver.Codecs), aggregated.BuiltinSource}
	installDiscovery(generic, s.catalog)
	routes.Index{}.Install(routes.ListedPathProviders{generic, s.others}, generic.Handler.NonGoRestfulMux)
	s.others.setGroups(kinds.Groups)
	if err := installBuiltin(generic, kinds.Groups); err != nil {
		s.cancel()
		generic.RunPostStartHooks(s.run) // the controllers end only if they ran
		generic.Destroy()
		return nil, err
	}
	return crds, nil
}

// terminating reports whether the CRD server knows the definition of a resource as one that is being deleted.
func (s *server) terminating(resource schema.GroupResource) bool {
	crd, err := s.crds.Informers.Apiextensions().V1().CustomResourceDefinitions().Lister().Get(resource.String())
	return err == nil && crd.DeletionTimestamp != nil
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
			prioritize(generic, gv)
		}
	}
	prioritize(generic, apiextensionsv1.SchemeGroupVersion)
	return nil
}

// prioritize puts a built-in version into its place in discovery.
func prioritize(generic *genericapiserver.GenericAPIServer, gv schema.GroupVersion) {
	p := priorityOf(gv)
	generic.AggregatedDiscoveryGroupManager.SetGroupVersionPriority(metav1.GroupVersion(gv), p.group, p.version)
}

// start serves requests and returns when the server is ready: informers are synced and hooks are done.
func (s *server) start(ctx context.Context, secured *tls.Config) error {
	if ctx.Err() != nil { // to prepare takes a while, and depends on nothing
		return context.Cause(ctx)
	}
	generic := s.crds.GenericAPIServer
	s.serving.serve(s.awaitReady(generic.Handler), secured)
	if generic.AuditBackend != nil {
		if err := generic.AuditBackend.Run(s.run.Done()); err != nil {
			return fmt.Errorf("failed to run the audit backend: %w", err)
		}
	}

	s.crds.Informers.Start(s.run.Done())
	s.loopback.informers.Start(s.run.Done())
	if err := s.checkBootstrap(generic); err != nil {
		return err
	}
	generic.PrepareRun()
	if err := s.openAPI.publish(generic); err != nil {
		return fmt.Errorf("publish OpenAPI documents: %w", err)
	}
	s.crds.Informers.WaitForCacheSync(ctx.Done())
	s.loopback.informers.WaitForCacheSync(ctx.Done())
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("wait for the server's informers: %w", context.Cause(ctx))
	}
	generic.RunPostStartHooks(s.run)
	s.hooks.ran = true
	if err := waitForHooks(ctx, s.crds); err != nil {
		return err
	}
	close(s.openAPI.prepared)
	return nil
}

// resume goes on with what an earlier life of the etcd, or another server, may have left there.
func (s *server) resume(ctx context.Context) error {
	if s.contents != nil {
		return nil // the etcd was empty
	}
	return s.others.resume(ctx)
}

// whileRunning returns a context that also ends when the server stops, with ErrNotRunning as its cause. The function ends
// it.
func (s *server) whileRunning(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	forget := context.AfterFunc(s.run, func() { cancel(ErrNotRunning) })
	return ctx, func() {
		forget()
		cancel(nil)
	}
}

// stop ends everything that was begun, in the order in which it depends on each other, and goes on if a part of it does not
// end. Requests get grace to end.
func (s *server) stop(grace time.Duration) error {
	s.cancel()
	if s.contents != nil {
		s.contents.users.close()
	}
	if !s.hooks.ran {
		s.crds.GenericAPIServer.RunPostStartHooks(s.run) // the CRD server's controllers end only if they ran
	}
	hooks := s.awaitHooks()
	s.others.end()
	s.loopback.informers.Shutdown()
	s.crds.Informers.Shutdown()
	s.loopback.close()
	err := s.serving.stop(grace)
	s.handlers.close()
	close(s.drained)
	if backend := s.crds.GenericAPIServer.AuditBackend; backend != nil {
		backend.Shutdown()
	}
	s.custom.refuse() // before the CRD server destroys those that it knows of
	s.crds.GenericAPIServer.Destroy()
	s.custom.close(releasePatience)
	s.webhooks.close() // conversions of stores were the last to be called
	return errors.Join(hooks, err, s.checks.err())
}

// release is the version that the server reports. The libraries know only the minor version that they belong to.
type release struct {
	basecompatibility.EffectiveVersion
}

// Info implements basecompatibility.EffectiveVersion.
func (r release) Info() *apimachineryversion.Info {
	info := r.EffectiveVersion.Info()
	info.GitVersion = fmt.Sprintf("v%s.%s.0+tarn", info.Major, info.Minor)
	return info
}
