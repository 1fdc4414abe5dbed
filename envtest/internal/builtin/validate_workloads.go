// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

import (
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func validateDeployment(d, old *appsv1.Deployment) field.ErrorList {
	path := specPath()
	errs := notNegative(d.Spec.Replicas, path.Child("replicas"))
	errs = append(errs, notNegative(d.Spec.RevisionHistoryLimit, path.Child("revisionHistoryLimit"))...)
	errs = append(errs, notNegative(&d.Spec.MinReadySeconds, path.Child("minReadySeconds"))...)
	errs = append(errs, templateSelector(d.Spec.Selector, d.Spec.Template.Labels, path)...)
	errs = append(errs, validateTemplate(&d.Spec.Template, path.Child("template"), corev1.RestartPolicyAlways)...)
	errs = append(errs, oneOf(d.Spec.Strategy.Type, path.Child("strategy", "type"),
		appsv1.RecreateDeploymentStrategyType, appsv1.RollingUpdateDeploymentStrategyType)...)
	rolling := d.Spec.Strategy.RollingUpdate
	if rolling != nil && d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		errs = append(errs, field.Forbidden(path.Child("strategy", "rollingUpdate"), "may not be specified when strategy `type` is 'Recreate'"))
	} else if rolling != nil {
		errs = append(errs, countOrPercent(rolling.MaxUnavailable, path.Child("strategy", "rollingUpdate", "maxUnavailable"))...)
		errs = append(errs, countOrPercent(rolling.MaxSurge, path.Child("strategy", "rollingUpdate", "maxSurge"))...)
	}
	if old != nil {
		errs = append(errs, frozen(d.Spec.Selector, old.Spec.Selector, path.Child("selector"))...)
	}
	return errs
}

func validateReplicaSet(rs, old *appsv1.ReplicaSet) field.ErrorList {
	path := specPath()
	errs := notNegative(rs.Spec.Replicas, path.Child("replicas"))
	errs = append(errs, notNegative(&rs.Spec.MinReadySeconds, path.Child("minReadySeconds"))...)
	errs = append(errs, templateSelector(rs.Spec.Selector, rs.Spec.Template.Labels, path)...)
	errs = append(errs, validateTemplate(&rs.Spec.Template, path.Child("template"), corev1.RestartPolicyAlways)...)
	if old != nil {
		errs = append(errs, frozen(rs.Spec.Selector, old.Spec.Selector, path.Child("selector"))...)
	}
	return errs
}

func validateDaemonSet(ds, old *appsv1.DaemonSet) field.ErrorList {
	path := specPath()
	errs := templateSelector(ds.Spec.Selector, ds.Spec.Template.Labels, path)
	errs = append(errs, validateTemplate(&ds.Spec.Template, path.Child("template"), corev1.RestartPolicyAlways)...)
	errs = append(errs, oneOf(ds.Spec.UpdateStrategy.Type, path.Child("updateStrategy", "type"),
		appsv1.OnDeleteDaemonSetStrategyType, appsv1.RollingUpdateDaemonSetStrategyType)...)
	if old != nil {
		errs = append(errs, frozen(ds.Spec.Selector, old.Spec.Selector, path.Child("selector"))...)
	}
	return errs
}

func validateControllerRevision(revision, old *appsv1.ControllerRevision) field.ErrorList {
	var errs field.ErrorList
	if revision.Data.Raw == nil && revision.Data.Object == nil {
		errs = append(errs, field.Required(field.NewPath("data"), "data is mandatory"))
	}
	if revision.Revision < 0 {
		errs = append(errs, field.Invalid(field.NewPath("revision"), revision.Revision, "must be greater than or equal to 0"))
	}
	if old != nil {
		errs = append(errs, frozen(revision.Data, old.Data, field.NewPath("data"))...)
	}
	return errs
}

// validateJob checks a Job and keeps its selector, template and completions.
func validateJob(job, old *batchv1.Job) field.ErrorList {
	path := specPath()
	errs := validateJobSpec(&job.Spec, path)
	errs = append(errs, templateSelector(job.Spec.Selector, job.Spec.Template.Labels, path)...)
	if old == nil {
		return errs
	}
	errs = append(errs, frozen(job.Spec.Selector, old.Spec.Selector, path.Child("selector"))...)
	errs = append(errs, frozen(job.Spec.CompletionMode, old.Spec.CompletionMode, path.Child("completionMode"))...)
	errs = append(errs, frozen(job.Spec.ManagedBy, old.Spec.ManagedBy, path.Child("managedBy"))...)
	indexed := job.Spec.CompletionMode != nil && *job.Spec.CompletionMode == batchv1.IndexedCompletion
	if !indexed {
		errs = append(errs, frozen(job.Spec.Completions, old.Spec.Completions, path.Child("completions"))...)
	}
	neverStarted := isTrue(old.Spec.Suspend) && old.Status.StartTime == nil
	if !neverStarted {
		errs = append(errs, frozen(job.Spec.Template, old.Spec.Template, path.Child("template"))...)
	}
	return errs
}

