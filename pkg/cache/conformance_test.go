// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"context"
	"slices"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	toolscache "k8s.io/client-go/tools/cache"
	crcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/pkg/cache"
)

// view is a representation, as a user asks for it.
type view struct {
	name   string
	object func() client.Object
	list   func() client.ObjectList
}

var configMapKind = corev1.SchemeGroupVersion.WithKind("ConfigMap")

var views = []view{
	{"structured",
		func() client.Object { return &corev1.ConfigMap{} },
		func() client.ObjectList { return &corev1.ConfigMapList{} }},
	{"unstructured",
		func() client.Object {
			u := &unstructured.Unstructured{}
			u.SetGroupVersionKind(configMapKind)
			return u
		},
		func() client.ObjectList {
			u := &unstructured.UnstructuredList{}
			u.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
			return u
		}},
	{"metadata-only",
		func() client.Object {
			m := &metav1.PartialObjectMetadata{}
			m.SetGroupVersionKind(configMapKind)
			return m
		},
		func() client.ObjectList {
			m := &metav1.PartialObjectMetadataList{}
			m.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
			return m
		}},
}

// mode is a way to say which namespaces are cached. Each caches the namespaces
// that it is given, and maybe more.
type mode struct {
	name string
	opts func(a, b string) cache.Options
}

var modes = []mode{
	{"all namespaces", func(_, _ string) cache.Options { return cache.Options{} }},
	{"default namespaces", func(a, b string) cache.Options {
		return cache.Options{DefaultNamespaces: map[string]cache.Config{a: {}, b: {}}}
	}},
	{"a default namespace and all others", func(a, _ string) cache.Options {
		return cache.Options{DefaultNamespaces: map[string]cache.Config{a: {}, cache.AllNamespaces: {}}}
	}},
	{"namespaces of the kind", func(a, b string) cache.Options {
		return cache.Options{ByObject: map[client.Object]cache.ByObject{
			&corev1.ConfigMap{}: {Namespaces: map[string]cache.Config{a: {}, b: {}}},
		}}
	}},
}

var implementations = []struct {
	name string
	make cache.NewCacheFunc
	ours bool
}{
	{"Tarn", cache.New, true},
	{"controller-runtime", crcache.New, false}, // the oracle
}

// The conformance suite: what every cache must do, in every representation and
// namespace mode. controller-runtime's cache runs it too, except for what ours
// does better.
var _ = Describe("A cache", func() {
	for _, impl := range implementations {
		for _, m := range modes {
			for _, v := range views {
				Describe("of "+impl.name+", with "+m.name+", "+v.name, func() {
					conform(impl.make, impl.ours, m, v)
				})
			}
		}
	}
})

