// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package autoscaling

import (
	"encoding/json"
	"maps"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

// HorizontalPodAutoscalers are one store with two faces: autoscaling/v2, in which they are stored and admitted, and
// autoscaling/v1, which has a field for the wanted utilization of the CPU alone. The other fields are in annotations of the v1
// form, and only there, so that a client of v1 loses nothing.
const (
	metricsAnnotation       = "autoscaling.alpha.kubernetes.io/metrics"
	currentAnnotation       = "autoscaling.alpha.kubernetes.io/current-metrics"
	conditionsAnnotation    = "autoscaling.alpha.kubernetes.io/conditions"
	behaviorAnnotation      = "autoscaling.alpha.kubernetes.io/behavior"
	toleranceDownAnnotation = "autoscaling.alpha.kubernetes.io/scale-down-tolerance"
	toleranceUpAnnotation   = "autoscaling.alpha.kubernetes.io/scale-up-tolerance"
)

// defaultUtilization is the wanted utilization of the CPU in percent, if an autoscaler names no metric.
const defaultUtilization int32 = 80

// AddAutoscalerConversions registers the conversions between the two forms.
func AddAutoscalerConversions(scheme *runtime.Scheme) error {
	convert := []struct {
		from, to any
		do       conversion.ConversionFunc
	}{
		{(*autoscalingv2.HorizontalPodAutoscaler)(nil), (*autoscalingv1.HorizontalPodAutoscaler)(nil), func(from, to any, _ conversion.Scope) error {
			return toAutoscalerV1(from.(*autoscalingv2.HorizontalPodAutoscaler), to.(*autoscalingv1.HorizontalPodAutoscaler))
		}},
		{(*autoscalingv1.HorizontalPodAutoscaler)(nil), (*autoscalingv2.HorizontalPodAutoscaler)(nil), func(from, to any, _ conversion.Scope) error {
			fromAutoscalerV1(from.(*autoscalingv1.HorizontalPodAutoscaler), to.(*autoscalingv2.HorizontalPodAutoscaler))
			return nil
		}},
		{(*autoscalingv2.HorizontalPodAutoscalerList)(nil), (*autoscalingv1.HorizontalPodAutoscalerList)(nil), func(from, to any, _ conversion.Scope) error {
			in, out := from.(*autoscalingv2.HorizontalPodAutoscalerList), to.(*autoscalingv1.HorizontalPodAutoscalerList)
			out.ListMeta, out.Items = in.ListMeta, make([]autoscalingv1.HorizontalPodAutoscaler, len(in.Items))
			for i := range in.Items {
				if err := toAutoscalerV1(&in.Items[i], &out.Items[i]); err != nil {
					return err
				}
			}
			return nil
		}},
		{(*autoscalingv1.HorizontalPodAutoscalerList)(nil), (*autoscalingv2.HorizontalPodAutoscalerList)(nil), func(from, to any, _ conversion.Scope) error {
			in, out := from.(*autoscalingv1.HorizontalPodAutoscalerList), to.(*autoscalingv2.HorizontalPodAutoscalerList)
			out.ListMeta, out.Items = in.ListMeta, make([]autoscalingv2.HorizontalPodAutoscaler, len(in.Items))
			for i := range in.Items {
				fromAutoscalerV1(&in.Items[i], &out.Items[i])
			}
			return nil
		}},
	}
	for _, c := range convert {
		if err := scheme.AddConversionFunc(c.from, c.to, c.do); err != nil {
			return err
		}
	}
	return nil
}

// toAutoscalerV1 converts to v1. Both share memory afterwards, but not the annotations.
func toAutoscalerV1(in *autoscalingv2.HorizontalPodAutoscaler, out *autoscalingv1.HorizontalPodAutoscaler) error {
	*out = autoscalingv1.HorizontalPodAutoscaler{
		ObjectMeta: in.ObjectMeta,
		Spec: autoscalingv1.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv1.CrossVersionObjectReference(in.Spec.ScaleTargetRef),
			MinReplicas:    in.Spec.MinReplicas,
			MaxReplicas:    in.Spec.MaxReplicas,
		},
		Status: autoscalingv1.HorizontalPodAutoscalerStatus{
			ObservedGeneration: in.Status.ObservedGeneration,
			LastScaleTime:      in.Status.LastScaleTime,
			CurrentReplicas:    in.Status.CurrentReplicas,
			DesiredReplicas:    in.Status.DesiredReplicas,
		},
	}
	var others []autoscalingv1.MetricSpec
	for i := range in.Spec.Metrics {
		metric := &in.Spec.Metrics[i]
		if utilization := cpuUtilization(metric); utilization != nil {
			kind.Missing(&out.Spec.TargetCPUUtilizationPercentage, *utilization)
			continue
		}
		others = append(others, metricToV1(metric))
	}
	var current []autoscalingv1.MetricStatus
	for i := range in.Status.CurrentMetrics {
		status := &in.Status.CurrentMetrics[i]
		current = append(current, metricStatusToV1(status))
		if status.Type == autoscalingv2.ResourceMetricSourceType && status.Resource != nil && status.Resource.Name == corev1.ResourceCPU {
			out.Status.CurrentCPUUtilizationPercentage = status.Resource.Current.AverageUtilization
		}
	}
	conditions := make([]autoscalingv1.HorizontalPodAutoscalerCondition, len(in.Status.Conditions))
	for i, c := range in.Status.Conditions {
		conditions[i] = autoscalingv1.HorizontalPodAutoscalerCondition{
			Type: autoscalingv1.HorizontalPodAutoscalerConditionType(c.Type), Status: c.Status,
			LastTransitionTime: c.LastTransitionTime, Reason: c.Reason, Message: c.Message,
		}
	}
	out.Annotations = withoutForms(in.Annotations)
	return annotate(&out.Annotations, map[string]any{
		metricsAnnotation:    emptyIsNil(others),
		currentAnnotation:    emptyIsNil(current),
		conditionsAnnotation: emptyIsNil(conditions),
		behaviorAnnotation:   nilIsNil(behaviorForm(in.Spec.Behavior)),
	})
}

