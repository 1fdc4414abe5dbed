// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func defaultEndpointSlice(slice *discoveryv1.EndpointSlice) {
	each(slice.Ports, func(p *discoveryv1.EndpointPort) {
		missing(&p.Name, "")
		missing(&p.Protocol, corev1.ProtocolTCP)
	})
}

func defaultIngressClass(class *networkingv1.IngressClass) {
	if class.Spec.Parameters != nil {
		missing(&class.Spec.Parameters.Scope, networkingv1.IngressClassParametersReferenceScopeCluster)
	}
}

// defaultNetworkPolicy makes a policy without types one for ingress, and for egress if it has such rules.
func defaultNetworkPolicy(policy *networkingv1.NetworkPolicy) {
	if len(policy.Spec.PolicyTypes) == 0 {
		policy.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
		if len(policy.Spec.Egress) > 0 {
			policy.Spec.PolicyTypes = append(policy.Spec.PolicyTypes, networkingv1.PolicyTypeEgress)
		}
	}
	tcp := func(p *networkingv1.NetworkPolicyPort) { missing(&p.Protocol, corev1.ProtocolTCP) }
	each(policy.Spec.Ingress, func(rule *networkingv1.NetworkPolicyIngressRule) { each(rule.Ports, tcp) })
	each(policy.Spec.Egress, func(rule *networkingv1.NetworkPolicyEgressRule) { each(rule.Ports, tcp) })
}

func defaultRoleBinding(binding *rbacv1.RoleBinding) {
	unset(&binding.RoleRef.APIGroup, rbacv1.GroupName)
	each(binding.Subjects, defaultSubject)
}

func defaultClusterRoleBinding(binding *rbacv1.ClusterRoleBinding) {
	unset(&binding.RoleRef.APIGroup, rbacv1.GroupName)
	each(binding.Subjects, defaultSubject)
}

// defaultSubject names the API group of users and groups; service accounts are of the core group, which has no name.
func defaultSubject(subject *rbacv1.Subject) {
	if subject.Kind == rbacv1.UserKind || subject.Kind == rbacv1.GroupKind {
		unset(&subject.APIGroup, rbacv1.GroupName)
	}
}

func defaultPriorityClass(class *schedulingv1.PriorityClass) {
	missing(&class.PreemptionPolicy, corev1.PreemptLowerPriority)
}

func defaultStorageClass(class *storagev1.StorageClass) {
	missing(&class.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete)
	missing(&class.VolumeBindingMode, storagev1.VolumeBindingImmediate)
}

func defaultCSIDriver(driver *storagev1.CSIDriver) {
	missing(&driver.Spec.AttachRequired, true)
	missing(&driver.Spec.PodInfoOnMount, false)
	missing(&driver.Spec.StorageCapacity, false)
	missing(&driver.Spec.RequiresRepublish, false)
	missing(&driver.Spec.SELinuxMount, false)
	missing(&driver.Spec.FSGroupPolicy, storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy)
	if len(driver.Spec.VolumeLifecycleModes) == 0 {
		driver.Spec.VolumeLifecycleModes = []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent}
	}
}

func defaultMutatingWebhooks(config *admissionregistrationv1.MutatingWebhookConfiguration) {
	each(config.Webhooks, func(w *admissionregistrationv1.MutatingWebhook) {
		missing(&w.FailurePolicy, admissionregistrationv1.Fail)
		missing(&w.MatchPolicy, admissionregistrationv1.Equivalent)
		missing(&w.NamespaceSelector, metav1.LabelSelector{})
		missing(&w.ObjectSelector, metav1.LabelSelector{})
		missing(&w.TimeoutSeconds, 10)
		missing(&w.ReinvocationPolicy, admissionregistrationv1.NeverReinvocationPolicy)
		defaultWebhookService(w.ClientConfig.Service)
		each(w.Rules, defaultRule)
	})
}

func defaultValidatingWebhooks(config *admissionregistrationv1.ValidatingWebhookConfiguration) {
	each(config.Webhooks, func(w *admissionregistrationv1.ValidatingWebhook) {
		missing(&w.FailurePolicy, admissionregistrationv1.Fail)
		missing(&w.MatchPolicy, admissionregistrationv1.Equivalent)
		missing(&w.NamespaceSelector, metav1.LabelSelector{})
		missing(&w.ObjectSelector, metav1.LabelSelector{})
		missing(&w.TimeoutSeconds, 10)
		defaultWebhookService(w.ClientConfig.Service)
		each(w.Rules, defaultRule)
	})
}

func defaultWebhookService(service *admissionregistrationv1.ServiceReference) {
	if service != nil {
		missing(&service.Port, 443)
	}
}

func defaultRule(rule *admissionregistrationv1.RuleWithOperations) {
	missing(&rule.Scope, admissionregistrationv1.AllScopes)
}

func defaultMatchResources(match *admissionregistrationv1.MatchResources) {
	if match == nil {
		return
	}
	missing(&match.MatchPolicy, admissionregistrationv1.Equivalent)
	missing(&match.NamespaceSelector, metav1.LabelSelector{})
	missing(&match.ObjectSelector, metav1.LabelSelector{})
	for _, rules := range [][]admissionregistrationv1.NamedRuleWithOperations{match.ResourceRules, match.ExcludeResourceRules} {
		each(rules, func(rule *admissionregistrationv1.NamedRuleWithOperations) { defaultRule(&rule.RuleWithOperations) })
	}
}

func defaultValidatingPolicy(policy *admissionregistrationv1.ValidatingAdmissionPolicy) {
	missing(&policy.Spec.FailurePolicy, admissionregistrationv1.Fail)
	defaultMatchResources(policy.Spec.MatchConstraints)
}

func defaultValidatingPolicyBinding(binding *admissionregistrationv1.ValidatingAdmissionPolicyBinding) {
	defaultMatchResources(binding.Spec.MatchResources)
}

func defaultMutatingPolicy(policy *admissionregistrationv1.MutatingAdmissionPolicy) {
	missing(&policy.Spec.FailurePolicy, admissionregistrationv1.Fail)
	defaultMatchResources(policy.Spec.MatchConstraints)
}

func defaultMutatingPolicyBinding(binding *admissionregistrationv1.MutatingAdmissionPolicyBinding) {
	defaultMatchResources(binding.Spec.MatchResources)
}
