// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle"
	mutatingpolicy "k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	validatingpolicy "k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	webhookinit "k8s.io/apiserver/pkg/admission/plugin/webhook/initializer"
	mutatingwebhook "k8s.io/apiserver/pkg/admission/plugin/webhook/mutating"
	validatingwebhook "k8s.io/apiserver/pkg/admission/plugin/webhook/validating"
	apiserverinstall "k8s.io/apiserver/pkg/apis/apiserver/install"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/restmapper"
	"k8s.io/component-base/tracing"

	"github.com/tarn-dev/tarn/envtest/internal/builtin"
	builtinadmission "github.com/tarn-dev/tarn/envtest/internal/builtin/admission"
)

// mapperReset is how often policies learn of new kinds, as in kube-apiserver.
const mapperReset = 30 * time.Second

// The plugins that do not belong to one built-in kind, in kube-apiserver's order. Those that do stand between the two: a
// policy or a webhook sees an object as they leave it. ResourceQuota comes last.
var (
	lastPlugins = []string{
		mutatingpolicy.PluginName, mutatingwebhook.PluginName, validatingpolicy.PluginName, validatingwebhook.PluginName,
	}
)

// setAdmission gives config its admission chain, with the plugins of the built-in kinds. What the plugins run ends when s.run
// does, and what requests wait for when s.drained is closed.
func (s *server) setAdmission(config *genericapiserver.Config, opts Options, kinds *builtin.Kinds) error {
	clients := s.loopback
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(clients.kube.Discovery()))
	initializers := func(stop <-chan struct{}) admission.PluginInitializers {
		return admission.PluginInitializers{
			initializer.New(clients.kube, clients.dynamic, clients.informers, config.Authorization.Authorizer,
				config.FeatureGate, config.EffectiveVersion, stop, mapper),
			webhookinit.NewPluginInitializer(s.webhooks.wrap(webhookAuthentication(config)), opts.serviceResolver()),
		}
	}
	plugins := admission.NewPlugins()
	genericapiserver.RegisterAllAdmissionPlugins(plugins)
	settings, err := opts.admissionSettings(append(plugins.Registered(), builtinadmission.PodSecurityName, builtinadmission.ResourceQuotaName))
	if err != nil {
		return err
	}
	var first []admission.Interface
	if !opts.pluginOff(lifecycle.PluginName) {
		plugin, err := initPlugin(plugins, lifecycle.PluginName, settings, initializers(s.run.Done()))
		if err != nil {
			return err
		}
		first = append(first, plugin)
	}
	last, err := s.lastPlugins(opts, mapper, func(name string, stop <-chan struct{}) (admission.Interface, error) {
		return initPlugin(plugins, name, settings, initializers(stop))
	})
	if err != nil {
		return err
	}
	middle, err := opts.kindPlugins(kinds, settings, config.Authorization.Authorizer, mapper)
	if err != nil {
		return err
	}
	if !opts.pluginOff(builtinadmission.ResourceQuotaName) {
		quotas, err := s.quotaPlugin(kinds, settings)
		if err != nil {
			return err
		}
		last = append(last, quotas)
	}
	if s.contents != nil {
		last = append(last, s.contents.removed)
	}
	config.AdmissionControl = reinvoker{admission.NewChainHandler(slices.Concat(first, middle, last)...)}
	return config.AddPostStartHook("tarn-admission-kinds", func(hook genericapiserver.PostStartHookContext) error {
		go wait.UntilWithContext(hook, func(context.Context) { mapper.Reset() }, mapperReset)
		return nil
	})
}

// quotaPlugin makes the plugin ResourceQuota.
func (s *server) quotaPlugin(kinds *builtin.Kinds, settings admission.ConfigProvider) (admission.Interface, error) {
	config, err := settings.ConfigFor(builtinadmission.ResourceQuotaName)
	if err != nil {
		return nil, fmt.Errorf("configure admission plugin %s: %w", builtinadmission.ResourceQuotaName, err)
	}
	plugin, err := kinds.ResourceQuota(s.run, config, s.loopback.kube, s.drained)
	if err != nil {
		return nil, fmt.Errorf("set up admission plugin %s: %w", builtinadmission.ResourceQuotaName, err)
	}
	return plugin, nil
}

// kindPlugins returns the plugins of the built-in kinds that are on.
func (o Options) kindPlugins(
	kinds *builtin.Kinds, settings admission.ConfigProvider, authorizer authorizer.Authorizer, mapper meta.RESTMapper,
) ([]admission.Interface, error) {
	config, err := settings.ConfigFor(builtinadmission.PodSecurityName)
	if err != nil {
		return nil, fmt.Errorf("configure admission plugin %s: %w", builtinadmission.PodSecurityName, err)
	}
	security, err := kinds.PodSecurity(config)
	if err != nil {
		return nil, fmt.Errorf("set up admission plugin %s: %w", builtinadmission.PodSecurityName, err)
	}
	list := insertBefore(slices.Clone(kinds.Admission), "Priority", security)
	list = insertBefore(list, "PersistentVolumeClaimResize", builtinadmission.OwnerReferences(authorizer, mapper))
	return slices.DeleteFunc(list, func(plugin admission.Interface) bool { return o.pluginOff(builtinadmission.PluginName(plugin)) }), nil
}

