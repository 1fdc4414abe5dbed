// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage"
)

// core names a kind of the legacy core group.
func core(kind string) schema.GroupVersionKind { return corev1.SchemeGroupVersion.WithKind(kind) }

// coreKinds has more than sixty lines because it is a table: a row for each kind.
func coreKinds() []*kind {
	return []*kind{
		{
			gvk: core("Namespace"), resource: "namespaces", short: []string{"ns"}, cluster: true,
			rules:  rules{status: true, returnDeleted: true, names: apivalidation.ValidateNamespaceName},
			hooks:  hooks{defaults: typed1(defaultNamespace), prepare: typedPrepare(prepareNamespace), validate: typedCheck(validateNamespace), validateStatus: typedCheck(validateNamespaceStatus)},
			attach: attachNamespace,
			fields: selectable(namespaceFields, "status.phase"),
			table:  show("Status,Age", namespaceCells),
		},
		{
			gvk: core("Node"), resource: "nodes", short: []string{"no"}, cluster: true,
			rules:  rules{status: true, keepStatus: true},
			hooks:  hooks{defaults: typed1(defaultNode), validate: typedCheck(validateNode), validateStatus: typedCheck(validateNodeStatus)},
			warn:   warnHooks{object: typedWarn(warnNode)},
			attach: attachNode,
			fields: selectable(nodeFields, "spec.unschedulable"),
			table:  show("Status,Roles,Age,Version,+Internal-IP,+External-IP,+OS-Image,+Kernel-Version,+Container-Runtime", nodeCells),
		},
		{
			gvk: core("Pod"), resource: "pods", short: []string{"po"}, categories: inAll,
			rules: rules{
				status: true, generation: true, returnDeleted: true,
				statusKeeps: []string{"metadata.deletionTimestamp", "metadata.ownerReferences"},
			},
			hooks: hooks{
				defaults: typed1(defaultPod), prepare: typedPrepare(preparePod), prepareStatus: typedPrepare(preparePodStatus),
				validate: typedCheck(validatePod), validateStatus: typedCheck(validatePodStatus), grace: typedGrace(podGrace),
				triggers: storage.IndexerFuncs{"spec.nodeName": podNodeName},
			},
			warn:   warnHooks{object: typedWarn(warnPod), status: typedWarn(warnPodStatus)},
			fields: podFieldSet(),
			attach: attachPod,
			table:  show("Ready,Status,Restarts,Age,+IP,+Node,+Nominated Node,+Readiness Gates", podCells),
		},
		{
			gvk: core("Service"), resource: "services", short: []string{"svc"}, categories: inAll,
			rules: rules{status: true, putCreates: true, returnDeleted: true, names: apivalidation.NameIsDNSLabel},
			hooks: hooks{
				defaults: typed1(defaultService), prepare: typedPrepare(prepareService), drop: typed1(dropTraffic),
				validate: typedCheck(validateService), validateStatus: typedCheck(validateServiceStatus),
			},
			warn:   warnHooks{object: typedWarn(warnService), status: typedWarn(warnServiceStatus)},
			attach: attachService,
			fields: selectable(serviceFields, "spec.clusterIP", "spec.type"),
			table:  show("Type,Cluster-IP,External-IP,Port(s),Age,+Selector", serviceCells),
		},
		{
			gvk: core("ServiceAccount"), resource: "serviceaccounts", short: []string{"sa"},
			rules:  rules{returnDeleted: true, names: apivalidation.ValidateServiceAccountName},
			warn:   warnHooks{object: typedWarn(warnServiceAccount)},
			attach: attachServiceAccount,
			table:  show("Age", serviceAccountCells),
		},
		{
			gvk: core("ConfigMap"), resource: "configmaps", short: []string{"cm"},
			hooks: hooks{defaults: typed1(defaultConfigMap), validate: typedCheck(validateConfigMap)},
			table: show("Data,Age", configMapCells),
		},
		{
			gvk: core("Secret"), resource: "secrets",
			hooks:  hooks{defaults: typed1(defaultSecret), validate: typedCheck(validateSecret)},
			warn:   warnHooks{object: typedWarn(warnSecret)},
			fields: selectable(secretFields, "type"),
			table:  show("Type,Data,Age", secretCells),
		},
		{
			gvk: core("Event"), resource: "events", short: []string{"ev"}, alias: eventsv1.SchemeGroupVersion.WithKind("Event"),
			rules: rules{putCreates: true, noFinalizers: true, anyMeta: true, anyFinalizers: true},
			hooks: hooks{validateRequest: validateEvent, ttl: eventLifetime},
			fields: selectable(eventFields, "involvedObject.kind", "involvedObject.namespace", "involvedObject.name",
				"involvedObject.uid", "involvedObject.apiVersion", "involvedObject.resourceVersion", "involvedObject.fieldPath",
				"reason", "reportingComponent", "source", "type"),
			table: show("Last Seen,Type,Reason,Object,+Subobject,+Source,Message,+First Seen,+Count,+Name", eventCells),
		},
		{
			gvk: core("Endpoints"), resource: "endpoints", singular: "endpoints", short: []string{"ep"},
			rules: rules{putCreates: true},
			hooks: hooks{defaults: typed1(defaultEndpoints), validate: typedCheck(validateEndpoints)},
			warn:  warnHooks{object: typedWarn(warnEndpoints)},
			table: show("Endpoints,Age", endpointsCells),
		},
	}
}

