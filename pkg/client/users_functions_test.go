// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	crclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/pkg/cache"
	"github.com/tarn-dev/tarn/pkg/client"
)

// The transforms and the index functions of a program run in goroutines of the cache, and never in that of a writer.
var _ = Describe("functions of the program", func() {
	var namespace string
	BeforeEach(func(ctx SpecContext) { namespace = newNamespace(ctx) })

	It("may take a lock that a writer holds", func(ctx SpecContext) {
		var lock sync.Mutex
		locked := func() {
			lock.Lock()
			defer lock.Unlock()
		}
		p := ours.run(ctx, cache.Options{DefaultTransform: func(obj any) (any, error) {
			locked()
			return obj, nil
		}}, crclient.CacheOptions{})
		Expect(p.cache.IndexField(ctx, &corev1.ConfigMap{}, "data.key", func(obj crclient.Object) []string {
			locked()
			return []string{obj.(*corev1.ConfigMap).Data["key"]}
		})).To(Succeed())
		p.watch(ctx, &corev1.ConfigMap{})
		made := configMap(namespace, "made", nil)
		made.Data = map[string]string{"key": "value"}
		written := make(chan error, 1)
		lock.Lock()
		go func() {
			defer GinkgoRecover()
			written <- p.Create(ctx, made)
		}()
		Eventually(written).Should(Receive(BeNil()))
		lock.Unlock()
		list := &corev1.ConfigMapList{}
		Expect(p.List(ctx, list, crclient.InNamespace(namespace), crclient.MatchingFields{"data.key": "value"})).To(Succeed())
		Expect(names(list)).To(Equal([]string{"made"}))
		Expect(p.watches.reads.Load()).To(BeZero())
	}, SpecTimeout(patience))

	It("may be slow, or panic, which is an error of the reads", func(ctx SpecContext) {
		var end atomic.Pointer[func()]
		p := ours.run(ctx, cache.Options{DefaultTransform: func(obj any) (any, error) {
			if f := end.Load(); f != nil {
				(*f)()
			}
			return obj, nil
		}}, crclient.CacheOptions{})
		p.watch(ctx, &corev1.ConfigMap{})
		slow := make(chan struct{})
		wait := func() { <-slow }
		end.Store(&wait)
		made := configMap(namespace, "made", nil)
		Expect(p.Create(ctx, made)).To(Succeed())
		began := time.Now()
		Expect(p.Get(within(ctx), crclient.ObjectKeyFromObject(made), &corev1.ConfigMap{})).NotTo(Succeed())
		Expect(time.Since(began)).To(BeNumerically("<", patience), "the read ends with its context")
		panics := func() { panic("out of order") }
		end.Store(&panics)
		close(slow)
		Expect(p.Get(ctx, crclient.ObjectKeyFromObject(made), &corev1.ConfigMap{})).To(Succeed(), "the transform of before has ended well")

		other := configMap(namespace, "other", nil)
		Expect(p.Create(ctx, other)).To(Succeed())
		for range 2 {
			err := p.Get(ctx, crclient.ObjectKeyFromObject(other), &corev1.ConfigMap{})
			Expect(err).To(MatchError(ContainSubstring("out of order")))
		}
		end.Store(nil)
		Expect(p.Get(ctx, crclient.ObjectKeyFromObject(other), &corev1.ConfigMap{})).To(Succeed())
	}, SpecTimeout(patience))
})

// A server deletes a Pod on no node in two writes of one request.
var _ = Describe("DeleteAllOf of Pods", func() {
	It("hides a Pod of which the watch has brought the first write alone", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
		pod.Namespace, pod.Name = namespace, "pod"
		Expect(api.Create(ctx, pod)).To(Succeed())
		p := ours.run(ctx, cache.Options{}, crclient.CacheOptions{Unstructured: true})
		deleted := `"type":"DELETED"`
		p.watches.ends.Store(&deleted)
		content := &unstructured.Unstructured{}
		content.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
		_, err := p.cache.GetInformer(ctx, content)
		Expect(err).NotTo(HaveOccurred())
		Expect(p.DeleteAllOf(ctx, content.DeepCopy(), crclient.InNamespace(namespace))).To(Succeed())
		Eventually(func(g Gomega) { // the watch brings the first write, and nothing behind it
			first := content.DeepCopy()
			g.Expect(p.Get(ctx, crclient.ObjectKeyFromObject(pod), first, client.AsCached)).To(Succeed())
			g.Expect(first.GetDeletionTimestamp()).NotTo(BeNil())
		}).WithContext(ctx).Should(Succeed())
		for range 3 {
			err := p.Get(ctx, crclient.ObjectKeyFromObject(pod), content.DeepCopy())
			Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
			Expect(p.List(ctx, list, crclient.InNamespace(namespace))).To(Succeed())
			Expect(list.Items).To(BeEmpty())
		}
	}, SpecTimeout(patience))
})
