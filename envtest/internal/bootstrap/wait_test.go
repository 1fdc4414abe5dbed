// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"context"
	"testing"

	"k8s.io/client-go/informers"
	rbacinformers "k8s.io/client-go/informers/rbac/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
)

// TestWaitForRoles takes from each of the informers what came last: whoever it gives rights to would be refused.
func TestWaitForRoles(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel() // what has to be waited for ends in an error
	kinds := informers.NewSharedInformerFactory(fake.NewClientset(), 0).Rbac().V1()
	known := fillRoles(t, kinds)
	if err := waitForRoles(ended, kinds); err != nil {
		t.Fatalf("all are known: %v", err)
	}
	for name, store := range known {
		last := store.List()[0]
		if err := store.Delete(last); err != nil {
			t.Fatal(err)
		}
		if err := waitForRoles(ended, kinds); err == nil {
			t.Errorf("nobody waits for %s", name)
		}
		if err := store.Add(last); err != nil {
			t.Fatal(err)
		}
	}
}

// fillRoles adds the default roles and bindings to the stores of informers, which it returns by their kinds.
func fillRoles(t *testing.T, kinds rbacinformers.Interface) map[string]cache.Indexer {
	t.Helper()
	known := map[string]cache.Indexer{
		"ClusterRoles": kinds.ClusterRoles().Informer().GetIndexer(), "ClusterRoleBindings": kinds.ClusterRoleBindings().Informer().GetIndexer(),
		"Roles": kinds.Roles().Informer().GetIndexer(), "RoleBindings": kinds.RoleBindings().Informer().GetIndexer(),
	}
	add := func(kind string, object any) {
		if err := known[kind].Add(object); err != nil {
			t.Fatal(err)
		}
	}
	defaults := defaultRoles()
	for i := range defaults.ClusterRoles {
		add("ClusterRoles", &defaults.ClusterRoles[i])
	}
	for i := range defaults.ClusterRoleBindings {
		add("ClusterRoleBindings", &defaults.ClusterRoleBindings[i])
	}
	for i := range defaults.Roles {
		add("Roles", &defaults.Roles[i])
	}
	for i := range defaults.RoleBindings {
		add("RoleBindings", &defaults.RoleBindings[i])
	}
	return known
}
