// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package autoscaling

import (
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

func AutoscalingKinds() []*kind.Kind {
	return []*kind.Kind{{
		GVK: autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"), Resource: "horizontalpodautoscalers",
		Short: []string{"hpa"}, Categories: kind.InAll, Alias: autoscalingv1.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"),
		Rules: kind.Rules{Status: true},
		Hooks: kind.Hooks{Defaults: kind.Typed(defaultHorizontalPodAutoscaler), Validate: kind.TypedCheck(validateHorizontalPodAutoscaler), ValidateStatus: kind.TypedCheck(validateHorizontalPodAutoscalerStatus)},
		Table: kind.Show("Reference,Targets,MinPods,MaxPods,Replicas,Age", horizontalPodAutoscalerCells),
	}}
}