// insertBefore puts a plugin before the one of the name.
func insertBefore(list []admission.Interface, name string, plugin admission.Interface) []admission.Interface {
	at := slices.IndexFunc(list, func(other admission.Interface) bool { return builtinadmission.PluginName(other) == name })
	return slices.Insert(list, at, plugin)
}

// admissionSettings reads the file that configures plugins, if there is one.
func (o Options) admissionSettings(names []string) (admission.ConfigProvider, error) {
	var file string
	if o.process != nil {
		file = o.process.flags.Plugins.ConfigFile
	}
	known := runtime.NewScheme()
	apiserverinstall.Install(known)
	settings, err := admission.ReadAdmissionConfiguration(names, file, known)
	if err != nil {
		return nil, fmt.Errorf("failed to read plugin config: %w", err)
	}
	return settings, nil
}

// initPlugin makes a plugin and starts what it needs.
func initPlugin(
	plugins *admission.Plugins, name string, settings admission.ConfigProvider, initializers admission.PluginInitializer,
) (admission.Interface, error) {
	config, err := settings.ConfigFor(name)
	if err != nil {
		return nil, fmt.Errorf("configure admission plugin %s: %w", name, err)
	}
	plugin, err := plugins.InitPlugin(name, config, initializers)
	if err != nil {
		return nil, fmt.Errorf("set up admission plugin %s: %w", name, err)
	}
	return plugin, nil
}

// lastPlugins makes the policies and webhooks that are not switched off. Those of policies can begin anew.
func (s *server) lastPlugins(
	opts Options, mapper *restmapper.DeferredDiscoveryRESTMapper, create func(name string, stop <-chan struct{}) (admission.Interface, error),
) ([]admission.Interface, error) {
	if s.contents != nil {
		s.contents.mapper = mapper
	}
	var last []admission.Interface
	for _, name := range lastPlugins {
		switch {
		case opts.pluginOff(name):
		case s.contents != nil && (name == mutatingpolicy.PluginName || name == validatingpolicy.PluginName):
			policies, err := newRenewable(s.run, func(stop <-chan struct{}) (admission.Interface, error) { return create(name, stop) })
			if err != nil {
				return nil, err
			}
			s.contents.policies = append(s.contents.policies, policies)
			last = append(last, policies)
		default:
			plugin, err := create(name, s.run.Done())
			if err != nil {
				return nil, err
			}
			last = append(last, plugin)
		}
	}
	return last, nil
}

// webhookAuthentication lets webhooks be called with the server's own credentials where they point at the server.
func webhookAuthentication(config *genericapiserver.Config) webhook.AuthenticationInfoResolverWrapper {
	return webhook.NewDefaultAuthenticationInfoResolverWrapper(nil, nil, config.LoopbackClientConfig, tracing.NewNoopTracerProvider())
}

// reinvoker runs mutating plugins a second time when one of them asks for it, because another one changed the object
// after it. It implements admission.MutationInterface and admission.ValidationInterface.
type reinvoker struct{ chain admission.Interface }

// Handles implements admission.Interface.
func (r reinvoker) Handles(operation admission.Operation) bool { return r.chain.Handles(operation) }

// Admit implements admission.MutationInterface.
func (r reinvoker) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	mutating, ok := r.chain.(admission.MutationInterface)
	if !ok {
		return nil
	}
	if err := mutating.Admit(ctx, a, o); err != nil {
		return err
	}
	again := a.GetReinvocationContext()
	if !again.ShouldReinvoke() {
		return nil
	}
	again.SetIsReinvoke()
	return mutating.Admit(ctx, a, o)
}

// Validate implements admission.ValidationInterface.
func (r reinvoker) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	if validating, ok := r.chain.(admission.ValidationInterface); ok {
		return validating.Validate(ctx, a, o)
	}
	return nil
}

// ServiceResolver returns the URL of a Service that a webhook configuration or an APIService names. There is no cluster
// network with a DNS, so a test that serves a webhook itself returns its own address. The server calls it from many
// goroutines, and does not change the URL.
type ServiceResolver func(namespace, name string, port int32) (*url.URL, error)

// ResolveEndpoint implements webhook.ServiceResolver.
func (f ServiceResolver) ResolveEndpoint(namespace, name string, port int32) (*url.URL, error) {
	u, err := f(namespace, name, port)
	switch {
	case err != nil:
		return nil, err
	case u == nil:
		return nil, fmt.Errorf("Options.ServiceResolver returned no URL and no error for Service %s/%s port %d", namespace, name, port)
	}
	own := *u // whoever asked adds the path of a request
	return &own, nil
}

// unresolved is the resolver when the user gave none.
func unresolved(namespace, name string, port int32) (*url.URL, error) {
	return nil, fmt.Errorf("webhook names Service %s/%s port %d, which leads nowhere in a test: "+
		"use a URL in its client config, or set Options.ServiceResolver", namespace, name, port)
}
