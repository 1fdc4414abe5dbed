// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
)

// APIGroups makes the storages of every row of the table through getter and returns them, one APIGroupInfo for each API
// group, in the order of the table. The legacy core group comes first; its PrioritizedVersions[0].Group is "". The server
// that installs the groups destroys the storages; after an error nothing is left open.
func APIGroups(getter generic.RESTOptionsGetter) ([]*genericapiserver.APIGroupInfo, error) {
	stores, err := newStores(getter)
	if err != nil {
		return nil, err
	}
	var set groupSet
	for _, k := range kinds() {
		peer := func(resource schema.GroupResource) *genericregistry.Store { return stores[resource] }
		storages, err := newStorages(k, stores[k.groupResource()], peer)
		if err != nil {
			destroy(stores)
			return nil, err
		}
		set.add(k.gvk.GroupVersion(), storages)
		if !k.alias.Empty() {
			set.add(k.alias.GroupVersion(), storages)
		}
	}
	return set.groups, nil
}

// newStores makes the store of every row, by resource. After an error none is left open.
func newStores(getter generic.RESTOptionsGetter) (map[schema.GroupResource]*genericregistry.Store, error) {
	stores := map[schema.GroupResource]*genericregistry.Store{}
	for _, k := range kinds() {
		store, err := newStore(k, getter)
		if err != nil {
			destroy(stores)
			return nil, fmt.Errorf("store of %s: %w", k.gvk, err)
		}
		stores[k.groupResource()] = store
	}
	return stores, nil
}

// destroy closes stores that will not be installed.
func destroy(stores map[schema.GroupResource]*genericregistry.Store) {
	for _, store := range stores {
		store.Destroy()
	}
}

// groupSet collects storages by group and version. The zero value is empty.
type groupSet struct {
	groups []*genericapiserver.APIGroupInfo
}

// add puts storages into their group and version, which are made when they are new.
func (s *groupSet) add(gv schema.GroupVersion, storages map[string]rest.Storage) {
	group := s.group(gv.Group)
	if !slices.Contains(group.PrioritizedVersions, gv) {
		group.PrioritizedVersions = append(group.PrioritizedVersions, gv)
		group.VersionedResourcesStorageMap[gv.Version] = map[string]rest.Storage{}
	}
	maps.Copy(group.VersionedResourcesStorageMap[gv.Version], storages)
}

// group finds a group by name, or appends a new empty one.
func (s *groupSet) group(name string) *genericapiserver.APIGroupInfo {
	for _, group := range s.groups {
		if group.PrioritizedVersions[0].Group == name {
			return group
		}
	}
	info := genericapiserver.NewDefaultAPIGroupInfo(name, Scheme(), ParameterCodec(), Codecs())
	info.PrioritizedVersions = nil // the scheme knows more versions than are served
	s.groups = append(s.groups, &info)
	return &info
}
