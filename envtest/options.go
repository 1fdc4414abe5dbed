// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/tarn-dev/tarn/envtest/faults"
	"github.com/tarn-dev/tarn/envtest/internal/commandline"
	"github.com/tarn-dev/tarn/envtest/internal/custom"
	"github.com/tarn-dev/tarn/envtest/internal/flags"
	"github.com/tarn-dev/tarn/envtest/internal/stores"
)

// Options configure an Environment. The zero value works. There are more than twelve fields because each says one thing that a
// test may want to be otherwise, and nothing follows from another.
//
// A new option is checked in this file, passed to its part by environment.go or internal/server, has a flag in cmd/apiserver if
// processes need it, and is in docs/envtest.md.
type Options struct {
	// CRDs are installed by Start, which waits until they are served. Start does not change them.
	CRDs []*apiextensionsv1.CustomResourceDefinition

	// CRDDirectoryPaths are files with CustomResourceDefinitions in YAML or JSON, or folders with such files. Start
	// installs them like CRDs. Documents of other kinds are skipped, and folders inside a folder are not read. A path
	// without a CRD is an error.
	CRDDirectoryPaths []string

	// StorageDecorator chooses for each resource what is between the request handlers and etcd. The default is Cacher,
	// or the decorator that the environment variable TARN_WATCH_CACHE names: tarn, upstream or none.
	StorageDecorator StorageDecorator

	// CheckConsistency compares each watch cache with etcd before it is destroyed. If they differ, Stop returns an
	// error. It works for stores with a method CheckConsistency(context.Context) error, such as those of Cacher. The
	// environment variable TARN_CHECK_CONSISTENCY=true does so for all environments.
	CheckConsistency bool

	// ServiceResolver finds the Services that webhook configurations, conversion webhooks and APIServices name. Without it,
	// webhooks with a Service fail, and webhooks with a URL work; APIServices lead to the external name or the endpoints of
	// their Service.
	ServiceResolver ServiceResolver

	// Faults applies its rules to the requests of clients after authentication and authorization. Requests of the server itself are
	// left alone, unless a rule names its user, system:apiserver. Rules may also be for fault points inside the server. Without it,
	// requests and calls take no other way. Stop ends all rules.
	Faults *faults.Injector

	// Controllers run beside the server: Start begins them when the server is ready, and does not wait for what they do. Stop ends
	// them before the server. There are none by default, as in every environment that has only an API server. Package
	// envtest/controllers has some of kube-controller-manager's, under their names there.
	Controllers []Controller

	// EnableAdmissionPlugins are kube-apiserver's names of admission plugins that are off by default. There is one here:
	// OwnerReferencesPermissionEnforcement. A name of another plugin that is not here is an error.
	EnableAdmissionPlugins []string

	// DisableAdmissionPlugins are kube-apiserver's names of admission plugins that are on by default and shall not run. They
	// may be names of plugins that are not here.
	DisableAdmissionPlugins []string

	// Etcd is a cluster in which the server stores, in place of an etcd in this process. It may have objects already. Several
	// servers may share it. Stop leaves what is in it, and there is no Snapshot and no Reset. Credentials and tokens are valid
	// at the server that made them. Controllers are for one of the servers.
	Etcd *ExternalEtcd

	// DataDirectory is where Start makes the folder of etcd, which Stop removes. The default is the system's
	// folder for temporary files.
	DataDirectory string

	// StopGracePeriod is the time that Stop gives to requests to end by themselves before it closes their connections.
	// If a watch is open, Stop always takes that time. The default is zero.
	StopGracePeriod time.Duration

	process *commandline.Process // what APIServerCommand sets; nil otherwise
}

const (
	// consistencyVariable turns Options.CheckConsistency on for all environments of the process.
	consistencyVariable = "TARN_CHECK_CONSISTENCY"

	// verifyVariable has all flat objects of the process compared with their sources, from the start of the first
	// environment on: those of caches that use it, and of Cachers.
	verifyVariable = "TARN_VERIFY_FLAT"
)

