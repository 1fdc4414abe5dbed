// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

import (
	"math"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func defaultDeployment(d *appsv1.Deployment) {
	defaultTemplate(&d.Spec.Template)
	missing(&d.Spec.Replicas, 1)
	missing(&d.Spec.RevisionHistoryLimit, 10)
	missing(&d.Spec.ProgressDeadlineSeconds, 600)
	unset(&d.Spec.Strategy.Type, appsv1.RollingUpdateDeploymentStrategyType)
	if d.Spec.Strategy.Type == appsv1.RollingUpdateDeploymentStrategyType {
		missing(&d.Spec.Strategy.RollingUpdate, appsv1.RollingUpdateDeployment{})
		missing(&d.Spec.Strategy.RollingUpdate.MaxUnavailable, intstr.FromString("25%"))
		missing(&d.Spec.Strategy.RollingUpdate.MaxSurge, intstr.FromString("25%"))
	}
}

func defaultReplicaSet(rs *appsv1.ReplicaSet) {
	defaultTemplate(&rs.Spec.Template)
	missing(&rs.Spec.Replicas, 1)
}

func defaultStatefulSet(s *appsv1.StatefulSet) {
	defaultTemplate(&s.Spec.Template)
	missing(&s.Spec.Replicas, 1)
	missing(&s.Spec.RevisionHistoryLimit, 10)
	unset(&s.Spec.PodManagementPolicy, appsv1.OrderedReadyPodManagement)
	if s.Spec.UpdateStrategy.Type == "" {
		s.Spec.UpdateStrategy.Type = appsv1.RollingUpdateStatefulSetStrategyType
		missing(&s.Spec.UpdateStrategy.RollingUpdate, appsv1.RollingUpdateStatefulSetStrategy{})
	}
	if rolling := s.Spec.UpdateStrategy.RollingUpdate; rolling != nil && s.Spec.UpdateStrategy.Type == appsv1.RollingUpdateStatefulSetStrategyType {
		missing(&rolling.Partition, 0)
	}
	missing(&s.Spec.PersistentVolumeClaimRetentionPolicy, appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{})
	unset(&s.Spec.PersistentVolumeClaimRetentionPolicy.WhenDeleted, appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
	unset(&s.Spec.PersistentVolumeClaimRetentionPolicy.WhenScaled, appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
	each(s.Spec.VolumeClaimTemplates, func(pvc *corev1.PersistentVolumeClaim) {
		pvc.Kind, pvc.APIVersion = "PersistentVolumeClaim", "v1"
		defaultPersistentVolumeClaim(pvc)
	})
}

func defaultDaemonSet(ds *appsv1.DaemonSet) {
	defaultTemplate(&ds.Spec.Template)
	if _, ok := ds.Annotations[appsv1.DeprecatedTemplateGeneration]; !ok { // the writer owns the annotation in any case
		ds.Annotations = merged(ds.Annotations, map[string]string{appsv1.DeprecatedTemplateGeneration: "0"})
	}
	missing(&ds.Spec.RevisionHistoryLimit, 10)
	unset(&ds.Spec.UpdateStrategy.Type, appsv1.RollingUpdateDaemonSetStrategyType)
	if ds.Spec.UpdateStrategy.Type == appsv1.RollingUpdateDaemonSetStrategyType {
		missing(&ds.Spec.UpdateStrategy.RollingUpdate, appsv1.RollingUpdateDaemonSet{})
		missing(&ds.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable, intstr.FromInt32(1))
		missing(&ds.Spec.UpdateStrategy.RollingUpdate.MaxSurge, intstr.FromInt32(0))
	}
	if rolling := ds.Spec.UpdateStrategy.RollingUpdate; rolling != nil { // of another strategy
		missing(&rolling.MaxUnavailable, intstr.FromInt32(0))
		missing(&rolling.MaxSurge, intstr.FromInt32(0))
	}
}

func defaultJob(job *batchv1.Job) {
	defaultJobTemplate(&job.Spec)
	if job.Spec.Completions == nil && job.Spec.Parallelism == nil {
		missing(&job.Spec.Completions, 1)
	}
	missing(&job.Spec.Parallelism, 1)
	if job.Spec.BackoffLimitPerIndex != nil {
		missing(&job.Spec.BackoffLimit, math.MaxInt32)
	}
	missing(&job.Spec.BackoffLimit, 6)
	missing(&job.Spec.CompletionMode, batchv1.NonIndexedCompletion)
	missing(&job.Spec.Suspend, false)
	missing(&job.Spec.ManualSelector, false)
	if job.Spec.PodFailurePolicy != nil {
		missing(&job.Spec.PodReplacementPolicy, batchv1.Failed)
	}
	missing(&job.Spec.PodReplacementPolicy, batchv1.TerminatingOrFailed)
	if labels := job.Spec.Template.Labels; labels != nil && len(job.Labels) == 0 {
		job.Labels = labels
	}
}

// defaultJobTemplate fills what a Job and a CronJob's template have in common.
func defaultJobTemplate(spec *batchv1.JobSpec) {
	defaultTemplate(&spec.Template)
	if spec.PodFailurePolicy == nil {
		return
	}
	each(spec.PodFailurePolicy.Rules, func(rule *batchv1.PodFailurePolicyRule) {
		each(rule.OnPodConditions, func(p *batchv1.PodFailurePolicyOnPodConditionsPattern) {
			unset(&p.Status, corev1.ConditionTrue)
		})
	})
}

func defaultCronJob(cj *batchv1.CronJob) {
	defaultJobTemplate(&cj.Spec.JobTemplate.Spec)
	unset(&cj.Spec.ConcurrencyPolicy, batchv1.AllowConcurrent)
	missing(&cj.Spec.Suspend, false)
	missing(&cj.Spec.SuccessfulJobsHistoryLimit, 3)
	missing(&cj.Spec.FailedJobsHistoryLimit, 1)
}

func defaultHorizontalPodAutoscaler(hpa *autoscalingv2.HorizontalPodAutoscaler) {
	hpa.Annotations = withoutForms(hpa.Annotations)
	missing(&hpa.Spec.MinReplicas, 1)
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
	missing(&hpa.Spec.Behavior.ScaleUp, autoscalingv2.HPAScalingRules{})
	missing(&hpa.Spec.Behavior.ScaleUp.StabilizationWindowSeconds, 0)
	defaultScalingRules(hpa.Spec.Behavior.ScaleUp, pods, percent)
	missing(&hpa.Spec.Behavior.ScaleDown, autoscalingv2.HPAScalingRules{})
	defaultScalingRules(hpa.Spec.Behavior.ScaleDown, percent)
}

func defaultScalingRules(rules *autoscalingv2.HPAScalingRules, policies ...autoscalingv2.HPAScalingPolicy) {
	missing(&rules.SelectPolicy, autoscalingv2.MaxChangePolicySelect)
	if rules.Policies == nil {
		rules.Policies = policies
	}
}
