// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/tarn-dev/tarn/pkg/cache"
)

// strict is a Go type for ConfigMaps that not every ConfigMap fits.
type strict struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Data              map[string]fitting `json:"data"`
}

func (s *strict) DeepCopyObject() runtime.Object { return deepCopy(s) }

// fitting is a string that begins with "fits".
type fitting string

func (f *fitting) UnmarshalJSON(data []byte) error {
	if !strings.HasPrefix(string(data), `"fits`) {
		return fmt.Errorf("%s does not fit", data)
	}
	*f = fitting(strings.Trim(string(data), `"`))
	return nil
}

// watchesOf returns options for a cache of a namespace, and counts the watches that it opens.
func watchesOf(namespace string, scheme *runtime.Scheme) (*rest.Config, cache.Options, *atomic.Int64) {
	GinkgoHelper()
	json := rest.CopyConfig(cfg)
	json.ContentType = runtime.ContentTypeJSON
	transport, err := rest.TransportFor(json)
	Expect(err).NotTo(HaveOccurred())
	count := &atomic.Int64{}
	opts := cache.Options{
		Scheme: scheme, DefaultFieldSelector: fields.OneTermEqualSelector("metadata.namespace", namespace),
		HTTPClient: &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.URL.Query().Get("watch") != "" {
				count.Add(1)
			}
			return transport.RoundTrip(r)
		})},
	}
	opts.Mapper, err = apiutil.NewDynamicRESTMapper(json, opts.HTTPClient)
	Expect(err).NotTo(HaveOccurred())
	return json, opts, count
}

// on returns a function that makes a cache of another cluster, or of another configuration of it.
func on(makeCache ctrlcache.NewCacheFunc, other *rest.Config) cache.NewCacheFunc {
	return func(_ *rest.Config, opts cache.Options) (cache.Cache, error) { return makeCache(other, opts) }
}

// strictScheme has the type for ConfigMaps.
func strictScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(configMapKind, &strict{})
	scheme.AddKnownTypeWithName(configMapKind.GroupVersion().WithKind("ConfigMapList"), &listOf[strict]{})
	metav1.AddToGroupVersion(scheme, configMapKind.GroupVersion())
	return scheme
}

var _ = Describe("Metadata of a kind whose Go type does not fit every object", func() {
	var namespace string
	BeforeEach(func(ctx SpecContext) { namespace = newNamespace(ctx) })
	metadata := views[2]
	notBlocking := cache.BlockUntilSynced(false)

	for name, impl := range map[string]ctrlcache.NewCacheFunc{"controller-runtime's": ctrlcache.New, "ours": cache.New} {
		It("are read while the informer of the type cannot sync, from "+name, func(ctx SpecContext) {
			create(ctx, configMap(namespace, "one", "odd"))
			json, opts, _ := watchesOf(namespace, strictScheme())
			c := started(ctx, on(impl, json), opts)
			full, err := c.GetInformer(ctx, &strict{}, notBlocking)
			Expect(err).NotTo(HaveOccurred())
			soon, cancel := context.WithTimeout(ctx, patience)
			defer cancel()
			obj := metadata.object()
			Expect(c.Get(soon, client.ObjectKey{Namespace: namespace, Name: "one"}, obj)).To(Succeed())
			Expect(obj.GetLabels()).To(HaveKeyWithValue("set", "odd"))
			list := metadata.list()
			Expect(c.List(soon, list, client.InNamespace(namespace))).To(Succeed())
			Expect(namesIn(list, namespace)).To(Equal([]string{namespace + "/one"}))
			Expect(full.HasSynced()).To(BeFalse())
		})

		It("are read when the informer of the type cannot go on, from "+name, func(ctx SpecContext) {
			create(ctx, configMap(namespace, "one", "fits"))
			json, opts, _ := watchesOf(namespace, strictScheme())
			c := started(ctx, on(impl, json), opts)
			_, err := c.GetInformer(ctx, &strict{})
			Expect(err).NotTo(HaveOccurred())
			Expect(c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "one"}, metadata.object())).To(Succeed())
			create(ctx, configMap(namespace, "two", "odd"), configMap(namespace, "three", "fits"))
			for _, name := range []string{"two", "three"} {
				Eventually(func() error {
					return c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, metadata.object())
				}).Should(Succeed())
			}
		})
	}

	It("are served from the objects when these can serve them", func(ctx SpecContext) {
		create(ctx, configMap(namespace, "one", "fits"))
		json, opts, count := watchesOf(namespace, strictScheme())
		c, err := cache.New(json, opts)
		Expect(err).NotTo(HaveOccurred())
		_, err = c.GetInformer(ctx, &strict{}, notBlocking)
		Expect(err).NotTo(HaveOccurred())
		key := client.ObjectKey{Namespace: namespace, Name: "one"}
		Expect(c.Get(ctx, key, metadata.object())).To(MatchError(&cache.ErrCacheNotStarted{}), "and asks for nothing else")
		start(c)
		Expect(c.WaitForCacheSync(ctx)).To(BeTrue())
		Expect(c.Get(ctx, key, metadata.object())).To(Succeed())
		Expect(count.Load()).To(Equal(int64(1)))
	})

	It("are of their own informer once there is one, and of its indexes, while it syncs", func(ctx SpecContext) {
		create(ctx, configMap(namespace, "one", "fits"))
		json, opts, _ := watchesOf(namespace, strictScheme())
		release, next := make(chan struct{}), opts.HTTPClient.Transport
		opts.HTTPClient.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
			if strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadata") {
				select {
				case <-release:
				case <-r.Context().Done():
					return nil, r.Context().Err()
				}
			}
			return next.RoundTrip(r)
		})
		c := started(ctx, on(cache.New, json), opts)
		_, err := c.GetInformer(ctx, &strict{})
		Expect(err).NotTo(HaveOccurred())
		Expect(c.IndexField(ctx, metadata.object(), "set", func(obj client.Object) []string { return []string{obj.GetLabels()["set"]} })).To(Succeed())
		short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		list := metadata.list()
		Expect(apierrors.IsTimeout(c.List(short, list, client.MatchingFields{"set": "fits"}))).To(BeTrue(), "those of the objects have no such index")
		close(release)
		Expect(c.List(ctx, list, client.MatchingFields{"set": "fits"})).To(Succeed())
		Expect(namesIn(list, namespace)).To(Equal([]string{namespace + "/one"}))
	})

	It("wait for the objects if no informer may be started", func(ctx SpecContext) {
		create(ctx, configMap(namespace, "one", "fits"))
		json, opts, _ := watchesOf(namespace, strictScheme())
		opts.ReaderFailOnMissingInformer = true
		c := started(ctx, on(cache.New, json), opts)
		key := client.ObjectKey{Namespace: namespace, Name: "one"}
		Expect(c.Get(ctx, key, metadata.object())).To(BeAssignableToTypeOf(&cache.ErrResourceNotCached{}))
		_, err := c.GetInformer(ctx, &strict{}, notBlocking)
		Expect(err).NotTo(HaveOccurred())
		Expect(c.Get(ctx, key, metadata.object())).To(Succeed())

		create(ctx, configMap(namespace, "two", "odd"))
		c = started(ctx, on(cache.New, json), opts)
		_, err = c.GetInformer(ctx, &strict{}, notBlocking)
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() error {
			short, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			return c.Get(short, key, metadata.object())
		}).Should(MatchError(ContainSubstring("does not fit")), "the read says what it waits for")
	})
})