// validate reports every field that Start cannot work with.
func (o Options) validate() error {
	var errs []error
	for i, crd := range o.CRDs {
		if crd == nil {
			errs = append(errs, fmt.Errorf("envtest.Options.CRDs[%d] is nil: leave it out", i))
		}
	}
	for i, path := range o.CRDDirectoryPaths {
		if _, err := os.Stat(path); err != nil {
			errs = append(errs, fmt.Errorf("envtest.Options.CRDDirectoryPaths[%d]: %w", i, err))
		}
	}
	errs = append(errs, o.pluginErrors()...)
	errs = append(errs, o.controllerErrors()...)
	errs = append(errs, o.Etcd.errors()...)
	if o.DataDirectory != "" {
		if info, err := os.Stat(o.DataDirectory); err != nil {
			errs = append(errs, fmt.Errorf("envtest.Options.DataDirectory: %w", err))
		} else if !info.IsDir() {
			errs = append(errs, fmt.Errorf("envtest.Options.DataDirectory: %s is not a folder", o.DataDirectory))
		}
	}
	if o.StopGracePeriod < 0 {
		errs = append(errs, fmt.Errorf("envtest.Options.StopGracePeriod is %s: use zero to stop at once", o.StopGracePeriod))
	}
	if _, err := o.storageDecorator(); err != nil {
		errs = append(errs, fmt.Errorf("envtest.Options.StorageDecorator is not set: %w", err))
	}
	return errors.Join(errs...)
}

// consistency returns what compares watch caches with etcd, nil if neither the options nor the process's environment ask for it.
func (o Options) consistency() *stores.Consistency {
	if o.CheckConsistency || os.Getenv(consistencyVariable) == "true" {
		return &stores.Consistency{}
	}
	return nil
}

func (o Options) storageDecorator() (StorageDecorator, error) {
	if o.StorageDecorator == nil {
		return defaultDecorator()
	}
	return o.StorageDecorator, nil
}

func (o Options) serviceResolver() ServiceResolver {
	if o.ServiceResolver == nil {
		return unresolved
	}
	return o.ServiceResolver
}

// modes are the modes of the authorizer.
func (o Options) modes() []string {
	if o.process == nil {
		return []string{flags.ModeRBAC}
	}
	return o.process.Flags.Access.Modes
}

// plugins are the admission plugins that are switched on and off.
func (o Options) plugins() *flags.Plugins {
	if o.process != nil {
		return o.process.Flags.Plugins
	}
	return &flags.Plugins{Enable: o.EnableAdmissionPlugins, Disable: o.DisableAdmissionPlugins}
}

// pluginErrors says what is wrong with the names of plugins.
func (o Options) pluginErrors() []error {
	if o.process != nil {
		return nil // the flags were checked, and what is not here was told
	}
	var errs []error
	for _, err := range o.plugins().Validate() {
		errs = append(errs, fmt.Errorf("envtest.Options: %w", err))
	}
	for _, name := range o.plugins().Missing() {
		errs = append(errs, fmt.Errorf("envtest.Options.EnableAdmissionPlugins: %s is not in this server, which has %s",
			name, strings.Join(flags.Here(), ", ")))
	}
	return errs
}

// crds reads the definitions in CRDDirectoryPaths, in the order of the names, and adds CRDs. A path without any is a mistake
// that would show much later, as a kind that the server does not know.
func (o Options) crds() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	var crds []*apiextensionsv1.CustomResourceDefinition
	for i, path := range o.CRDDirectoryPaths {
		found, err := custom.Read(path)
		if err != nil {
			return nil, fmt.Errorf("envtest.Options.CRDDirectoryPaths[%d]: %w", i, err)
		}
		crds = append(crds, found...)
	}
	return append(crds, o.CRDs...), nil
}

// controllerErrors says what is wrong with the controllers.
func (o Options) controllerErrors() []error {
	var errs []error
	for i, c := range o.Controllers {
		if err := c.validate(); err != nil {
			errs = append(errs, fmt.Errorf("envtest.Options.Controllers[%d]: %w", i, err))
		}
	}
	return errs
}
