// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

import (
	"fmt"
	"strconv"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
)

func leaseCells(lease *coordinationv1.Lease) []any {
	return []any{value(lease.Spec.HolderIdentity, ""), ageOf(lease)}
}

func endpointSliceCells(slice *discoveryv1.EndpointSlice) []any {
	more := func(n int) string { return fmt.Sprintf(" + %d more...", n) }
	var ports, addresses []string
	for _, port := range slice.Ports {
		if port.Port != nil {
			ports = append(ports, strconv.Itoa(int(*port.Port)))
		} else {
			ports = append(ports, value(port.Name, "*"))
		}
	}
	for i := range slice.Endpoints {
		addresses = append(addresses, slice.Endpoints[i].Addresses...)
	}
	return []any{string(slice.AddressType), or(someOf(ports, more), "<unset>"), or(someOf(addresses, more), "<unset>"), ageOf(slice)}
}

func ingressCells(ingress *networkingv1.Ingress) []any {
	var hosts []string
	addresses := sets.New[string]()
	for _, rule := range ingress.Spec.Rules {
		if rule.Host != "" {
			hosts = append(hosts, rule.Host)
		}
	}
	for _, entry := range ingress.Status.LoadBalancer.Ingress {
		addresses.Insert(or(entry.IP, entry.Hostname))
	}
	addresses.Delete("")
	ports := "80"
	if len(ingress.Spec.TLS) > 0 {
		ports = "80, 443"
	}
	shown := or(someOf(hosts, func(n int) string { return fmt.Sprintf(" + %d more...", n) }), "*")
	return []any{value(ingress.Spec.IngressClassName, "<none>"), shown, strings.Join(sets.List(addresses), ","), ports, ageOf(ingress)}
}

func ingressClassCells(class *networkingv1.IngressClass) []any {
	parameters := "<none>"
	if p := class.Spec.Parameters; p != nil {
		parameters = p.Kind
		if p.APIGroup != nil {
			parameters += "." + *p.APIGroup
		}
		parameters += "/" + p.Name
	}
	return []any{class.Spec.Controller, parameters, ageOf(class)}
}

func networkPolicyCells(policy *networkingv1.NetworkPolicy) []any {
	return []any{metav1.FormatLabelSelector(&policy.Spec.PodSelector), ageOf(policy)}
}

func podDisruptionBudgetCells(budget *policyv1.PodDisruptionBudget) []any {
	show := func(v *intstr.IntOrString) string {
		if v == nil {
			return "N/A"
		}
		return v.String()
	}
	return []any{show(budget.Spec.MinAvailable), show(budget.Spec.MaxUnavailable), int64(budget.Status.DisruptionsAllowed), ageOf(budget)}
}

func roleBindingCells(binding *rbacv1.RoleBinding) []any {
	return append([]any{binding.RoleRef.Kind + "/" + binding.RoleRef.Name, ageOf(binding)}, subjectCells(binding.Subjects)...)
}

func clusterRoleBindingCells(binding *rbacv1.ClusterRoleBinding) []any {
	return append([]any{binding.RoleRef.Kind + "/" + binding.RoleRef.Name, ageOf(binding)}, subjectCells(binding.Subjects)...)
}

// subjectCells lists users, groups and service accounts.
func subjectCells(subjects []rbacv1.Subject) []any {
	var users, groups, accounts []string
	for _, subject := range subjects {
		switch subject.Kind {
		case rbacv1.UserKind:
			users = append(users, subject.Name)
		case rbacv1.GroupKind:
			groups = append(groups, subject.Name)
		case rbacv1.ServiceAccountKind:
			accounts = append(accounts, subject.Namespace+"/"+subject.Name)
		}
	}
	return []any{strings.Join(users, ", "), strings.Join(groups, ", "), strings.Join(accounts, ", ")}
}

func priorityClassCells(class *schedulingv1.PriorityClass) []any {
	return []any{int64(class.Value), class.GlobalDefault, ageOf(class), value(class.PreemptionPolicy, "")}
}

