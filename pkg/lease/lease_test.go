// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package lease_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	crcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/scoped"
	"github.com/tarn-dev/tarn/pkg/cache"
	ownclient "github.com/tarn-dev/tarn/pkg/client"
	"github.com/tarn-dev/tarn/pkg/lease"
)

// acquired acquires a lease that has synced.
func acquired(ctx context.Context, c cache.Cache, obj client.Object, scope lease.Scope) *lease.Lease {
	GinkgoHelper()
	l, err := lease.Acquire(ctx, c, obj, scope)
	Expect(err).NotTo(HaveOccurred())
	Expect(l.WaitForSync(ctx)).To(Succeed())
	return l
}

func selector(text string) labels.Selector {
	GinkgoHelper()
	s, err := labels.Parse(text)
	Expect(err).NotTo(HaveOccurred())
	return s
}

// informersOf returns the namespaces of the informers of a cache.
func informersOf(c cache.Cache) (namespaces []string) {
	of := c.(interface {
		Leases(func() scoped.Leases) scoped.Leases
	})
	for _, m := range of.Leases(func() scoped.Leases { panic("there was no lease") }).Maps() {
		namespaces = append(namespaces, m.Namespace())
	}
	return namespaces
}

// define serves a kind Widget.
func define(ctx context.Context, group string, scope apiextensionsv1.ResourceScope) {
	GinkgoHelper()
	scheme := runtime.NewScheme()
	Expect(apiextensionsv1.AddToScheme(scheme)).To(Succeed())
	definitions, err := client.New(cfg, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets." + group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: scope,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Kind: "Widget"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"}},
			}},
		},
	}
	Expect(definitions.Create(ctx, crd)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { Expect(definitions.Delete(ctx, crd)).To(Succeed()) })
}

