// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package batch

import (
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/podspec"
)

func BatchKinds() []*kind.Kind {
	return []*kind.Kind{
		{
			GVK: batchv1.SchemeGroupVersion.WithKind("Job"), Resource: "jobs", Categories: kind.InAll,
			Rules: kind.Rules{Status: true, Generation: true, Orphans: true},
			Hooks: kind.Hooks{Defaults: kind.Typed(defaultJob), Prepare: kind.TypedPrepare(prepareJob), Validate: kind.TypedCheck(validateJob), ValidateStatus: kind.TypedCheck(validateJobStatus)},
			Warn:  kind.WarnHooks{Object: kind.TypedWarn(warnJob), Delete: warnJobDelete},
			Fields: kind.Selectable(func(job *batchv1.Job, set fields.Set) {
				set["status.successful"] = strconv.Itoa(int(job.Status.Succeeded))
			}, "status.successful"),
			Table: kind.Show("Status,Completions,Duration,Age,+Containers,+Images,+Selector", jobCells),
		},
		{
			GVK: batchv1.SchemeGroupVersion.WithKind("CronJob"), Resource: "cronjobs", Short: []string{"cj"}, Categories: kind.InAll,
			Rules: kind.Rules{Status: true, Generation: true},
			Hooks: kind.Hooks{Defaults: kind.Typed(defaultCronJob), Prepare: podspec.PrepareTemplate(func(cron *batchv1.CronJob) *corev1.PodTemplateSpec { return &cron.Spec.JobTemplate.Spec.Template }), Validate: kind.TypedCheck(validateCronJob)},
			Warn:  kind.WarnHooks{Object: kind.TypedWarn(warnCronJob)},
			Table: kind.Show("Schedule,Timezone,Suspend?,Active#,Last Schedule,Age,+Containers,+Images,+Selector", cronJobCells),
		},
	}
}
