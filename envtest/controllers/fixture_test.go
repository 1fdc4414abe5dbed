// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// objectsOfManyKinds returns some objects of each of 20 kinds.
func objectsOfManyKinds(namespace string, each int) []client.Object {
	var objects []client.Object
	for i := range each {
		labels := map[string]string{"app": fmt.Sprint(i)}
		template := corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.com/image:1"}}},
		}
		of := []client.Object{
			&corev1.ConfigMap{}, &corev1.Secret{}, &corev1.ServiceAccount{}, &corev1.LimitRange{},
			&discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4},
			&corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}},
			&corev1.PodTemplate{Template: template},
			&corev1.ReplicationController{Spec: corev1.ReplicationControllerSpec{Selector: labels, Template: &template}},
			&rbacv1.Role{}, &rbacv1.RoleBinding{RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "any"}},
			&networkingv1.NetworkPolicy{},
			&networkingv1.Ingress{Spec: networkingv1.IngressSpec{DefaultBackend: &networkingv1.IngressBackend{
				Service: &networkingv1.IngressServiceBackend{Name: "any", Port: networkingv1.ServiceBackendPort{Number: 80}}}}},
			&policyv1.PodDisruptionBudget{Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: ptr.To(intstr.FromInt32(1))}},
		}
		objects = append(append(objects, named(of, namespace, i)...), named(workloads(labels, template), namespace, i)...)
	}
	return objects
}

// workloads returns an object of each kind that makes Pods; without its controller it makes none.
func workloads(labels map[string]string, template corev1.PodTemplateSpec) []client.Object {
	selector := &metav1.LabelSelector{MatchLabels: labels}
	once := template
	once.Spec.RestartPolicy = corev1.RestartPolicyNever
	job := batchv1.JobSpec{Template: once}
	return []client.Object{
		&appsv1.Deployment{Spec: appsv1.DeploymentSpec{Selector: selector, Template: template}},
		&appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{Selector: selector, Template: template}},
		&appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Selector: selector, Template: template, ServiceName: "any"}},
		&appsv1.DaemonSet{Spec: appsv1.DaemonSetSpec{Selector: selector, Template: template}},
		&appsv1.ControllerRevision{Revision: 1, Data: runtime.RawExtension{Raw: []byte(`{}`)}},
		&batchv1.Job{Spec: job},
		&batchv1.CronJob{Spec: batchv1.CronJobSpec{Schedule: "0 0 * * *", JobTemplate: batchv1.JobTemplateSpec{Spec: job}}},
	}
}

// named names objects by a number.
func named(objects []client.Object, namespace string, i int) []client.Object {
	for _, obj := range objects {
		obj.SetNamespace(namespace)
		obj.SetName(fmt.Sprint("many-", i))
	}
	return objects
}

// kind is a custom resource of one spec.
type kind struct {
	crd *apiextensionsv1.CustomResourceDefinition
}

var kinds atomic.Int64

// newKind installs a CRD, which is removed after the spec.
func newKind(ctx context.Context, scope apiextensionsv1.ResourceScope) kind {
	GinkgoHelper()
	group := fmt.Sprintf("g%d.example.com", kinds.Add(1))
	k := kind{&apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets." + group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: scope,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Singular: "widget", Kind: "Widget", ListKind: "WidgetList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"}},
			}},
		},
	}}
	k.install(ctx)
	DeferCleanup(func(ctx SpecContext) { _ = client.IgnoreNotFound(api.Delete(ctx, k.crd)) })
	return k
}

func (k kind) install(ctx context.Context) {
	GinkgoHelper()
	Expect(env.InstallCRDs(ctx, k.crd)).To(Succeed())
}

// object returns an object of the kind; without a namespace if that is empty.
func (k kind) object(namespace, name string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{}
	obj.SetAPIVersion(k.crd.Spec.Group + "/v1")
	obj.SetKind("Widget")
	obj.SetNamespace(namespace)
	obj.SetName(name)
	return obj
}

// unreachable returns an APIService of a server that there is not.
func unreachable() *apiregistrationv1.APIService {
	group := fmt.Sprintf("g%d.example.com", kinds.Add(1))
	return &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: "v1." + group},
		Spec: apiregistrationv1.APIServiceSpec{
			Group: group, Version: "v1", GroupPriorityMinimum: 100, VersionPriority: 100, InsecureSkipTLSVerify: true,
			Service: &apiregistrationv1.ServiceReference{Namespace: "default", Name: "nobody"},
		},
	}
}

// forbidDeletion returns a policy by which nobody deletes ConfigMaps in a namespace.
func forbidDeletion(namespace string) (client.Object, client.Object) {
	name := strings.ReplaceAll(namespace, "_", "-")
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
				ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Delete},
					Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
				}}},
			},
			Validations: []admissionregistrationv1.Validation{{Expression: "false", Message: "it must stay"}},
		},
	}
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	}
	return policy, binding
}