func coreResourceKinds() []*kind {
	return []*kind{
		{
			gvk: core("ReplicationController"), resource: "replicationcontrollers", short: []string{"rc"}, categories: inAll,
			rules: rules{status: true, generation: true, orphans: true},
			hooks: hooks{defaults: typed1(defaultReplicationController), validate: typedCheck(validateReplicationController), validateStatus: counted("replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas")},
			warn:  warnHooks{object: typedWarn(warnReplicationController)},
			scale: scalingOf(
				func(rc *corev1.ReplicationController) **int32 { return &rc.Spec.Replicas },
				func(rc *corev1.ReplicationController) int32 { return rc.Status.Replicas },
				func(rc *corev1.ReplicationController) *metav1.LabelSelector {
					return &metav1.LabelSelector{MatchLabels: rc.Spec.Selector}
				}),
			fields: selectable(func(rc *corev1.ReplicationController, set fields.Set) {
				set["status.replicas"] = strconv.Itoa(int(rc.Status.Replicas))
			}, "status.replicas"),
			table: show("Desired#,Current#,Ready#,Age,+Containers,+Images,+Selector", replicationControllerCells),
		},
		{
			gvk: core("PersistentVolume"), resource: "persistentvolumes", short: []string{"pv"}, cluster: true,
			rules: rules{status: true, returnDeleted: true},
			hooks: hooks{defaults: typed1(defaultPersistentVolume), prepare: typedPrepare(preparePersistentVolume), prepareStatus: typedPrepare(preparePersistentVolumeStatus), validate: typedCheck(validatePersistentVolume)},
			warn:  warnHooks{object: typedWarn(warnPersistentVolume)},
			table: show("Capacity,Access Modes,Reclaim Policy,Status,Claim,StorageClass,VolumeAttributesClass,Reason,Age,+VolumeMode", persistentVolumeCells),
		},
		{
			gvk: core("PersistentVolumeClaim"), resource: "persistentvolumeclaims", short: []string{"pvc"},
			rules: rules{status: true, returnDeleted: true},
			hooks: hooks{defaults: typed1(defaultPersistentVolumeClaim), prepare: typedPrepare(preparePersistentVolumeClaim), validate: typedCheck(validatePersistentVolumeClaim), validateStatus: typedCheck(validatePersistentVolumeClaimStatus)},
			warn:  warnHooks{object: typedWarn(warnPersistentVolumeClaim)},
			table: show("Status,Volume,Capacity,Access Modes,StorageClass,VolumeAttributesClass,Age,+VolumeMode", persistentVolumeClaimCells),
		},
		{
			gvk: core("LimitRange"), resource: "limitranges", short: []string{"limits"},
			rules: rules{putCreates: true},
			hooks: hooks{defaults: typed1(defaultLimitRange), prepare: typedPrepare(prepareLimitRange), validate: typedCheck(validateLimitRange)},
		},
		{
			gvk: core("ResourceQuota"), resource: "resourcequotas", short: []string{"quota"},
			rules: rules{status: true, returnDeleted: true},
			hooks: hooks{defaults: typed1(defaultResourceQuota), validate: typedCheck(validateResourceQuota), validateStatus: typedCheck(validateResourceQuotaStatus)},
			warn:  warnHooks{object: typedWarn(warnResourceQuota)},
			table: show("Request,Limit,Age", resourceQuotaCells),
		},
		{
			gvk: core("PodTemplate"), resource: "podtemplates",
			rules: rules{generation: true, returnDeleted: true},
			hooks: hooks{defaults: typed1(defaultPodTemplate), validate: typedCheck(validatePodTemplate)},
			warn:  warnHooks{object: typedWarn(warnPodTemplate)},
			table: show("Containers,Images,Pod Labels", podTemplateCells),
		},
	}
}

func namespaceFields(ns *corev1.Namespace, set fields.Set) {
	set["status.phase"] = string(ns.Status.Phase)
}

func nodeFields(node *corev1.Node, set fields.Set) {
	set["spec.unschedulable"] = strconv.FormatBool(node.Spec.Unschedulable)
}

func serviceFields(svc *corev1.Service, set fields.Set) {
	set["spec.clusterIP"] = svc.Spec.ClusterIP
	set["spec.type"] = string(svc.Spec.Type)
}

func secretFields(secret *corev1.Secret, set fields.Set) {
	set["type"] = string(secret.Type)
}

// podFieldSet is the fields of Pods; spec.host is the old name of spec.nodeName.
func podFieldSet() fieldSet {
	set := selectable(podFields, "spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName",
		"spec.hostNetwork", "status.phase", "status.podIP", "status.podIPs", "status.nominatedNodeName")
	accepted := set.convert
	set.convert = func(label, value string) (string, string, error) {
		if label == "spec.host" {
			label = "spec.nodeName"
		}
		return accepted(label, value)
	}
	return set
}

func podFields(pod *corev1.Pod, set fields.Set) {
	set["spec.nodeName"] = pod.Spec.NodeName
	set["spec.restartPolicy"] = string(pod.Spec.RestartPolicy)
	set["spec.schedulerName"] = pod.Spec.SchedulerName
	set["spec.serviceAccountName"] = pod.Spec.ServiceAccountName
	set["spec.hostNetwork"] = strconv.FormatBool(pod.Spec.HostNetwork)
	set["status.phase"] = string(pod.Status.Phase)
	set["status.podIP"] = pod.Status.PodIP
	set["status.nominatedNodeName"] = pod.Status.NominatedNodeName
}

// podNodeName is the trigger by which a watch cache finds the watchers of one node's Pods.
func podNodeName(obj runtime.Object) string {
	return mustBe[*corev1.Pod](obj).Spec.NodeName
}
