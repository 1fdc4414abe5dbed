// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

import (
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// inPodNames is what the name of a workload is used in.
const inPodNames = "Pod names and hostnames"

func warnDeployment(w *warnings, o, _ *appsv1.Deployment) {
	w.label(o.Name, inPodNames)
	w.template(&o.Spec.Template, specPath("template"))
}

func warnReplicaSet(w *warnings, o, _ *appsv1.ReplicaSet) {
	w.label(o.Name, inPodNames)
	w.template(&o.Spec.Template, specPath("template"))
}

// warnReplicationController looks at the template that was before an update, as a kube-apiserver does.
func warnReplicationController(w *warnings, o, old *corev1.ReplicationController) {
	w.label(o.Name, inPodNames)
	template := o.Spec.Template
	if old != nil {
		template = old.Spec.Template
	}
	w.template(template, specPath("template"))
}

// warnDaemonSet looks at the template when it was counted, which the generation of the whole does not tell.
func warnDaemonSet(w *warnings, o, old *appsv1.DaemonSet) {
	const count = appsv1.DeprecatedTemplateGeneration
	w.changed = w.created || o.Annotations[count] != old.Annotations[count]
	w.template(&o.Spec.Template, specPath("template"))
}

func warnStatefulSet(w *warnings, o, _ *appsv1.StatefulSet) {
	w.template(&o.Spec.Template, specPath("template"))
	for i := range o.Spec.VolumeClaimTemplates {
		at := specPath("volumeClaimTemplates").Index(i)
		if !w.created {
			at = at.Child("Spec") // as a kube-apiserver names it
		}
		w.claim(&o.Spec.VolumeClaimTemplates[i].Spec, at)
	}
	if limit := o.Spec.RevisionHistoryLimit; limit != nil && *limit < 0 {
		w.add(specPath("revisionHistoryLimit"), "a negative value retains all historical revisions; a value >= 0 is recommended")
	}
}

func warnJob(w *warnings, o, _ *batchv1.Job) {
	w.label(o.Name, inPodNames)
	w.jobSpec(&o.Spec, specPath())
}

func warnCronJob(w *warnings, o, _ *batchv1.CronJob) {
	w.label(o.Name, inPodNames)
	w.jobSpec(&o.Spec.JobTemplate.Spec, specPath("jobTemplate", "spec"))
	w.sayIf(!w.created && strings.Contains(o.Spec.Schedule, "TZ"), "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, "+
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

// jobSpec warns of a Job, or of the template of Jobs.
func (w *warnings) jobSpec(spec *batchv1.JobSpec, at *field.Path) {
	indexed := spec.CompletionMode != nil && *spec.CompletionMode == batchv1.IndexedCompletion
	if w.changed && indexed && spec.Completions != nil && *spec.Completions > manyCompletions && spec.Parallelism != nil && *spec.Parallelism > manyAtATime {
		w.add(at, "In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, "+
			"Kubernetes might not be able to track completedIndexes when a big number of indexes fail")
	}
	w.template(&spec.Template, at.Child("template"))
}
