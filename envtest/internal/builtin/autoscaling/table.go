// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package autoscaling

import (
	"fmt"
	"strconv"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

// hpaTargets shows the metrics of an autoscaler: the measured and the wanted value of each.
func hpaTargets(hpa *autoscalingv2.HorizontalPodAutoscaler) string {
	var targets []string
	for i := range hpa.Spec.Metrics {
		var status autoscalingv2.MetricStatus
		if i < len(hpa.Status.CurrentMetrics) {
			status = hpa.Status.CurrentMetrics[i]
		}
		targets = append(targets, hpaTarget(&hpa.Spec.Metrics[i], &status))
	}
	if len(targets) > 2 {
		return strings.Join(targets[:2], ", ") + fmt.Sprintf(" + %d more...", len(targets)-2)
	}
	return kind.OrNone(strings.Join(targets, ", "))
}

// hpaTarget shows one metric. A status of another type shows nothing.
func hpaTarget(metric *autoscalingv2.MetricSpec, status *autoscalingv2.MetricStatus) string {
	var measured *autoscalingv2.MetricValueStatus
	switch {
	case metric.Pods != nil:
		if status.Pods != nil {
			measured = &status.Pods.Current
		}
		return measuredAverage(measured) + "/" + metric.Pods.Target.AverageValue.String()
	case metric.Object != nil:
		if status.Object != nil {
			measured = &status.Object.Current
		}
		return wholeTarget(&metric.Object.Target, measured)
	case metric.External != nil:
		if status.External != nil {
			measured = &status.External.Current
		}
		return wholeTarget(&metric.External.Target, measured)
	case metric.ContainerResource != nil:
		if status.ContainerResource != nil {
			measured = &status.ContainerResource.Current
		}
		return string(metric.ContainerResource.Name) + ": " + resourceTarget(&metric.ContainerResource.Target, measured)
	case metric.Resource != nil:
		if status.Resource != nil {
			measured = &status.Resource.Current
		}
		return string(metric.Resource.Name) + ": " + resourceTarget(&metric.Resource.Target, measured)
	}
	return "<unknown type>"
}

const notMeasured = "<unknown>"

// measuredAverage shows an average, and <nil> for one that a status leaves out.
func measuredAverage(measured *autoscalingv2.MetricValueStatus) string {
	if measured == nil {
		return notMeasured
	}
	return measured.AverageValue.String()
}

// wholeTarget shows a metric of something as a whole: its value, or that for each Pod on average.
func wholeTarget(target *autoscalingv2.MetricTarget, measured *autoscalingv2.MetricValueStatus) string {
	current := notMeasured
	if target.AverageValue == nil {
		if measured != nil {
			current = measured.Value.String()
		}
		return current + "/" + target.Value.String()
	}
	if measured != nil && measured.AverageValue != nil {
		current = measured.AverageValue.String()
	}
	return current + "/" + target.AverageValue.String() + " (avg)"
}

// resourceTarget shows what Pods or containers use of a resource: on average, or in percent of what they ask for.
func resourceTarget(target *autoscalingv2.MetricTarget, measured *autoscalingv2.MetricValueStatus) string {
	if target.AverageValue != nil {
		return measuredAverage(measured) + "/" + target.AverageValue.String()
	}
	current, wanted := notMeasured, "<auto>"
	if measured != nil && measured.AverageUtilization != nil {
		current = fmt.Sprintf("%d%%", *measured.AverageUtilization)
	}
	if target.AverageUtilization != nil {
		wanted = fmt.Sprintf("%d%%", *target.AverageUtilization)
	}
	return current + "/" + wanted
}

func horizontalPodAutoscalerCells(hpa *autoscalingv2.HorizontalPodAutoscaler) []any {
	return []any{
		hpa.Spec.ScaleTargetRef.Kind + "/" + hpa.Spec.ScaleTargetRef.Name, hpaTargets(hpa),
		strconv.Itoa(int(*hpa.Spec.MinReplicas)), int64(hpa.Spec.MaxReplicas), int64(hpa.Status.CurrentReplicas), kind.AgeOf(hpa),
	}
}
