// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	rbacinformers "k8s.io/client-go/informers/rbac/v1"
	corelisters "k8s.io/client-go/listers/core/v1"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/scheduling"
)

var systemNamespaces = []string{
	metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease,
}

// bootstrap creates what a real server creates when it starts on an empty etcd and a test may rely on: the system
// namespaces, the Service kubernetes and where it leads, the system's priority classes, what other servers need to know to
// believe this one's users, and the default roles. It returns when the roles are in force.
func (s *server) bootstrap(ctx context.Context, users *access) error {
	loopback := s.loopback
	client, defaults := loopback.kube, defaultRoles() // a client writes the kind into what it sends: each server has its own
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
	port, err := users.port()
	if err != nil {
		return err
	}
	trust, err := users.trust()
	if err != nil {
		return err
	}
	create(&others, client.CoreV1().Services(metav1.NamespaceDefault), apiService(port))
	put(&others, client.CoreV1().Endpoints(metav1.NamespaceDefault), apiEndpoints(port))
	put(&others, client.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault), apiEndpointSlice(port))
	put(&others, client.CoreV1().ConfigMaps(metav1.NamespaceSystem), trust)
	if err := namespaces.run(ctx); err != nil {
		return err
	}
	if err := waitForNamespaces(ctx, loopback.informers.Core().V1().Namespaces().Lister()); err != nil {
		return err
	}
	if err := others.run(ctx); err != nil {
		return err
	}
	if err := waitForRoles(ctx, loopback.informers.Rbac().V1()); err != nil {
		return err
	}
	s.hooks.bootstrapped.Store(true)
	return nil
}

// waitForNamespaces returns when admission knows the namespaces: it would hold a request for what is in one of them back for
// 50 milliseconds.
func waitForNamespaces(ctx context.Context, known corelisters.NamespaceLister) error {
	err := wait.PollUntilContextCancel(ctx, hookInterval, true, func(context.Context) (bool, error) {
		for _, name := range systemNamespaces {
			if _, err := known.Get(name); err != nil {
				return false, nil // the only error is that it is not there
			}
		}
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("wait until admission knows the system's namespaces: %w", context.Cause(ctx))
	}
	return nil
}

// waitForRoles returns when the informers from which the authorizer reads have the default roles and bindings: a user who
// asked earlier would be refused.
func waitForRoles(ctx context.Context, kinds rbacinformers.Interface) error {
	defaults := defaultRoles()
	known := func(context.Context) (bool, error) { // the only error of a lister is that it does not have the object
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
	if err := wait.PollUntilContextCancel(ctx, hookInterval, true, known); err != nil {
		return fmt.Errorf("wait until the default roles are in force: %w", context.Cause(ctx))
	}
	return nil
}
