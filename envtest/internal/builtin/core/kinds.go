// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"context"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/connect"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/events"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/podspec"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/service"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/serviceaccount"
)

// Core names a kind of the legacy core group.
func Core(kind string) schema.GroupVersionKind { return corev1.SchemeGroupVersion.WithKind(kind) }

// CoreKinds has more than sixty lines because it is a table: a row for each kind.
func CoreKinds() []*kind.Kind {
	return []*kind.Kind{
		{
			GVK: Core("Namespace"), Resource: "namespaces", Short: []string{"ns"}, Cluster: true,
			Rules:  kind.Rules{Status: true, ReturnDeleted: true, Names: apivalidation.ValidateNamespaceName},
			Hooks:  kind.Hooks{Defaults: kind.Typed(defaultNamespace), Prepare: kind.TypedPrepare(prepareNamespace), Validate: kind.TypedCheck(validateNamespace), ValidateStatus: kind.TypedCheck(validateNamespaceStatus)},
			Attach: attachNamespace,
			Fields: kind.Selectable(namespaceFields, "status.phase"),
			Table:  kind.Show("Status,Age", namespaceCells),
		},
		{
			GVK: Core("Node"), Resource: "nodes", Short: []string{"no"}, Cluster: true,
			Rules:  kind.Rules{Status: true, KeepStatus: true},
			Hooks:  kind.Hooks{Defaults: kind.Typed(defaultNode), Prepare: kind.TypedPrepare(prepareNode), PrepareStatus: kind.TypedPrepare(prepareNodeStatus), Validate: kind.TypedCheck(validateNode), ValidateStatus: kind.TypedCheck(validateNodeStatus)},
			Warn:   kind.WarnHooks{Object: kind.TypedWarn(warnNode)},
			Attach: connect.AttachNode,
			Fields: kind.Selectable(nodeFields, "spec.unschedulable"),
			Table:  kind.Show("Status,Roles,Age,Version,+Internal-IP,+External-IP,+OS-Image,+Kernel-Version,+Container-Runtime", nodeCells),
		},
		{
			GVK: Core("Pod"), Resource: "pods", Short: []string{"po"}, Categories: kind.InAll,
			Rules: kind.Rules{
				Status: true, Generation: true, ReturnDeleted: true,
				StatusKeeps: []string{"metadata.deletionTimestamp", "metadata.ownerReferences"},
			},
			Hooks: kind.Hooks{
				Defaults: kind.Typed(defaultPod), Prepare: kind.TypedPrepare(preparePod), PrepareStatus: kind.TypedPrepare(preparePodStatus),
				Validate: kind.TypedCheck(validatePod), ValidateStatus: kind.TypedCheck(validatePodStatus), Grace: kind.TypedGrace(podGrace),
				Triggers: storage.IndexerFuncs{"spec.nodeName": podNodeName},
			},
			Warn:   kind.WarnHooks{Object: kind.TypedWarn(warnPod), Status: kind.TypedWarn(warnPodStatus)},
			Fields: podFieldSet(),
			Attach: attachPod,
			Table:  kind.Show("Ready,Status,Restarts,Age,+IP,+Node,+Nominated Node,+Readiness Gates", podCells),
		},
		{
			GVK: Core("Service"), Resource: "services", Short: []string{"svc"}, Categories: kind.InAll,
			Rules: kind.Rules{Status: true, PutCreates: true, ReturnDeleted: true, Names: apivalidation.NameIsDNSLabel},
			Hooks: kind.Hooks{
				Defaults: kind.Typed(service.DefaultService), Prepare: kind.TypedPrepare(service.PrepareService), Drop: kind.Typed(service.DropTraffic),
				Validate: kind.TypedCheck(service.ValidateService), ValidateStatus: kind.TypedCheck(service.ValidateServiceStatus),
			},
			Warn:   kind.WarnHooks{Object: kind.TypedWarn(service.WarnService), Status: kind.TypedWarn(service.WarnServiceStatus)},
			Attach: service.AttachService,
			Fields: kind.Selectable(service.ServiceFields, "spec.clusterIP", "spec.type"),
			Table:  kind.Show("Type,Cluster-IP,External-IP,Port(s),Age,+Selector", service.ServiceCells),
		},
		{
			GVK: Core("ServiceAccount"), Resource: "serviceaccounts", Short: []string{"sa"},
			Rules:  kind.Rules{ReturnDeleted: true, Names: apivalidation.ValidateServiceAccountName},
			Hooks:  kind.Hooks{Prepare: kind.TypedPrepare(prepareServiceAccount)},
			Warn:   kind.WarnHooks{Object: kind.TypedWarn(warnServiceAccount)},
			Attach: serviceaccount.AttachServiceAccount,
			Table:  kind.Show("Age", serviceAccountCells),
		},
		{
			GVK: Core("ConfigMap"), Resource: "configmaps", Short: []string{"cm"},
			Hooks: kind.Hooks{Defaults: kind.Typed(defaultConfigMap), Validate: kind.TypedCheck(validateConfigMap)},
			Table: kind.Show("Data,Age", configMapCells),
		},
		{
			GVK: Core("Secret"), Resource: "secrets",
			Hooks:  kind.Hooks{Defaults: kind.Typed(defaultSecret), Validate: kind.TypedCheck(validateSecret)},
			Warn:   kind.WarnHooks{Object: kind.TypedWarn(warnSecret)},
			Fields: kind.Selectable(secretFields, "type"),
			Table:  kind.Show("Type,Data,Age", secretCells),
		},
		{
			GVK: Core("Event"), Resource: "events", Short: []string{"ev"}, Alias: eventsv1.SchemeGroupVersion.WithKind("Event"),
			Rules: kind.Rules{PutCreates: true, NoFinalizers: true, AnyMeta: true, AnyFinalizers: true},
			Hooks: kind.Hooks{ValidateRequest: events.ValidateEvent, TTL: events.EventLifetime},
			Fields: kind.Selectable(events.EventFields, "involvedObject.kind", "involvedObject.namespace", "involvedObject.name",
				"involvedObject.uid", "involvedObject.apiVersion", "involvedObject.resourceVersion", "involvedObject.fieldPath",
				"reason", "reportingComponent", "source", "type"),
			Table: kind.Show("Last Seen,Type,Reason,Object,+Subobject,+Source,Message,+First Seen,+Count,+Name", events.EventCells),
		},
		{
			GVK: Core("Endpoints"), Resource: "endpoints", Short: []string{"ep"},
			Rules: kind.Rules{PutCreates: true},
			Hooks: kind.Hooks{Defaults: kind.Typed(service.DefaultEndpoints), Validate: kind.TypedCheck(service.ValidateEndpoints)},
			Warn:  kind.WarnHooks{Object: kind.TypedWarn(service.WarnEndpoints)},
			Table: kind.Show("Endpoints,Age", service.EndpointsCells),
		},
	}
}

