// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func coordinationKinds() []*kind {
	return []*kind{{
		gvk: coordinationv1.SchemeGroupVersion.WithKind("Lease"), resource: "leases",
		rules: rules{putCreates: true, needVersion: true, anyFinalizers: true},
		hooks: hooks{validate: typedCheck(validateLease)},
		table: show("Holder,Age", leaseCells),
	}}
}

func discoveryKinds() []*kind {
	return []*kind{{
		gvk: discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"), resource: "endpointslices",
		rules: rules{generation: true, countsLabels: true},
		hooks: hooks{defaults: typed1(defaultEndpointSlice), validate: typedCheck(validateEndpointSlice)},
		warn:  warnHooks{object: typedWarn(warnEndpointSlice)},
		table: show("AddressType,Ports,Endpoints,Age", endpointSliceCells),
	}}
}

func networkingKinds() []*kind {
	networking := func(kind string) schema.GroupVersionKind { return networkingv1.SchemeGroupVersion.WithKind(kind) }
	return []*kind{
		{
			gvk: networking("Ingress"), resource: "ingresses", short: []string{"ing"},
			rules: rules{status: true, generation: true},
			hooks: hooks{validate: typedCheck(validateIngress), validateStatus: typedCheck(validateIngressStatus)},
			warn:  warnHooks{object: typedWarn(warnIngress), status: typedWarn(warnIngressStatus)},
			table: show("Class,Hosts,Address,Ports,Age", ingressCells),
		},
		{
			gvk: networking("IngressClass"), resource: "ingressclasses", cluster: true,
			rules: rules{generation: true},
			hooks: hooks{defaults: typed1(defaultIngressClass), validate: typedCheck(validateIngressClass)},
			table: show("Controller,Parameters,Age", ingressClassCells),
		},
		{
			gvk: networking("NetworkPolicy"), resource: "networkpolicies", short: []string{"netpol"},
			rules: rules{generation: true},
			hooks: hooks{defaults: typed1(defaultNetworkPolicy), validate: typedCheck(validateNetworkPolicy)},
			warn:  warnHooks{object: typedWarn(warnNetworkPolicy)},
			table: show("Pod-Selector,Age", networkPolicyCells),
		},
		{
			gvk: networking("ServiceCIDR"), resource: "servicecidrs", cluster: true,
			rules: rules{status: true, statusKeeps: []string{"metadata"}},
			hooks: hooks{validate: typedCheck(validateServiceCIDR)},
			table: show("CIDRs,Age", serviceCIDRCells),
		},
		{
			gvk: networking("IPAddress"), resource: "ipaddresses", short: []string{"ip"}, cluster: true,
			rules: rules{names: ipAddressName},
			hooks: hooks{validate: typedCheck(validateIPAddress)},
			table: show("ParentRef", ipAddressCells),
		},
	}
}

func nodeKinds() []*kind {
	return []*kind{{
		gvk: nodev1.SchemeGroupVersion.WithKind("RuntimeClass"), resource: "runtimeclasses", cluster: true,
		rules: rules{needVersion: true, anyFinalizers: true, putCreates: true},
		hooks: hooks{validate: typedCheck(validateRuntimeClass)},
		warn:  warnHooks{object: typedWarn(warnRuntimeClass)},
		table: show("Handler,Age", runtimeClassCells),
	}}
}

func policyKinds() []*kind {
	return []*kind{{
		gvk: policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"), resource: "poddisruptionbudgets", short: []string{"pdb"},
		rules: rules{status: true, generation: true, needVersion: true, anyFinalizers: true, anyMeta: true},
		hooks: hooks{validate: typedCheck(validatePodDisruptionBudget), validateStatus: typedCheck(validatePodDisruptionBudgetStatus)},
		table: show("Min Available,Max Unavailable,Allowed Disruptions#,Age", podDisruptionBudgetCells),
	}}
}