func storageClassCells(class *storagev1.StorageClass) []any {
	name := class.Name
	if isDefault(&class.ObjectMeta, defaultStorage, defaultStorageBeta) {
		name += " (default)"
	}
	return []any{
		name, class.Provisioner, value(class.ReclaimPolicy, "Delete"), value(class.VolumeBindingMode, "<unset>"),
		isTrue(class.AllowVolumeExpansion), ageOf(class),
	}
}

func csiDriverCells(driver *storagev1.CSIDriver) []any {
	var modes, audiences []string
	tokens := "<unset>"
	for _, mode := range driver.Spec.VolumeLifecycleModes {
		modes = append(modes, string(mode))
	}
	for _, request := range driver.Spec.TokenRequests {
		audiences = append(audiences, request.Audience)
		tokens = strings.Join(audiences, ",")
	}
	return []any{
		isTrue(driver.Spec.AttachRequired), isTrue(driver.Spec.PodInfoOnMount), isTrue(driver.Spec.StorageCapacity),
		tokens, isTrue(driver.Spec.RequiresRepublish), or(strings.Join(modes, ","), "<none>"), ageOf(driver),
	}
}

func csiNodeCells(node *storagev1.CSINode) []any {
	return []any{int64(len(node.Spec.Drivers)), ageOf(node)}
}

func volumeAttachmentCells(a *storagev1.VolumeAttachment) []any {
	return []any{a.Spec.Attacher, value(a.Spec.Source.PersistentVolumeName, ""), a.Spec.NodeName, a.Status.Attached, ageOf(a)}
}

func mutatingWebhookCells(config *admissionregistrationv1.MutatingWebhookConfiguration) []any {
	return []any{int64(len(config.Webhooks)), ageOf(config)}
}

func validatingWebhookCells(config *admissionregistrationv1.ValidatingWebhookConfiguration) []any {
	return []any{int64(len(config.Webhooks)), ageOf(config)}
}

func validatingPolicyCells(policy *admissionregistrationv1.ValidatingAdmissionPolicy) []any {
	return []any{int64(len(policy.Spec.Validations)), paramKind(policy.Spec.ParamKind), ageOf(policy)}
}

func mutatingPolicyCells(policy *admissionregistrationv1.MutatingAdmissionPolicy) []any {
	return []any{int64(len(policy.Spec.Mutations)), paramKind(policy.Spec.ParamKind), ageOf(policy)}
}

func paramKind(kind *admissionregistrationv1.ParamKind) string {
	if kind == nil {
		return "<unset>"
	}
	return kind.APIVersion + "/" + kind.Kind
}

func validatingPolicyBindingCells(binding *admissionregistrationv1.ValidatingAdmissionPolicyBinding) []any {
	return []any{binding.Spec.PolicyName, paramRef(binding.Spec.ParamRef), ageOf(binding)}
}

func mutatingPolicyBindingCells(binding *admissionregistrationv1.MutatingAdmissionPolicyBinding) []any {
	return []any{binding.Spec.PolicyName, paramRef(binding.Spec.ParamRef), ageOf(binding)}
}

func paramRef(ref *admissionregistrationv1.ParamRef) string {
	switch {
	case ref == nil:
		return "<unset>"
	case ref.Namespace != "":
		return ref.Namespace + "/" + ref.Name
	case ref.Name != "":
		return "*/" + ref.Name
	default:
		return "*/*"
	}
}

func serviceCIDRCells(cidr *networkingv1.ServiceCIDR) []any {
	return []any{strings.Join(cidr.Spec.CIDRs, ","), ageOf(cidr)}
}

func ipAddressCells(address *networkingv1.IPAddress) []any {
	parent := "<none>"
	if ref := address.Spec.ParentRef; ref != nil {
		parent = strings.ToLower(schema.GroupResource{Group: ref.Group, Resource: ref.Resource}.String())
		if ref.Namespace != "" {
			parent += "/" + ref.Namespace
		}
		parent += "/" + ref.Name
	}
	return []any{parent, ageOf(address)}
}

func runtimeClassCells(class *nodev1.RuntimeClass) []any {
	return []any{class.Handler, ageOf(class)}
}

func volumeAttributesClassCells(class *storagev1.VolumeAttributesClass) []any {
	return []any{class.DriverName, ageOf(class)}
}
