// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"fmt"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/apiserver/pkg/server/routes"
	"k8s.io/apiserver/pkg/util/compatibility"
	utilfeature "k8s.io/apiserver/pkg/util/feature"

	"github.com/tarn-dev/tarn/envtest/internal/admission"
	"github.com/tarn-dev/tarn/envtest/internal/aggregation"
	"github.com/tarn-dev/tarn/envtest/internal/builtin"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
	"github.com/tarn-dev/tarn/envtest/internal/catalog"
	"github.com/tarn-dev/tarn/envtest/internal/contents"
	"github.com/tarn-dev/tarn/envtest/internal/custom"
	"github.com/tarn-dev/tarn/envtest/internal/serving"
	"github.com/tarn-dev/tarn/envtest/internal/stores"
)

// assemble makes the generic server with all that it serves, and tells the parts of each other.
func (b *builder) assemble(made *stores.Stores, rights *kind.Access, kinds *builtin.Kinds) (*Server, error) {
	config, documents, err := b.config(made, rights, kinds)
	if err != nil {
		return nil, err
	}
	chain, err := admission.Set(&config.Config, b.admission(kinds))
	if err != nil {
		return nil, err
	}
	crds, err := b.build(config, documents, made, kinds)
	if err != nil {
		return nil, err
	}
	if err := serveKeys(crds.GenericAPIServer, rights.Keys, b.from.Listener.Address()); err != nil {
		return nil, err
	}
	s := &Server{
		base: b.base, listener: b.from.Listener, users: b.from.Users, command: b.from.Command, crds: crds, openAPI: documents,
		Installer: custom.NewInstaller(b.run, b.loopback, definitionsOf(crds).Informer(), b.catalog, b.custom),
		admission: chain, hooks: &hooks{patience: hookPatience},
	}
	if s.command != nil {
		s.ready = make(chan struct{})
	}
	if b.gate != nil {
		s.contents = contents.New(b.run, b.gate, s.parts(kinds))
		b.custom.Guard(func(ctx context.Context) (context.Context, uint64, error) { return b.gate.Admit(ctx, nil) }, s.terminating)
	}
	return s, nil
}

// config fills in what the generic server needs, and makes its OpenAPI documents. RecommendedOptions would bring flags, pollers and RSA
// keys.
func (b *builder) config(
	made *stores.Stores, rights *kind.Access, kinds *builtin.Kinds,
) (*genericapiserver.RecommendedConfig, *catalog.OpenAPI, error) {
	config := genericapiserver.NewRecommendedConfig(crdserver.Codecs)
	config.ExternalAddress = b.from.Listener.Address()
	config.LoopbackClientConfig = serving.Protobuf(b.loopback.Config)
	config.SharedInformerFactory = b.loopback.Informers
	config.EffectiveVersion = release{compatibility.DefaultBuildEffectiveVersion()}
	config.FeatureGate = utilfeature.DefaultFeatureGate
	config.MergedResourceConfig = crdserver.DefaultAPIResourceConfigSource()
	config.RESTOptionsGetter = made.Builtin()
	ping := []healthz.HealthChecker{healthz.PingHealthz} // the other default starts a goroutine that never ends
	config.HealthzChecks, config.LivezChecks, config.ReadyzChecks = ping, slices.Clone(ping), slices.Clone(ping)
	config.EnableProfiling = false         // would let any user change the process's log level
	config.EnableIndex = false             // would not list what other servers serve, and answers what nobody serves
	config.StorageObjectCountTracker = nil // weighs requests for priority and fairness, which is not used
	config.AggregatedDiscoveryGroupManager = b.catalog.From(aggregated.BuiltinSource)
	documents, err := catalog.NewOpenAPI(&config.Config, b.catalog)
	if err != nil {
		return nil, nil, err
	}
	config.BuildHandlerChainFunc = b.chain(documents)

	config.Authentication.Authenticator = rights.Authenticator
	config.Authentication.APIAudiences = rights.Audiences
	config.Authorization.Authorizer = rights.Authorizer
	if p := b.from.Command; p != nil {
		if err := p.Apply(config, kinds); err != nil {
			return nil, nil, err
		}
		config.EffectiveVersion = release{config.EffectiveVersion}
	}
	stores.AddChecks(&config.Config, b.from.Etcd)
	return config, documents, nil
}

// build makes the CRD server and installs the built-in kinds on it.
func (b *builder) build(
	config *genericapiserver.RecommendedConfig, documents *catalog.OpenAPI, made *stores.Stores, kinds *builtin.Kinds,
) (*crdserver.CustomResourceDefinitions, error) {
	crdConfig := crdserver.Config{
		GenericConfig: config,
		ExtraConfig: crdserver.ExtraConfig{
			CRDRESTOptionsGetter: made.Custom(),
			MasterCount:          1,
			ServiceResolver:      b.from.Webhooks,
			AuthResolverWrapper:  b.webhooks.Authentication(&config.Config),
		},
	}
	crds, err := newCRDServer(&crdConfig)
	if err != nil {
		return nil, err
	}
	generic := crds.GenericAPIServer
	generic.AggregatedLegacyDiscoveryGroupManager = catalog.New(crdserver.Codecs).From(aggregated.BuiltinSource)
	b.catalog.Install(generic)
	routes.Index{}.Install(routes.ListedPathProviders{generic, b.aggregation}, generic.Handler.NonGoRestfulMux)
	b.aggregation.StandBefore(aggregation.Front{
		CRDs: definitionsOf(crds), Director: generic.Handler.Director, OpenAPI: documents.V2,
	}, kinds.Groups)
	if err := installBuiltin(generic, kinds.Groups); err != nil {
		b.cancel()
		generic.RunPostStartHooks(b.run) // the controllers end only if they ran
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
