// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest_test

import (
	"fmt"
	"sync"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	upstream "k8s.io/apiserver/pkg/storage/cacher"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/tarn-dev/tarn/envtest"
	"github.com/tarn-dev/tarn/pkg/cacher"
)

// storeMaker are the arguments with which a store is made, and what makes it.
type storeMaker struct {
	resource schema.GroupResource
	prefix   string
	keyFunc  func(runtime.Object) (string, error)
	make     func(keyFunc func(runtime.Object) (string, error)) (storage.Interface, factory.DestroyFunc, error)
}

// decorated returns decorate, with f in between, which may change what is made.
func decorated(decorate envtest.StorageDecorator, f func(storeMaker) (storage.Interface, factory.DestroyFunc, error)) envtest.StorageDecorator {
	return func(resource schema.GroupResource, store generic.StorageDecorator) generic.StorageDecorator {
		next := decorate(resource, store)
		return func(
			config *storagebackend.ConfigForResource, prefix string, keyFunc func(runtime.Object) (string, error),
			newFunc, newListFunc func() runtime.Object, attributes storage.AttrFunc, triggers storage.IndexerFuncs,
			indexers *cache.Indexers,
		) (storage.Interface, factory.DestroyFunc, error) {
			return f(storeMaker{resource, prefix, keyFunc, func(keyFunc func(runtime.Object) (string, error)) (storage.Interface, factory.DestroyFunc, error) {
				return next(config, prefix, keyFunc, newFunc, newListFunc, attributes, triggers, indexers)
			}})
		}
	}
}

// storesOf starts an environment and returns the stores that it made.
func storesOf(opts envtest.Options, decorate envtest.StorageDecorator) map[schema.GroupResource]storage.Interface {
	GinkgoHelper()
	var mu sync.Mutex
	made := map[schema.GroupResource]storage.Interface{}
	opts.StorageDecorator = decorated(decorate, func(m storeMaker) (storage.Interface, factory.DestroyFunc, error) {
		store, destroy, err := m.make(m.keyFunc)
		mu.Lock()
		defer mu.Unlock()
		made[m.resource] = store
		return store, destroy, err
	})
	envtest.StartWith(GinkgoTB(), opts)
	mu.Lock()
	defer mu.Unlock()
	return made
}

var (
	configMaps = schema.GroupResource{Resource: "configmaps"}
	events     = schema.GroupResource{Resource: "events"}
)

var _ = Describe("a storage decorator", func() {
	BeforeEach(onlyOurs)

	It("is known by its name", func() {
		for name, want := range map[string]any{
			"":         &cacher.Cacher{},
			"tarn":     &cacher.Cacher{},
			"upstream": &upstream.CacheDelegator{},
		} {
			decorate, err := envtest.DecoratorNamed(name)
			Expect(err).NotTo(HaveOccurred())
			Expect(storesOf(envtest.Options{}, decorate)[configMaps]).To(BeAssignableToTypeOf(want), name)
		}
		decorate, err := envtest.DecoratorNamed("none")
		Expect(err).NotTo(HaveOccurred())
		Expect(fmt.Sprintf("%T", storesOf(envtest.Options{}, decorate)[configMaps])).To(Equal("*etcd3.store"))
		_, err = envtest.DecoratorNamed("default")
		Expect(err).To(MatchError(ContainSubstring(`no watch cache "default": use tarn, upstream or none`)))
	})

	It("can be another one for each resource, as with --watch-cache-sizes", func(ctx SpecContext) {
		small, usual := envtest.Cacher(cacher.Options{HistoryEvents: 1}), envtest.Cacher(cacher.Options{})
		env := envtest.StartWith(GinkgoTB(), envtest.Options{
			StorageDecorator: func(resource schema.GroupResource, store generic.StorageDecorator) generic.StorageDecorator {
				switch resource {
				case configMaps:
					return small(resource, store) // --watch-cache-sizes=configmaps#1
				case events:
					return envtest.Undecorated(resource, store) // --watch-cache-sizes=events#0
				}
				return usual(resource, store)
			},
		})
		kube := kubernetes.NewForConfigOrDie(env.Config())
		before, err := kube.CoreV1().Namespaces().Get(ctx, "default", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		since := metav1.ListOptions{ResourceVersion: before.ResourceVersion}
		for _, name := range []string{"one", "two", "three"} {
			_, err = kube.CoreV1().ConfigMaps("default").Create(ctx, configMap(name, ""), metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			_, err = kube.CoreV1().Secrets("default").Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
		_, err = kube.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{}) // the cache has them when this is answered
		Expect(err).NotTo(HaveOccurred())

		w, err := kube.CoreV1().Secrets("default").Watch(ctx, since)
		Expect(err).NotTo(HaveOccurred())
		defer w.Stop()
		Expect(nameOf(next(ctx, w))).To(Equal("one"), "the usual window has all events")
		w, err = kube.CoreV1().ConfigMaps("default").Watch(ctx, since)
		Expect(err).NotTo(HaveOccurred())
		defer w.Stop()
		gone := next(ctx, w)
		Expect(gone.Type).To(Equal(watch.Error))
		Expect(apierrors.IsResourceExpired(apierrors.FromObject(gone.Object))).To(BeTrue(), "a window of one event does not: %v", gone.Object)
	}, SpecTimeout(patience))
})

func TestWatchCacheVariable(t *testing.T) {
	t.Setenv("TARN_WATCH_CACHE", "etcd")
	err := envtest.New(envtest.Options{}).Start(t.Context())
	NewWithT(t).Expect(err).To(MatchError(ContainSubstring(`TARN_WATCH_CACHE: there is no watch cache "etcd"`)))
	env := envtest.New(envtest.Options{StorageDecorator: envtest.Undecorated})
	if err := env.Start(t.Context()); err != nil { // needs no default
		t.Fatal(err)
	}
	if err := env.Stop(); err != nil {
		t.Fatal(err)
	}
}
