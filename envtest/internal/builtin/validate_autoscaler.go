// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

import (
	"slices"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The bounds of the time that an autoscaler looks back, in seconds.
const (
	longestWindow = 3600
	longestPeriod = 1800
)

func validateHorizontalPodAutoscaler(hpa, old *autoscalingv2.HorizontalPodAutoscaler) field.ErrorList {
	var f faults
	spec, at := &hpa.Spec, specPath()
	if spec.MinReplicas != nil {
		beyond := func(m autoscalingv2.MetricSpec) bool {
			return m.Type == autoscalingv2.ObjectMetricSourceType || m.Type == autoscalingv2.ExternalMetricSourceType
		}
		f.forbid(*spec.MinReplicas == 0 && !slices.ContainsFunc(spec.Metrics, beyond), at.Child("metrics"),
			"must specify at least one Object or External metric to support scaling to zero replicas")
		f.invalid(*spec.MinReplicas < 1, at.Child("minReplicas"), *spec.MinReplicas, "must be greater than or equal to 1")
		f.invalid(spec.MaxReplicas < *spec.MinReplicas, at.Child("maxReplicas"), spec.MaxReplicas, "must be greater than or equal to `minReplicas`")
	}
	f.need(spec.MaxReplicas != 0, at.Child("maxReplicas"))
	f.invalid(spec.MaxReplicas < 0, at.Child("maxReplicas"), spec.MaxReplicas, "must be greater than or equal to 1")
	f.scaled(spec.ScaleTargetRef, at.Child("scaleTargetRef"))
	if old == nil || old.Spec.ScaleTargetRef.APIVersion != spec.ScaleTargetRef.APIVersion {
		gv, err := schema.ParseGroupVersion(spec.ScaleTargetRef.APIVersion)
		f.invalid(err == nil && gv.Group == "" && spec.ScaleTargetRef.Kind != "ReplicationController", at.Child("scaleTargetRef", "apiVersion"),
			spec.ScaleTargetRef.APIVersion, "apiVersion must specify API group")
	}
	for i := range spec.Metrics {
		f.metric(&spec.Metrics[i], at.Child("metrics").Index(i))
	}
	if b := spec.Behavior; b != nil {
		f.scalingRules(b.ScaleUp, at.Child("behavior", "scaleUp"))
		f.scalingRules(b.ScaleDown, at.Child("behavior", "scaleDown"))
	}
	return f.list
}

func validateHorizontalPodAutoscalerStatus(hpa, _ *autoscalingv2.HorizontalPodAutoscaler) field.ErrorList {
	var f faults
	f.notNegative(int64(hpa.Status.CurrentReplicas), field.NewPath("status", "currentReplicas"))
	f.notNegative(int64(hpa.Status.DesiredReplicas), field.NewPath("status", "desiredReplicas"))
	return f.list
}

// pathSegmentName checks a name that is part of a URL, and must be there.
func (f *faults) pathSegmentName(name string, at *field.Path) {
	if f.text(name, at) {
		f.messages(content.IsPathSegmentName(name), name, at)
	}
}

// scaled checks a reference to an object. It need not be in a group.
func (f *faults) scaled(ref autoscalingv2.CrossVersionObjectReference, at *field.Path) {
	f.pathSegmentName(ref.Kind, at.Child("kind"))
	f.pathSegmentName(ref.Name, at.Child("name"))
	_, err := schema.ParseGroupVersion(ref.APIVersion)
	f.invalid(err != nil, at.Child("apiVersion"), ref.APIVersion, "unexpected GroupVersion string")
}

// metric checks the one source that a metric must have: that of its type.
func (f *faults) metric(m *autoscalingv2.MetricSpec, at *field.Path) {
	f.need(m.Type != "", at.Child("type"))
	known(f, m.Type, at.Child("type"), autoscalingv2.ContainerResourceMetricSourceType, autoscalingv2.ExternalMetricSourceType,
		autoscalingv2.ObjectMetricSourceType, autoscalingv2.PodsMetricSourceType, autoscalingv2.ResourceMetricSourceType)
	sources := []struct {
		kind  autoscalingv2.MetricSourceType
		name  string
		given bool
		check func(at *field.Path)
	}{
		{autoscalingv2.ObjectMetricSourceType, "object", m.Object != nil, func(at *field.Path) {
			f.scaled(m.Object.DescribedObject, at.Child("describedObject"))
			f.metricName(m.Object.Metric, at)
			f.metricTarget(m.Object.Target, at.Child("target"))
			f.need(m.Object.Target.Value != nil || m.Object.Target.AverageValue != nil, at.Child("target", "averageValue"))
		}},
		{autoscalingv2.ExternalMetricSourceType, "external", m.External != nil, func(at *field.Path) {
			target := m.External.Target
			f.metricName(m.External.Metric, at)
			f.metricTarget(target, at.Child("target"))
			f.need(target.Value != nil || target.AverageValue != nil, at.Child("target", "averageValue"))
			f.forbid(target.Value != nil && target.AverageValue != nil, at.Child("target", "value"), "may not set both a target value for metric and a per-pod target")
		}},
		{autoscalingv2.PodsMetricSourceType, "pods", m.Pods != nil, func(at *field.Path) {
			f.metricName(m.Pods.Metric, at)
			f.metricTarget(m.Pods.Target, at.Child("target"))
			f.need(m.Pods.Target.AverageValue != nil, at.Child("target", "averageValue"))
		}},
		{autoscalingv2.ResourceMetricSourceType, "resource", m.Resource != nil, func(at *field.Path) {
			f.text(string(m.Resource.Name), at.Child("name"))
			f.metricTarget(m.Resource.Target, at.Child("target"))
			f.utilization(m.Resource.Target, at.Child("target"))
		}},
		{autoscalingv2.ContainerResourceMetricSourceType, "containerResource", m.ContainerResource != nil, func(at *field.Path) {
			if f.text(string(m.ContainerResource.Name), at.Child("name")) {
				containerResource(f, corev1.ResourceName(m.ContainerResource.Name), at.Child("name"))
			}
			if f.text(m.ContainerResource.Container, at.Child("container")) {
				f.label(m.ContainerResource.Container, at.Child("container"))
			}
			f.metricTarget(m.ContainerResource.Target, at.Child("target"))
			f.utilization(m.ContainerResource.Target, at.Child("target"))
		}},
	}
	given := 0
	for _, s := range sources {
		if s.given {
			if given++; given == 1 {
				s.check(at.Child(s.name))
			}
		}
		f.need(s.given || s.kind != m.Type, at.Child(s.name))
	}
	for _, s := range sources {
		f.forbid(s.given && s.kind != m.Type && given != 1, at.Child(s.name), "must populate the given metric source only")
	}
}

func (f *faults) metricName(id autoscalingv2.MetricIdentifier, at *field.Path) {
	f.pathSegmentName(id.Name, at.Child("metric", "name"))
}

func (f *faults) metricTarget(t autoscalingv2.MetricTarget, at *field.Path) {
	f.need(t.Type != "", at.Child("type"))
	f.invalid(t.Type != autoscalingv2.UtilizationMetricType && t.Type != autoscalingv2.ValueMetricType && t.Type != autoscalingv2.AverageValueMetricType,
		at.Child("type"), t.Type, "must be either Utilization, Value, or AverageValue")
	f.invalid(t.Value != nil && t.Value.Sign() != 1, at.Child("value"), t.Value, "must be positive")
	f.invalid(t.AverageValue != nil && t.AverageValue.Sign() != 1, at.Child("averageValue"), t.AverageValue, "must be positive")
	f.invalid(t.AverageUtilization != nil && *t.AverageUtilization < 1, at.Child("averageUtilization"), t.AverageUtilization, "must be greater than 0")
}

func (f *faults) utilization(t autoscalingv2.MetricTarget, at *field.Path) {
	f.need(t.AverageUtilization != nil || t.AverageValue != nil, at.Child("averageUtilization"))
	f.forbid(t.AverageUtilization != nil && t.AverageValue != nil, at.Child("averageValue"), "may not set both a target raw value and a target utilization")
}

func (f *faults) scalingRules(r *autoscalingv2.HPAScalingRules, at *field.Path) {
	if r == nil {
		return
	}
	if window := r.StabilizationWindowSeconds; window != nil {
		f.within(int64(*window), 0, longestWindow, at.Child("stabilizationWindowSeconds"))
	}
	chosen(f, r.SelectPolicy, at.Child("selectPolicy"),
		autoscalingv2.DisabledPolicySelect, autoscalingv2.MaxChangePolicySelect, autoscalingv2.MinChangePolicySelect)
	f.need(len(r.Policies) > 0, at.Child("policies"))
	for i, policy := range r.Policies {
		here := at.Child("policies").Index(i)
		known(f, policy.Type, here.Child("type"), autoscalingv2.PercentScalingPolicy, autoscalingv2.PodsScalingPolicy)
		f.positive(int64(policy.Value), here.Child("value"))
		f.positive(int64(policy.PeriodSeconds), here.Child("periodSeconds"))
		f.invalid(policy.PeriodSeconds > longestPeriod, here.Child("periodSeconds"), policy.PeriodSeconds, "must be less than or equal to 1800")
	}
	if r.Tolerance != nil {
		f.add(notNegativeQuantity(*r.Tolerance, at.Child("tolerance")))
	}
}
