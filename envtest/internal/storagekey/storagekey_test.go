// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package storagekey

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// TestKeysBothWays makes keys, and reads them.
func TestKeysBothWays(t *testing.T) {
	builtin := map[string]schema.GroupResource{}
	for _, resource := range []schema.GroupResource{
		{Resource: "events"}, {Resource: "namespaces"}, {Group: "apps", Resource: "deployments"}, {Group: "rbac.authorization.k8s.io", Resource: "roles"},
	} {
		builtin[Prefix(resource)] = resource
	}
	known := func(prefix string) (schema.GroupResource, bool) {
		resource, ok := builtin[prefix]
		return resource, ok
	}
	for _, c := range []struct {
		group, resource, namespace, name string
		key                              string
		custom                           bool
	}{
		{"", "events", "a", "b", "/registry/events/a/b", false},
		{"", "namespaces", "", "events", "/registry/namespaces/events", false},
		{"apps", "deployments", "apps", "deployments", "/registry/apps/deployments/apps/deployments", false},
		{"rbac.authorization.k8s.io", "roles", "a", "system:b", "/registry/rbac.authorization.k8s.io/roles/a/system:b", false},
		{"example.com", "namespaces", "a", "b", "/registry/example.com/namespaces/a/b", true},
		{"example.com", "widgets", "", "b", "/registry/example.com/widgets/b", true},
	} {
		resource, name := schema.GroupResource{Group: c.group, Resource: c.resource}, types.NamespacedName{Namespace: c.namespace, Name: c.name}
		if key := Of(resource, name); key != c.key {
			t.Errorf("the key of %s %s is %s, want %s", resource, name, key, c.key)
		}
		if r, n, custom := Parse(c.key, known); r != resource || n != name || custom != c.custom {
			t.Errorf("%s is the key of %s %s, custom %t, want %s %s, %t", c.key, r, n, custom, resource, name, c.custom)
		}
	}
	other := schema.GroupResource{Group: "events.k8s.io", Resource: "events"}
	if key := Of(other, types.NamespacedName{Namespace: "a"}); key != "/registry/events/a/" {
		t.Errorf("the events of group events.k8s.io in a namespace begin with %s, unlike those of the core group", key)
	}
	if key := Of(other, types.NamespacedName{}); key != "/registry/events/" {
		t.Errorf("all events begin with %s", key)
	}
}

// TestWithin reads the namespace and the name from keys, also of namespaces that are called like the resource.
func TestWithin(t *testing.T) {
	for _, c := range []struct {
		key             string
		collection      bool
		namespace, name string
	}{
		{"/configmaps/a/b", false, "a", "b"},
		{"/configmaps/a", false, "", "a"}, // of a resource without namespaces
		{"/configmaps/a/", true, "a", ""},
		{"/configmaps/a", true, "a", ""},
		{"/configmaps/", true, "", ""},
		{"/configmaps", true, "", ""},
		{"configmaps", true, "", ""},
		{"/registry/configmaps/a/b", false, "a", "b"},
		{"/configmaps/configmaps/b", false, "configmaps", "b"},
		{"/configmaps/configmaps", true, "configmaps", ""},
		{"/configmaps/configmaps-x/", true, "configmaps-x", ""},
		{"/registry/configmaps/configmaps/b", false, "configmaps", "b"},
		{"/registry/configmaps/configmaps", false, "", "configmaps"},
	} {
		want := types.NamespacedName{Namespace: c.namespace, Name: c.name}
		for root, prefix := range map[string]string{"registry": "/configmaps", "/registry/": "configmaps/"} {
			if name := Within(root, prefix, c.key, c.collection); name != want {
				t.Errorf("the key %q (a collection: %t) below %s and %s: got %q, want %q", c.key, c.collection, root, prefix, name, want)
			}
		}
	}
}
