// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kubebuilder lets a suite that is written for controller-runtime's envtest run on Tarn's API server, in the test
// process. It takes an import and one line before the suite starts its Environment:
//
//	testEnv = &envtest.Environment{CRDDirectoryPaths: ...}
//	kubebuilder.Use(GinkgoTB(), testEnv)
//	cfg, err = testEnv.Start()
//
// CRDs, webhooks, conversion, KubeConfig, AddUser and Stop of the Environment work as with the binaries.
package kubebuilder

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	tarn "github.com/tarn-dev/tarn/envtest"
)

// The variables by which a run chooses another server than the one in this process, as controller-runtime reads them.
const (
	existingClusterVariable = "USE_EXISTING_CLUSTER"
	assetsVariable          = "KUBEBUILDER_ASSETS"
	assetPrefix             = "TEST_ASSET_"
)

// Use starts an API server in this process for the test, and lets env use it: call it before env.Start. The server stops
// when the test ends, or with GinkgoTB in a BeforeSuite, after AfterSuite. It fails the test if the server does not start.
//
// It does nothing, and returns nil, when the run chooses another server: when env.UseExistingCluster or the variable
// USE_EXISTING_CLUSTER is true, or KUBEBUILDER_ASSETS or TEST_ASSET_KUBE_APISERVER names binaries.
//
// Each test process has a server of its own, so that packages, and the processes of ginkgo -p, run beside each other.
func Use(t testing.TB, env *envtest.Environment) *tarn.Environment {
	t.Helper()
	return UseWith(t, env, tarn.Options{})
}

// UseWith is Use with options of the server.
func UseWith(t testing.TB, env *envtest.Environment, opts tarn.Options) *tarn.Environment {
	t.Helper()
	if elsewhere(env) {
		return nil
	}
	if err := refuse(env); err != nil {
		t.Fatalf("kubebuilder: %v", err)
	}
	server := tarn.StartWith(t, opts)
	if err := connect(env, server, t.TempDir()); err != nil {
		t.Fatalf("kubebuilder: %v", err)
	}
	return server
}

// elsewhere says whether the run chooses another server.
func elsewhere(env *envtest.Environment) bool {
	if env.UseExistingCluster != nil && *env.UseExistingCluster {
		return true
	}
	if env.UseExistingCluster == nil && strings.EqualFold(os.Getenv(existingClusterVariable), "true") {
		return true
	}
	return os.Getenv(assetsVariable) != "" || os.Getenv(assetPrefix+"KUBE_APISERVER") != ""
}

// refuse returns an error for what is set for the binaries and would have no effect.
func refuse(env *envtest.Environment) error {
	server := env.ControlPlane.GetAPIServer()
	var errs []error
	//lint:ignore SA1019 deprecated, and still used by suites
	if flags := append(server.Configure().AsStrings(nil), server.Args...); len(flags) > 0 {
		errs = append(errs, fmt.Errorf("flags of kube-apiserver have no effect in the test process: %s", strings.Join(flags, " ")))
	}
	if server.SecureServing.Authn != nil {
		errs = append(errs, errors.New("an Authn of the suite's own has no effect in the test process"))
	}
	return errors.Join(errs...)
}

// connect lets env take the server for an existing cluster, and lets its ControlPlane, which does not run then, make users
// of it. folder is for the kubeconfigs that AuthenticatedUser.Kubectl writes.
func connect(env *envtest.Environment, server *tarn.Environment, folder string) error {
	config := server.Config()
	env.UseExistingCluster, env.Config = ptr.To(true), config
	address, err := url.Parse(config.Host)
	if err != nil {
		return fmt.Errorf("read the server's address: %w", err)
	}
	host, port, err := net.SplitHostPort(address.Host)
	if err != nil {
		return fmt.Errorf("read the server's address: %w", err)
	}
	plane := env.ControlPlane.GetAPIServer()
	plane.CertDir = folder
	plane.SecureServing = envtest.SecureServing{
		ListenAddr: envtest.ListenAddr{Address: host, Port: port},
		CA:         config.CAData,
		Authn:      authn{server},
	}
	return nil
}

// authn makes the users of an Environment. It implements envtest.Authn.
type authn struct{ server *tarn.Environment }

// Configure implements envtest.Authn. There are no arguments to configure: no process is started.
func (authn) Configure(string, *envtest.Arguments) error { return nil }

// Start implements envtest.Authn.
func (authn) Start() error { return nil }

// Stop implements envtest.Authn.
func (authn) Stop() error { return nil }

// AddUser implements envtest.Authn: base, with the credentials of a new user.
func (a authn) AddUser(user envtest.User, base *rest.Config) (*rest.Config, error) {
	made, err := a.server.AddUser(user.Name, user.Groups...)
	if err != nil {
		return nil, err
	}
	config := rest.CopyConfig(base)
	config.CertData, config.KeyData = made.CertData, made.KeyData
	return config, nil
}