// fromAutoscalerV1 converts to v2. An annotation that cannot be read is as none.
func fromAutoscalerV1(in *autoscalingv1.HorizontalPodAutoscaler, out *autoscalingv2.HorizontalPodAutoscaler) {
	*out = autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: in.ObjectMeta,
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference(in.Spec.ScaleTargetRef),
			MinReplicas:    in.Spec.MinReplicas,
			MaxReplicas:    in.Spec.MaxReplicas,
		},
		Status: autoscalingv2.HorizontalPodAutoscalerStatus{
			ObservedGeneration: in.Status.ObservedGeneration,
			LastScaleTime:      in.Status.LastScaleTime,
			CurrentReplicas:    in.Status.CurrentReplicas,
			DesiredReplicas:    in.Status.DesiredReplicas,
		},
	}
	if utilization := in.Status.CurrentCPUUtilizationPercentage; utilization != nil {
		out.Status.CurrentMetrics = []autoscalingv2.MetricStatus{{
			Type: autoscalingv2.ResourceMetricSourceType,
			Resource: &autoscalingv2.ResourceMetricStatus{
				Name: corev1.ResourceCPU, Current: autoscalingv2.MetricValueStatus{AverageUtilization: utilization},
			},
		}}
	}
	var metrics []autoscalingv1.MetricSpec
	if annotated(in.Annotations, metricsAnnotation, &metrics) {
		for i := range metrics {
			out.Spec.Metrics = append(out.Spec.Metrics, metricFromV1(&metrics[i]))
		}
	}
	if utilization := in.Spec.TargetCPUUtilizationPercentage; utilization != nil {
		out.Spec.Metrics = append(out.Spec.Metrics, cpuMetric(*utilization))
	}
	if len(out.Spec.Metrics) == 0 {
		out.Spec.Metrics = []autoscalingv2.MetricSpec{cpuMetric(defaultUtilization)}
	}
	var behavior behaviorV1
	if annotated(in.Annotations, behaviorAnnotation, &behavior) && behavior != (behaviorV1{}) {
		out.Spec.Behavior = behavior.to()
	}
	var statuses []autoscalingv1.MetricStatus
	if annotated(in.Annotations, currentAnnotation, &statuses) {
		out.Status.CurrentMetrics = nil
		for i := range statuses {
			out.Status.CurrentMetrics = append(out.Status.CurrentMetrics, metricStatusFromV1(&statuses[i]))
		}
	}
	var conditions []autoscalingv1.HorizontalPodAutoscalerCondition
	if annotated(in.Annotations, conditionsAnnotation, &conditions) {
		for _, c := range conditions {
			out.Status.Conditions = append(out.Status.Conditions, autoscalingv2.HorizontalPodAutoscalerCondition{
				Type: autoscalingv2.HorizontalPodAutoscalerConditionType(c.Type), Status: c.Status,
				LastTransitionTime: c.LastTransitionTime, Reason: c.Reason, Message: c.Message,
			})
		}
	}
	out.Annotations = withoutForms(in.Annotations)
}

// cpuUtilization is the wanted utilization of the CPU, if the metric is that. v1 has a field for it.
func cpuUtilization(metric *autoscalingv2.MetricSpec) *int32 {
	if metric.Type != autoscalingv2.ResourceMetricSourceType || metric.Resource == nil || metric.Resource.Name != corev1.ResourceCPU {
		return nil
	}
	return metric.Resource.Target.AverageUtilization
}

func cpuMetric(utilization int32) autoscalingv2.MetricSpec {
	return autoscalingv2.MetricSpec{
		Type: autoscalingv2.ResourceMetricSourceType,
		Resource: &autoscalingv2.ResourceMetricSource{
			Name:   corev1.ResourceCPU,
			Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &utilization},
		},
	}
}

// withoutForms copies annotations, without the ones for fields of v2.
func withoutForms(all map[string]string) map[string]string {
	rest := maps.Clone(all)
	for _, name := range []string{
		metricsAnnotation, currentAnnotation, conditionsAnnotation, behaviorAnnotation, toleranceDownAnnotation, toleranceUpAnnotation,
	} {
		delete(rest, name)
	}
	return rest
}

// annotate writes each value that is not nil as JSON.
func annotate(annotations *map[string]string, values map[string]any) error {
	for name, value := range values {
		if value == nil {
			continue
		}
		data, err := json.Marshal(value)
		if err != nil {
			return err
		}
		if *annotations == nil {
			*annotations = map[string]string{}
		}
		(*annotations)[name] = string(data)
	}
	return nil
}

// annotated reads a value that annotate wrote.
func annotated(annotations map[string]string, name string, into any) bool {
	data, ok := annotations[name]
	return ok && json.Unmarshal([]byte(data), into) == nil
}

func emptyIsNil[T any](items []T) any {
	if len(items) == 0 {
		return nil
	}
	return items
}

func nilIsNil[T any](value *T) any {
	if value == nil {
		return nil
	}
	return value
}

// quantityOr returns a quantity, or zero.
func quantityOr(q *resource.Quantity) resource.Quantity {
	if q == nil {
		return resource.Quantity{}
	}
	return *q
}
