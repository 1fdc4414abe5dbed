// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package batch

import (
	"math"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/podspec"
)

func defaultJob(job *batchv1.Job) {
	defaultJobTemplate(&job.Spec)
	if job.Spec.Completions == nil && job.Spec.Parallelism == nil {
		kind.Missing(&job.Spec.Completions, 1)
	}
	kind.Missing(&job.Spec.Parallelism, 1)
	if job.Spec.BackoffLimitPerIndex != nil {
		kind.Missing(&job.Spec.BackoffLimit, math.MaxInt32)
	}
	kind.Missing(&job.Spec.BackoffLimit, 6)
	kind.Missing(&job.Spec.CompletionMode, batchv1.NonIndexedCompletion)
	kind.Missing(&job.Spec.Suspend, false)
	kind.Missing(&job.Spec.ManualSelector, false)
	if job.Spec.PodFailurePolicy != nil {
		kind.Missing(&job.Spec.PodReplacementPolicy, batchv1.Failed)
	}
	kind.Missing(&job.Spec.PodReplacementPolicy, batchv1.TerminatingOrFailed)
	if labels := job.Spec.Template.Labels; labels != nil && len(job.Labels) == 0 {
		job.Labels = labels
	}
}

// defaultJobTemplate fills what a Job and a CronJob's template have in common.
func defaultJobTemplate(spec *batchv1.JobSpec) {
	podspec.DefaultTemplate(&spec.Template)
	if spec.PodFailurePolicy == nil {
		return
	}
	kind.Each(spec.PodFailurePolicy.Rules, func(rule *batchv1.PodFailurePolicyRule) {
		kind.Each(rule.OnPodConditions, func(p *batchv1.PodFailurePolicyOnPodConditionsPattern) {
			kind.Unset(&p.Status, corev1.ConditionTrue)
		})
	})
}

func defaultCronJob(cj *batchv1.CronJob) {
	defaultJobTemplate(&cj.Spec.JobTemplate.Spec)
	kind.Unset(&cj.Spec.ConcurrencyPolicy, batchv1.AllowConcurrent)
	kind.Missing(&cj.Spec.Suspend, false)
	kind.Missing(&cj.Spec.SuccessfulJobsHistoryLimit, 3)
	kind.Missing(&cj.Spec.FailedJobsHistoryLimit, 1)
}
