// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package kind

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

// Store is the store of a kind, and knows what it has written.
type Store struct {
	*genericregistry.Store
	writes *writeTracker
}

// ResourceREST serves the main resource of a kind.
type ResourceREST struct {
	*Store
	Kind *Kind
}

var (
	_ rest.StandardStorage    = ResourceREST{}
	_ rest.ShortNamesProvider = ResourceREST{}
	_ rest.CategoriesProvider = ResourceREST{}
)

// ShortNames returns the names that kubectl knows besides the plural.
func (r ResourceREST) ShortNames() []string { return r.Kind.Short }

// Categories returns the groups of resources to which this one belongs, such as "all".
func (r ResourceREST) Categories() []string { return r.Kind.Categories }

// Delete warns as the row says.
func (r ResourceREST) Delete(ctx context.Context, name string, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions) (runtime.Object, bool, error) {
	r.warn(ctx, options)
	return r.Store.Delete(ctx, name, validate, options)
}

// DeleteCollection warns once for all of them.
func (r ResourceREST) DeleteCollection(ctx context.Context, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions,
	list *metainternalversion.ListOptions) (runtime.Object, error) {
	r.warn(ctx, options)
	return r.Store.DeleteCollection(ctx, validate, options, list)
}

func (r ResourceREST) warn(ctx context.Context, options *metav1.DeleteOptions) {
	//lint:ignore SA1019 clients still send it
	if text := r.Kind.Warn.Delete; text != "" && options.PropagationPolicy == nil && options.OrphanDependents == nil {
		warning.AddWarning(ctx, "", text)
	}
}

// NewStorages builds one kind's storages by their path in the group: the resource and its subresources. peer finds the
// other kinds' stores; see Served.
func NewStorages(
	k *Kind, scheme *runtime.Scheme, store *Store, peer func(schema.GroupResource) *Store, access *Access,
) (map[string]rest.Storage, error) {
	storages := map[string]rest.Storage{k.Resource: ResourceREST{Store: store, Kind: k}}
	strategy := NewStrategy(k, scheme)
	if k.Attach != nil {
		parts, err := k.Attach(&Served{Kind: k, Store: store, Strategy: strategy, Peer: peer, Access: access})
		if err != nil {
			return nil, fmt.Errorf("attach to the store of %s: %w", k.GVK, err)
		}
		for path, part := range parts {
			storages[strings.TrimSuffix(k.Resource+"/"+path, "/")] = part
		}
	}
	if _, own := storages[k.Resource+"/status"]; k.Rules.Status && !own {
		storages[k.Resource+"/status"] = NewPartREST(store, NewStatusStrategy(strategy))
	}
	if k.Scale != nil {
		storages[k.Resource+"/scale"] = scaleREST{store: store, kind: k}
	}
	return storages, nil
}

// NewStore builds and completes the generic store of one kind. The caller destroys it.
func NewStore(k *Kind, scheme *runtime.Scheme, getter generic.RESTOptionsGetter) (*Store, error) {
	s := NewStrategy(k, scheme)
	store := &genericregistry.Store{
		NewFunc:                   NewFunc(scheme, k.GVK),
		NewListFunc:               NewFunc(scheme, k.ListGVK()),
		DefaultQualifiedResource:  k.GroupResource(),
		SingularQualifiedResource: schema.GroupResource{Group: k.GVK.Group, Resource: k.SingularName()},
		CreateStrategy:            s,
		UpdateStrategy:            s,
		DeleteStrategy:            s,
		ResetFieldsStrategy:       s,
		ReturnDeletedObject:       k.Rules.ReturnDeleted,
		TableConvertor:            k.TableConvertor(),
	}
	if k.Hooks.TTL > 0 {
		store.TTLFunc = func(runtime.Object, uint64, bool) (uint64, error) { return k.Hooks.TTL, nil }
	}
	options := &generic.StoreOptions{
		RESTOptions: getter,
		AttrFunc:    k.Attributes,
		TriggerFunc: k.Hooks.Triggers,
		Indexers:    k.Indexers(),
	}
	if err := store.CompleteWithOptions(options); err != nil {
		return nil, err
	}
	writes := &writeTracker{Interface: store.Storage.Storage}
	store.Storage.Storage = writes
	return &Store{Store: store, writes: writes}, nil
}

// SingularName returns the singular in the form that discovery shows.
func (k *Kind) SingularName() string {
	return strings.ToLower(k.GVK.Kind)
}

// Indexers turns the row's triggers into indexers for a watch cache's lists.
func (k *Kind) Indexers() *cache.Indexers {
	if len(k.Hooks.Triggers) == 0 {
		return nil
	}
	indexers := cache.Indexers{}
	for label, value := range k.Hooks.Triggers {
		indexers["f:"+label] = func(obj any) ([]string, error) {
			o, ok := obj.(runtime.Object)
			if !ok {
				return nil, fmt.Errorf("index %s of %s: not an API object: %T", label, k.GVK.Kind, obj)
			}
			return []string{value(o)}, nil
		}
	}
	return &indexers
}

// NewFunc returns a constructor for a registered type.
func NewFunc(scheme *runtime.Scheme, gvk schema.GroupVersionKind) func() runtime.Object {
	return func() runtime.Object {
		obj, err := scheme.New(gvk)
		if err != nil {
			panic(fmt.Sprintf("builtin: %s is in the table but not in the scheme: %v", gvk, err))
		}
		return obj
	}
}
