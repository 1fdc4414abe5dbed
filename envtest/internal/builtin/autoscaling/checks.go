// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package autoscaling

import (
	"slices"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/podspec"
)

// The bounds of the time that an autoscaler looks back, in seconds.
const (
	longestWindow = 3600
	longestPeriod = 1800
)

func validateHorizontalPodAutoscaler(hpa, old *autoscalingv2.HorizontalPodAutoscaler) field.ErrorList {
	var f kind.Findings
	spec, at := &hpa.Spec, kind.SpecPath()
	if spec.MinReplicas != nil {
		beyond := func(m autoscalingv2.MetricSpec) bool {
			return m.Type == autoscalingv2.ObjectMetricSourceType || m.Type == autoscalingv2.ExternalMetricSourceType
		}
		f.Forbid(*spec.MinReplicas == 0 && !slices.ContainsFunc(spec.Metrics, beyond), at.Child("metrics"),
			"must specify at least one Object or External metric to support scaling to zero replicas")
		f.Invalid(*spec.MinReplicas < 1, at.Child("minReplicas"), *spec.MinReplicas, "must be greater than or equal to 1")
		f.Invalid(spec.MaxReplicas < *spec.MinReplicas, at.Child("maxReplicas"), spec.MaxReplicas, "must be greater than or equal to `minReplicas`")
	}
	f.Need(spec.MaxReplicas != 0, at.Child("maxReplicas"))
	f.Invalid(spec.MaxReplicas < 0, at.Child("maxReplicas"), spec.MaxReplicas, "must be greater than or equal to 1")
	checkScaled(&f, spec.ScaleTargetRef, at.Child("scaleTargetRef"))
	if old == nil || old.Spec.ScaleTargetRef.APIVersion != spec.ScaleTargetRef.APIVersion {
		gv, err := schema.ParseGroupVersion(spec.ScaleTargetRef.APIVersion)
		f.Invalid(err == nil && gv.Group == "" && spec.ScaleTargetRef.Kind != "ReplicationController", at.Child("scaleTargetRef", "apiVersion"),
			spec.ScaleTargetRef.APIVersion, "apiVersion must specify API group")
	}
	for i := range spec.Metrics {
		checkMetric(&f, &spec.Metrics[i], at.Child("metrics").Index(i))
	}
	if b := spec.Behavior; b != nil {
		checkScalingRules(&f, b.ScaleUp, at.Child("behavior", "scaleUp"))
		checkScalingRules(&f, b.ScaleDown, at.Child("behavior", "scaleDown"))
	}
	return f.List
}

func validateHorizontalPodAutoscalerStatus(hpa, _ *autoscalingv2.HorizontalPodAutoscaler) field.ErrorList {
	var f kind.Findings
	f.NotNegative(int64(hpa.Status.CurrentReplicas), field.NewPath("status", "currentReplicas"))
	f.NotNegative(int64(hpa.Status.DesiredReplicas), field.NewPath("status", "desiredReplicas"))
	return f.List
}

// checkScaled checks a reference to an object. It need not be in a group.
func checkScaled(f *kind.Findings, ref autoscalingv2.CrossVersionObjectReference, at *field.Path) {
	f.PathSegmentName(ref.Kind, at.Child("kind"))
	f.PathSegmentName(ref.Name, at.Child("name"))
	_, err := schema.ParseGroupVersion(ref.APIVersion)
	f.Invalid(err != nil, at.Child("apiVersion"), ref.APIVersion, "unexpected GroupVersion string")
}

