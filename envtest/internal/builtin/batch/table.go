// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package batch

import (
	"fmt"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

func jobCells(job *batchv1.Job) []any {
	wanted := "1"
	switch {
	case job.Spec.Completions != nil:
		wanted = strconv.Itoa(int(*job.Spec.Completions))
	case job.Spec.Parallelism != nil && *job.Spec.Parallelism > 1:
		wanted = fmt.Sprintf("1 of %d", *job.Spec.Parallelism)
	}
	took := ""
	switch start, end := job.Status.StartTime, job.Status.CompletionTime; {
	case start == nil:
	case end == nil:
		took = kind.Since(start.Time)
	default:
		took = duration.HumanDuration(end.Sub(start.Time))
	}
	cells := []any{jobStatus(job), fmt.Sprintf("%d/%s", job.Status.Succeeded, wanted), took, kind.AgeOf(job)}
	return append(append(cells, kind.ContainersAndImages(&job.Spec.Template.Spec)...), metav1.FormatLabelSelector(job.Spec.Selector))
}

// jobStatus is the condition that says most.
func jobStatus(job *batchv1.Job) string {
	has := func(name batchv1.JobConditionType) bool {
		for _, condition := range job.Status.Conditions {
			if condition.Type == name {
				return condition.Status == corev1.ConditionTrue
			}
		}
		return false
	}
	switch {
	case has(batchv1.JobComplete):
		return "Complete"
	case has(batchv1.JobFailed):
		return "Failed"
	case job.DeletionTimestamp != nil:
		return "Terminating"
	case has(batchv1.JobSuspended):
		return "Suspended"
	case has(batchv1.JobFailureTarget):
		return "FailureTarget"
	case has(batchv1.JobSuccessCriteriaMet):
		return "SuccessCriteriaMet"
	default:
		return "Running"
	}
}

func cronJobCells(cj *batchv1.CronJob) []any {
	last, suspended := "<none>", "False"
	if cj.Status.LastScheduleTime != nil {
		last = kind.Since(cj.Status.LastScheduleTime.Time)
	}
	if kind.IsTrue(cj.Spec.Suspend) {
		suspended = "True"
	}
	cells := []any{cj.Spec.Schedule, kind.Value(cj.Spec.TimeZone, "<none>"), suspended, int64(len(cj.Status.Active)), last, kind.AgeOf(cj)}
	cells = append(cells, kind.ContainersAndImages(&cj.Spec.JobTemplate.Spec.Template.Spec)...)
	return append(cells, metav1.FormatLabelSelector(cj.Spec.JobTemplate.Spec.Selector))
}
