// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

import (
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

// noStorage gives stores without storage: enough to build them.
func noStorage() generic.RESTOptionsGetter {
	return generic.RESTOptions{
		StorageConfig:  (&storagebackend.Config{}).ForResource(schema.GroupResource{Resource: "any"}),
		ResourcePrefix: "/any",
		Decorator: func(*storagebackend.ConfigForResource, string, func(runtime.Object) (string, error), func() runtime.Object,
			func() runtime.Object, storage.AttrFunc, storage.IndexerFuncs, *cache.Indexers) (storage.Interface, factory.DestroyFunc, error) {
			return nil, func() {}, nil
		},
	}
}

func TestEveryKindIsServed(t *testing.T) {
	built, err := New(noStorage(), &kind.Access{})
	if err != nil {
		t.Fatal(err)
	}
	groups := built.Groups
	if got := groups[0].PrioritizedVersions[0].Group; got != "" {
		t.Errorf("the first group is %q, want the core group", got)
	}
	served := map[schema.GroupVersionResource]bool{}
	for _, group := range groups {
		for version, storages := range group.VersionedResourcesStorageMap {
			for resource := range storages {
				served[schema.GroupVersionResource{Group: group.PrioritizedVersions[0].Group, Version: version, Resource: resource}] = true
			}
		}
	}
	for _, k := range kinds() {
		gv := k.GVK.GroupVersion()
		if !served[gv.WithResource(k.Resource)] {
			t.Errorf("%s %s is not served", gv, k.Resource)
		}
		if k.Rules.Status != served[gv.WithResource(k.Resource+"/status")] {
			t.Errorf("%s %s: status subresource served: %v, want %v", gv, k.Resource, !k.Rules.Status, k.Rules.Status)
		}
	}
}

func TestEveryKindHasItsParts(t *testing.T) {
	for _, k := range kinds() {
		obj := kind.NewFunc(Scheme(), k.GVK)()
		if _, err := meta.Accessor(obj); err != nil {
			t.Errorf("%s: %v", k.GVK, err)
		}
		if k.Rules.Status && !kind.StatusOf(obj).IsValid() {
			t.Errorf("%s has a status subresource but no field Status", k.GVK)
		}
		if err := meta.SetList(kind.NewFunc(Scheme(), k.ListGVK())(), []runtime.Object{obj}); err != nil {
			t.Errorf("%s: %v", k.ListGVK(), err)
		}
		plural, singular := meta.UnsafeGuessKindToResource(k.GVK)
		if plural.Resource != k.Resource || singular.Resource != k.SingularName() {
			t.Errorf("%s: resource %s, singular %s; clients that guess expect %s and %s",
				k.GVK, k.Resource, k.SingularName(), plural.Resource, singular.Resource)
		}
	}
}

func TestEveryKindHasOpenAPI(t *testing.T) {
	defs := OpenAPIDefinitions(func(path string) spec.Ref { return spec.MustCreateRef("#/definitions/" + path) })
	for _, k := range kinds() {
		for _, gvk := range []schema.GroupVersionKind{k.GVK, k.ListGVK()} {
			obj := kind.NewFunc(Scheme(), gvk)()
			named, ok := obj.(interface{ OpenAPIModelName() string })
			if !ok {
				named = reflect.ValueOf(obj).Elem().Interface().(interface{ OpenAPIModelName() string })
			}
			if def, ok := defs[named.OpenAPIModelName()]; !ok || len(def.Schema.Properties) == 0 {
				t.Errorf("%s: no OpenAPI definition %s", gvk, named.OpenAPIModelName())
			}
		}
	}
}
