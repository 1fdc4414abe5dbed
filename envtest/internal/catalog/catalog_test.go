// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"slices"
	"testing"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	crdserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
)

// offered returns a version with one resource.
func offered(version, resource string) apidiscoveryv2.APIVersionDiscovery {
	return apidiscoveryv2.APIVersionDiscovery{Version: version, Resources: []apidiscoveryv2.APIResourceDiscovery{{Resource: resource}}}
}

// offers returns group/version/resource in the catalog's order.
func offers(t *testing.T, c *Catalog) []string {
	t.Helper()
	doc, err := c.current()
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, group := range doc.list.Items {
		for _, v := range group.Versions {
			found = append(found, group.Name+"/"+v.Version+"/"+v.Resources[0].Resource)
		}
	}
	return found
}

func TestCatalogOrder(t *testing.T) {
	c := New(crdserver.Codecs)
	builtin := catalogSource{c, aggregated.BuiltinSource}
	custom := builtin.WithSource(aggregated.CRDSource)
	custom.AddGroupVersion("b", offered("v1beta1", "from-crd"))
	custom.AddGroupVersion("b", offered("v1", "from-crd"))
	custom.AddGroupVersion("z", offered("v1", "first"))
	custom.SetGroupVersionPriority(metav1.GroupVersion{Group: "z", Version: "v1"}, 2000, 100)
	custom.AddGroupVersion("a", offered("v2", "from-crd"))
	custom.AddGroupVersion("a", offered("v1", "from-crd"))
	custom.SetGroupVersionPriority(metav1.GroupVersion{Group: "a", Version: "v1"}, 1000, 100)
	builtin.AddGroupVersion("b", offered("v1", "built-in"))

	want := []string{"z/v1/first", "a/v1/from-crd", "a/v2/from-crd", "b/v1/built-in", "b/v1beta1/from-crd"}
	if got := offers(t, c); !slices.Equal(got, want) {
		t.Errorf("the catalog is %v, want %v", got, want)
	}
	custom.RemoveGroupVersion(metav1.GroupVersion{Group: "b", Version: "v1beta1"})
	custom.RemoveGroup("a")
	builtin.RemoveGroup("z") // is another source's
	if got, want := offers(t, c), []string{"z/v1/first", "b/v1/built-in"}; !slices.Equal(got, want) {
		t.Errorf("after removals the catalog is %v, want %v", got, want)
	}
	custom.SetGroups([]apidiscoveryv2.APIGroupDiscovery{{
		ObjectMeta: metav1.ObjectMeta{Name: "n"}, Versions: []apidiscoveryv2.APIVersionDiscovery{offered("v1", "new")},
	}})
	if got, want := offers(t, c), []string{"b/v1/built-in", "n/v1/new"}; !slices.Equal(got, want) {
		t.Errorf("after SetGroups the catalog is %v, want %v", got, want)
	}
}

func TestCatalogTellsOfChanges(t *testing.T) {
	c := New(crdserver.Codecs)
	source, called := catalogSource{c, aggregated.BuiltinSource}, 0
	source.AddInvalidationCallback(func() { called++ })
	wanted := schema.GroupVersionResource{Group: "a", Version: "v1", Resource: "things"}
	served, changed := c.serves(wanted)
	if served {
		t.Error("an empty catalog serves things")
	}
	select {
	case <-changed:
		t.Error("a change was told before there was one")
	default:
	}
	before, err := c.current()
	if err != nil {
		t.Fatal(err)
	}
	source.AddGroupVersion("a", offered("v1", "things"))
	<-changed
	if served, _ := c.serves(wanted); !served {
		t.Error("the catalog does not serve what was added")
	}
	if called == 0 {
		t.Error("the callback was not called")
	}
	after, err := c.current()
	if err != nil {
		t.Fatal(err)
	}
	if before.etag == after.etag {
		t.Error("the tag is the same for another document")
	}
}
