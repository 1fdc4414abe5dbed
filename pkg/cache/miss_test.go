// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"errors"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/pkg/cache"
)

var _ = Describe("A read of what the cache does not have", func() {
	var namespace, other string
	BeforeEach(func(ctx SpecContext) {
		namespace, other = newNamespace(ctx), newNamespace(ctx)
		create(ctx, configMap(namespace, "one", "x"), configMap(other, "one", "x"))
	})
	get := func(ctx SpecContext, c client.Reader, namespace, name string, opts ...client.GetOption) (*corev1.ConfigMap, error) {
		out := &corev1.ConfigMap{}
		return out, c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, out, opts...)
	}
	outside := func(err error) *cache.OutsideScopeError {
		GinkgoHelper()
		var e *cache.OutsideScopeError
		Expect(errors.As(err, &e)).To(BeTrue(), "%T: %v", err, err)
		return e
	}
	It("says whether it is not found, outside, or not cached", func(ctx SpecContext) {
		registry := prometheus.NewRegistry()
		c := started(ctx, cache.With(cache.Tuning{Registerer: registry}), cache.Options{
			DefaultNamespaces: map[string]cache.Config{namespace: {FieldSelector: fields.OneTermNotEqualSelector("metadata.name", "hidden")}},
		})

		_, err := get(ctx, c, namespace, "none")
		Expect(apierrors.IsNotFound(err)).To(BeTrue())
		Expect(errors.As(err, new(*cache.OutsideScopeError))).To(BeFalse())

		_, err = get(ctx, c, other, "one")
		Expect(apierrors.IsNotFound(err)).To(BeFalse(), "as in controller-runtime")
		e := outside(err)
		Expect(e.GVK).To(Equal(corev1.SchemeGroupVersion.WithKind("ConfigMap")))
		Expect(e.Key).To(Equal(client.ObjectKey{Namespace: other, Name: "one"}))
		Expect(e.Scope).To(Equal("the namespaces " + namespace))

		_, err = get(ctx, c, namespace, "hidden")
		Expect(apierrors.IsNotFound(err)).To(BeTrue(), "as in controller-runtime")
		Expect(outside(err).Scope).To(Equal(`the field selector "metadata.name!=hidden"`))

		Expect(outside(c.List(ctx, &corev1.ConfigMapList{}, client.InNamespace(other))).Key).To(Equal(client.ObjectKey{Namespace: other}))
		Expect(counted(registry, "tarn_cache_read_misses_total", "reason", "not_found")).To(Equal(1.0))
		Expect(counted(registry, "tarn_cache_read_misses_total", "reason", "outside_scope")).To(Equal(3.0))
	})

	It("is answered by the API server if the call asks for it, and by one request for many", func(ctx SpecContext) {
		registry := prometheus.NewRegistry()
		c := started(ctx, cache.With(cache.Tuning{Registerer: registry}), cache.Options{
			DefaultNamespaces: map[string]cache.Config{namespace: {}},
		})
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				defer GinkgoRecover()
				found, err := get(ctx, c, other, "one", cache.ReadThrough())
				Expect(err).NotTo(HaveOccurred())
				Expect(found.Data).To(Equal(map[string]string{"set": "x"}))
				Expect(found.Kind).To(Equal("ConfigMap"), "as what the cache holds")
			})
		}
		all.Wait()
		Expect(counted(registry, "tarn_cache_read_through_total", "result", "found")).To(Equal(20.0))
		Expect(counted(registry, "tarn_cache_read_through_requests_total", "kind", "ConfigMap")).To(And(BeNumerically(">=", 1), BeNumerically("<=", 20)))
		_, err := get(ctx, c, other, "one")
		outside(err)

		for range 3 {
			_, err := get(ctx, c, namespace, "none", cache.ReadThrough())
			Expect(apierrors.IsNotFound(err)).To(BeTrue())
		}
		Expect(counted(registry, "tarn_cache_read_through_total", "result", "not_found")).To(BeNumerically(">=", 1))
		_, err = get(ctx, c, namespace, "", cache.ReadThrough())
		Expect(err).To(MatchError(ContainSubstring("the key has no Name")))
	})

	It("is answered by the API server for a kind that is set so, with the transform of the cache", func(ctx SpecContext) {
		c := started(ctx, cache.With(cache.Tuning{ByObject: map[client.Object]cache.TuningByObject{&corev1.ConfigMap{}: {ReadThrough: ptr.To(true)}}}), cache.Options{
			DefaultLabelSelector: labels.SelectorFromSet(labels.Set{"set": "y"}),
			DefaultTransform: func(obj any) (any, error) {
				obj.(client.Object).SetAnnotations(map[string]string{"transformed": "yes"})
				return obj, nil
			},
		})
		found, err := get(ctx, c, namespace, "one")
		Expect(err).NotTo(HaveOccurred())
		Expect(found.Annotations).To(HaveKeyWithValue("transformed", "yes"))
		meta := &metav1.PartialObjectMetadata{}
		meta.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
		Expect(c.Get(ctx, client.ObjectKeyFromObject(found), meta)).To(Succeed())
		Expect(meta.Labels).To(Equal(map[string]string{"set": "x"}))

		secrets := &corev1.Secret{}
		Expect(apierrors.IsNotFound(c.Get(ctx, client.ObjectKeyFromObject(found), secrets))).To(BeTrue())
		list := &corev1.ConfigMapList{}
		Expect(c.List(ctx, list, client.InNamespace(namespace))).To(Succeed())
		Expect(list.Items).To(BeEmpty(), "lists are the cache's alone")
	})

	It("is answered by the API server for a kind that reads may not start to cache", func(ctx SpecContext) {
		c := started(ctx, cache.New, cache.Options{ReaderFailOnMissingInformer: true})
		_, err := get(ctx, c, namespace, "one")
		Expect(errors.As(err, new(*cache.ErrResourceNotCached))).To(BeTrue())
		found, err := get(ctx, c, namespace, "one", cache.ReadThrough())
		Expect(err).NotTo(HaveOccurred())
		Expect(strings.HasPrefix(found.ResourceVersion, "0")).To(BeFalse())
		Expect(c.List(ctx, &corev1.ConfigMapList{})).NotTo(Succeed())
	})
})