// pathSegment is the rule for names that may have any character that does not end a segment of a URL path.
func pathSegment(name string, prefix bool) []string {
	if prefix {
		return content.IsPathSegmentPrefix(name)
	}
	return content.IsPathSegmentName(name)
}

func rbacKinds() []*kind {
	rbac := func(kind string) schema.GroupVersionKind { return rbacv1.SchemeGroupVersion.WithKind(kind) }
	common := rules{putCreates: true, names: pathSegment}
	return []*kind{
		{
			gvk: rbac("Role"), resource: "roles", rules: common,
			hooks:  hooks{validate: typedCheck(validateRole)},
			attach: attachGrant(checkRole),
		},
		{
			gvk: rbac("RoleBinding"), resource: "rolebindings", rules: common,
			hooks:  hooks{defaults: typed1(defaultRoleBinding), validate: typedCheck(validateRoleBinding)},
			attach: attachGrant(checkBinding),
			table:  show("Role,Age,+Users,+Groups,+ServiceAccounts", roleBindingCells),
		},
		{
			gvk: rbac("ClusterRole"), resource: "clusterroles", cluster: true, rules: common,
			hooks:  hooks{validate: typedCheck(validateClusterRole)},
			attach: attachGrant(checkRole),
		},
		{
			gvk: rbac("ClusterRoleBinding"), resource: "clusterrolebindings", cluster: true, rules: common,
			hooks:  hooks{defaults: typed1(defaultClusterRoleBinding), validate: typedCheck(validateClusterRoleBinding)},
			attach: attachGrant(checkBinding),
			table:  show("Role,Age,+Users,+Groups,+ServiceAccounts", clusterRoleBindingCells),
		},
	}
}

func schedulingKinds() []*kind {
	return []*kind{{
		gvk: schedulingv1.SchemeGroupVersion.WithKind("PriorityClass"), resource: "priorityclasses", short: []string{"pc"},
		cluster: true,
		hooks:   hooks{defaults: typed1(defaultPriorityClass), prepare: typedPrepare(preparePriorityClass), validate: typedCheck(validatePriorityClass)},
		attach:  attachPriorityClass,
		table:   show("Value#,Global-Default?,Age,PreemptionPolicy", priorityClassCells),
	}}
}

func storageKinds() []*kind {
	storage := func(kind string) schema.GroupVersionKind { return storagev1.SchemeGroupVersion.WithKind(kind) }
	return []*kind{
		{
			gvk: storage("StorageClass"), resource: "storageclasses", short: []string{"sc"}, cluster: true,
			rules: rules{returnDeleted: true},
			hooks: hooks{defaults: typed1(defaultStorageClass), validate: typedCheck(validateStorageClass)},
			warn:  warnHooks{object: typedWarn(warnStorageClass)},
			table: show("Name,Provisioner,ReclaimPolicy,VolumeBindingMode,AllowVolumeExpansion,Age", storageClassCells),
		},
		{
			gvk: storage("CSIDriver"), resource: "csidrivers", cluster: true,
			rules: rules{returnDeleted: true, needVersion: true},
			hooks: hooks{defaults: typed1(defaultCSIDriver), prepare: typedPrepare(prepareCSIDriver), validate: typedCheck(validateCSIDriver)},
			warn:  warnHooks{object: typedWarn(warnCSIDriver)},
			table: show("AttachRequired?,PodInfoOnMount?,StorageCapacity?,TokenRequests,RequiresRepublish?,Modes,Age", csiDriverCells),
		},
		{
			gvk: storage("CSINode"), resource: "csinodes", cluster: true,
			rules: rules{returnDeleted: true, needVersion: true},
			hooks: hooks{prepare: typedPrepare(prepareCSINode), validate: typedCheck(validateCSINode)},
			table: show("Drivers#,Age", csiNodeCells),
		},
		{
			gvk: storage("VolumeAttachment"), resource: "volumeattachments", cluster: true,
			rules: rules{status: true, returnDeleted: true, needVersion: true, statusKeeps: []string{"metadata"}},
			hooks: hooks{validate: typedCheck(validateVolumeAttachment), validateStatus: typedCheck(validateVolumeAttachmentStatus)},
			table: show("Attacher@,PV,Node,Attached?,Age", volumeAttachmentCells),
		},
		{
			gvk: storage("VolumeAttributesClass"), resource: "volumeattributesclasses", short: []string{"vac"}, cluster: true,
			rules: rules{returnDeleted: true},
			hooks: hooks{validate: typedCheck(validateVolumeAttributesClass)},
			table: show("DriverName,Age", volumeAttributesClassCells),
		},
		{
			gvk: storage("CSIStorageCapacity"), resource: "csistoragecapacities",
			rules: rules{needVersion: true},
			hooks: hooks{validate: typedCheck(validateCSIStorageCapacity)},
			warn:  warnHooks{object: typedWarn(warnCSIStorageCapacity)},
		},
	}
}

