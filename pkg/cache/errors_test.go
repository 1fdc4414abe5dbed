// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"context"
	"errors"
	"net/http"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"

	"github.com/tarn-dev/tarn/envtest"
	"github.com/tarn-dev/tarn/pkg/cache"
)

// untyped returns an untyped object or list of a kind of the core group.
func untyped[T runtime.Object](obj T, version, kind string) T {
	obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{Version: version, Kind: kind})
	return obj
}

var _ = Describe("An error says", func() {
	var namespace string
	BeforeEach(func(ctx SpecContext) {
		namespace = newNamespace(ctx)
		create(ctx, configMap(namespace, "one", "x"))
	})

	type mistake struct {
		make func(ctx context.Context, c cache.Cache, key client.ObjectKey) error
		is   func(error) bool // what programs ask, if they do
		says string
	}
	get := func(obj client.Object, opts ...client.GetOption) func(context.Context, cache.Cache, client.ObjectKey) error {
		return func(ctx context.Context, c cache.Cache, key client.ObjectKey) error {
			return c.Get(ctx, key, obj, opts...)
		}
	}
	list := func(list client.ObjectList, opts ...client.ListOption) func(context.Context, cache.Cache, client.ObjectKey) error {
		return func(ctx context.Context, c cache.Cache, _ client.ObjectKey) error { return c.List(ctx, list, opts...) }
	}
	informerForKind := func(gvk schema.GroupVersionKind) func(context.Context, cache.Cache, client.ObjectKey) error {
		return func(ctx context.Context, c cache.Cache, _ client.ObjectKey) error {
			_, err := c.GetInformerForKind(ctx, gvk)
			return err
		}
	}
	const unregistered = `no kind is registered for the type controllertest.UnconventionalListType (add it with the AddToScheme function of its API package) in scheme "`
	unknown := &controllertest.UnconventionalListType{}

	DescribeTable("what to do instead", func(ctx SpecContext, m mistake) {
		for _, namespaces := range []map[string]cache.Config{nil, {namespace: {}}} {
			c := started(ctx, cache.New, cache.Options{DefaultNamespaces: namespaces})
			err := m.make(ctx, c, client.ObjectKey{Namespace: namespace, Name: "one"})
			Expect(err).To(MatchError(ContainSubstring(m.says)))
			Expect(m.is == nil || m.is(err)).To(BeTrue(), "%T", err)
		}
	},
		Entry("Get of a type that is not in the scheme", mistake{get(unknown), runtime.IsNotRegisteredError, unregistered}),
		Entry("List of one", mistake{list(&controllertest.UnconventionalListTypeList{}), runtime.IsNotRegisteredError, "UnconventionalListTypeList (add it"}),
		Entry("GetInformer of one", mistake{func(ctx context.Context, c cache.Cache, _ client.ObjectKey) error {
			_, err := c.GetInformer(ctx, unknown)
			return err
		}, runtime.IsNotRegisteredError, unregistered}),
		Entry("RemoveInformer of one", mistake{func(ctx context.Context, c cache.Cache, _ client.ObjectKey) error {
			return c.RemoveInformer(ctx, unknown)
		}, runtime.IsNotRegisteredError, unregistered}),
		Entry("IndexField of one", mistake{func(ctx context.Context, c cache.Cache, _ client.ObjectKey) error {
			return c.IndexField(ctx, unknown, "field", func(client.Object) []string { return nil })
		}, runtime.IsNotRegisteredError, unregistered}),
		Entry("GetInformerForKind of one", mistake{
			informerForKind(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}),
			runtime.IsNotRegisteredError, "no kind is registered for the type of Widget (example.com/v1) (add it with the AddToScheme function of its API package, or use unstructured.Unstructured) in scheme \"",
		}),
		Entry("GetInformerForKind without a version", mistake{informerForKind(schema.GroupVersionKind{Kind: "Pod"}), runtime.IsNotRegisteredError, `no kind "Pod" is registered for version ""`}),
		Entry("GetInformerForKind of a list", mistake{informerForKind(corev1.SchemeGroupVersion.WithKind("PodList")), nil, "PodList (v1) is the kind of a list: use that of its items, Pod"}),
		Entry("metadata of a list", mistake{get(untyped(&metav1.PartialObjectMetadata{}, "v1", "PodList")), nil, "PodList (v1) is the kind of a list: use that of its items, Pod"}),

		Entry("an unstructured object without a kind", mistake{get(&unstructured.Unstructured{}), runtime.IsMissingKind, "'*unstructured.Unstructured'; call its SetGroupVersionKind first, with a kind such as 'Pod'"}),
		Entry("an unstructured list without one", mistake{list(&unstructured.UnstructuredList{}), runtime.IsMissingKind, "'*unstructured.UnstructuredList'; call its SetGroupVersionKind first, with a kind such as 'PodList'"}),
		Entry("metadata without one", mistake{get(&metav1.PartialObjectMetadata{}), runtime.IsMissingKind, "'*v1.PartialObjectMetadata'; call its SetGroupVersionKind first"}),
		Entry("a list of metadata without one", mistake{list(&metav1.PartialObjectMetadataList{}), runtime.IsMissingKind, "'*v1.PartialObjectMetadataList'; call its SetGroupVersionKind first"}),
		Entry("an unstructured object without a version", mistake{get(untyped(&unstructured.Unstructured{}, "", "Pod")), runtime.IsMissingVersion, "call its SetGroupVersionKind first, with a version such as 'v1'"}),
		Entry("a list of mixed kinds", mistake{list(&corev1.List{}), nil, "*v1.List is a list of objects of all kinds, and a cache lists one kind"}),
		Entry("an unstructured one", mistake{list(untyped(&unstructured.UnstructuredList{}, "v1", "List")), nil, "a cache lists one kind"}),
		Entry("a resource in the place of a kind", mistake{list(untyped(&unstructured.UnstructuredList{}, "v1", "configmaps")), meta.IsNoMatchError, "a kind is written as in a manifest"}),
		Entry("a kind that is not served", mistake{get(untyped(&unstructured.Unstructured{}, "v1", "Widget")), meta.IsNoMatchError, "does not serve Widget (v1)"}),

		Entry("a nil option for Get", mistake{get(&corev1.ConfigMap{}, nil), nil, "option 1 is nil"}),
		Entry("a nil option for List", mistake{list(&corev1.ConfigMapList{}, client.Limit(1), (*client.ListOptions)(nil)), nil, "cannot list ConfigMap: option 2 is nil (*client.ListOptions)"}),
		Entry("a nil option for Iterate", mistake{func(ctx context.Context, c cache.Cache, _ client.ObjectKey) (err error) {
			for _, err = range cache.Iterate(ctx, c, &corev1.ConfigMap{}, nil) {
			}
			return err
		}, nil, "cannot list ConfigMap: option 1 is nil"}),
		Entry("a nil option for an informer", mistake{func(ctx context.Context, c cache.Cache, _ client.ObjectKey) error {
			_, err := c.GetInformer(ctx, &corev1.ConfigMap{}, nil)
			return err
		}, nil, "cannot get an informer of ConfigMap (v1): option 1 is nil"}),
		Entry("a nil event handler", mistake{func(ctx context.Context, c cache.Cache, _ client.ObjectKey) error {
			informer, err := c.GetInformer(ctx, &corev1.ConfigMap{})
			Expect(err).NotTo(HaveOccurred())
			_, err = informer.AddEventHandler(nil)
			return err
		}, nil, "informer of ConfigMap (v1): it is nil"}),
		Entry("to iterate over what wraps a cache", mistake{func(ctx context.Context, c cache.Cache, _ client.ObjectKey) (err error) {
			for _, err = range cache.Iterate(ctx, cache.Cache(struct{ cache.Cache }{c}), &corev1.ConfigMap{}) {
			}
			return err
		}, nil, "pass a cache as New or With of package github.com/tarn-dev/tarn/pkg/cache made it"}),
		Entry("a key without a name", mistake{func(ctx context.Context, c cache.Cache, key client.ObjectKey) error {
			return c.Get(ctx, client.ObjectKey{Namespace: key.Namespace}, &corev1.ConfigMap{})
		}, apierrors.IsNotFound, `ConfigMap "" not found: the key has no Name`}),
		Entry("a key without a namespace", mistake{func(ctx context.Context, c cache.Cache, key client.ObjectKey) error {
			return c.Get(ctx, client.ObjectKey{Name: "one"}, &corev1.ConfigMap{})
		}, nil, "the kind is namespaced, and the key has no Namespace"}),
	)

	It("that a key is without a namespace, and not to cache the whole cluster for it", func(ctx SpecContext) {
		some := started(ctx, cache.New, cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}, "default": {}}})
		err := some.Get(ctx, client.ObjectKey{Name: "one"}, &corev1.ConfigMap{})
		Expect(err).To(MatchError(And(
			HavePrefix("unable to get: ConfigMap /one because of unknown namespace for the cache"), // as controller-runtime
			ContainSubstring("one of "+namespace+", default"), Not(ContainSubstring("DefaultNamespaces")),
		)))
		all := started(ctx, cache.New, cache.Options{})
		Expect(apierrors.IsNotFound(all.Get(ctx, client.ObjectKey{Name: "one"}, &corev1.ConfigMap{}))).To(BeTrue())
	})

	It("that a type is registered without its list", func(ctx SpecContext) {
		scheme := runtime.NewScheme()
		scheme.AddKnownTypes(corev1.SchemeGroupVersion, &corev1.ConfigMap{}, &corev1.SecretList{})
		c := started(ctx, cache.New, cache.Options{Scheme: scheme})
		for missing, err := range map[string]error{
			"of ConfigMapList (v1)": c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "one"}, &corev1.ConfigMap{}),
			"of Secret (v1)":        c.List(ctx, &corev1.SecretList{}),
		} {
			Expect(runtime.IsNotRegisteredError(err)).To(BeTrue(), "%T", err)
			Expect(err).To(MatchError(And(ContainSubstring(missing), ContainSubstring("an object and its list are registered together"))))
		}
	})

	It("of what is not found that the cache holds a selection", func(ctx SpecContext) {
		create(ctx, configMap(namespace, "two", "y"))
		c := started(ctx, cache.New, cache.Options{DefaultLabelSelector: labels.SelectorFromSet(labels.Set{"set": "x"})})
		Expect(c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "one"}, &corev1.ConfigMap{})).To(Succeed())
		err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "two"}, &corev1.ConfigMap{})
		Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
		Expect(err).To(MatchError(`ConfigMap "two" not found in the cache, which holds only what matches the label selector "set=x"`))
	})

	It("nothing more of a read before the start, which the log does once", func(ctx SpecContext) {
		log := gbytes.NewBuffer()
		GinkgoWriter.TeeTo(log)
		DeferCleanup(GinkgoWriter.ClearTeeWriters)
		c, err := cache.New(cfg, cache.Options{})
		Expect(err).NotTo(HaveOccurred())
		for range 3 {
			err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "one"}, &corev1.ConfigMap{})
			Expect(err).To(Equal(&cache.ErrCacheNotStarted{}), "many compare it so")
		}
		Expect(strings.Count(string(log.Contents()), "call Start in a goroutine, and WaitForCacheSync")).To(Equal(1))
	})

	It("what the transform did to which object, once", func(ctx SpecContext) {
		log := gbytes.NewBuffer()
		GinkgoWriter.TeeTo(log)
		DeferCleanup(GinkgoWriter.ClearTeeWriters)
		c := started(ctx, cache.New, cache.Options{
			DefaultNamespaces: map[string]cache.Config{namespace: {}},
			DefaultTransform: func(obj any) (any, error) {
				if obj.(client.Object).GetName() == "one" {
					return nil, errors.New("boom")
				}
				return obj, nil
			},
		})
		Expect(c.List(ctx, &corev1.ConfigMapList{})).To(Succeed())
		Expect(log).To(gbytes.Say(`"transforming: ConfigMap \(v1\) ` + namespace + `/one: boom"`))
	})

	DescribeTable("which index function panicked, at which object", func(ctx SpecContext, opts cache.Options, late bool) {
		panics := make(chan any, 100)
		reallyCrash, handlers := utilruntime.ReallyCrash, utilruntime.PanicHandlers
		utilruntime.ReallyCrash = false
		utilruntime.PanicHandlers = []func(context.Context, any){func(_ context.Context, r any) { panics <- r }}
		opts.DefaultNamespaces = map[string]cache.Config{namespace: {}}
		c, err := cache.New(cfg, opts)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { utilruntime.ReallyCrash, utilruntime.PanicHandlers = reallyCrash, handlers }) // after the end of c
		boom := errors.New("boom")
		index := func() error {
			return c.IndexField(ctx, &corev1.ConfigMap{}, "data.set", func(obj client.Object) []string {
				if obj.GetName() == "one" {
					panic(boom)
				}
				return nil
			})
		}
		if !late {
			Expect(index()).To(Succeed())
		}
		start(c)
		_, err = c.GetInformer(ctx, &corev1.ConfigMap{}, cache.BlockUntilSynced(late))
		Expect(err).NotTo(HaveOccurred())
		if late {
			Expect(index()).To(Succeed())
		}
		var panicked error
		Eventually(panics).Should(Receive(&panicked))
		Expect(panicked).To(MatchError(boom))
		Expect(panicked).To(MatchError(`the function of field "data.set" of ConfigMap (v1) panicked at ` + namespace + "/one: boom"))
	},
		Entry("in an informer of ours", cache.Options{}, false),
		Entry("while the objects there are are indexed", cache.Options{}, true),
		Entry("in an informer of client-go's", cache.Options{NewInformer: toolscache.NewSharedIndexInformer}, false),
	)

	It("which object does not fit its Go type", func(ctx SpecContext) {
		create(ctx, configMap(namespace, "two", "fits"))
		json, opts, _ := watchesOf(namespace, strictScheme())
		failed := make(chan error, 100)
		opts.DefaultWatchErrorHandler = func(_ context.Context, _ *toolscache.Reflector, err error) { failed <- err }
		c := started(ctx, on(cache.New, json), opts)
		_, err := c.GetInformer(ctx, &strict{}, cache.BlockUntilSynced(false))
		Expect(err).NotTo(HaveOccurred())
		Eventually(failed).Should(Receive(MatchError(`failed to list ConfigMap (v1): ` + namespace + `/one does not fit *cache_test.strict: "x" does not fit`)))
	})

	DescribeTable("of New what cannot be meant", func(opts cache.Options, says string) {
		_, err := cache.New(cfg, opts)
		Expect(err).To(MatchError(ContainSubstring(says)))
	},
		Entry("two namespaces in one key", cache.Options{DefaultNamespaces: map[string]cache.Config{"a,b": {}}}, `cache option DefaultNamespaces: "a,b" cannot be the name of a namespace`),
		Entry("one for a kind", cache.Options{ByObject: map[client.Object]cache.ByObject{&corev1.Pod{}: {Namespaces: map[string]cache.Config{"A": {}}}}}, `cache option ByObject[*v1.Pod]: "A" cannot be`),
		Entry("a type that is not in the scheme", cache.Options{ByObject: map[client.Object]cache.ByObject{unknown: {}}}, "cache option ByObject: no kind is registered for the type controllertest.UnconventionalListType (add it"),
		Entry("the kind of a list", cache.Options{ByObject: map[client.Object]cache.ByObject{untyped(&unstructured.Unstructured{}, "v1", "PodList"): {}}}, "use that of its items, Pod"),
		Entry("no kind", cache.Options{ByObject: map[client.Object]cache.ByObject{&metav1.PartialObjectMetadata{}: {}}}, "cache option ByObject: Object 'Kind' is missing in '*v1.PartialObjectMetadata'; call its SetGroupVersionKind first"),
	)

	It("that the API server has gone", func(ctx SpecContext) {
		server := envtest.New(envtest.Options{})
		Expect(server.Start(ctx)).To(Succeed())
		DeferCleanup(server.Stop)
		served := server.Config()
		transport, err := rest.TransportFor(served)
		Expect(err).NotTo(HaveOccurred())
		refused := make(chan error, 100)
		c, err := cache.New(served, cache.Options{HTTPClient: &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			response, err := transport.RoundTrip(r)
			if err != nil && r.URL.Path == "/api/v1/secrets" {
				refused <- err
			}
			return response, err
		})}})
		Expect(err).NotTo(HaveOccurred())
		start(c)
		Expect(c.WaitForCacheSync(ctx)).To(BeTrue(), "it is started")
		key := client.ObjectKey{Namespace: "default", Name: "one"}
		Expect(client.IgnoreNotFound(c.Get(ctx, key, &corev1.ConfigMap{}))).To(Succeed())
		Expect(server.Stop()).To(Succeed())

		impatient, cancel := context.WithCancel(ctx)
		go func() {
			defer GinkgoRecover()
			defer cancel()
			for range 2 { // with the second try the first has been noted
				Eventually(refused).Should(Receive())
			}
		}()
		err = c.Get(impatient, key, &corev1.Secret{})
		Expect(apierrors.IsTimeout(err)).To(BeTrue(), "%v", err)
		Expect(err).To(MatchError(And(ContainSubstring("Secret (v1)"), ContainSubstring("connection refused"), ContainSubstring(served.Host))))
	})
})
