// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/kubernetes"

	builtinadmission "github.com/tarn-dev/tarn/envtest/internal/builtin/admission"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/core"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/reviews"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/serviceaccount"
)

// Kinds are the built-in kinds of one server.
type Kinds struct {
	// Groups has the storages, one APIGroupInfo for each API group, in the order of the table. The legacy core group comes
	// first; its PrioritizedVersions[0].Group is "". The server that installs the groups destroys the storages.
	Groups []*genericapiserver.APIGroupInfo
	// Admission is the part of the server's admission chain between NamespaceLifecycle and the policies and webhooks. It
	// needs no initialization.
	Admission []admission.Interface
	// Tokens knows the tokens of service accounts that the server made.
	Tokens authenticator.Token

	stores kind.Stores
}

// New makes the storages of every row of the table through getter, and the reviews that answer from access. After an error
// nothing is left open.
func New(getter generic.RESTOptionsGetter, access *kind.Access) (*Kinds, error) {
	stores, err := newStores(getter)
	if err != nil {
		return nil, err
	}
	peer := func(resource schema.GroupResource) *kind.Store { return stores[resource] }
	var set groupSet
	for _, k := range kinds() {
		storages, err := kind.NewStorages(k, Scheme(), stores[k.GroupResource()], peer, access)
		if err != nil {
			stores.Destroy()
			return nil, err
		}
		set.add(k.GVK.GroupVersion(), storages)
		if !k.Alias.Empty() {
			set.add(k.Alias.GroupVersion(), storages)
		}
	}
	set.add(corev1.SchemeGroupVersion, core.VirtualStorages(stores[corev1.Resource("pods")]))
	questions := reviews.ReviewStorages(access)
	for _, gv := range []schema.GroupVersion{authenticationv1.SchemeGroupVersion, authorizationv1.SchemeGroupVersion} {
		set.add(gv, questions[gv])
	}
	return &Kinds{Groups: set.groups, Admission: builtinadmission.NewPlugins(peer, access), Tokens: serviceaccount.NewAccounts(access, peer), stores: stores}, nil
}

// Destroy closes the storages of kinds that no server has installed. To close them twice is harmless.
func (k *Kinds) Destroy() { k.stores.Destroy() }

// newStores makes the store of every row, by resource. After an error none is left open.
func newStores(getter generic.RESTOptionsGetter) (kind.Stores, error) {
	made := kind.Stores{}
	for _, k := range kinds() {
		store, err := kind.NewStore(k, Scheme(), getter)
		if err != nil {
			made.Destroy()
			return nil, fmt.Errorf("store of %s: %w", k.GVK, err)
		}
		made[k.GroupResource()] = store
	}
	return made, nil
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
	info.NegotiatedSerializer = requestCodecs{info.NegotiatedSerializer}
	info.PrioritizedVersions = nil // the scheme knows more versions than are served
	s.groups = append(s.groups, &info)
	return &info
}

// Overwritten tells what goes on in memory about an object that it was written or deleted in the storage, without a request.
func (k *Kinds) Overwritten(resource schema.GroupResource, name types.NamespacedName) {
	store := k.stores[resource]
	if store == nil || store.AfterDelete == nil {
		return
	}
	obj := store.NewFunc()
	if object, ok := obj.(metav1.Object); ok {
		object.SetNamespace(name.Namespace)
		object.SetName(name.Name)
		store.AfterDelete(obj, &metav1.DeleteOptions{})
	}
}

// PodSecurity makes the plugin PodSecurity with its configuration, which may be nil. It stands before the plugin Priority.
func (k *Kinds) PodSecurity(config io.Reader) (admission.Interface, error) {
	return builtinadmission.NewPodSecurity(k.stores, config)
}

// ResourceQuota makes the plugin ResourceQuota with its configuration, which may be nil, and a client by which the server asks
// itself until ctx ends. The goroutines of the plugin end when drained is closed, which must be after the last request.
func (k *Kinds) ResourceQuota(
	ctx context.Context, config io.Reader, client kubernetes.Interface, drained <-chan struct{},
) (admission.Interface, error) {
	return builtinadmission.NewResourceQuota(ctx, k.stores, config, client, drained)
}