// validateJobSpec checks a Job's spec, or that of a CronJob's template, which has no selector.
func validateJobSpec(spec *batchv1.JobSpec, path *field.Path) field.ErrorList {
	errs := notNegative(spec.Parallelism, path.Child("parallelism"))
	errs = append(errs, notNegative(spec.Completions, path.Child("completions"))...)
	errs = append(errs, notNegative(spec.BackoffLimit, path.Child("backoffLimit"))...)
	errs = append(errs, notNegative(spec.TTLSecondsAfterFinished, path.Child("ttlSecondsAfterFinished"))...)
	if spec.ActiveDeadlineSeconds != nil && *spec.ActiveDeadlineSeconds < 0 {
		errs = append(errs, field.Invalid(path.Child("activeDeadlineSeconds"), *spec.ActiveDeadlineSeconds, "must be greater than or equal to 0"))
	}
	if spec.CompletionMode != nil {
		errs = append(errs, oneOf(*spec.CompletionMode, path.Child("completionMode"), batchv1.NonIndexedCompletion, batchv1.IndexedCompletion)...)
		if *spec.CompletionMode == batchv1.IndexedCompletion && spec.Completions == nil {
			errs = append(errs, field.Required(path.Child("completions"), "when completion mode is Indexed"))
		}
	}
	if policy := spec.Template.Spec.RestartPolicy; policy == corev1.RestartPolicyAlways {
		errs = append(errs, field.Required(path.Child("template", "spec", "restartPolicy"), `valid values: "OnFailure", "Never"`))
	}
	return append(errs, validateTemplate(&spec.Template, path.Child("template"))...)
}

// cronJobNameLimit leaves room for the 11 characters that make the name of a CronJob's Job.
const cronJobNameLimit = validation.DNS1035LabelMaxLength - 11

func validateCronJob(cj, old *batchv1.CronJob) field.ErrorList {
	path := specPath()
	var errs field.ErrorList
	if old == nil && len(cj.Name) > cronJobNameLimit {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), cj.Name, fmt.Sprintf("must be no more than %d characters", cronJobNameLimit)))
	}
	if cj.Spec.Schedule == "" {
		errs = append(errs, field.Required(path.Child("schedule"), ""))
	} else if fields := len(strings.Fields(cj.Spec.Schedule)); !strings.HasPrefix(cj.Spec.Schedule, "@") && fields != 5 {
		errs = append(errs, field.Invalid(path.Child("schedule"), cj.Spec.Schedule, fmt.Sprintf("expected exactly 5 fields, found %d: %v", fields, strings.Fields(cj.Spec.Schedule))))
	}
	if cj.Spec.TimeZone != nil {
		if _, err := time.LoadLocation(*cj.Spec.TimeZone); err != nil || *cj.Spec.TimeZone == "" {
			errs = append(errs, field.Invalid(path.Child("timeZone"), *cj.Spec.TimeZone, "unknown time zone"))
		}
	}
	errs = append(errs, oneOf(cj.Spec.ConcurrencyPolicy, path.Child("concurrencyPolicy"),
		batchv1.AllowConcurrent, batchv1.ForbidConcurrent, batchv1.ReplaceConcurrent)...)
	errs = append(errs, notNegative(cj.Spec.SuccessfulJobsHistoryLimit, path.Child("successfulJobsHistoryLimit"))...)
	errs = append(errs, notNegative(cj.Spec.FailedJobsHistoryLimit, path.Child("failedJobsHistoryLimit"))...)
	return append(errs, validateJobSpec(&cj.Spec.JobTemplate.Spec, path.Child("jobTemplate", "spec"))...)
}

func validateHorizontalPodAutoscaler(hpa, _ *autoscalingv2.HorizontalPodAutoscaler) field.ErrorList {
	path := specPath()
	errs := required(hpa.Spec.ScaleTargetRef.Kind, path.Child("scaleTargetRef", "kind"))
	errs = append(errs, required(hpa.Spec.ScaleTargetRef.Name, path.Child("scaleTargetRef", "name"))...)
	if hpa.Spec.MinReplicas != nil && *hpa.Spec.MinReplicas < 1 {
		errs = append(errs, field.Invalid(path.Child("minReplicas"), *hpa.Spec.MinReplicas, "must be greater than or equal to 1"))
	}
	if hpa.Spec.MaxReplicas < 1 {
		errs = append(errs, field.Invalid(path.Child("maxReplicas"), hpa.Spec.MaxReplicas, "must be greater than 0"))
	}
	if hpa.Spec.MinReplicas != nil && hpa.Spec.MaxReplicas < *hpa.Spec.MinReplicas {
		errs = append(errs, field.Invalid(path.Child("maxReplicas"), hpa.Spec.MaxReplicas, "must be greater than or equal to `minReplicas`"))
	}
	return errs
}