func conform(makeCache cache.NewCacheFunc, ours bool, m mode, v view) {
	var (
		c            cache.Cache
		a, b         string // namespaces
		lastVersion  string
		inNamespaces = func(list client.ObjectList) []string { return namesIn(list, a, b) }
	)
	BeforeEach(func(ctx SpecContext) {
		a, b = newNamespace(ctx), newNamespace(ctx)
		lastVersion = create(ctx,
			configMap(b, "two", "x"), configMap(a, "two", "y"), configMap(a, "one", "x"), configMap(b, "one", "z"))
		c = started(ctx, makeCache, m.opts(a, b))
	})

	get := func(ctx context.Context, namespace, name string) (client.Object, error) {
		obj := v.object()
		return obj, c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, obj)
	}
	list := func(ctx context.Context, opts ...client.ListOption) client.ObjectList {
		GinkgoHelper()
		l := v.list()
		Expect(c.List(ctx, l, opts...)).To(Succeed())
		return l
	}

	It("gets an object, with its kind", func(ctx SpecContext) {
		obj, err := get(ctx, a, "one")
		Expect(err).NotTo(HaveOccurred())
		Expect(obj.GetNamespace() + "/" + obj.GetName()).To(Equal(a + "/one"))
		Expect(obj.GetLabels()).To(HaveKeyWithValue("set", "x"))
		Expect(obj.GetResourceVersion()).NotTo(BeEmpty())
		Expect(obj.GetObjectKind().GroupVersionKind()).To(Equal(configMapKind))
	})

	It("says NotFound of an object that does not exist", func(ctx SpecContext) {
		_, err := get(ctx, a, "none")
		Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
	})

	It("lists all, by namespace, by label and both", func(ctx SpecContext) {
		Expect(inNamespaces(list(ctx))).To(ConsistOf(a+"/one", a+"/two", b+"/one", b+"/two"))
		Expect(inNamespaces(list(ctx, client.InNamespace(b)))).To(ConsistOf(b+"/one", b+"/two"))
		Expect(inNamespaces(list(ctx, client.MatchingLabels{"set": "x"}))).To(ConsistOf(a+"/one", b+"/two"))
		Expect(inNamespaces(list(ctx, client.InNamespace(a), client.MatchingLabels{"set": "x"}))).To(ConsistOf(a + "/one"))
		Expect(inNamespaces(list(ctx, client.InNamespace(a), client.MatchingLabels{"set": "z"}))).To(BeEmpty())
	})

	It("lists by an indexed field that was declared after the start", func(ctx SpecContext) {
		bySet := func(obj client.Object) []string { return []string{obj.GetLabels()["set"]} }
		Expect(c.IndexField(ctx, v.object(), "set", bySet)).To(Succeed())
		Expect(c.IndexField(ctx, v.object(), "name", func(obj client.Object) []string { return []string{obj.GetName()} })).To(Succeed())
		Expect(inNamespaces(list(ctx, client.MatchingFields{"set": "x"}))).To(ConsistOf(a+"/one", b+"/two"))
		Expect(inNamespaces(list(ctx, client.InNamespace(b), client.MatchingFields{"set": "x"}))).To(ConsistOf(b + "/two"))
		Expect(inNamespaces(list(ctx, client.MatchingFields{"set": "x", "name": "one"}))).To(ConsistOf(a + "/one"))
		Expect(inNamespaces(list(ctx, client.MatchingFields{"set": "none"}))).To(BeEmpty())
		Expect(c.List(ctx, v.list(), client.MatchingFields{"unknown": "x"})).NotTo(Succeed())
	})

	It("returns copies", func(ctx SpecContext) {
		obj, err := get(ctx, a, "one")
		Expect(err).NotTo(HaveOccurred())
		obj.GetLabels()["set"] = "changed"
		for _, item := range items(list(ctx, client.InNamespace(a))) {
			item.GetLabels()["set"] = "changed"
		}
		obj, err = get(ctx, a, "one")
		Expect(err).NotTo(HaveOccurred())
		Expect(obj.GetLabels()).To(HaveKeyWithValue("set", "x"))
		Expect(items(list(ctx, client.InNamespace(a)))).NotTo(ContainElement(
			HaveField("GetLabels()", HaveKeyWithValue("set", "changed"))))
	})

	It("follows creation, update and deletion, and tells its event handlers", func(ctx SpecContext) {
		informer, err := c.GetInformer(ctx, v.object())
		Expect(err).NotTo(HaveOccurred())
		seen := newJournal(a, b)
		registration, err := informer.AddEventHandler(seen)
		Expect(err).NotTo(HaveOccurred())
		Eventually(registration.HasSyncedChecker().Done()).Should(BeClosed())
		Expect(registration.HasSynced()).To(BeTrue())
		Expect(seen.take()).To(ConsistOf("+"+a+"/one", "+"+a+"/two", "+"+b+"/one", "+"+b+"/two"))

		added := configMap(b, "three", "x")
		create(ctx, added)
		Eventually(seen.take).Should(Equal([]string{"+" + b + "/three"}))
		obj, err := get(ctx, b, "three")
		Expect(err).NotTo(HaveOccurred(), "the store holds what the handlers were told of")
		Expect(obj.GetUID()).To(Equal(added.UID))

		added.Labels["set"] = "changed"
		Expect(api.Update(ctx, added)).To(Succeed())
		Eventually(seen.take).Should(Equal([]string{"~" + b + "/three"}))
		Expect(inNamespaces(list(ctx, client.MatchingLabels{"set": "changed"}))).To(ConsistOf(b + "/three"))

		Expect(api.Delete(ctx, added)).To(Succeed())
		Eventually(seen.take).Should(Equal([]string{"-" + b + "/three"}))
		_, err = get(ctx, b, "three")
		Expect(apierrors.IsNotFound(err)).To(BeTrue())

		Expect(informer.RemoveEventHandler(registration)).To(Succeed())
		Expect(informer.RemoveEventHandler(registration)).To(Succeed(), "it is idempotent")
		create(ctx, configMap(b, "four", "x"))
		Eventually(func() error { _, err := get(ctx, b, "four"); return err }).Should(Succeed())
		Expect(seen.take()).To(BeEmpty())
	})

	It("removes an informer, and makes a new one when asked again", func(ctx SpecContext) {
		first, err := c.GetInformer(ctx, v.object())
		Expect(err).NotTo(HaveOccurred())
		Expect(c.RemoveInformer(ctx, v.object())).To(Succeed())
		Eventually(first.IsStopped).Should(BeTrue())
		second, err := c.GetInformer(ctx, v.object())
		Expect(err).NotTo(HaveOccurred())
		Expect(second.HasSynced()).To(BeTrue())
		Expect(second.IsStopped()).To(BeFalse())
		Expect(c.RemoveInformer(ctx, v.object())).To(Succeed())
		Expect(c.RemoveInformer(ctx, v.object())).To(Succeed(), "there is none any more")
	})

	if !ours {
		return
	}

	It("lists in order, with a version, and an end", func(ctx SpecContext) {
		l := list(ctx, client.MatchingLabelsSelector{Selector: labels.Everything()})
		Expect(inNamespaces(l)).To(Equal(sorted(a+"/one", a+"/two", b+"/one", b+"/two")))
		Expect(l.GetContinue()).To(BeEmpty())
		reached, err := resourceversion.CompareResourceVersion(l.GetResourceVersion(), lastVersion)
		Expect(err).NotTo(HaveOccurred())
		Expect(reached).To(BeNumerically(">=", 0))

		limited := list(ctx, client.InNamespace(b), client.Limit(1))
		Expect(inNamespaces(limited)).To(Equal([]string{b + "/one"}))
	})

	It("selects by name without an index", func(ctx SpecContext) {
		Expect(inNamespaces(list(ctx, client.MatchingFields{"metadata.name": "one"}))).To(ConsistOf(a+"/one", b+"/one"))
		Expect(inNamespaces(list(ctx, client.MatchingFields{"metadata.namespace": b}))).To(ConsistOf(b+"/one", b+"/two"))
	})
}

