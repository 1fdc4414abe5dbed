// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

import (
	"fmt"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/duration"
)

func deploymentCells(d *appsv1.Deployment) []any {
	cells := []any{
		fmt.Sprintf("%d/%d", d.Status.ReadyReplicas, *d.Spec.Replicas), int64(d.Status.UpdatedReplicas), int64(d.Status.AvailableReplicas), ageOf(d),
	}
	return append(append(cells, containersAndImages(&d.Spec.Template.Spec)...), metav1.FormatLabelSelector(d.Spec.Selector))
}

func replicaSetCells(rs *appsv1.ReplicaSet) []any {
	cells := []any{int64(*rs.Spec.Replicas), int64(rs.Status.Replicas), int64(rs.Status.ReadyReplicas), ageOf(rs)}
	return append(append(cells, containersAndImages(&rs.Spec.Template.Spec)...), metav1.FormatLabelSelector(rs.Spec.Selector))
}

func statefulSetCells(s *appsv1.StatefulSet) []any {
	cells := []any{fmt.Sprintf("%d/%d", s.Status.ReadyReplicas, *s.Spec.Replicas), ageOf(s)}
	return append(cells, containersAndImages(&s.Spec.Template.Spec)...)
}

func daemonSetCells(ds *appsv1.DaemonSet) []any {
	cells := []any{
		int64(ds.Status.DesiredNumberScheduled), int64(ds.Status.CurrentNumberScheduled), int64(ds.Status.NumberReady),
		int64(ds.Status.UpdatedNumberScheduled), int64(ds.Status.NumberAvailable),
		labels.FormatLabels(ds.Spec.Template.Spec.NodeSelector), ageOf(ds),
	}
	return append(append(cells, containersAndImages(&ds.Spec.Template.Spec)...), metav1.FormatLabelSelector(ds.Spec.Selector))
}

func controllerRevisionCells(revision *appsv1.ControllerRevision) []any {
	owner := "<none>"
	if ref := metav1.GetControllerOf(revision); ref != nil {
		group, _, _ := strings.Cut(ref.APIVersion, "/")
		owner = strings.ToLower(ref.Kind) + "." + group + "/" + ref.Name
	}
	return []any{owner, revision.Revision, ageOf(revision)}
}

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
		took = since(start.Time)
	default:
		took = duration.HumanDuration(end.Sub(start.Time))
	}
	cells := []any{jobStatus(job), fmt.Sprintf("%d/%s", job.Status.Succeeded, wanted), took, ageOf(job)}
	return append(append(cells, containersAndImages(&job.Spec.Template.Spec)...), metav1.FormatLabelSelector(job.Spec.Selector))
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
		last = since(cj.Status.LastScheduleTime.Time)
	}
	if isTrue(cj.Spec.Suspend) {
		suspended = "True"
	}
	cells := []any{cj.Spec.Schedule, value(cj.Spec.TimeZone, "<none>"), suspended, int64(len(cj.Status.Active)), last, ageOf(cj)}
	cells = append(cells, containersAndImages(&cj.Spec.JobTemplate.Spec.Template.Spec)...)
	return append(cells, metav1.FormatLabelSelector(cj.Spec.JobTemplate.Spec.Selector))
}

func horizontalPodAutoscalerCells(hpa *autoscalingv2.HorizontalPodAutoscaler) []any {
	return []any{
		hpa.Spec.ScaleTargetRef.Kind + "/" + hpa.Spec.ScaleTargetRef.Name, hpaTargets(hpa),
		strconv.Itoa(int(*hpa.Spec.MinReplicas)), int64(hpa.Spec.MaxReplicas), int64(hpa.Status.CurrentReplicas), ageOf(hpa),
	}
}
