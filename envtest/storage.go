// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

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

const (
	registryPrefix = "/registry"

	// deleteWorkers is what kube-apiserver uses for deletecollection.
	deleteWorkers = 1
)

var crdResource = schema.GroupResource{Group: apiextensionsv1.GroupName, Resource: "customresourcedefinitions"}

// stores makes the stores of one server.
type stores struct {
	etcd      backing
	config    storagebackend.Config // what all resources have
	compactor etcd3.Compactor       // nil if etcd compacts itself
	decorate  StorageDecorator
	checks    *consistency     // nil if it is not checked
	contents  *contents        // nil if the etcd is shared
	faults    *faults.Injector // nil without
}

// newStores makes the stores on an etcd, as the options say.
func newStores(opts Options, etcd backing, s *server) (*stores, error) {
	decorate, err := opts.storageDecorator()
	if err != nil {
		return nil, err
	}
	made := &stores{etcd: etcd, decorate: decorate, checks: s.checks, contents: s.contents, faults: opts.Faults}
	if outside, ok := etcd.(*remote); ok {
		made.config, made.compactor = outside.config, outside.compactor
		return made, nil
	}
	made.config = *storagebackend.NewDefaultConfig(registryPrefix, nil)
	made.config.CompactionInterval = 0 // etcd compacts itself
	return made, nil
}

// plain implements generic.StorageDecorator: an etcd3 store on the etcd, with the faults of the options.
func (s *stores) plain(
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
func (s *stores) options(resource schema.GroupResource, codec runtime.Codec, versioner runtime.GroupVersioner) generic.RESTOptions {
	config := s.config
	config.Codec, config.EncodeVersioner = codec, versioner
	decorator := s.checks.of(resource, s.decorate(resource, s.plain))
	if resource == crdResource {
		decorator = establishedEarlier(decorator)
	}
	return generic.RESTOptions{
		StorageConfig:           config.ForResource(resource),
		Decorator:               decorator,
		EnableGarbageCollection: true,
		DeleteCollectionWorkers: deleteWorkers,
		ResourcePrefix:          resourcePrefix(resource),
		CountMetricPollPeriod:   0, // each store would poll
	}
}

// resourcePrefix keeps resources of different groups apart. Admission takes resources of one prefix as equivalent.
func resourcePrefix(resource schema.GroupResource) string {
	if resource == eventsv1.Resource("events") { // the other form of the core group's
		resource.Group = ""
	}
	if resource.Group == "" {
		return resource.Resource
	}
	return resource.Group + "/" + resource.Resource
}

// builtinOptions gives the built-in kinds and CustomResourceDefinitions their stores.
type builtinOptions struct{ *stores }

// GetRESTOptions implements generic.RESTOptionsGetter. example's type decides the version that is stored.
func (o builtinOptions) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	if resource == crdResource {
		version := apiextensionsv1.SchemeGroupVersion
		return o.noted(resource, crdserver.Codecs.LegacyCodec(version), version), nil
	}
	if example == nil { // asked for the prefix alone
		return generic.RESTOptions{ResourcePrefix: resourcePrefix(resource)}, nil
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

// noted are the options of a resource whose store is known by the state.
func (o builtinOptions) noted(resource schema.GroupResource, codec runtime.Codec, versioner runtime.GroupVersioner) generic.RESTOptions {
	options := o.options(resource, codec, versioner)
	options.Decorator = o.contents.note(resource, options.Decorator)
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
	*stores
	known *customStores
}

// GetRESTOptions implements generic.RESTOptionsGetter.
func (o customOptions) GetRESTOptions(resource schema.GroupResource, _ runtime.Object) (generic.RESTOptions, error) {
	options := o.options(resource, unstructured.UnstructuredJSONScheme, nil)
	options.Decorator = o.known.track(resource, options.Decorator)
	return options, nil
}
