// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

import (
	"context"
	"fmt"
	"strings"

	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/client-go/tools/cache"
)

// resourceREST serves the main resource of a kind.
type resourceREST struct {
	*genericregistry.Store
	kind *kind
}

var (
	_ rest.StandardStorage    = resourceREST{}
	_ rest.ShortNamesProvider = resourceREST{}
	_ rest.CategoriesProvider = resourceREST{}
)

// ShortNames returns the names that kubectl knows besides the plural.
func (r resourceREST) ShortNames() []string { return r.kind.short }

// Categories returns the groups of resources to which this one belongs, such as "all".
func (r resourceREST) Categories() []string { return r.kind.categories }

// Delete warns as the row says.
func (r resourceREST) Delete(ctx context.Context, name string, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions) (runtime.Object, bool, error) {
	r.warn(ctx, options)
	return r.Store.Delete(ctx, name, validate, options)
}

// DeleteCollection warns once for all of them.
func (r resourceREST) DeleteCollection(ctx context.Context, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions,
	list *metainternalversion.ListOptions) (runtime.Object, error) {
	r.warn(ctx, options)
	return r.Store.DeleteCollection(ctx, validate, options, list)
}

func (r resourceREST) warn(ctx context.Context, options *metav1.DeleteOptions) {
	//lint:ignore SA1019 clients still send it
	if text := r.kind.warn.delete; text != "" && options.PropagationPolicy == nil && options.OrphanDependents == nil {
		warning.AddWarning(ctx, "", text)
	}
}

// newStorages builds one kind's storages by their path in the group: the resource and its subresources. peer finds the
// other kinds' stores; see attachment.
func newStorages(
	k *kind, scheme *runtime.Scheme, store *genericregistry.Store, peer func(schema.GroupResource) *genericregistry.Store, access *Access,
) (map[string]rest.Storage, error) {
	storages := map[string]rest.Storage{k.resource: resourceREST{Store: store, kind: k}}
	strategy := newStrategy(k, scheme)
	if k.attach != nil {
		parts, err := k.attach(&attachment{kind: k, store: store, strategy: strategy, peer: peer, access: access})
		if err != nil {
			return nil, fmt.Errorf("attach to the store of %s: %w", k.gvk, err)
		}
		for path, part := range parts {
			storages[strings.TrimSuffix(k.resource+"/"+path, "/")] = part
		}
	}
	if _, own := storages[k.resource+"/status"]; k.rules.status && !own {
		storages[k.resource+"/status"] = newPartREST(store, newStatusStrategy(strategy))
	}
	if k.scale != nil {
		storages[k.resource+"/scale"] = scaleREST{store: store, kind: k}
	}
	return storages, nil
}

// newStore builds and completes the generic store of one kind. The caller destroys it.
func newStore(k *kind, scheme *runtime.Scheme, getter generic.RESTOptionsGetter) (*genericregistry.Store, error) {
	s := newStrategy(k, scheme)
	store := &genericregistry.Store{
		NewFunc:                   newFunc(scheme, k.gvk),
		NewListFunc:               newFunc(scheme, k.listGVK()),
		DefaultQualifiedResource:  k.groupResource(),
		SingularQualifiedResource: schema.GroupResource{Group: k.gvk.Group, Resource: k.singularName()},
		CreateStrategy:            s,
		UpdateStrategy:            s,
		DeleteStrategy:            s,
		ResetFieldsStrategy:       s,
		ReturnDeletedObject:       k.rules.returnDeleted,
		TableConvertor:            k.tableConvertor(),
	}
	if k.hooks.ttl > 0 {
		store.TTLFunc = func(runtime.Object, uint64, bool) (uint64, error) { return k.hooks.ttl, nil }
	}
	options := &generic.StoreOptions{
		RESTOptions: getter,
		AttrFunc:    k.attributes,
		TriggerFunc: k.hooks.triggers,
		Indexers:    k.indexers(),
	}
	if err := store.CompleteWithOptions(options); err != nil {
		return nil, err
	}
	store.Storage.Storage = &noted{Interface: store.Storage.Storage}
	return store, nil
}

// singularName returns the singular in the form that discovery shows.
func (k *kind) singularName() string {
	if k.singular != "" {
		return k.singular
	}
	return strings.ToLower(k.gvk.Kind)
}

// indexers turns the row's triggers into indexers for a watch cache's lists.
func (k *kind) indexers() *cache.Indexers {
	if len(k.hooks.triggers) == 0 {
		return nil
	}
	indexers := cache.Indexers{}
	for label, value := range k.hooks.triggers {
		indexers["f:"+label] = func(obj any) ([]string, error) {
			o, ok := obj.(runtime.Object)
			if !ok {
				return nil, fmt.Errorf("index %s of %s: not an API object: %T", label, k.gvk.Kind, obj)
			}
			return []string{value(o)}, nil
		}
	}
	return &indexers
}

// newFunc returns a constructor for a registered type.
func newFunc(scheme *runtime.Scheme, gvk schema.GroupVersionKind) func() runtime.Object {
	return func() runtime.Object {
		obj, err := scheme.New(gvk)
		if err != nil {
			panic(fmt.Sprintf("builtin: %s is in the table but not in the scheme: %v", gvk, err))
		}
		return obj
	}
}
