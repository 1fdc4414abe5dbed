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
	"github.com/tarn-dev/tarn/envtest/internal/custom"
	"github.com/tarn-dev/tarn/envtest/internal/serving"
	"github.com/tarn-dev/tarn/envtest/internal/stores"
)

// assemble makes the generic server with all that it serves, and tells the parts of each other.
func (b *builder) assemble(made *stores.Stores, rights *kind.Access, kinds *builtin.Kinds) error {
	config, err := b.config(made, rights, kinds)
	if err != nil {
		return err
	}
	chain, err := admission.Set(&config.Config, b.admission(kinds))
	if err != nil {
		return err
	}
	if b.crds, err = b.build(config, made, kinds); err != nil {
		return err
	}
	if err := serveKeys(b.crds.GenericAPIServer, rights.Keys, b.from.Listener.Address()); err != nil {
		return err
	}
	b.Installer = custom.NewInstaller(b.run, b.loopback, b.definitions().Informer(), b.catalog, &b.custom)
	if b.Contents != nil {
		b.Contents.Attach(b.parts(kinds, chain))
		b.custom.Guard(func(ctx context.Context) (context.Context, uint64, error) { return b.Contents.Admit(ctx, nil) }, b.terminating)
	}
	return nil
}

// config fills in what the generic server needs. RecommendedOptions would bring flags, pollers and RSA keys.
func (b *builder) config(made *stores.Stores, rights *kind.Access, kinds *builtin.Kinds) (*genericapiserver.RecommendedConfig, error) {
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
	config.BuildHandlerChainFunc = b.chain
	config.AggregatedDiscoveryGroupManager = b.catalog.From(aggregated.BuiltinSource)
	var err error
	if b.openAPI, err = catalog.NewOpenAPI(&config.Config); err != nil {
		return nil, err
	}

	config.Authentication.Authenticator = rights.Authenticator
	config.Authentication.APIAudiences = rights.Audiences
	config.Authorization.Authorizer = rights.Authorizer
	if p := b.from.Command; p != nil {
		if err := p.Apply(config, kinds); err != nil {
			return nil, err
		}
		config.EffectiveVersion = release{config.EffectiveVersion}
	}
	stores.AddChecks(&config.Config, b.from.Etcd)
	return config, nil
}

// build makes the CRD server and installs the built-in kinds on it.
func (b *builder) build(
	config *genericapiserver.RecommendedConfig, made *stores.Stores, kinds *builtin.Kinds,
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
		CRDs: crds.Informers.Apiextensions().V1().CustomResourceDefinitions(), Director: generic.Handler.Director, OpenAPI: b.openAPI.V2,
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
