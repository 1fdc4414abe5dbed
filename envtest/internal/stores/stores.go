// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package stores

import (
	"fmt"
	"sync"

	eventsv1 "k8s.io/api/events/v1"
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
	"k8s.io/client-go/tools/cache"

	"github.com/tarn-dev/tarn/envtest/faults"
	"github.com/tarn-dev/tarn/envtest/internal/builtin"
	"github.com/tarn-dev/tarn/envtest/internal/etcd"
)

const RegistryPrefix = "/registry"

// Deletion says how the stores delete.
type Deletion struct {
	GarbageCollection bool // of dependents, by finalizers for a garbage collector
	Workers           int  // of a deletecollection
}

// DefaultDeletion is that of kube-apiserver.
var DefaultDeletion = Deletion{GarbageCollection: true, Workers: 1}

var CRDs = schema.GroupResource{Group: apiextensionsv1.GroupName, Resource: "customresourcedefinitions"}

// Decorate puts something around the stores of a resource, which next makes.
type Decorate func(resource schema.GroupResource, next generic.StorageDecorator) generic.StorageDecorator

// Stores makes the stores of one server.
type Stores struct {
	etcd      Backing
	config    storagebackend.Config // what all resources have
	compactor etcd3.Compactor       // nil if etcd compacts itself
	decorate  Decorate              // puts a watch cache before a store
	checks    *Consistency          // nil if it is not checked
	faults    *faults.Injector      // nil without
	deletion  Deletion
}

// New makes the stores on an etcd, each behind what watchCache puts there. checks and injector may be nil.
func New(etcd Backing, watchCache Decorate, checks *Consistency, injector *faults.Injector, deletion Deletion) *Stores {
	made := &Stores{etcd: etcd, decorate: watchCache, checks: checks, faults: injector, deletion: deletion}
	if outside, ok := etcd.(*Remote); ok {
		made.config, made.compactor = outside.config, outside.compactor
		return made
	}
	made.config = *storagebackend.NewDefaultConfig(RegistryPrefix, nil)
	made.config.CompactionInterval = 0 // etcd compacts itself
	return made
}

// plain implements generic.StorageDecorator: an etcd3 store on the etcd, with the faults of the options.
func (s *Stores) plain(
	config *storagebackend.ConfigForResource, resourcePrefix string, _ func(runtime.Object) (string, error),
	newFunc, newListFunc func() runtime.Object, _ storage.AttrFunc, _ storage.IndexerFuncs, _ *cache.Indexers,
) (storage.Interface, factory.DestroyFunc, error) {
	client := s.etcd.Client()
	versioner := storage.APIObjectVersioner{}
	transformer := identity.NewEncryptCheckTransformer()
	keys := faults.Keys{Resource: config.GroupResource, Root: config.Prefix, Prefix: resourcePrefix}
	if s.faults != nil {
		s.faults.Etcd(config.GroupResource, client.Client)
		transformer = s.faults.Transformer(keys, transformer)
	}
	store, err := etcd3.New(client, s.compactor, config.Codec, newFunc, newListFunc, config.Prefix, resourcePrefix,
		config.GroupResource, transformer, config.LeaseManagerConfig,
		etcd3.NewDefaultDecoder(config.Codec, versioner), versioner)
	if err != nil {
		etcd.CloseClient(client)
		return nil, nil, fmt.Errorf("create the store of %s: %w", config.GroupResource, err)
	}
	faulty, end := withFaults(s.faults, keys, store)
	return faulty, sync.OnceFunc(func() {
		end()
		store.Close()
		etcd.CloseClient(client)
	}), nil
}

// options are the REST options of one resource.
func (s *Stores) options(resource schema.GroupResource, codec runtime.Codec, versioner runtime.GroupVersioner) generic.RESTOptions {
	config := s.config
	config.Codec, config.EncodeVersioner = codec, versioner
	return generic.RESTOptions{
		StorageConfig:           config.ForResource(resource),
		Decorator:               s.checks.of(resource, s.decorate(resource, s.plain)),
		EnableGarbageCollection: s.deletion.GarbageCollection,
		DeleteCollectionWorkers: s.deletion.Workers,
		ResourcePrefix:          ResourcePrefix(resource),
		CountMetricPollPeriod:   0, // each store would poll
	}
}

// ResourcePrefix keeps resources of different groups apart. Admission takes resources of one prefix as equivalent.
func ResourcePrefix(resource schema.GroupResource) string {
	if resource == eventsv1.Resource("events") { // the other form of the core group's
		resource.Group = ""
	}
	if resource.Group == "" {
		return resource.Resource
	}
	return resource.Group + "/" + resource.Resource
}

// Builtin gives the built-in kinds and CustomResourceDefinitions their stores, decorated by known.
func (s *Stores) Builtin(known Decorate) generic.RESTOptionsGetter { return builtinOptions{s, known} }

// Custom gives custom resources their stores, decorated by known.
func (s *Stores) Custom(known Decorate) generic.RESTOptionsGetter { return customOptions{s, known} }

// builtinOptions gives the built-in kinds and CustomResourceDefinitions their stores.
type builtinOptions struct {
	*Stores
	known Decorate
}

// GetRESTOptions implements generic.RESTOptionsGetter. example's type decides the version that is stored.
func (o builtinOptions) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	if resource == CRDs {
		version := apiextensionsv1.SchemeGroupVersion
		return o.noted(resource, crdserver.Codecs.LegacyCodec(version), version), nil
	}
	if example == nil { // asked for the prefix alone
		return generic.RESTOptions{ResourcePrefix: ResourcePrefix(resource)}, nil
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
	return o.noted(resource, codec, versioner), nil
}

// noted are the options of a resource whose store is known to others.
func (o builtinOptions) noted(resource schema.GroupResource, codec runtime.Codec, versioner runtime.GroupVersioner) generic.RESTOptions {
	options := o.options(resource, codec, versioner)
	options.Decorator = o.known(resource, options.Decorator)
	return options
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
type customOptions struct {
	*Stores
	known Decorate
}

// GetRESTOptions implements generic.RESTOptionsGetter.
func (o customOptions) GetRESTOptions(resource schema.GroupResource, _ runtime.Object) (generic.RESTOptions, error) {
	options := o.options(resource, unstructured.UnstructuredJSONScheme, nil)
	options.Decorator = o.known(resource, options.Decorator)
	return options, nil
}

// withFaults puts the rules of an Injector before a store, which has no other caller yet. The function ends what it began.
func withFaults(injector *faults.Injector, keys faults.Keys, store storage.Interface) (storage.Interface, func()) {
	if injector == nil {
		return store, func() {}
	}
	return injector.Storage(keys, store)
}
