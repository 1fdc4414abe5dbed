// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestKeys reads the namespace and the name from keys, also of namespaces that are called like the resource.
func TestKeys(t *testing.T) {
	keys := Keys{Resource: schema.GroupResource{Resource: "configmaps"}, Root: "registry", Prefix: "/configmaps"}
	slashed := Keys{Resource: schema.GroupResource{Resource: "configmaps"}, Root: "/registry/", Prefix: "configmaps/"}
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
		for _, k := range []Keys{keys, slashed} {
			if namespace, name := k.namespaceAndName(c.key, c.collection); namespace != c.namespace || name != c.name {
				t.Errorf("the key %q (a collection: %t) of %+v: got %q, %q", c.key, c.collection, k, namespace, name)
			}
		}
	}
}
