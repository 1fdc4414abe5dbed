// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/user"
	rbacinformers "k8s.io/client-go/informers/rbac/v1"

	"github.com/tarn-dev/tarn/envtest/internal/builtin"
)

// serviceIP is the first address of the range from which kube-apiserver gives out cluster addresses by default.
const serviceIP = "10.0.0.1"

// bootstrap creates what a real server creates when it starts on an empty etcd and a test may rely on: the system
// namespaces, the Service kubernetes, the system's priority classes, and the roles that let every user find
// out what the server offers, and anybody how it is.
// It returns when the roles are in force.
func bootstrap(ctx context.Context, loopback *loopback) error {
	client := loopback.kube
	for _, name := range []string{
		metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease,
	} {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); missing(err) {
			return fmt.Errorf("create namespace %s: %w", name, err)
		}
	}
	if _, err := client.CoreV1().Services(metav1.NamespaceDefault).Create(ctx, apiService(), metav1.CreateOptions{}); missing(err) {
		return fmt.Errorf("create Service kubernetes: %w", err)
	}
	for _, class := range builtin.SystemPriorityClasses() {
		if _, err := client.SchedulingV1().PriorityClasses().Create(ctx, class, metav1.CreateOptions{}); missing(err) {
			return fmt.Errorf("create PriorityClass %s: %w", class.Name, err)
		}
	}
	for _, role := range clusterRoles() {
		if _, err := client.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{}); missing(err) {
			return fmt.Errorf("create ClusterRole %s: %w", role.Name, err)
		}
	}
	for _, binding := range clusterRoleBindings() {
		if _, err := client.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); missing(err) {
			return fmt.Errorf("create ClusterRoleBinding %s: %w", binding.Name, err)
		}
	}
	return waitForRoles(ctx, loopback.informers.Rbac().V1())
}

// missing says whether an object was not created and is not there either, as in an etcd that a server has used before.
func missing(err error) bool { return err != nil && !apierrors.IsAlreadyExists(err) }

// waitForRoles returns when the informers from which the authorizer reads have the default roles and bindings: a user who
// asked earlier would be refused.
func waitForRoles(ctx context.Context, kinds rbacinformers.Interface) error {
	known := func(context.Context) (bool, error) {
		for _, role := range clusterRoles() {
			if _, err := kinds.ClusterRoles().Lister().Get(role.Name); err != nil {
				return false, nil // the only error is that it is not there
			}
		}
		for _, binding := range clusterRoleBindings() {
			if _, err := kinds.ClusterRoleBindings().Lister().Get(binding.Name); err != nil {
				return false, nil
			}
		}
		return true, nil
	}
	if err := wait.PollUntilContextCancel(ctx, hookInterval, true, known); err != nil {
		return fmt.Errorf("wait until the default roles are in force: %w", context.Cause(ctx))
	}
	return nil
}

// apiService is the Service under which Pods would reach the server.
func apiService() *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Name:   "kubernetes",
			Labels: map[string]string{"component": "apiserver", "provider": "kubernetes"},
		},
		Spec: corev1.ServiceSpec{
			Type:       corev1.ServiceTypeClusterIP,
			ClusterIP:  serviceIP,
			ClusterIPs: []string{serviceIP},
			Ports: []corev1.ServicePort{{
				Name: "https", Protocol: corev1.ProtocolTCP, Port: 443, TargetPort: intstr.FromInt32(443),
			}},
		},
	}
}

// bootstrapMeta marks an object as kube-apiserver marks its own.
func bootstrapMeta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/bootstrapping": "rbac-defaults"}}
}

// clusterRoles are the default roles that need no controller.
func clusterRoles() []*rbacv1.ClusterRole {
	get, create := []string{"get"}, []string{"create"}
	public := []string{"/healthz", "/livez", "/readyz", "/version", "/version/"}
	discovery := append([]string{"/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*"}, public...)
	return []*rbacv1.ClusterRole{
		{
			ObjectMeta: bootstrapMeta("cluster-admin"),
			Rules: []rbacv1.PolicyRule{
				{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}},
				{Verbs: []string{"*"}, NonResourceURLs: []string{"*"}},
			},
		},
		{
			ObjectMeta: bootstrapMeta("system:discovery"),
			Rules:      []rbacv1.PolicyRule{{Verbs: get, NonResourceURLs: discovery}},
		},
		{
			ObjectMeta: bootstrapMeta("system:basic-user"),
			Rules: []rbacv1.PolicyRule{
				{Verbs: create, APIGroups: []string{authorizationv1.GroupName}, Resources: []string{"selfsubjectaccessreviews", "selfsubjectrulesreviews"}},
				{Verbs: create, APIGroups: []string{authenticationv1.GroupName}, Resources: []string{"selfsubjectreviews"}},
			},
		},
		{
			ObjectMeta: bootstrapMeta("system:public-info-viewer"),
			Rules:      []rbacv1.PolicyRule{{Verbs: get, NonResourceURLs: public}},
		},
	}
}

// clusterRoleBindings bind the default roles to the groups that have them on a real server.
func clusterRoleBindings() []*rbacv1.ClusterRoleBinding {
	bind := func(role string, groups ...string) *rbacv1.ClusterRoleBinding {
		var subjects []rbacv1.Subject
		for _, group := range groups {
			subjects = append(subjects, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: group})
		}
		return &rbacv1.ClusterRoleBinding{
			ObjectMeta: bootstrapMeta(role),
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   subjects,
		}
	}
	return []*rbacv1.ClusterRoleBinding{
		bind("cluster-admin", adminGroup),
		bind("system:basic-user", user.AllAuthenticated),
		bind("system:discovery", user.AllAuthenticated),
		bind("system:public-info-viewer", user.AllAuthenticated, user.AllUnauthenticated),
	}
}
