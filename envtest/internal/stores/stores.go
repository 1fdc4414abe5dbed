// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package stores

import (
	"fmt"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/etcd3"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"

	"github.com/tarn-dev/tarn/envtest/faults"
	"github.com/tarn-dev/tarn/envtest/internal/builtin"
	"github.com/tarn-dev/tarn/envtest/internal/etcd"
	"github.com/tarn-dev/tarn/envtest/internal/storagekey"
)

// Deletion says how the stores delete.
type Deletion struct {
	GarbageCollection bool // of dependents, by finalizers for a garbage collector
	Workers           int  // of a deletecollection
}

// DefaultDeletion is how kube-apiserver deletes.
var DefaultDeletion = Deletion{GarbageCollection: true, Workers: 1}

var CRDs = schema.GroupResource{Group: apiextensionsv1.GroupName, Resource: "customresourcedefinitions"}

// Layers are what is around the stores of one server, and how these delete.
type Layers struct {
	Faults     *faults.Injector // nil without
	WatchCache Decorate
	Checks     *Consistency // nil if watch caches are not checked
	Builtin    []Decorate   // of the built-in kinds and CustomResourceDefinitions, around all others
	Custom     []Decorate   // of custom resources, around all others
	Deletion   Deletion
}

// Stores makes the stores of one server. From etcd outwards a store is:
//
//  1. etcd3's, on a client whose calls have the faults of the etcd, with a transformer that has the faults of reads;
//  2. the faults of the storage;
//  3. the watch cache;
//  4. its comparison with what is below, before it is destroyed;
//  5. Layers.Builtin or Layers.Custom;
//  6. for a built-in kind, the tracker of writes that package builtin/kind adds.
type Stores struct {
	etcd      Backing
	config    storagebackend.Config // what all resources have
	compactor etcd3.Compactor       // nil if etcd compacts itself
	layers    Layers
}

// New makes the stores on an etcd.
func New(etcd Backing, layers Layers) *Stores {
	made := &Stores{etcd: etcd, layers: layers}
	if outside, ok := etcd.(*Remote); ok {
		made.config, made.compactor = outside.config, outside.compactor
		return made
	}
	made.config = *storagebackend.NewDefaultConfig(storagekey.DefaultRoot, nil)
	made.config.CompactionInterval = 0 // etcd compacts itself
	return made
}

// plain makes an etcd3 store on the etcd.
func (s *Stores) plain(asked Asked) (storage.Interface, factory.DestroyFunc, error) {
	config, client := asked.Config, s.etcd.Client()
	versioner := storage.APIObjectVersioner{}
	transformer := identity.NewEncryptCheckTransformer()
	if injector := s.layers.Faults; injector != nil {
		injector.Etcd(config.GroupResource, client.Client)
		transformer = injector.Transformer(asked.keys(), transformer)
	}
	store, err := etcd3.New(client, s.compactor, config.Codec, asked.NewFunc, asked.NewListFunc, config.Prefix, asked.Prefix,
		config.GroupResource, transformer, config.LeaseManagerConfig,
		etcd3.NewDefaultDecoder(config.Codec, versioner), versioner)
	if err != nil {
		etcd.CloseClient(client)
		return nil, nil, fmt.Errorf("create the store of %s: %w", config.GroupResource, err)
	}
	return store, sync.OnceFunc(func() {
		store.Close()
		etcd.CloseClient(client)
	}), nil
}

// faulty puts the rules of the Injector before a store.
func (s *Stores) faulty(_ schema.GroupResource, below generic.StorageDecorator) generic.StorageDecorator {
	if s.layers.Faults == nil {
		return below
	}
	return Around(below, func(asked Asked, next Next) (storage.Interface, factory.DestroyFunc, error) {
		store, destroy, err := next()
		if err != nil {
			return nil, nil, err
		}
		faulty, end := s.layers.Faults.Storage(asked.keys(), store)
		return faulty, func() {
			end()
			destroy()
		}, nil
	})
}

// keys says where the objects are.
func (a Asked) keys() faults.Keys {
	return faults.Keys{Resource: a.Config.GroupResource, Root: a.Config.Prefix, Prefix: a.Prefix}
}

// options are the REST options of one resource, whose store has further layers around it.
func (s *Stores) options(resource schema.GroupResource, codec runtime.Codec, versioner runtime.GroupVersioner, outer []Decorate) generic.RESTOptions {
	config := s.config
	config.Codec, config.EncodeVersioner = codec, versioner
	layers := append([]Decorate{s.faulty, s.layers.WatchCache, s.layers.Checks.of}, outer...)
	return generic.RESTOptions{
		StorageConfig:           config.ForResource(resource),
		Decorator:               stacked(resource, bottom(s.plain), layers...),
		EnableGarbageCollection: s.layers.Deletion.GarbageCollection,
		DeleteCollectionWorkers: s.layers.Deletion.Workers,
		ResourcePrefix:          storagekey.Prefix(resource),
		CountMetricPollPeriod:   0, // each store would poll
	}
}

// Builtin gives the built-in kinds and CustomResourceDefinitions their stores.
func (s *Stores) Builtin() generic.RESTOptionsGetter { return builtinOptions{s} }

// Custom gives custom resources their stores.
func (s *Stores) Custom() generic.RESTOptionsGetter { return customOptions{s} }

// builtinOptions gives the built-in kinds and CustomResourceDefinitions their stores.
type builtinOptions struct{ *Stores }

// GetRESTOptions implements generic.RESTOptionsGetter. example's type decides the version that is stored.
func (o builtinOptions) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	if resource == CRDs {
		version := apiextensionsv1.SchemeGroupVersion
		return o.options(resource, crdserver.Codecs.LegacyCodec(version), version, o.layers.Builtin), nil
	}
	if example == nil { // asked for the prefix alone
		return generic.RESTOptions{ResourcePrefix: storagekey.Prefix(resource)}, nil
	}
	version, err := externalVersion(example)
	if err != nil {
		return generic.RESTOptions{}, err
	}
	codec, versioner, err := serverstorage.NewStorageCodec(serverstorage.StorageCodecConfig{
		StorageMediaType:  runtime.ContentTypeProtobuf,
		StorageSerializer: builtin.Codecs(),
		StorageVersion:    version,
		MemoryVersion:     schema.GroupVersion{Group: version.Group, Version: runtime.APIVersionInternal},
	})
	if err != nil {
		return generic.RESTOptions{}, fmt.Errorf("make the codec that stores %s: %w", resource, err)
	}
	return o.options(resource, codec, versioner, o.layers.Builtin), nil
}

// externalVersion returns the served version of a built-in type.
func externalVersion(obj runtime.Object) (schema.GroupVersion, error) {
	kinds, _, err := builtin.Scheme().ObjectKinds(obj)
	if err != nil {
		return schema.GroupVersion{}, fmt.Errorf("find the version to store: %w", err)
	}
	for _, kind := range kinds {
		if kind.Version != runtime.APIVersionInternal {
			return kind.GroupVersion(), nil
		}
	}
	return schema.GroupVersion{}, fmt.Errorf("%T has no external version to store: register one", obj)
}

// customOptions gives custom resources their stores. They are stored as JSON, as kube-apiserver does by default.
type customOptions struct{ *Stores }

// GetRESTOptions implements generic.RESTOptionsGetter.
func (o customOptions) GetRESTOptions(resource schema.GroupResource, _ runtime.Object) (generic.RESTOptions, error) {
	return o.options(resource, unstructured.UnstructuredJSONScheme, nil, o.layers.Custom), nil
}
