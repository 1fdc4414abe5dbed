// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package campaign_test

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/envtest/campaign"
	"github.com/tarn-dev/tarn/pkg/cache"
)

// TestNoFaultHitsWhatACacheAsksForKinds: a controller reads ConfigMaps through a cache of optional kinds, which watches CRDs and
// APIServices of its own accord.
func TestNoFaultHitsWhatACacheAsksForKinds(t *testing.T) {
	plan := campaign.Plan{
		Controller: func(ctx context.Context, config *rest.Config) error {
			c, err := cache.With(cache.Tuning{TuningByObject: cache.TuningByObject{Optional: ptr.To(true)}, NoMetrics: true})(config, cache.Options{})
			if err != nil {
				return err
			}
			if _, err := c.GetInformer(ctx, &corev1.ConfigMap{}); err != nil {
				return err
			}
			return c.Start(ctx)
		},
		Steps: []campaign.Step{{Name: "create", Do: func(ctx context.Context, c client.Client) error { return c.Create(ctx, configMap("1")) }}},
	}
	report, err := campaign.Run(t.Context(), plan)
	if err != nil {
		t.Fatal(err)
	}
	for _, run := range report.Runs {
		if !strings.Contains(run.Fault, " core/configmaps ") {
			t.Error(run.Fault)
		}
	}
	if len(report.Runs) == 0 {
		t.Error(report)
	}
}
