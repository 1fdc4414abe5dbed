// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// The manager of the Websites, as kubebuilder lays it out. It runs in a cluster, or
// on the one of the current kubeconfig.
package main

import (
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	webv1 "github.com/tarn-dev/tarn/examples/kubebuilder/api/v1"
	"github.com/tarn-dev/tarn/examples/kubebuilder/internal/controller"
	webhookv1 "github.com/tarn-dev/tarn/examples/kubebuilder/internal/webhook/v1"
	"github.com/tarn-dev/tarn/pkg/cache"
)

func main() {
	ctrl.SetLogger(klog.Background())
	if err := run(); err != nil {
		ctrl.Log.Error(err, "the manager has ended")
		os.Exit(1)
	}
}

func run() error {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(webv1.AddToScheme(scheme))
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:   scheme,
		NewCache: cache.New, // the one line
	})
	if err != nil {
		return err
	}
	reconciler := &controller.WebsiteReconciler{Client: mgr.GetClient(), Scheme: mgr.GetScheme()}
	if err := reconciler.SetupWithManager(mgr); err != nil {
		return err
	}
	if err := webhookv1.SetupWebsiteWebhookWithManager(mgr); err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}
