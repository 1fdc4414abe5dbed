// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package batch

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

// jobIs tells whether a condition of a Job is true.
func jobIs(job *batchv1.Job, condition batchv1.JobConditionType) bool {
	for _, c := range job.Status.Conditions {
		if c.Type == condition && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}

// validateJobStatus checks that a status makes sense. A fault that is stored already may stay.
func validateJobStatus(job, old *batchv1.Job) field.ErrorList {
	f := kind.Findings{List: kind.Counted("")(job, old)}
	status, was, at := &job.Status, &old.Status, field.NewPath("status")
	conditions := at.Child("conditions")
	complete, failed := jobIs(job, batchv1.JobComplete), jobIs(job, batchv1.JobFailed)
	finished := complete || failed
	if pods := status.UncountedTerminatedPods; pods != nil {
		seen := sets.New[string]()
		for _, list := range []struct {
			name string
			ids  []string
		}{{"succeeded", uids(pods.Succeeded)}, {"failed", uids(pods.Failed)}} {
			for i, id := range list.ids {
				here := at.Child("uncountedTerminatedPods", list.name).Index(i)
				if f.Invalid(id == "", here, id, "must not be empty"); id != "" {
					f.Unique(id, seen, here)
				}
			}
		}
		f.Invalid(finished && len(pods.Succeeded)+len(pods.Failed) > 0, at.Child("uncountedTerminatedPods"), pods, "must be empty for finished job")
	}
	f.Invalid(complete && failed, conditions, field.OmitValueType{}, "cannot set Complete=True and Failed=true conditions")
	f.Invalid(complete && jobIs(job, batchv1.JobFailureTarget), conditions, field.OmitValueType{}, "cannot set Complete=True and FailureTarget=true conditions")
	f.Invalid(failed && !jobIs(old, batchv1.JobFailed) && !jobIs(job, batchv1.JobFailureTarget), conditions, field.OmitValueType{},
		"cannot set Failed=True condition without the FailureTarget=true condition")
	f.Invalid(complete && !jobIs(old, batchv1.JobComplete) && !jobIs(job, batchv1.JobSuccessCriteriaMet), conditions, field.OmitValueType{},
		"cannot set Complete=True condition without the SuccessCriteriaMet=true condition")
	for _, final := range []batchv1.JobConditionType{batchv1.JobFailed, batchv1.JobComplete, batchv1.JobFailureTarget, batchv1.JobSuccessCriteriaMet} {
		f.Invalid(jobIs(old, final) && !jobIs(job, final), conditions, field.OmitValueType{}, "cannot disable the terminal "+string(final)+"=True condition")
	}
	f.Invalid(jobIs(job, batchv1.JobSuccessCriteriaMet) && failed, conditions, field.OmitValueType{}, "cannot set SuccessCriteriaMet=True and Failed=true conditions")
	checkJobTimes(&f, status, was, complete, finished, !kind.IsTrue(job.Spec.Suspend), at)
	f.Invalid(finished && status.Active > 0, at.Child("active"), status.Active, "active>0 is invalid for finished job")
	f.Invalid(finished && status.Terminating != nil && *status.Terminating > 0, at.Child("terminating"), status.Terminating, "terminating>0 is invalid for finished job")
	f.Invalid(status.Ready != nil && *status.Ready > status.Active, at.Child("ready"), status.Ready, "cannot set more ready pods than active")
	f.Invalid(status.Failed < was.Failed, at.Child("failed"), status.Failed, "cannot decrease the failed counter")
	f.Invalid(status.Succeeded < was.Succeeded, at.Child("succeeded"), status.Succeeded, "cannot decrease the succeeded counter")
	checkJobIndexes(&f, job, at)
	return f.List
}

func uids[T ~string](list []T) []string {
	var texts []string
	for _, id := range list {
		texts = append(texts, string(id))
	}
	return texts
}

func checkJobTimes(f *kind.Findings, status, was *batchv1.JobStatus, complete, finished, running bool, at *field.Path) {
	end, start := status.CompletionTime, status.StartTime
	f.Invalid(end != nil && !complete, at.Child("completionTime"), end, "cannot set completionTime when there is no Complete=True condition")
	f.Need(end != nil || !complete, at.Child("completionTime"))
	f.Invalid(start != nil && end != nil && end.Before(start), at.Child("completionTime"), end, "must be equal to or after `startTime`")
	f.Invalid(end != nil && was.CompletionTime != nil && !end.Equal(was.CompletionTime), at.Child("completionTime"), end, "field is immutable")
	f.Need(start != nil || !finished, at.Child("startTime"))
	f.Invalid(was.StartTime != nil && running && !apiequality.Semantic.DeepEqual(start, was.StartTime), at.Child("startTime"), start,
		"field is immutable for unsuspended job once set")
}

func checkJobIndexes(f *kind.Findings, job *batchv1.Job, at *field.Path) {
	status, completions := &job.Status, job.Spec.Completions
	done := at.Child("completedIndexes")
	f.Invalid(status.CompletedIndexes != "" && !isIndexed(&job.Spec), done, status.CompletedIndexes, "cannot set non-empty completedIndexes when non-indexed completion mode")
	if completions != nil {
		if _, err := countIndexes(status.CompletedIndexes, *completions); err != nil {
			f.Invalid(true, done, status.CompletedIndexes, "error parsing completedIndexes: "+err.Error())
		}
	}
	if status.FailedIndexes == nil {
		return
	}
	lost := at.Child("failedIndexes")
	f.Invalid(job.Spec.BackoffLimitPerIndex == nil, lost, *status.FailedIndexes, "cannot set non-null failedIndexes when backoffLimitPerIndex is null")
	if completions != nil && job.Spec.BackoffLimitPerIndex != nil {
		if _, err := countIndexes(*status.FailedIndexes, *completions); err != nil {
			f.Invalid(true, lost, *status.FailedIndexes, "error parsing failedIndexes: "+err.Error())
		}
	}
}