func CoreResourceKinds() []*kind.Kind {
	return []*kind.Kind{
		{
			GVK: Core("ReplicationController"), Resource: "replicationcontrollers", Short: []string{"rc"}, Categories: kind.InAll,
			Rules: kind.Rules{Status: true, Generation: true, Orphans: true},
			Hooks: kind.Hooks{Defaults: kind.Typed(defaultReplicationController), Prepare: podspec.PrepareTemplate(func(rc *corev1.ReplicationController) *corev1.PodTemplateSpec { return rc.Spec.Template }), Validate: kind.TypedCheck(validateReplicationController), ValidateStatus: kind.Counted("replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas")},
			Warn:  kind.WarnHooks{Object: kind.TypedWarn(warnReplicationController)},
			Scale: kind.ScalingOf(
				func(rc *corev1.ReplicationController) **int32 { return &rc.Spec.Replicas },
				func(rc *corev1.ReplicationController) int32 { return rc.Status.Replicas },
				func(rc *corev1.ReplicationController) *metav1.LabelSelector {
					return &metav1.LabelSelector{MatchLabels: rc.Spec.Selector}
				}),
			Fields: kind.Selectable(func(rc *corev1.ReplicationController, set fields.Set) {
				set["status.replicas"] = strconv.Itoa(int(rc.Status.Replicas))
			}, "status.replicas"),
			Table: kind.Show("Desired#,Current#,Ready#,Age,+Containers,+Images,+Selector", replicationControllerCells),
		},
		{
			GVK: Core("PersistentVolume"), Resource: "persistentvolumes", Short: []string{"pv"}, Cluster: true,
			Rules: kind.Rules{Status: true, ReturnDeleted: true},
			Hooks: kind.Hooks{Defaults: kind.Typed(defaultPersistentVolume), Prepare: kind.TypedPrepare(preparePersistentVolume), PrepareStatus: kind.TypedPrepare(preparePersistentVolumeStatus), Validate: kind.TypedCheck(validatePersistentVolume)},
			Warn:  kind.WarnHooks{Object: kind.TypedWarn(warnPersistentVolume)},
			Table: kind.Show("Capacity,Access Modes,Reclaim Policy,Status,Claim,StorageClass,VolumeAttributesClass,Reason,Age,+VolumeMode", persistentVolumeCells),
		},
		{
			GVK: Core("PersistentVolumeClaim"), Resource: "persistentvolumeclaims", Short: []string{"pvc"},
			Rules: kind.Rules{Status: true, ReturnDeleted: true},
			Hooks: kind.Hooks{Defaults: kind.Typed(podspec.DefaultPersistentVolumeClaim), Prepare: kind.TypedPrepare(preparePersistentVolumeClaim), Validate: kind.TypedCheck(validatePersistentVolumeClaim), ValidateStatus: kind.TypedCheck(validatePersistentVolumeClaimStatus)},
			Warn:  kind.WarnHooks{Object: kind.TypedWarn(warnPersistentVolumeClaim)},
			Table: kind.Show("Status,Volume,Capacity,Access Modes,StorageClass,VolumeAttributesClass,Age,+VolumeMode", persistentVolumeClaimCells),
		},
		{
			GVK: Core("LimitRange"), Resource: "limitranges", Short: []string{"limits"},
			Rules: kind.Rules{PutCreates: true},
			Hooks: kind.Hooks{Defaults: kind.Typed(defaultLimitRange), Prepare: kind.TypedPrepare(prepareLimitRange), Validate: kind.TypedCheck(validateLimitRange)},
		},
		{
			GVK: Core("ResourceQuota"), Resource: "resourcequotas", Short: []string{"quota"},
			Rules: kind.Rules{Status: true, ReturnDeleted: true},
			Hooks: kind.Hooks{Defaults: kind.Typed(defaultResourceQuota), Validate: kind.TypedCheck(validateResourceQuota), ValidateStatus: kind.TypedCheck(validateResourceQuotaStatus)},
			Warn:  kind.WarnHooks{Object: kind.TypedWarn(warnResourceQuota)},
			Table: kind.Show("Request,Limit,Age", resourceQuotaCells),
		},
		{
			GVK: Core("PodTemplate"), Resource: "podtemplates",
			Rules: kind.Rules{Generation: true, ReturnDeleted: true},
			Hooks: kind.Hooks{Defaults: kind.Typed(defaultPodTemplate), Prepare: podspec.PrepareTemplate(func(t *corev1.PodTemplate) *corev1.PodTemplateSpec { return &t.Template }), Validate: kind.TypedCheck(validatePodTemplate)},
			Warn:  kind.WarnHooks{Object: kind.TypedWarn(warnPodTemplate)},
			Table: kind.Show("Containers,Images,Pod Labels", podTemplateCells),
		},
	}
}

// prepareServiceAccount keeps the names of Secrets, which are all that counts.
func prepareServiceAccount(_ context.Context, account, _ *corev1.ServiceAccount) {
	kind.Each(account.Secrets, func(ref *corev1.ObjectReference) { *ref = corev1.ObjectReference{Name: ref.Name} })
}

func namespaceFields(ns *corev1.Namespace, set fields.Set) {
	set["status.phase"] = string(ns.Status.Phase)
}

func secretFields(secret *corev1.Secret, set fields.Set) {
	set["type"] = string(secret.Type)
}