// checkMetric checks the one source that a metric must have: the source of its type.
func checkMetric(f *kind.Findings, m *autoscalingv2.MetricSpec, at *field.Path) {
	f.Need(m.Type != "", at.Child("type"))
	kind.Known(f, m.Type, at.Child("type"), autoscalingv2.ContainerResourceMetricSourceType, autoscalingv2.ExternalMetricSourceType,
		autoscalingv2.ObjectMetricSourceType, autoscalingv2.PodsMetricSourceType, autoscalingv2.ResourceMetricSourceType)
	sources := []struct {
		kind  autoscalingv2.MetricSourceType
		name  string
		given bool
		check func(at *field.Path)
	}{
		{autoscalingv2.ObjectMetricSourceType, "object", m.Object != nil, func(at *field.Path) {
			checkScaled(f, m.Object.DescribedObject, at.Child("describedObject"))
			checkMetricName(f, m.Object.Metric, at)
			checkMetricTarget(f, m.Object.Target, at.Child("target"))
			f.Need(m.Object.Target.Value != nil || m.Object.Target.AverageValue != nil, at.Child("target", "averageValue"))
		}},
		{autoscalingv2.ExternalMetricSourceType, "external", m.External != nil, func(at *field.Path) {
			target := m.External.Target
			checkMetricName(f, m.External.Metric, at)
			checkMetricTarget(f, target, at.Child("target"))
			f.Need(target.Value != nil || target.AverageValue != nil, at.Child("target", "averageValue"))
			f.Forbid(target.Value != nil && target.AverageValue != nil, at.Child("target", "value"), "may not set both a target value for metric and a per-pod target")
		}},
		{autoscalingv2.PodsMetricSourceType, "pods", m.Pods != nil, func(at *field.Path) {
			checkMetricName(f, m.Pods.Metric, at)
			checkMetricTarget(f, m.Pods.Target, at.Child("target"))
			f.Need(m.Pods.Target.AverageValue != nil, at.Child("target", "averageValue"))
		}},
		{autoscalingv2.ResourceMetricSourceType, "resource", m.Resource != nil, func(at *field.Path) {
			f.Text(string(m.Resource.Name), at.Child("name"))
			checkMetricTarget(f, m.Resource.Target, at.Child("target"))
			checkUtilization(f, m.Resource.Target, at.Child("target"))
		}},
		{autoscalingv2.ContainerResourceMetricSourceType, "containerResource", m.ContainerResource != nil, func(at *field.Path) {
			if f.Text(string(m.ContainerResource.Name), at.Child("name")) {
				podspec.ContainerResource(f, corev1.ResourceName(m.ContainerResource.Name), at.Child("name"))
			}
			if f.Text(m.ContainerResource.Container, at.Child("container")) {
				f.Label(m.ContainerResource.Container, at.Child("container"))
			}
			checkMetricTarget(f, m.ContainerResource.Target, at.Child("target"))
			checkUtilization(f, m.ContainerResource.Target, at.Child("target"))
		}},
	}
	given := 0
	for _, s := range sources {
		if s.given {
			if given++; given == 1 {
				s.check(at.Child(s.name))
			}
		}
		f.Need(s.given || s.kind != m.Type, at.Child(s.name))
	}
	for _, s := range sources {
		f.Forbid(s.given && s.kind != m.Type && given != 1, at.Child(s.name), "must populate the given metric source only")
	}
}

func checkMetricName(f *kind.Findings, id autoscalingv2.MetricIdentifier, at *field.Path) {
	f.PathSegmentName(id.Name, at.Child("metric", "name"))
}

func checkMetricTarget(f *kind.Findings, t autoscalingv2.MetricTarget, at *field.Path) {
	f.Need(t.Type != "", at.Child("type"))
	f.Invalid(t.Type != autoscalingv2.UtilizationMetricType && t.Type != autoscalingv2.ValueMetricType && t.Type != autoscalingv2.AverageValueMetricType,
		at.Child("type"), t.Type, "must be either Utilization, Value, or AverageValue")
	f.Invalid(t.Value != nil && t.Value.Sign() != 1, at.Child("value"), t.Value, "must be positive")
	f.Invalid(t.AverageValue != nil && t.AverageValue.Sign() != 1, at.Child("averageValue"), t.AverageValue, "must be positive")
	f.Invalid(t.AverageUtilization != nil && *t.AverageUtilization < 1, at.Child("averageUtilization"), t.AverageUtilization, "must be greater than 0")
}

func checkUtilization(f *kind.Findings, t autoscalingv2.MetricTarget, at *field.Path) {
	f.Need(t.AverageUtilization != nil || t.AverageValue != nil, at.Child("averageUtilization"))
	f.Forbid(t.AverageUtilization != nil && t.AverageValue != nil, at.Child("averageValue"), "may not set both a target raw value and a target utilization")
}

func checkScalingRules(f *kind.Findings, r *autoscalingv2.HPAScalingRules, at *field.Path) {
	if r == nil {
		return
	}
	if window := r.StabilizationWindowSeconds; window != nil {
		f.Within(int64(*window), 0, longestWindow, at.Child("stabilizationWindowSeconds"))
	}
	kind.Chosen(f, r.SelectPolicy, at.Child("selectPolicy"),
		autoscalingv2.DisabledPolicySelect, autoscalingv2.MaxChangePolicySelect, autoscalingv2.MinChangePolicySelect)
	f.Need(len(r.Policies) > 0, at.Child("policies"))
	for i, policy := range r.Policies {
		here := at.Child("policies").Index(i)
		kind.Known(f, policy.Type, here.Child("type"), autoscalingv2.PercentScalingPolicy, autoscalingv2.PodsScalingPolicy)
		f.Positive(int64(policy.Value), here.Child("value"))
		f.Positive(int64(policy.PeriodSeconds), here.Child("periodSeconds"))
		f.Invalid(policy.PeriodSeconds > longestPeriod, here.Child("periodSeconds"), policy.PeriodSeconds, "must be less than or equal to 1800")
	}
	if r.Tolerance != nil {
		f.Add(kind.NotNegativeQuantity(*r.Tolerance, at.Child("tolerance")))
	}
}
