// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package autoscaling

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

func defaultHorizontalPodAutoscaler(hpa *autoscalingv2.HorizontalPodAutoscaler) {
	hpa.Annotations = withoutForms(hpa.Annotations)
	kind.Missing(&hpa.Spec.MinReplicas, 1)
	if len(hpa.Spec.Metrics) == 0 {
		utilization := int32(80)
		hpa.Spec.Metrics = []autoscalingv2.MetricSpec{{
			Type: autoscalingv2.ResourceMetricSourceType,
			Resource: &autoscalingv2.ResourceMetricSource{
				Name:   corev1.ResourceCPU,
				Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &utilization},
			},
		}}
	}
	if hpa.Spec.Behavior == nil {
		return
	}
	percent := autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.PercentScalingPolicy, Value: 100, PeriodSeconds: 15}
	pods := autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.PodsScalingPolicy, Value: 4, PeriodSeconds: 15}
	kind.Missing(&hpa.Spec.Behavior.ScaleUp, autoscalingv2.HPAScalingRules{})
	kind.Missing(&hpa.Spec.Behavior.ScaleUp.StabilizationWindowSeconds, 0)
	defaultScalingRules(hpa.Spec.Behavior.ScaleUp, pods, percent)
	kind.Missing(&hpa.Spec.Behavior.ScaleDown, autoscalingv2.HPAScalingRules{})
	defaultScalingRules(hpa.Spec.Behavior.ScaleDown, percent)
}

func defaultScalingRules(rules *autoscalingv2.HPAScalingRules, policies ...autoscalingv2.HPAScalingPolicy) {
	kind.Missing(&rules.SelectPolicy, autoscalingv2.MaxChangePolicySelect)
	if rules.Policies == nil {
		rules.Policies = policies
	}
}