// items returns the items of a list.
func items(list client.ObjectList) []client.Object {
	GinkgoHelper()
	var found []client.Object
	Expect(meta.EachListItem(list, func(obj runtime.Object) error {
		found = append(found, obj.(client.Object))
		return nil
	})).To(Succeed())
	return found
}

// namesIn returns the keys of the items in the given namespaces, in the order of the list, without
// the objects of every namespace.
func namesIn(list client.ObjectList, namespaces ...string) []string {
	GinkgoHelper()
	found := []string{}
	for _, item := range items(list) {
		if slices.Contains(namespaces, item.GetNamespace()) && item.GetName() != "kube-root-ca.crt" {
			found = append(found, item.GetNamespace()+"/"+item.GetName())
		}
	}
	return found
}

func sorted(keys ...string) []string {
	slices.Sort(keys)
	return keys
}

// journal is an event handler that writes down what it is told of some
// namespaces.
type journal struct {
	namespaces []string

	mu      sync.Mutex // guards entries
	entries []string
}

func newJournal(namespaces ...string) *journal { return &journal{namespaces: namespaces} }

func (j *journal) write(sign string, raw any) {
	if unknown, ok := raw.(toolscache.DeletedFinalStateUnknown); ok {
		raw = unknown.Obj
	}
	obj := raw.(client.Object)
	j.mu.Lock()
	defer j.mu.Unlock()
	if slices.Contains(j.namespaces, obj.GetNamespace()) && obj.GetName() != "kube-root-ca.crt" {
		j.entries = append(j.entries, sign+obj.GetNamespace()+"/"+obj.GetName())
	}
}

func (j *journal) OnAdd(obj any, _ bool) { j.write("+", obj) }
func (j *journal) OnUpdate(_, obj any)   { j.write("~", obj) }
func (j *journal) OnDelete(obj any)      { j.write("-", obj) }

// take returns what was written since it was last called.
func (j *journal) take() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	taken := j.entries
	j.entries = nil
	return taken
}
