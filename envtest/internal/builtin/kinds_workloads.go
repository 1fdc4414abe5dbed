// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

import (
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func appsKinds() []*kind {
	apps := func(kind string) schema.GroupVersionKind { return appsv1.SchemeGroupVersion.WithKind(kind) }
	return []*kind{
		{
			gvk: apps("Deployment"), resource: "deployments", short: []string{"deploy"}, categories: inAll,
			rules: rules{status: true, generation: true, countsAnnotations: true, statusKeeps: []string{"metadata.labels"}},
			hooks: hooks{
				defaults: typed1(defaultDeployment), validate: typedCheck(validateDeployment),
				validateStatus: counted("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"),
			},
			warn: warnHooks{object: typedWarn(warnDeployment)},
			scale: scalingOf(
				func(o *appsv1.Deployment) **int32 { return &o.Spec.Replicas },
				func(o *appsv1.Deployment) int32 { return o.Status.Replicas },
				func(o *appsv1.Deployment) *metav1.LabelSelector { return o.Spec.Selector }),
			table: show("Ready,Up-to-date,Available,Age,+Containers,+Images,+Selector", deploymentCells),
		},
		{
			gvk: apps("ReplicaSet"), resource: "replicasets", short: []string{"rs"}, categories: inAll,
			rules: rules{status: true, generation: true},
			hooks: hooks{defaults: typed1(defaultReplicaSet), validate: typedCheck(validateReplicaSet), validateStatus: counted("replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas")},
			warn:  warnHooks{object: typedWarn(warnReplicaSet)},
			scale: scalingOf(
				func(o *appsv1.ReplicaSet) **int32 { return &o.Spec.Replicas },
				func(o *appsv1.ReplicaSet) int32 { return o.Status.Replicas },
				func(o *appsv1.ReplicaSet) *metav1.LabelSelector { return o.Spec.Selector }),
			table: show("Desired#,Current#,Ready#,Age,+Containers,+Images,+Selector", replicaSetCells),
		},
		{
			gvk: apps("StatefulSet"), resource: "statefulsets", short: []string{"sts"}, categories: inAll,
			rules: rules{status: true, generation: true, names: apivalidation.NameIsDNSLabel},
			hooks: hooks{defaults: typed1(defaultStatefulSet), validate: typedCheck(validateStatefulSet), validateStatus: counted("replicas", "readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")},
			warn:  warnHooks{object: typedWarn(warnStatefulSet)},
			scale: scalingOf(
				func(o *appsv1.StatefulSet) **int32 { return &o.Spec.Replicas },
				func(o *appsv1.StatefulSet) int32 { return o.Status.Replicas },
				func(o *appsv1.StatefulSet) *metav1.LabelSelector { return o.Spec.Selector }),
			table: show("Ready,Age,+Containers,+Images", statefulSetCells),
		},
		{
			gvk: apps("DaemonSet"), resource: "daemonsets", short: []string{"ds"}, categories: inAll,
			rules: rules{status: true, generation: true},
			hooks: hooks{defaults: typed1(defaultDaemonSet), prepare: typedPrepare(prepareDaemonSet), validate: typedCheck(validateDaemonSet), validateStatus: counted("")},
			warn:  warnHooks{object: typedWarn(warnDaemonSet)},
			table: show("Desired#,Current#,Ready#,Up-to-date#,Available#,Node Selector,Age,+Containers,+Images,+Selector", daemonSetCells),
		},
		{
			gvk: apps("ControllerRevision"), resource: "controllerrevisions",
			hooks: hooks{validate: typedCheck(validateControllerRevision)},
			table: show("Controller,Revision,Age", controllerRevisionCells),
		},
	}
}

func batchKinds() []*kind {
	return []*kind{
		{
			gvk: batchv1.SchemeGroupVersion.WithKind("Job"), resource: "jobs", categories: inAll,
			rules: rules{status: true, generation: true, orphans: true},
			hooks: hooks{defaults: typed1(defaultJob), prepare: typedPrepare(prepareJob), validate: typedCheck(validateJob), validateStatus: typedCheck(validateJobStatus)},
			warn:  warnHooks{object: typedWarn(warnJob), delete: warnJobDelete},
			fields: selectable(func(job *batchv1.Job, set fields.Set) {
				set["status.successful"] = strconv.Itoa(int(job.Status.Succeeded))
			}, "status.successful"),
			table: show("Status,Completions,Duration,Age,+Containers,+Images,+Selector", jobCells),
		},
		{
			gvk: batchv1.SchemeGroupVersion.WithKind("CronJob"), resource: "cronjobs", short: []string{"cj"}, categories: inAll,
			rules: rules{status: true, generation: true},
			hooks: hooks{defaults: typed1(defaultCronJob), validate: typedCheck(validateCronJob)},
			warn:  warnHooks{object: typedWarn(warnCronJob)},
			table: show("Schedule,Timezone,Suspend?,Active#,Last Schedule,Age,+Containers,+Images,+Selector", cronJobCells),
		},
	}
}

func autoscalingKinds() []*kind {
	return []*kind{{
		gvk: autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"), resource: "horizontalpodautoscalers",
		short: []string{"hpa"}, categories: inAll, alias: autoscalingv1.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"),
		rules: rules{status: true},
		hooks: hooks{defaults: typed1(defaultHorizontalPodAutoscaler), validate: typedCheck(validateHorizontalPodAutoscaler), validateStatus: typedCheck(validateHorizontalPodAutoscalerStatus)},
		table: show("Reference,Targets,MinPods,MaxPods,Replicas,Age", horizontalPodAutoscalerCells),
	}}
}
