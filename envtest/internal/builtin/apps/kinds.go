// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package apps

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/podspec"
)

func AppsKinds() []*kind.Kind {
	apps := func(kind string) schema.GroupVersionKind { return appsv1.SchemeGroupVersion.WithKind(kind) }
	return []*kind.Kind{
		{
			GVK: apps("Deployment"), Resource: "deployments", Short: []string{"deploy"}, Categories: kind.InAll,
			Rules: kind.Rules{Status: true, Generation: true, CountsAnnotations: true, StatusKeeps: []string{"metadata.labels"}},
			Hooks: kind.Hooks{
				Read: kind.TypedRead(readDeployment), Defaults: kind.Typed(defaultDeployment), Validate: kind.TypedCheck(validateDeployment),
				Prepare:        podspec.PrepareTemplate(func(o *appsv1.Deployment) *corev1.PodTemplateSpec { return &o.Spec.Template }),
				ValidateStatus: kind.Counted("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"),
			},
			Warn: kind.WarnHooks{Object: kind.TypedWarn(warnDeployment)},
			Scale: kind.ScalingOf(
				func(o *appsv1.Deployment) **int32 { return &o.Spec.Replicas },
				func(o *appsv1.Deployment) int32 { return o.Status.Replicas },
				func(o *appsv1.Deployment) *metav1.LabelSelector { return o.Spec.Selector }),
			Table: kind.Show("Ready,Up-to-date,Available,Age,+Containers,+Images,+Selector", deploymentCells),
		},
		{
			GVK: apps("ReplicaSet"), Resource: "replicasets", Short: []string{"rs"}, Categories: kind.InAll,
			Rules: kind.Rules{Status: true, Generation: true},
			Hooks: kind.Hooks{Defaults: kind.Typed(defaultReplicaSet), Prepare: podspec.PrepareTemplate(func(o *appsv1.ReplicaSet) *corev1.PodTemplateSpec { return &o.Spec.Template }), Validate: kind.TypedCheck(validateReplicaSet), ValidateStatus: kind.Counted("replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas")},
			Warn:  kind.WarnHooks{Object: kind.TypedWarn(warnReplicaSet)},
			Scale: kind.ScalingOf(
				func(o *appsv1.ReplicaSet) **int32 { return &o.Spec.Replicas },
				func(o *appsv1.ReplicaSet) int32 { return o.Status.Replicas },
				func(o *appsv1.ReplicaSet) *metav1.LabelSelector { return o.Spec.Selector }),
			Table: kind.Show("Desired#,Current#,Ready#,Age,+Containers,+Images,+Selector", replicaSetCells),
		},
		{
			GVK: apps("StatefulSet"), Resource: "statefulsets", Short: []string{"sts"}, Categories: kind.InAll,
			Rules: kind.Rules{Status: true, Generation: true, Names: apivalidation.NameIsDNSLabel},
			Hooks: kind.Hooks{Defaults: kind.Typed(defaultStatefulSet), Prepare: kind.TypedPrepare(prepareStatefulSet), Validate: kind.TypedCheck(validateStatefulSet), ValidateStatus: kind.Counted("replicas", "readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")},
			Warn:  kind.WarnHooks{Object: kind.TypedWarn(warnStatefulSet)},
			Scale: kind.ScalingOf(
				func(o *appsv1.StatefulSet) **int32 { return &o.Spec.Replicas },
				func(o *appsv1.StatefulSet) int32 { return o.Status.Replicas },
				func(o *appsv1.StatefulSet) *metav1.LabelSelector { return o.Spec.Selector }),
			Table: kind.Show("Ready,Age,+Containers,+Images", statefulSetCells),
		},
		{
			GVK: apps("DaemonSet"), Resource: "daemonsets", Short: []string{"ds"}, Categories: kind.InAll,
			Rules: kind.Rules{Status: true, Generation: true},
			Hooks: kind.Hooks{Read: kind.TypedRead(readDaemonSet), Defaults: kind.Typed(defaultDaemonSet), Prepare: kind.TypedPrepare(prepareDaemonSet), Validate: kind.TypedCheck(validateDaemonSet), ValidateStatus: kind.Counted("")},
			Warn:  kind.WarnHooks{Object: kind.TypedWarn(warnDaemonSet)},
			Table: kind.Show("Desired#,Current#,Ready#,Up-to-date#,Available#,Node Selector,Age,+Containers,+Images,+Selector", daemonSetCells),
		},
		{
			GVK: apps("ControllerRevision"), Resource: "controllerrevisions",
			Hooks: kind.Hooks{Validate: kind.TypedCheck(validateControllerRevision)},
			Table: kind.Show("Controller,Revision,Age", controllerRevisionCells),
		},
	}
}
