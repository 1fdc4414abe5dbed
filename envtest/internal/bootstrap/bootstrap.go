// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	rbacinformers "k8s.io/client-go/informers/rbac/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/scheduling"
	"github.com/tarn-dev/tarn/envtest/internal/serving"
)

var systemNamespaces = []string{
	metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease,
}

// Config is what there is to tell about a server.
type Config struct {
	Client    kubernetes.Interface
	Informers informers.SharedInformerFactory // of admission and authorization
	Port      int32                           // where the server listens
	Trust     *corev1.ConfigMap               // what other servers need to know to believe this one's users
}

// Run creates the first objects of a real server, as far as a test may rely on them: the system namespaces, the Service
// kubernetes with its endpoints, the system's priority classes, the ConfigMap by which other servers trust this one's
// users, and the default roles. It returns when the roles are in force.
func Run(ctx context.Context, c Config) error {
	client, defaults := c.Client, defaultRoles() // a client writes the kind into what it sends: each server has its own
	var namespaces, others creations
	for _, name := range systemNamespaces {
		create(&namespaces, client.CoreV1().Namespaces(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	for _, class := range scheduling.SystemPriorityClasses() {
		create(&others, client.SchedulingV1().PriorityClasses(), class)
	}
	for i := range defaults.ClusterRoles {
		create(&others, client.RbacV1().ClusterRoles(), defaults.ClusterRoles[i].DeepCopy())
	}
	for i := range defaults.ClusterRoleBindings {
		create(&others, client.RbacV1().ClusterRoleBindings(), defaults.ClusterRoleBindings[i].DeepCopy())
	}
	for i := range defaults.Roles {
		create(&others, client.RbacV1().Roles(defaults.Roles[i].Namespace), defaults.Roles[i].DeepCopy())
	}
	for i := range defaults.RoleBindings {
		create(&others, client.RbacV1().RoleBindings(defaults.RoleBindings[i].Namespace), defaults.RoleBindings[i].DeepCopy())
	}
	create(&others, client.CoreV1().Services(metav1.NamespaceDefault), apiService(c.Port))
	put(&others, client.CoreV1().Endpoints(metav1.NamespaceDefault), apiEndpoints(c.Port))
	put(&others, client.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault), apiEndpointSlice(c.Port))
	put(&others, client.CoreV1().ConfigMaps(metav1.NamespaceSystem), c.Trust)
	if err := namespaces.run(ctx); err != nil {
		return err
	}
	if err := waitForNamespaces(ctx, c.Informers.Core().V1().Namespaces().Lister()); err != nil {
		return err
	}
	if err := others.run(ctx); err != nil {
		return err
	}
	return waitForRoles(ctx, c.Informers.Rbac().V1())
}

// waitForNamespaces returns when admission knows the namespaces: it would hold a request for what is in one of them back for
// 50 milliseconds.
func waitForNamespaces(ctx context.Context, known corelisters.NamespaceLister) error {
	err := serving.Poll(ctx, func() (bool, error) {
		for _, name := range systemNamespaces {
			if _, err := known.Get(name); err != nil {
				return false, nil // the only error is that it is not there
			}
		}
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("wait until admission knows the system's namespaces: %w", err)
	}
	return nil
}

// waitForRoles returns when the informers from which the authorizer reads have the default roles and bindings: a user who
// asked earlier would be refused.
func waitForRoles(ctx context.Context, kinds rbacinformers.Interface) error {
	defaults := defaultRoles()
	known := func() (bool, error) { // the only error of a lister is that it does not have the object
		return !slices.ContainsFunc(defaults.ClusterRoles, func(role rbacv1.ClusterRole) bool {
			_, err := kinds.ClusterRoles().Lister().Get(role.Name)
			return err != nil
		}) && !slices.ContainsFunc(defaults.ClusterRoleBindings, func(binding rbacv1.ClusterRoleBinding) bool {
			_, err := kinds.ClusterRoleBindings().Lister().Get(binding.Name)
			return err != nil
		}) && !slices.ContainsFunc(defaults.Roles, func(role rbacv1.Role) bool {
			_, err := kinds.Roles().Lister().Roles(role.Namespace).Get(role.Name)
			return err != nil
		}) && !slices.ContainsFunc(defaults.RoleBindings, func(binding rbacv1.RoleBinding) bool {
			_, err := kinds.RoleBindings().Lister().RoleBindings(binding.Namespace).Get(binding.Name)
			return err != nil
		}), nil
	}
	if err := serving.Poll(ctx, known); err != nil {
		return fmt.Errorf("wait until the default roles are in force: %w", err)
	}
	return nil
}
