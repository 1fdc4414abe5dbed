// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package batch

import (
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/podspec"
)

func warnJob(w *kind.Warnings, o, _ *batchv1.Job) {
	w.Label(o.Name, kind.InPodNames)
	warnJobSpec(w, &o.Spec, kind.SpecPath())
}

func warnCronJob(w *kind.Warnings, o, _ *batchv1.CronJob) {
	w.Label(o.Name, kind.InPodNames)
	warnJobSpec(w, &o.Spec.JobTemplate.Spec, kind.SpecPath("jobTemplate", "spec"))
	w.SayIf(!w.Created && strings.Contains(o.Spec.Schedule, "TZ"), "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, "+
		"see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details")
}

// warnJobDelete is said to a client that does not say what is to become of the Pods.
const warnJobDelete = "child pods are preserved by default when jobs are deleted; " +
	"set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning"

// The Pods of an indexed Job with more completions, and more of them at a time, can be too many to count.
const (
	manyCompletions = 100_000
	manyAtATime     = 10_000
)

// warnJobSpec warns of a Job, or of the template of Jobs.
func warnJobSpec(w *kind.Warnings, spec *batchv1.JobSpec, at *field.Path) {
	indexed := spec.CompletionMode != nil && *spec.CompletionMode == batchv1.IndexedCompletion
	if w.Changed && indexed && spec.Completions != nil && *spec.Completions > manyCompletions && spec.Parallelism != nil && *spec.Parallelism > manyAtATime {
		w.Add(at, "In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, "+
			"Kubernetes might not be able to track completedIndexes when a big number of indexes fail")
	}
	podspec.WarnTemplate(w, &spec.Template, at.Child("template"))
}