var _ = Describe("A lease", func() {
	It("go on when the namespace of the cache leaves, and begin outside of its namespaces", func(ctx SpecContext) {
		inside, outside := newNamespace(ctx), newNamespace(ctx)
		create(ctx, configMap(inside, "one", ""), configMap(outside, "one", ""))
		c, requests := started(ctx, cache.Tuning{Namespaces: labels.Nothing()}, cache.Options{DefaultNamespaces: map[string]cache.Config{inside: {}}})
		leases := []*lease.Lease{
			acquired(ctx, c, &corev1.ConfigMap{}, lease.Scope{Namespace: inside}),
			acquired(ctx, c, &corev1.ConfigMap{}, lease.Scope{Namespace: outside}),
		}
		Expect(c.(interface {
			SetNamespaces(context.Context, ...string) error
		}).SetNamespaces(ctx)).To(Succeed())
		create(ctx, configMap(inside, "two", ""), configMap(outside, "two", ""))
		for i, namespace := range []string{inside, outside} {
			Eventually(func() error {
				return leases[i].Get(ctx, client.ObjectKey{Namespace: namespace, Name: "two"}, &corev1.ConfigMap{})
			}).Should(Succeed())
			Expect(leases[i].Release()).To(Succeed())
		}
		Expect(requests.Open()).NotTo(BeEmpty(), "for the idle time")
	})

	var namespace, other string
	BeforeEach(func(ctx SpecContext) { namespace, other = newNamespace(ctx), newNamespace(ctx) })
	path := func(namespace, selectors string) string {
		return "/api/v1/namespaces/" + namespace + "/configmaps?" + selectors
	}

	It("on a name lists and watches that name alone, and reads it", func(ctx SpecContext) {
		create(ctx, configMap(namespace, "one", "web"), configMap(namespace, "two", "web"))
		c, requests := started(ctx, cache.Tuning{}, cache.Options{})
		l := acquired(ctx, c, &corev1.ConfigMap{}, lease.Scope{Namespace: namespace, Name: "one"})
		Expect(l.HasSynced()).To(BeTrue())

		got, list := &corev1.ConfigMap{}, &corev1.ConfigMapList{}
		Expect(l.Get(ctx, named(namespace, "one"), got)).To(Succeed())
		Expect(got.Data).To(HaveKeyWithValue("app", "web"))
		Expect(l.List(ctx, list)).To(Succeed())
		Expect(list.Items).To(HaveLen(1))
		got.Data["app"] = "db"
		Expect(api.Update(ctx, got)).To(Succeed())
		Eventually(func(g Gomega) {
			now := &corev1.ConfigMap{}
			g.Expect(l.Get(ctx, named(namespace, "one"), now)).To(Succeed())
			g.Expect(now.Data).To(HaveKeyWithValue("app", "db"))
		}).Should(Succeed())
		Expect(api.Delete(ctx, got)).To(Succeed())
		Eventually(func() error { return l.Get(ctx, named(namespace, "one"), got) }).Should(MatchError(apierrors.IsNotFound, "IsNotFound"))
		create(ctx, configMap(namespace, "one", "again"))
		Eventually(func() error { return l.Get(ctx, named(namespace, "one"), got) }).Should(Succeed())

		Expect(requests.Made()).To(Equal([]string{path(namespace, "fieldSelector=metadata.name=one")}))

		outside := (*cache.OutsideScopeError)(nil)
		for _, key := range []client.ObjectKey{named(namespace, "two"), named(other, "one")} {
			err := l.Get(ctx, key, got)
			Expect(errors.As(err, &outside)).To(BeTrue())
			Expect(err).To(MatchError(ContainSubstring(`the field selector "metadata.name=one" alone`)))
		}
		Expect(errors.As(l.List(ctx, list, client.InNamespace(other)), &outside)).To(BeTrue())
		Expect(l.Get(ctx, named(namespace, "one"), &corev1.Secret{})).To(MatchError(ContainSubstring("it is Secret (v1), and the lease is on ConfigMap (v1)")))
		Expect(l.Get(ctx, named(namespace, "one"), got, cache.MaxAge(time.Nanosecond))).To(BeAssignableToTypeOf(&cache.StaleError{}))
	})

	It("that another one covers opens no watch, and outlives it; the informer ends after the idle time with the last", func(ctx SpecContext) {
		create(ctx, configMap(namespace, "one", "web"), configMap(namespace, "two", "db"))
		c, requests := started(ctx, cache.Tuning{}, cache.Options{})
		wide := acquired(ctx, c, &corev1.ConfigMap{}, lease.Scope{Namespace: namespace})
		name := acquired(ctx, c, &corev1.ConfigMap{}, lease.Scope{Namespace: namespace, Name: "one"})
		web := acquired(ctx, c, &corev1.ConfigMap{}, lease.Scope{Namespace: namespace, Labels: selector("app=web")})
		Expect(requests.Open()).To(Equal([]string{path(namespace, "")}))

		outside := (*cache.OutsideScopeError)(nil)
		got, list := &corev1.ConfigMap{}, &corev1.ConfigMapList{}
		Expect(errors.As(name.Get(ctx, named(namespace, "two"), got), &outside)).To(BeTrue())
		Expect(web.Get(ctx, named(namespace, "one"), got)).To(Succeed())
		Expect(web.Get(ctx, named(namespace, "two"), got)).To(And(MatchError(ContainSubstring("not found in the lease")), MatchError(apierrors.IsNotFound, "IsNotFound")))
		Expect(got.Data).To(BeEmpty())
		Expect(web.List(ctx, list)).To(Succeed())
		Expect(list.Items).To(HaveLen(1))
		Expect(name.List(ctx, list, client.MatchingLabels{"app": "db"})).To(Succeed())
		Expect(list.Items).To(BeEmpty())
		Expect(wide.List(ctx, list, client.InNamespace(namespace))).To(Succeed())
		Expect(len(list.Items)).To(BeNumerically(">=", 2))

		Expect(wide.Release()).To(Succeed())
		Expect(wide.Release()).To(MatchError(ContainSubstring("was released")))
		Expect(wide.Get(ctx, named(namespace, "one"), got)).To(MatchError(ContainSubstring("was released")))
		Expect(wide.IsStopped()).To(BeTrue())
		Consistently(requests.Open, 2*idle).Should(HaveLen(1))
		Expect(name.Get(ctx, named(namespace, "one"), got)).To(Succeed())
		Expect(name.Release()).To(Succeed())
		Expect(web.Release()).To(Succeed())

		again := acquired(ctx, c, &corev1.ConfigMap{}, lease.Scope{Namespace: namespace, Name: "two"})
		Consistently(requests.Open, 2*idle).Should(HaveLen(1), "the idle informer serves again")
		Expect(again.Release()).To(Succeed())
		Eventually(requests.Open).Should(BeEmpty())
		Expect(informersOf(c)).To(BeEmpty())
		Expect(cache.NotSynced(c)).To(BeEmpty())

		acquired(ctx, c, &corev1.ConfigMap{}, lease.Scope{Namespace: namespace, Name: "two"})
		Expect(requests.Open()).To(Equal([]string{path(namespace, "fieldSelector=metadata.name=two")}))
	})

	It("has event handlers of its scope, which end with it", func(ctx SpecContext) {
		create(ctx, configMap(namespace, "one", "web"), configMap(namespace, "two", "db"))
		c, _ := started(ctx, cache.Tuning{}, cache.Options{})
		for _, wider := range []bool{false, true} { // the second time in a wider informer
			release := []*lease.Lease{}
			if wider {
				release = append(release, acquired(ctx, c, &corev1.ConfigMap{}, lease.Scope{}))
			}
			l := acquired(ctx, c, &corev1.ConfigMap{}, lease.Scope{Namespace: namespace, Labels: selector("app=web")})
			h, replayed := &events{}, &events{}
			_, err := l.AddEventHandler(nil)
			Expect(err).To(MatchError(ContainSubstring("it is nil")))
			added, err := l.AddEventHandler(h)
			Expect(err).NotTo(HaveOccurred())
			Eventually(added.HasSynced).Should(BeTrue())

			set := func(app string) {
				GinkgoHelper()
				now := &corev1.ConfigMap{}
				Expect(api.Get(ctx, named(namespace, "two"), now)).To(Succeed())
				now.Labels["app"] = app
				Expect(api.Update(ctx, now)).To(Succeed())
			}
			set("web")
			Eventually(h.Heard).Should(Equal([]string{"add one", "add two"}))
			_, err = l.AddEventHandler(replayed)
			Expect(err).NotTo(HaveOccurred())
			Eventually(replayed.Heard).Should(Equal([]string{"add one", "add two"}))
			set("db")
			Eventually(h.Heard).Should(Equal([]string{"add one", "add two", "delete two"}))
			Expect(l.RemoveEventHandler(added)).To(Succeed())
			set("web")
			Eventually(replayed.Heard).Should(HaveLen(4))
			Expect(l.Release()).To(Succeed())
			_, err = l.AddEventHandler(h)
			Expect(err).To(MatchError(ContainSubstring("was released")))
			set("db")
			Consistently(replayed.Heard, idle).Should(Equal([]string{"add one", "add two", "delete two", "add two"}))
			Expect(h.Heard()).To(HaveLen(3))
			for _, l := range release {
				Expect(l.Release()).To(Succeed())
			}
			Eventually(func() []string { return informersOf(c) }).Should(BeEmpty())
		}
	})

	It("is served by the informer of the configuration if that is there, which then cannot be removed", func(ctx SpecContext) {
		create(ctx, configMap(namespace, "one", "web"))
		c, requests := started(ctx, cache.Tuning{}, cache.Options{})
		_, err := c.GetInformer(ctx, &corev1.ConfigMap{})
		Expect(err).NotTo(HaveOccurred())
		before := requests.Made()
		l := acquired(ctx, c, &corev1.ConfigMap{}, lease.Scope{Namespace: namespace, Name: "one"})
		Expect(requests.Made()).To(Equal(before))
		Expect(l.Get(ctx, named(namespace, "one"), &corev1.ConfigMap{})).To(Succeed())
		Expect(c.RemoveInformer(ctx, &corev1.ConfigMap{})).To(MatchError(ContainSubstring("it serves leases (1), which must be released first")))
		Expect(l.Get(ctx, named(namespace, "one"), &corev1.ConfigMap{})).To(Succeed())
		Expect(l.Release()).To(Succeed())
		Expect(c.RemoveInformer(ctx, &corev1.ConfigMap{})).To(Succeed())
		Eventually(requests.Open).Should(BeEmpty())
	})

	It("keeps the informers of the configuration in all namespaces, also those that it does not need", func(ctx SpecContext) {
		c, requests := started(ctx, cache.Tuning{}, cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}, other: {}}})
		_, err := c.GetInformer(ctx, &corev1.ConfigMap{})
		Expect(err).NotTo(HaveOccurred())
		both := []string{path(namespace, ""), path(other, "")}
		for _, in := range []string{namespace, other} {
			l := acquired(ctx, c, &corev1.ConfigMap{}, lease.Scope{Namespace: in})
			Expect(c.RemoveInformer(ctx, &corev1.ConfigMap{})).To(MatchError(ContainSubstring("it serves leases (1), which must be released first")))
			Consistently(requests.Open).WithTimeout(100 * time.Millisecond).Should(ConsistOf(both))
			Expect(l.Release()).To(Succeed())
		}
		Expect(c.RemoveInformer(ctx, &corev1.ConfigMap{})).To(Succeed())
		Eventually(requests.Open).Should(BeEmpty())
	})

	It("answers what others read in its scope, and nothing else", func(ctx SpecContext) {
		create(ctx, configMap(namespace, "one", "web"), configMap(other, "one", "web"), configMap(other, "two", "web"))
		c, requests := started(ctx, cache.Tuning{}, cache.Options{})
		acquired(ctx, c, &corev1.ConfigMap{}, lease.Scope{Namespace: namespace})
		acquired(ctx, c, &corev1.ConfigMap{}, lease.Scope{Namespace: other, Name: "one"})
		before := requests.Made()
		got, list := &corev1.ConfigMap{}, &corev1.ConfigMapList{}
		Expect(c.Get(ctx, named(other, "one"), got)).To(Succeed())
		Expect(c.Get(ctx, named(namespace, "one"), got)).To(Succeed())
		Expect(c.Get(ctx, named(namespace, "missing"), got)).To(MatchError(apierrors.IsNotFound, "IsNotFound"))
		Expect(c.List(ctx, list, client.InNamespace(namespace))).To(Succeed())
		Expect(list.Items).NotTo(BeEmpty())
		Expect(requests.Made()).To(Equal(before))

		Expect(c.Get(ctx, named(other, "two"), got)).To(Succeed())
		Expect(requests.Open()).To(ContainElement("/api/v1/configmaps?"))
		Expect(c.List(ctx, list)).To(Succeed())
		keys := map[client.ObjectKey]int{}
		for i := range list.Items {
			keys[client.ObjectKeyFromObject(&list.Items[i])]++
		}
		Expect(keys).To(HaveKey(named(other, "two")))
		Expect(keys).To(HaveEach(1))
	})

	It("shows no more to others than the configuration would", func(ctx SpecContext) {
		create(ctx, configMap(namespace, "one", "web"), configMap(namespace, "two", "db"))
		c, requests := started(ctx, cache.Tuning{}, cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {LabelSelector: selector("app=web")}}})
		l := acquired(ctx, c, &corev1.ConfigMap{}, lease.Scope{Namespace: namespace})
		acquired(ctx, c, &corev1.ConfigMap{}, lease.Scope{Namespace: other})
		list := &corev1.ConfigMapList{}
		Expect(l.Get(ctx, named(namespace, "two"), &corev1.ConfigMap{})).To(Succeed())
		Expect(c.Get(ctx, named(namespace, "two"), &corev1.ConfigMap{})).To(MatchError(apierrors.IsNotFound, "IsNotFound"))
		Expect(c.List(ctx, list)).To(Succeed())
		Expect(list.Items).To(HaveLen(1))
		outside := (*cache.OutsideScopeError)(nil)
		Expect(errors.As(c.Get(ctx, named(other, "one"), &corev1.ConfigMap{}), &outside)).To(BeTrue())
		Expect(requests.Open()).To(ContainElement(path(namespace, "labelSelector=app=web")))
	})

	It("needs the permission for its name alone", func(ctx SpecContext) {
		create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "tls"}}, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "other"}})
		its, err := env.AddUser("reader-" + namespace)
		Expect(err).NotTo(HaveOccurred())
		permit(ctx, namespace, "reader-"+namespace, []string{"get", "list", "watch"}, "tls")
		c, _ := newCache(its, cache.Tuning{}, cache.Options{})
		start(c)
		l, err := lease.Acquire(ctx, c, &corev1.Secret{}, lease.Scope{Namespace: namespace, Name: "tls"})
		Expect(err).NotTo(HaveOccurred())
		Expect(l.WaitForSync(ctx)).To(Succeed())
		Expect(l.Get(ctx, named(namespace, "tls"), &corev1.Secret{})).To(Succeed())
		Expect(c.WaitForCacheSync(ctx)).To(BeTrue())

		denied, err := lease.Acquire(ctx, c, &corev1.Secret{}, lease.Scope{Namespace: namespace, Name: "other"})
		Expect(err).NotTo(HaveOccurred())
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		var why *cache.NotSyncedError
		Expect(errors.As(denied.WaitForSync(short), &why)).To(BeTrue())
		Expect(why.Cause).To(Equal(cache.Forbidden))
		Expect(denied.HasSynced()).To(BeFalse())
		Expect(cache.NotSynced(c)).To(HaveLen(1))
		Expect(denied.Release()).To(Succeed(), "also during the sync")
		Eventually(func() []*cache.NotSyncedError { return cache.NotSynced(c) }).Should(BeEmpty())
	})

	It("has an informer of its own while a wider one fails", func(ctx SpecContext) {
		create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "tls"}})
		user := "reader-" + namespace
		its, err := env.AddUser(user)
		Expect(err).NotTo(HaveOccurred())
		permit(ctx, namespace, user, []string{"list", "watch"}, "tls")
		c, _ := newCache(its, cache.Tuning{}, cache.Options{})
		start(c)
		_, err = c.GetInformer(ctx, &corev1.Secret{}, cache.BlockUntilSynced(false))
		Expect(err).NotTo(HaveOccurred())
		forbidden := func() (count int) {
			for _, reason := range cache.NotSynced(c) {
				if reason.Cause == cache.Forbidden {
					count++
				}
			}
			return count
		}
		Eventually(forbidden).Should(Equal(1))
		_, err = lease.Acquire(ctx, c, &corev1.Secret{}, lease.Scope{Namespace: namespace})
		Expect(err).NotTo(HaveOccurred())
		Eventually(forbidden).Should(Equal(2))
		l := acquired(ctx, c, &corev1.Secret{}, lease.Scope{Namespace: namespace, Name: "tls"})
		Expect(l.Get(ctx, named(namespace, "tls"), &corev1.Secret{})).To(Succeed())
	})

	It("says so if the wider informer that it stays with fails later", func(ctx SpecContext) {
		its, err := env.AddUser("late-" + namespace)
		Expect(err).NotTo(HaveOccurred())
		for _, wider := range []string{"all", fmt.Sprintf("namespace %q", namespace)} {
			c, _ := newCache(its, cache.Tuning{}, cache.Options{})
			if wider == "all" {
				_, err = c.GetInformer(ctx, &corev1.Secret{}, cache.BlockUntilSynced(false))
			} else {
				_, err = lease.Acquire(ctx, c, &corev1.Secret{}, lease.Scope{Namespace: namespace})
			}
			Expect(err).NotTo(HaveOccurred())
			l, err := lease.Acquire(ctx, c, &corev1.Secret{}, lease.Scope{Namespace: namespace, Name: "tls"})
			Expect(err).NotTo(HaveOccurred())
			start(c)
			failed := func() []*cache.NotSyncedError { return cache.NotSynced(c) }
			Eventually(failed).Should(ContainElement(HaveField("Cause", cache.Forbidden)))
			short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
			for _, err := range []error{l.WaitForSync(short), l.Get(short, named(namespace, "tls"), &corev1.Secret{}), l.List(short, &corev1.SecretList{})} {
				Expect(err).To(MatchError(And(
					ContainSubstring(l.String()), ContainSubstring("an informer of "+wider), ContainSubstring("acquire another one"), ContainSubstring("forbidden"))))
				Expect(err).To(MatchError(apierrors.IsTimeout, "IsTimeout"))
			}
			cancel()
		}
	})

	It("answers a plain read right after it was acquired", func(ctx SpecContext) {
		create(ctx, configMap(namespace, "one", "web"))
		c, requests := started(ctx, cache.Tuning{}, cache.Options{})
		_, err := lease.Acquire(ctx, c, &corev1.ConfigMap{}, lease.Scope{Namespace: namespace, Name: "one"})
		Expect(err).NotTo(HaveOccurred())
		Expect(c.Get(ctx, named(namespace, "one"), &corev1.ConfigMap{})).To(Succeed())
		Expect(requests.Made()).To(Equal([]string{path(namespace, "fieldSelector=metadata.name=one")}))
	})

	It("refuses what it cannot hold", func(ctx SpecContext) {
		c, requests := started(ctx, cache.Tuning{}, cache.Options{})
		unknown := &unstructured.Unstructured{}
		unknown.SetGroupVersionKind(schema.GroupVersionKind{Group: "leases.example.com", Version: "v1", Kind: "Unknown"})
		for text, acquire := range map[string]func() (*lease.Lease, error){
			"the kind is cluster-scoped, and the scope has the namespace": func() (*lease.Lease, error) {
				return lease.Acquire(ctx, c, &corev1.Node{}, lease.Scope{Namespace: namespace, Name: "one"})
			},
			"labels.Nothing() selects nothing": func() (*lease.Lease, error) {
				return lease.Acquire(ctx, c, &corev1.ConfigMap{}, lease.Scope{Labels: labels.Nothing()})
			},
			"the API server does not serve Unknown": func() (*lease.Lease, error) { return lease.Acquire(ctx, c, unknown, lease.Scope{}) },
			"the object is nil":                     func() (*lease.Lease, error) { return lease.Acquire(ctx, c, nil, lease.Scope{}) },
			"a <nil> has no leases":                 func() (*lease.Lease, error) { return lease.Acquire(ctx, nil, &corev1.ConfigMap{}, lease.Scope{}) },
			"a *informertest.FakeInformers has no leases": func() (*lease.Lease, error) {
				return lease.Acquire(ctx, crcache.Cache(&informertest.FakeInformers{}), &corev1.ConfigMap{}, lease.Scope{})
			},
		} {
			l, err := acquire()
			Expect(err).To(MatchError(ContainSubstring(text)))
			Expect(l).To(BeNil())
		}
		_, err := lease.Acquire(ctx, c, unknown, lease.Scope{})
		Expect(err).To(MatchError(meta.IsNoMatchError, "IsNoMatchError"))
		Expect(informersOf(c)).To(BeEmpty())
		Expect(requests.Made()).To(BeEmpty())
		_, err = cache.With(cache.Tuning{LeaseIdleTime: -1})(cfg, cache.Options{})
		Expect(err).To(MatchError(ContainSubstring("LeaseIdleTime is -1ns")))
	})

	It("may be acquired before the start and released after the end", func(ctx SpecContext) {
		create(ctx, configMap(namespace, "one", "web"))
		c, requests := newCache(cfg, cache.Tuning{}, cache.Options{})
		l, err := lease.Acquire(ctx, c, &corev1.ConfigMap{}, lease.Scope{Namespace: namespace, Name: "one"})
		Expect(err).NotTo(HaveOccurred())
		gone, err := lease.Acquire(ctx, c, &corev1.ConfigMap{}, lease.Scope{Namespace: other, Name: "one"})
		Expect(err).NotTo(HaveOccurred())
		Expect(gone.Release()).To(Succeed())
		Eventually(func() []string { return informersOf(c) }).Should(Equal([]string{namespace}))
		notStarted := (*cache.ErrCacheNotStarted)(nil)
		Expect(errors.As(c.Get(ctx, named(namespace, "one"), &corev1.ConfigMap{}), &notStarted)).To(BeTrue())
		short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		Expect(l.Get(short, named(namespace, "one"), &corev1.ConfigMap{})).To(MatchError(ContainSubstring("gave up waiting")))
		Expect(requests.Made()).To(BeEmpty())

		stop := start(c)
		Expect(c.WaitForCacheSync(ctx)).To(BeTrue())
		Expect(l.HasSynced()).To(BeTrue(), "WaitForCacheSync waits for leases")
		Expect(l.Get(ctx, named(namespace, "one"), &corev1.ConfigMap{})).To(Succeed())
		released, err := lease.Acquire(ctx, c, &corev1.ConfigMap{}, lease.Scope{Namespace: other})
		Expect(err).NotTo(HaveOccurred())
		Expect(released.Release()).To(Succeed())
		stop()
		Expect(l.IsStopped()).To(BeTrue())
		Expect(l.Release()).To(Succeed())
		_, err = lease.Acquire(ctx, c, &corev1.ConfigMap{}, lease.Scope{Namespace: namespace})
		Expect(err).To(MatchError(ContainSubstring("the cache has been stopped")))
	})

	It("shows the writes of client.New at once", func(ctx SpecContext) {
		c, _ := started(ctx, cache.Tuning{}, cache.Options{DefaultNamespaces: map[string]cache.Config{"elsewhere": {}}})
		direct, err := ownclient.New(cfg, client.Options{Cache: &client.CacheOptions{Reader: c, DisableFor: []client.Object{&corev1.ConfigMap{}}}})
		Expect(err).NotTo(HaveOccurred())
		name := acquired(ctx, c, &corev1.ConfigMap{}, lease.Scope{Namespace: namespace, Name: "one"})
		web := acquired(ctx, c, &corev1.ConfigMap{}, lease.Scope{Namespace: namespace, Labels: selector("app=web")})
		for range 20 {
			obj, got, list := configMap(namespace, "one", "web"), &corev1.ConfigMap{}, &corev1.ConfigMapList{}
			Expect(direct.Create(ctx, obj)).To(Succeed())
			Expect(name.Get(ctx, named(namespace, "one"), got)).To(Succeed())
			Expect(got.ResourceVersion).To(Equal(obj.ResourceVersion))
			Expect(web.List(ctx, list)).To(Succeed())
			Expect(list.Items).To(HaveLen(1))
			obj.Labels["app"] = "db"
			Expect(direct.Update(ctx, obj)).To(Succeed())
			Expect(web.List(ctx, list)).To(Succeed())
			Expect(list.Items).To(BeEmpty())
			Expect(direct.Delete(ctx, obj)).To(Succeed())
			Expect(name.Get(ctx, named(namespace, "one"), got)).To(MatchError(apierrors.IsNotFound, "IsNotFound"))
		}
	})

	It("has the settings of its kind, in each representation and storage", func(ctx SpecContext) {
		create(ctx, configMap(namespace, "one", "web"))
		for _, storage := range []cache.Storage{cache.Flat, cache.Decoded, cache.OneWatch} {
			c, requests := started(ctx, cache.Tuning{TuningByObject: cache.TuningByObject{Storage: storage}}, cache.Options{
				ByObject: map[client.Object]cache.ByObject{&corev1.ConfigMap{}: {Transform: func(obj any) (any, error) {
					obj.(metav1.Object).SetAnnotations(map[string]string{"transformed": "true"})
					return obj, nil
				}}},
			})
			u, m := &unstructured.Unstructured{}, &metav1.PartialObjectMetadata{}
			for _, obj := range []client.Object{u, m} {
				obj.GetObjectKind().SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
			}
			held := []*lease.Lease{}
			for _, obj := range []client.Object{&corev1.ConfigMap{}, u, m} {
				l := acquired(ctx, c, obj, lease.Scope{Namespace: namespace, Name: "one"})
				held = append(held, l)
				h := &events{}
				_, err := l.AddEventHandler(h)
				Expect(err).NotTo(HaveOccurred())
				Expect(l.Get(ctx, named(namespace, "one"), obj)).To(Succeed())
				Expect(obj.GetAnnotations()).To(HaveKeyWithValue("transformed", "true"))
				Eventually(h.Heard).Should(Equal([]string{"add one"}))
			}
			for _, l := range held {
				Expect(l.Release()).To(Succeed())
			}
			Eventually(requests.Open).Should(BeEmpty(), string(storage))
		}
	})

	It("on a field that only the API server knows has an informer of its own", func(ctx SpecContext) {
		pod := func(name, node string) *corev1.Pod {
			return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
		}
		create(ctx, pod("one", "n1"), pod("two", "n2"))
		c, requests := started(ctx, cache.Tuning{}, cache.Options{})
		acquired(ctx, c, &corev1.Pod{}, lease.Scope{})
		l := acquired(ctx, c, &corev1.Pod{}, lease.Scope{Fields: fields.OneTermEqualSelector("spec.nodeName", "n1")})
		list := &corev1.PodList{}
		Expect(l.List(ctx, list, client.InNamespace(namespace))).To(Succeed())
		Expect(list.Items).To(HaveLen(1))
		Expect(requests.Open()).To(ConsistOf("/api/v1/pods?", "/api/v1/pods?fieldSelector=spec.nodeName=n1"))
	})

	It("on a kind that is optional and not served is dormant", func(ctx SpecContext) {
		kind := schema.GroupVersionKind{Group: "leases.example.com", Version: "v1", Kind: "Absent"}
		absent := &unstructured.Unstructured{}
		absent.SetGroupVersionKind(kind)
		c, _ := started(ctx, cache.Tuning{TuningByObject: cache.TuningByObject{Optional: ptr.To(true)}}, cache.Options{})
		l, err := lease.Acquire(ctx, c, absent, lease.Scope{Namespace: namespace, Name: "one"})
		Expect(err).NotTo(HaveOccurred())
		Expect(l.WaitForSync(ctx)).To(MatchError(meta.IsNoMatchError, "IsNoMatchError"))
		Expect(l.Release()).To(Succeed())
	})

	DescribeTable("on a kind that comes with another scope", func(ctx SpecContext, configured bool) {
		group := namespace + ".example.com"
		widget := &unstructured.Unstructured{}
		widget.SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: "v1", Kind: "Widget"})
		c, _ := started(ctx, cache.Tuning{TuningByObject: cache.TuningByObject{Optional: ptr.To(true)}}, cache.Options{
			DefaultNamespaces: map[string]cache.Config{namespace: {}, cache.AllNamespaces: {}},
		})
		if configured {
			_, err := c.GetInformer(ctx, widget)
			Expect(err).NotTo(HaveOccurred())
		}
		everywhere, err := lease.Acquire(ctx, c, widget, lease.Scope{Name: "one"})
		Expect(err).NotTo(HaveOccurred())
		inside, err := lease.Acquire(ctx, c, widget, lease.Scope{Namespace: namespace, Name: "one"})
		Expect(err).NotTo(HaveOccurred())
		Expect(everywhere.WaitForSync(ctx)).To(MatchError(meta.IsNoMatchError, "IsNoMatchError"))
		last := sync.Map{}
		k := run(c, 2, func(ctx context.Context, refs client.Reader, in string) error {
			last.Store(in, fmt.Sprint(refs.Get(ctx, named(in, "one"), widget.DeepCopy())))
			return nil // only a wake-up tries again
		})
		read := func(in string) func() any {
			return func() any { err, _ := last.Load(in); return err }
		}
		for _, in := range []string{"", namespace} {
			k.queue.Add(in)
			Eventually(read(in)).Should(ContainSubstring("does not serve"))
		}

		define(ctx, group, apiextensionsv1.ClusterScoped)
		one := widget.DeepCopy()
		one.SetName("one")
		Eventually(func() error { return api.Create(ctx, one) }).Should(Succeed())
		Eventually(func() error { return everywhere.Get(ctx, named("", "one"), widget.DeepCopy()) }).Should(Succeed())
		for _, in := range []string{"", namespace} {
			Eventually(read(in)).Should(Equal("<nil>"))
		}
		Eventually(func() error { return inside.Get(ctx, named(namespace, "one"), widget.DeepCopy()) }).Should(
			MatchError(ContainSubstring("the kind is cluster-scoped, and the scope has the namespace")))
		Expect(inside.WaitForSync(ctx)).To(MatchError(ContainSubstring("the kind is cluster-scoped, and the scope has the namespace")))
	},
		Entry("than was guessed", false),
		Entry("than an informer of the configuration is for", true),
	)

	It("that is forbidden ends no cache, and keeps nobody else waiting", func(ctx SpecContext) {
		nobody, err := env.AddUser("nobody-" + namespace)
		Expect(err).NotTo(HaveOccurred())
		for _, storage := range []cache.Storage{cache.Flat, cache.OneWatch} {
			c, _ := newCache(nobody, cache.Tuning{TuningByObject: cache.TuningByObject{OnFailure: cache.FailFast, Storage: storage}}, cache.Options{})
			start(c)
			l, err := lease.Acquire(ctx, c, &corev1.Secret{}, lease.Scope{Namespace: namespace})
			Expect(err).NotTo(HaveOccurred())
			why := (*cache.NotSyncedError)(nil)
			Expect(errors.As(l.WaitForSync(ctx), &why)).To(BeTrue())
			Expect(why.Cause).To(Equal(cache.Forbidden))
			Expect(c.WaitForCacheSync(ctx)).To(BeTrue())
			Expect(cache.Ready(c)(nil)).To(Succeed())
			Expect(cache.NotSynced(c)).To(HaveLen(1))
		}
	})
})
