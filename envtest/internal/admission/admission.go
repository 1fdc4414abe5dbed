// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"fmt"
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

	"github.com/tarn-dev/tarn/envtest/internal/builtin"
	builtinadmission "github.com/tarn-dev/tarn/envtest/internal/builtin/admission"
	"github.com/tarn-dev/tarn/envtest/internal/flags"
	"github.com/tarn-dev/tarn/envtest/internal/serving"
)

// mapperReset is how often policies learn of new kinds, as in kube-apiserver.
const mapperReset = 30 * time.Second

// lastPlugins are policies and webhooks, in kube-apiserver's order. They see an object as NamespaceLifecycle and the plugins of the
// built-in kinds leave it. Behind them come ResourceQuota and then Config.Last.
var lastPlugins = []string{
	mutatingpolicy.PluginName, mutatingwebhook.PluginName, validatingpolicy.PluginName, validatingwebhook.PluginName,
}

// Config is what the plugins work with.
type Config struct {
	Run      context.Context // of the server, and of what the plugins run
	Drained  <-chan struct{} // closed when no request waits any more
	Clients  *serving.Loopback
	Webhooks *Webhooks
	Resolver webhook.ServiceResolver // finds the Services of webhooks
	Plugins  *flags.Plugins          // switched on and off, and their file
	Kinds    *builtin.Kinds
	Last     admission.Interface // after ResourceQuota; nil if there is none
}

// Chain is what can begin anew in a server.
type Chain struct {
	Mapper   *restmapper.DeferredDiscoveryRESTMapper
	Policies []*renewable
}

// Begin makes the plugins of policies. It is called when the informers have synced, and before the first request that admission sees: a
// plugin asks the informers at once and then ten times a second, and so does a request with the plugin.
func (c *Chain) Begin() error {
	for _, policies := range c.Policies {
		if err := policies.replace(); err != nil {
			return err
		}
	}
	return nil
}

// Set gives config its admission chain, with the plugins of the built-in kinds.
func Set(config *genericapiserver.Config, c Config) (*Chain, error) {
	clients := c.Clients
	chain := &Chain{Mapper: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(clients.Kube.Discovery()))}
	mapper := chain.Mapper
	initializers := func(stop <-chan struct{}) admission.PluginInitializers {
		return admission.PluginInitializers{
			initializer.New(clients.Kube, clients.Dynamic, clients.Informers, config.Authorization.Authorizer,
				config.FeatureGate, config.EffectiveVersion, stop, mapper),
			webhookinit.NewPluginInitializer(c.Webhooks.Authentication(config), c.Resolver),
		}
	}
	plugins := admission.NewPlugins()
	genericapiserver.RegisterAllAdmissionPlugins(plugins)
	settings, err := readSettings(c.Plugins.ConfigFile, append(plugins.Registered(), builtinadmission.PodSecurityName, builtinadmission.ResourceQuotaName))
	if err != nil {
		return nil, err
	}
	var first []admission.Interface
	if !c.Plugins.Off(lifecycle.PluginName) {
		plugin, err := initPlugin(plugins, lifecycle.PluginName, settings, initializers(c.Run.Done()))
		if err != nil {
			return nil, err
		}
		first = append(first, plugin)
	}
	last, err := c.lastPlugins(chain, func(name string, stop <-chan struct{}) (admission.Interface, error) {
		return initPlugin(plugins, name, settings, initializers(stop))
	})
	if err != nil {
		return nil, err
	}
	middle, err := c.kindPlugins(settings, config.Authorization.Authorizer, mapper)
	if err != nil {
		return nil, err
	}
	if !c.Plugins.Off(builtinadmission.ResourceQuotaName) {
		quotas, err := c.quotaPlugin(settings)
		if err != nil {
			return nil, err
		}
		last = append(last, quotas)
	}
	if c.Last != nil {
		last = append(last, c.Last)
	}
	config.AdmissionControl = reinvoker{admission.NewChainHandler(slices.Concat(first, middle, last)...)}
	return chain, config.AddPostStartHook("tarn-admission-kinds", func(hook genericapiserver.PostStartHookContext) error {
		go wait.UntilWithContext(hook, func(context.Context) { mapper.Reset() }, mapperReset)
		return nil
	})
}

// quotaPlugin makes the plugin ResourceQuota.
func (c Config) quotaPlugin(settings admission.ConfigProvider) (admission.Interface, error) {
	config, err := settings.ConfigFor(builtinadmission.ResourceQuotaName)
	if err != nil {
		return nil, fmt.Errorf("configure admission plugin %s: %w", builtinadmission.ResourceQuotaName, err)
	}
	plugin, err := c.Kinds.ResourceQuota(c.Run, config, c.Clients.Kube, c.Drained)
	if err != nil {
		return nil, fmt.Errorf("set up admission plugin %s: %w", builtinadmission.ResourceQuotaName, err)
	}
	return plugin, nil
}

// kindPlugins returns the plugins of the built-in kinds that are on.
func (c Config) kindPlugins(
	settings admission.ConfigProvider, authorizer authorizer.Authorizer, mapper meta.RESTMapper,
) ([]admission.Interface, error) {
	config, err := settings.ConfigFor(builtinadmission.PodSecurityName)
	if err != nil {
		return nil, fmt.Errorf("configure admission plugin %s: %w", builtinadmission.PodSecurityName, err)
	}
	security, err := c.Kinds.PodSecurity(config)
	if err != nil {
		return nil, fmt.Errorf("set up admission plugin %s: %w", builtinadmission.PodSecurityName, err)
	}
	list := insertBefore(slices.Clone(c.Kinds.Admission), "Priority", security)
	list = insertBefore(list, "PersistentVolumeClaimResize", builtinadmission.OwnerReferences(authorizer, mapper))
	return slices.DeleteFunc(list, func(plugin admission.Interface) bool { return c.Plugins.Off(builtinadmission.PluginName(plugin)) }), nil
}

// insertBefore puts a plugin before the one of the name.
func insertBefore(list []admission.Interface, name string, plugin admission.Interface) []admission.Interface {
	at := slices.IndexFunc(list, func(other admission.Interface) bool { return builtinadmission.PluginName(other) == name })
	return slices.Insert(list, at, plugin)
}

// readSettings reads the file that configures plugins, if it has a name.
func readSettings(file string, names []string) (admission.ConfigProvider, error) {
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

// lastPlugins makes the policies and webhooks that are not switched off.
func (c Config) lastPlugins(
	chain *Chain, create func(name string, stop <-chan struct{}) (admission.Interface, error),
) ([]admission.Interface, error) {
	var last []admission.Interface
	for _, name := range lastPlugins {
		switch {
		case c.Plugins.Off(name):
		case name == mutatingpolicy.PluginName || name == validatingpolicy.PluginName:
			watchPolicies(c.Clients.Informers, name)
			policies := newRenewable(c.Run, func(stop <-chan struct{}) (admission.Interface, error) { return create(name, stop) })
			chain.Policies = append(chain.Policies, policies)
			last = append(last, policies)
		default:
			plugin, err := create(name, c.Run.Done())
			if err != nil {
				return nil, err
			}
			last = append(last, plugin)
		}
	}
	return last, nil
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
