// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"path/filepath"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/tarn-dev/tarn/envtest/kubebuilder"
	webv1 "github.com/tarn-dev/tarn/examples/kubebuilder/api/v1"
	"github.com/tarn-dev/tarn/pkg/cache"
)

var (
	ctx       context.Context
	cancel    context.CancelFunc
	testEnv   *envtest.Environment
	cfg       *rest.Config
	k8sClient client.Client
	ended     chan error // what the manager returned
)

func TestControllers(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Controller Suite")
}

var _ = BeforeSuite(func() {
	logf.SetLogger(GinkgoLogr)
	ctx, cancel = context.WithCancel(context.Background())

	By("starting the test environment")
	testEnv = &envtest.Environment{
		CRDDirectoryPaths:     []string{filepath.Join("..", "..", "config", "crd", "bases")},
		ErrorIfCRDPathMissing: true,
	}
	kubebuilder.Use(GinkgoTB(), testEnv) // or the binaries, if KUBEBUILDER_ASSETS is set
	var err error
	cfg, err = testEnv.Start()
	Expect(err).NotTo(HaveOccurred())

	Expect(webv1.AddToScheme(scheme.Scheme)).To(Succeed())
	k8sClient, err = client.New(cfg, client.Options{Scheme: scheme.Scheme})
	Expect(err).NotTo(HaveOccurred())

	By("starting the manager")
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme:   scheme.Scheme,
		NewCache: cache.New,
		Metrics:  metricsserver.Options{BindAddress: "0"},
	})
	Expect(err).NotTo(HaveOccurred())
	reconciler := &WebsiteReconciler{Client: mgr.GetClient(), Scheme: mgr.GetScheme()}
	Expect(reconciler.SetupWithManager(mgr)).To(Succeed())
	ended = make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
})

var _ = AfterSuite(func() {
	By("stopping the manager and the test environment")
	cancel()
	Eventually(ended, "30s").Should(Receive(BeNil()))
	Expect(testEnv.Stop()).To(Succeed())
})
