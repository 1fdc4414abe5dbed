// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/tarn-dev/tarn/pkg/cache"
	"github.com/tarn-dev/tarn/pkg/client"
)

// run runs a manager with what setUp adds to it, until ctx ends.
func run(ctx context.Context, cfg *rest.Config, options cache.Options, setUp func(ctrl.Manager) error) error {
	m, err := ctrl.NewManager(cfg, ctrl.Options{
		NewCache:  cache.With(tuning),
		Cache:     options,
		NewClient: client.New,
		Logger:    klog.FromContext(ctx),
		Metrics:   metricsserver.Options{BindAddress: "0"},
		// There is one controller of a name in each environment, and several environments in a process.
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	})
	if err != nil {
		return fmt.Errorf("make the manager: %w", err)
	}
	if err := setUp(m); err != nil {
		return err
	}
	return m.Start(ctx)
}

// tuning is for kinds that come and go: discovery says which, so that none is optional. A kind that cannot be listed must not keep
// the others waiting. The registry of metrics belongs to the program under test.
var tuning = cache.Tuning{
	TuningByObject: cache.TuningByObject{OnFailure: cache.Isolate},
	NoMetrics:      true,
}
