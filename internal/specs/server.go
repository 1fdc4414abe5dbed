// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package specs

import (
	"context"
	"os"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	"go.uber.org/goleak"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	binaries "sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/tarn-dev/tarn/envtest"
)

// oracleVariable names the kubeconfig of a real kube-apiserver, on which suites run then.
const oracleVariable = "TARN_ORACLE_KUBECONFIG"

// OnOracle reports whether EitherServer returns the oracle.
func OnOracle() bool { return os.Getenv(oracleVariable) != "" }

// Server is what suites need of a server beside its clients: envtest and the oracle have it.
type Server interface {
	// AddUser returns a Config for a user.
	AddUser(name string, groups ...string) (*rest.Config, error)
	// InstallCRDs creates definitions, and waits until they are served.
	InstallCRDs(ctx context.Context, crds ...*apiextensionsv1.CustomResourceDefinition) error
}

// EitherServer is Environment for suites that need no more than a Server. It returns the oracle if TARN_ORACLE_KUBECONFIG names one.
func EitherServer(ctx context.Context, mayStay ...goleak.Option) (Server, *rest.Config, client.Client) {
	ginkgo.GinkgoHelper()
	if !OnOracle() {
		return Environment(ctx, envtest.Options{}, mayStay...)
	}
	gomega.SetDefaultEventuallyTimeout(Patience)
	mayStay = append(mayStay, goleak.IgnoreCurrent(), goleak.IgnoreAnyFunction("golang.org/x/net/http2.(*clientConnReadLoop).run")) // the oracle keeps idle connections
	ginkgo.DeferCleanup(func() { gomega.Expect(goleak.Find(mayStay...)).To(gomega.Succeed()) })
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv(oracleVariable))
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	config.QPS = -1
	api, err := client.New(config, client.Options{})
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	return &oracle{config}, config, api
}

// oracle is the kube-apiserver of a kubeconfig, whose user may impersonate others.
type oracle struct{ config *rest.Config }

// AddUser implements Server.
func (o *oracle) AddUser(name string, groups ...string) (*rest.Config, error) {
	user := rest.CopyConfig(o.config)
	user.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: groups}
	return user, nil
}

// InstallCRDs implements Server.
func (o *oracle) InstallCRDs(_ context.Context, crds ...*apiextensionsv1.CustomResourceDefinition) error {
	_, err := binaries.InstallCRDs(o.config, binaries.CRDInstallOptions{CRDs: crds})
	return err
}
