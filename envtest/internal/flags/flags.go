// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package flags

import (
	"fmt"

	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	serveroptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/util/compatibility"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	cliflag "k8s.io/component-base/cli/flag"
	basecompatibility "k8s.io/component-base/compatibility"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register" // --logging-format=json
	"k8s.io/component-base/metrics"

	"github.com/tarn-dev/tarn/envtest/internal/storagekey"
)

// The defaults of kube-apiserver.
const (
	defaultPort = 6443
	storedAs    = "application/vnd.kubernetes.protobuf"
	certFolder  = "/var/run/kubernetes"
	certName    = "apiserver"
)

// Flags are the flags of one kube-apiserver. Make them with New, parse the flag sets of Sets, then call Check. They are not
// for concurrent use. There are more than twelve fields because each group of kube-apiserver's flags is one.
type Flags struct {
	Run      *serveroptions.ServerRunOptions
	Etcd     *serveroptions.EtcdOptions
	Serving  *serveroptions.SecureServingOptions
	Audit    *serveroptions.AuditOptions
	Features *serveroptions.FeatureOptions
	APIs     *serveroptions.APIEnablementOptions
	Tracing  *serveroptions.TracingOptions
	Logs     *logsapi.LoggingConfiguration
	Metrics  *metrics.Options
	Access   *Access
	Plugins  *Plugins

	Aggregator *Aggregator

	sets cliflag.NamedFlagSets
	rest map[string]*flag // what the table has, by name
}

// New returns the flags at their defaults.
func New() (*Flags, error) {
	if err := registerGates(); err != nil {
		return nil, err
	}
	registry := basecompatibility.NewComponentGlobalsRegistry()
	version, gates := compatibility.DefaultBuildEffectiveVersion(), utilfeature.DefaultMutableFeatureGate
	if err := registry.Register(basecompatibility.DefaultKubeComponent, version, gates); err != nil {
		return nil, fmt.Errorf("register the feature gates: %w", err)
	}
	f := &Flags{
		Run:        serveroptions.NewServerRunOptionsForComponent(basecompatibility.DefaultKubeComponent, registry),
		Etcd:       serveroptions.NewEtcdOptions(storagebackend.NewDefaultConfig(storagekey.DefaultRoot, nil)),
		Serving:    serveroptions.NewSecureServingOptions(),
		Audit:      serveroptions.NewAuditOptions(),
		Features:   serveroptions.NewFeatureOptions(),
		APIs:       serveroptions.NewAPIEnablementOptions(),
		Tracing:    serveroptions.NewTracingOptions(),
		Logs:       logsapi.NewLoggingConfiguration(),
		Metrics:    metrics.NewOptions(),
		Access:     newAccess(),
		Plugins:    &Plugins{},
		Aggregator: &Aggregator{},
		rest:       map[string]*flag{},
	}
	f.Etcd.DefaultStorageMediaType = storedAs
	f.Serving.BindPort, f.Serving.Required = defaultPort, true
	f.Serving.ServerCert.CertDirectory, f.Serving.ServerCert.PairName = certFolder, certName
	f.addFlags()
	return f, nil
}

// addFlags fills the sets, in the order in which help shows them.
func (f *Flags) addFlags() {
	f.Run.AddUniversalFlags(f.sets.FlagSet("generic"))
	f.Etcd.AddFlags(f.sets.FlagSet("etcd"))
	f.Serving.AddFlags(f.sets.FlagSet("secure serving"))
	f.Audit.AddFlags(f.sets.FlagSet("auditing"))
	f.Features.AddFlags(f.sets.FlagSet("features"))
	f.Access.addFlags(f.sets.FlagSet("authentication"), f.sets.FlagSet("authorization"))
	f.APIs.AddFlags(f.sets.FlagSet("API enablement"))
	f.Plugins.addFlags(f.sets.FlagSet("admission"))
	f.Aggregator.addFlags(f.sets.FlagSet("misc"))
	f.Metrics.AddFlags(f.sets.FlagSet("metrics"))
	logsapi.AddFlags(f.Logs, f.sets.FlagSet("logs"))
	f.Tracing.AddFlags(f.sets.FlagSet("traces"))
	for i := range table {
		entry := table[i]
		f.rest[entry.name] = &entry
		entry.add(f.sets.FlagSet(entry.set))
	}
}

// Sets are the flags in named sets, for a command.
func (f *Flags) Sets() *cliflag.NamedFlagSets { return &f.sets }

// Check completes the flags after they were parsed, and sets the feature gates of the process. It returns what has no effect
// as messages, and everything that cannot be as one error.
func (f *Flags) Check(given *pflag.FlagSet) (notices []string, err error) {
	if err := f.Run.ComponentGlobalsRegistry.Set(); err != nil {
		return nil, err
	}
	var errs []error
	given.Visit(func(flag *pflag.Flag) {
		entry, ok := f.rest[flag.Name]
		switch {
		case !ok || flag.Value.String() == flag.DefValue:
		case entry.refused:
			errs = append(errs, fmt.Errorf("--%s is not supported: %s", flag.Name, entry.why))
		default:
			notices = append(notices, fmt.Sprintf("--%s has no effect: %s", flag.Name, entry.why))
		}
	})
	errs = append(errs, f.validate()...)
	notices = append(notices, f.gateNotices()...)
	notices = append(notices, f.Access.notices()...)
	notices = append(notices, f.Plugins.notices()...)
	return notices, utilerrors.NewAggregate(errs)
}

// validate asks each part.
func (f *Flags) validate() []error {
	errs := f.Etcd.Validate()
	errs = append(errs, f.Run.Validate()...)
	errs = append(errs, f.Run.ComponentGlobalsRegistry.Validate()...)
	errs = append(errs, f.Serving.Validate()...)
	errs = append(errs, f.Access.validate()...)
	errs = append(errs, f.Audit.Validate()...)
	errs = append(errs, f.Plugins.Validate()...)
	errs = append(errs, f.Aggregator.validate()...)
	errs = append(errs, f.APIs.Validate(groups{})...)
	errs = append(errs, f.Metrics.Validate()...)
	errs = append(errs, f.Tracing.Validate()...)
	return errs
}