func admissionKinds() []*kind {
	admission := func(kind string) schema.GroupVersionKind {
		return admissionregistrationv1.SchemeGroupVersion.WithKind(kind)
	}
	extensions := []string{"api-extensions"}
	common := rules{generation: true, needVersion: true, anyFinalizers: true}
	static := warnHooks{object: warnStaticName}
	return []*kind{
		{
			gvk: admission("MutatingWebhookConfiguration"), resource: "mutatingwebhookconfigurations", cluster: true,
			categories: extensions, rules: common,
			hooks: hooks{defaults: typed1(defaultMutatingWebhooks), validate: typedCheck(validateMutatingWebhooks)},
			warn:  static,
			table: show("Webhooks#,Age", mutatingWebhookCells),
		},
		{
			gvk: admission("ValidatingWebhookConfiguration"), resource: "validatingwebhookconfigurations", cluster: true,
			categories: extensions, rules: common,
			hooks: hooks{defaults: typed1(defaultValidatingWebhooks), validate: typedCheck(validateValidatingWebhooks)},
			warn:  static,
			table: show("Webhooks#,Age", validatingWebhookCells),
		},
		{
			gvk: admission("ValidatingAdmissionPolicy"), resource: "validatingadmissionpolicies", cluster: true,
			categories: extensions, rules: rules{status: true, generation: true, needVersion: true, anyFinalizers: true, statusKeeps: []string{"metadata"}},
			hooks: hooks{defaults: typed1(defaultValidatingPolicy), validate: typedCheck(validateValidatingPolicy), validateStatus: typedCheck(validateValidatingPolicyStatus)},
			warn:  static,
			table: show("Validations#,ParamKind,Age", validatingPolicyCells),
		},
		{
			gvk: admission("ValidatingAdmissionPolicyBinding"), resource: "validatingadmissionpolicybindings", cluster: true,
			categories: extensions, rules: common,
			hooks: hooks{defaults: typed1(defaultValidatingPolicyBinding), validate: typedCheck(validateValidatingPolicyBinding)},
			warn:  static,
			table: show("PolicyName,ParamRef,Age", validatingPolicyBindingCells),
		},
		{
			gvk: admission("MutatingAdmissionPolicy"), resource: "mutatingadmissionpolicies", cluster: true,
			categories: extensions, rules: common,
			hooks: hooks{defaults: typed1(defaultMutatingPolicy), validate: typedCheck(validateMutatingPolicy)},
			warn:  static,
			table: show("Mutations#,ParamKind,Age", mutatingPolicyCells),
		},
		{
			gvk: admission("MutatingAdmissionPolicyBinding"), resource: "mutatingadmissionpolicybindings", cluster: true,
			categories: extensions, rules: common,
			hooks: hooks{defaults: typed1(defaultMutatingPolicyBinding), validate: typedCheck(validateMutatingPolicyBinding)},
			warn:  static,
			table: show("PolicyName,ParamRef,Age", mutatingPolicyBindingCells),
		},
	}
}
