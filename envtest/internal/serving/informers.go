// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package serving

import (
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/admissionregistration"
	"k8s.io/client-go/informers/core"
	"k8s.io/client-go/informers/internalinterfaces"
	rbacinformers "k8s.io/client-go/informers/rbac"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// ownScheme has the kinds of client-go's scheme. The informers of a server in the test process decode by it whenever an
// event arrives; and a suite adds its kinds to client-go's scheme whenever it likes, which no lock guards.
var ownScheme = sync.OnceValue(func() *runtime.Scheme {
	kinds := runtime.NewScheme()
	utilruntime.Must(scheme.AddToScheme(kinds))
	return kinds
})

// informerFactory makes the informers that admission and authorization read from. They are client-go's, and ask by
// clients that decode by ownScheme. The clients of client-go read its global scheme. A group that is not below is not
// the server's to watch. It is safe for concurrent use.
type informerFactory struct {
	informers.SharedInformerFactory
	config *rest.Config
	http   *http.Client
	codecs serializer.CodecFactory

	mu   sync.Mutex
	made map[schema.GroupResource]*Followed // guarded by mu
	stop <-chan struct{}                    // guarded by mu; nil until the first Start
}

func newInformerFactory(kube kubernetes.Interface, config *rest.Config, client *http.Client) *informerFactory {
	return &informerFactory{
		SharedInformerFactory: informers.NewSharedInformerFactory(kube, 0), config: config, http: client,
		codecs: serializer.NewCodecFactory(ownScheme()), made: map[schema.GroupResource]*Followed{},
	}
}

// Start starts the informers that have not started. They end with the channel of the first call, which is the server's: the plugins of
// policies start the informer of a parameter too, and may begin anew, but an informer starts once.
func (f *informerFactory) Start(stop <-chan struct{}) {
	f.mu.Lock()
	if f.stop == nil {
		f.stop = stop
	}
	stop = f.stop
	f.mu.Unlock()
	f.SharedInformerFactory.Start(stop)
}

// Core implements informers.SharedInformerFactory, as the next two methods do.
func (f *informerFactory) Core() core.Interface { return core.New(f, "", nil) }

// Rbac returns the informers of rbac.authorization.k8s.io.
func (f *informerFactory) Rbac() rbacinformers.Interface { return rbacinformers.New(f, "", nil) }

// Admissionregistration returns the informers of admissionregistration.k8s.io.
func (f *informerFactory) Admissionregistration() admissionregistration.Interface {
	return admissionregistration.New(f, "", nil)
}

// ForResource returns the informer of a built-in kind, for policies with parameters.
func (f *informerFactory) ForResource(resource schema.GroupVersionResource) (informers.GenericInformer, error) {
	for kind := range ownScheme().KnownTypes(resource.GroupVersion()) {
		if plural, _ := meta.UnsafeGuessKindToResource(resource.GroupVersion().WithKind(kind)); plural == resource {
			obj, err := ownScheme().New(resource.GroupVersion().WithKind(kind))
			if err != nil {
				return nil, fmt.Errorf("make an informer of %s: %w", resource, err)
			}
			return genericInformer{f.InformerFor(obj, nil), resource.GroupResource()}, nil
		}
	}
	return nil, fmt.Errorf("there is no informer of %s", resource)
}

// InformerFor implements internalinterfaces.SharedInformerFactory. The informer is not what client-go generates for obj.
func (f *informerFactory) InformerFor(obj runtime.Object, _ internalinterfaces.NewInformerFunc) cache.SharedIndexInformer {
	return f.SharedInformerFactory.InformerFor(obj, func(_ kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
		resource, source, err := f.listWatch(obj)
		utilruntime.Must(err) // a kind that ownScheme does not have, or a configuration that has made other clients
		informer := &Followed{SharedIndexInformer: cache.NewSharedIndexInformer(source, obj, resync,
			cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.made[resource] = informer
		return informer
	})
}

// All returns the informers that there are, by resource. The map is the caller's.
func (f *informerFactory) All() map[schema.GroupResource]*Followed {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.made)
}

// listWatch lists and watches obj's kind.
func (f *informerFactory) listWatch(obj runtime.Object) (schema.GroupResource, cache.ListerWatcher, error) {
	kinds, _, err := ownScheme().ObjectKinds(obj)
	if err != nil {
		return schema.GroupResource{}, nil, fmt.Errorf("watch %s: %w", reflect.TypeOf(obj), err)
	}
	resource, _ := meta.UnsafeGuessKindToResource(kinds[0])
	version := resource.GroupVersion()
	config := rest.CopyConfig(f.config)
	config.GroupVersion, config.APIPath = &version, "/apis"
	if version.Group == "" {
		config.APIPath = "/api"
	}
	config.NegotiatedSerializer = f.codecs.WithoutConversion()
	client, err := rest.RESTClientForConfigAndClient(config, f.http)
	if err != nil {
		return schema.GroupResource{}, nil, fmt.Errorf("create the client that watches %s: %w", resource.GroupResource(), err)
	}
	return resource.GroupResource(), cache.NewListWatchFromClient(client, resource.Resource, "", fields.Everything()), nil
}

// genericInformer implements informers.GenericInformer.
type genericInformer struct {
	informer cache.SharedIndexInformer
	resource schema.GroupResource
}

// Informer returns the informer, which its factory starts.
func (i genericInformer) Informer() cache.SharedIndexInformer { return i.informer }

// Lister returns what reads from the informer.
func (i genericInformer) Lister() cache.GenericLister {
	return cache.NewGenericLister(i.informer.GetIndexer(), i.resource)
}
