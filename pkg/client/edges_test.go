// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	policyv1beta1 "k8s.io/api/policy/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/utils/ptr"
	crclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/note"
	"github.com/tarn-dev/tarn/pkg/cache"
	"github.com/tarn-dev/tarn/pkg/client"
)

// recorder is a cache that remembers what is noted.
type recorder struct {
	cache.Cache
	writes []note.Write
}

// NoteWrite implements note.Noter.
func (r *recorder) NoteWrite(w note.Write) { r.writes = append(r.writes, w) }

// Writes whose response says little, or that never come.
var _ = Describe("unusual own writes", func() {
	var namespace string
	BeforeEach(func(ctx SpecContext) { namespace = newNamespace(ctx) })

	lose := func(p *program, write func() error) {
		GinkgoHelper()
		p.writes.lose.Store(true)
		defer p.writes.lose.Store(false)
		Expect(write()).NotTo(Succeed())
	}
	newPod := func(name string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		}
	}

	It("finds an object with a generated name whose answer was lost", func(ctx SpecContext) {
		p := ours.run(ctx, cache.Options{}, crclient.CacheOptions{})
		p.watch(ctx, &corev1.ConfigMap{})
		lose(p, func() error {
			return p.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "child-", Labels: map[string]string{"app": "x"}}})
		})
		list := &corev1.ConfigMapList{}
		for range 3 {
			Expect(p.List(ctx, list, crclient.InNamespace(namespace), crclient.MatchingLabels{"app": "x"})).To(Succeed())
			Expect(list.Items).To(HaveLen(1), "a controller would create it again")
		}
		Expect(p.Get(ctx, crclient.ObjectKeyFromObject(&list.Items[0]), &corev1.ConfigMap{})).To(Succeed())
		Expect(p.watches.reads.Load()).To(BeEquivalentTo(1))
	}, SpecTimeout(patience))

	It("remembers what a request did that was repeated", func(ctx SpecContext) {
		p := ours.run(ctx, cache.Options{}, crclient.CacheOptions{})
		p.watch(ctx, &corev1.ConfigMap{})
		shown := func() (names []string) {
			list := &corev1.ConfigMapList{}
			Expect(p.List(ctx, list, crclient.InNamespace(namespace), crclient.MatchingLabels{"app": "x"})).To(Succeed())
			for i := range list.Items {
				names = append(names, list.Items[i].Name)
			}
			return names
		}
		child := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "child-", Labels: map[string]string{"app": "x"}}}
		p.writes.again.Store(true)
		Expect(p.Create(ctx, child)).To(Succeed())
		Expect(shown()).To(HaveLen(2), "both requests have created one")
		Expect(shown()).To(ContainElement(child.Name))

		p.writes.again.Store(true)
		Expect(p.DeleteAllOf(ctx, &corev1.ConfigMap{}, crclient.InNamespace(namespace), crclient.MatchingLabels{"app": "x"})).To(Succeed())
		Expect(shown()).To(BeEmpty(), "the first request has deleted them, and the second one found none")
	}, SpecTimeout(patience))

	It("asks what an eviction and a binding have done whose answers were lost", func(ctx SpecContext) {
		p := ours.run(ctx, cache.Options{}, crclient.CacheOptions{})
		for _, name := range []string{"evicted", "bound"} {
			Expect(api.Create(ctx, newPod(name))).To(Succeed())
		}
		p.watch(ctx, &corev1.Pod{})
		get := func(name string) (*corev1.Pod, error) {
			found := &corev1.Pod{}
			return found, p.Get(ctx, crclient.ObjectKey{Namespace: namespace, Name: name}, found)
		}
		lose(p, func() error {
			return p.SubResource("binding").Create(ctx, newPod("bound"), &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: "node"}})
		})
		bound, err := get("bound")
		Expect(err).NotTo(HaveOccurred())
		Expect(bound.Spec.NodeName).To(Equal("node"))
		lose(p, func() error {
			return p.SubResource("eviction").Create(ctx, newPod("evicted"), &policyv1.Eviction{DeleteOptions: &metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(0))}})
		})
		_, err = get("evicted")
		Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
		Expect(p.watches.reads.Load()).To(BeEquivalentTo(2))
	}, SpecTimeout(patience))

	It("shows what a Binding has done to its Pod", func(ctx SpecContext) {
		p := ours.run(ctx, cache.Options{}, crclient.CacheOptions{})
		for _, name := range []string{"bound", "lost"} {
			Expect(api.Create(ctx, newPod(name))).To(Succeed())
		}
		p.watch(ctx, &corev1.Pod{})
		bind := func(name string) error {
			return p.Create(ctx, &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Target: corev1.ObjectReference{Kind: "Node", Name: "node"}})
		}
		Expect(bind("bound")).To(Succeed())
		lose(p, func() error { return bind("lost") })
		for _, name := range []string{"bound", "lost"} {
			found := &corev1.Pod{}
			Expect(p.Get(ctx, crclient.ObjectKey{Namespace: namespace, Name: name}, found)).To(Succeed())
			Expect(found.Spec.NodeName).To(Equal("node"), name)
		}
	}, SpecTimeout(patience))

	It("hides a Namespace whose last finalizer it has taken", func(ctx SpecContext) {
		doomed := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: newNamespace(ctx)}}
		p := ours.run(ctx, cache.Options{}, crclient.CacheOptions{})
		p.watch(ctx, &corev1.Namespace{})
		Expect(p.Delete(ctx, doomed)).To(Succeed())
		Expect(p.Get(ctx, crclient.ObjectKeyFromObject(doomed), doomed)).To(Succeed())
		Expect(doomed.DeletionTimestamp).NotTo(BeNil())
		Expect(doomed.Spec.Finalizers).NotTo(BeEmpty())
		doomed.Spec.Finalizers = nil
		Expect(p.SubResource("finalize").Update(ctx, doomed)).To(Succeed())
		err := p.Get(ctx, crclient.ObjectKeyFromObject(doomed), doomed)
		Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
	}, SpecTimeout(patience))

	It("notes nothing of what a server does not keep", func(ctx SpecContext) {
		p := ours.run(ctx, cache.Options{}, crclient.CacheOptions{})
		noted := &recorder{Cache: p.cache}
		with, err := client.New(p.writes.config(), crclient.Options{Cache: &crclient.CacheOptions{Reader: noted}})
		Expect(err).NotTo(HaveOccurred())
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "account"}}
		Expect(api.Create(ctx, account)).To(Succeed())
		asks := []func() error{
			func() error {
				return with.Create(ctx, &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
					ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Resource: "pods"},
				}})
			},
			func() error {
				return with.Create(ctx, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: "none"}})
			},
			func() error {
				return with.SubResource("token").Create(ctx, account, &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{"a"}}})
			},
		}
		for _, ask := range asks {
			Expect(ask()).To(Succeed())
			lose(p, ask)
		}
		Expect(noted.writes).To(BeEmpty())
		Expect(with.Create(ctx, configMap(namespace, "kept", nil))).To(Succeed())
		Expect(noted.writes).To(HaveLen(1))
	}, SpecTimeout(patience))

	It("notes no eviction that is a dry run", func(ctx SpecContext) {
		p := ours.run(ctx, cache.Options{}, crclient.CacheOptions{})
		noted := &recorder{Cache: p.cache}
		with, err := client.New(p.writes.config(), crclient.Options{Cache: &crclient.CacheOptions{Reader: noted}})
		Expect(err).NotTo(HaveOccurred())
		Expect(api.Create(ctx, newPod("pod"))).To(Succeed())
		dry := &metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}, GracePeriodSeconds: ptr.To(int64(0))}
		content := func(gvk schema.GroupVersionKind, options map[string]any) *unstructured.Unstructured {
			u := &unstructured.Unstructured{Object: map[string]any{"deleteOptions": options}}
			u.SetGroupVersionKind(gvk)
			u.SetNamespace(namespace)
			u.SetName("pod")
			return u
		}
		pod := content(corev1.SchemeGroupVersion.WithKind("Pod"), nil)
		evict := with.SubResource("eviction").Create
		Expect(evict(ctx, newPod("pod"), &policyv1.Eviction{DeleteOptions: dry})).To(Succeed())
		lose(p, func() error { return evict(ctx, newPod("pod"), &policyv1beta1.Eviction{DeleteOptions: dry}) })
		for _, version := range []schema.GroupVersion{policyv1.SchemeGroupVersion, policyv1beta1.SchemeGroupVersion} {
			for _, all := range []any{[]any{metav1.DryRunAll}, []string{metav1.DryRunAll}} {
				eviction := content(version.WithKind("Eviction"), map[string]any{"dryRun": all})
				lose(p, func() error { return evict(ctx, pod, eviction) })
				if version == policyv1.SchemeGroupVersion {
					Expect(evict(ctx, pod, eviction)).To(Succeed())
				}
			}
		}
		Expect(evict(ctx, newPod("pod"), &policyv1.Eviction{}, crclient.DryRunAll)).To(Succeed())
		lose(p, func() error { return evict(ctx, newPod("pod"), &policyv1.Eviction{DeleteOptions: dry}) })
		Expect(noted.writes).To(BeEmpty())
		Expect(api.Get(ctx, crclient.ObjectKeyFromObject(newPod("pod")), &corev1.Pod{})).To(Succeed())

		By("one that is none")
		dry.DryRun = nil
		Expect(evict(ctx, newPod("pod"), &policyv1.Eviction{DeleteOptions: dry})).To(Succeed())
		Expect(noted.writes).To(HaveLen(1))
	}, SpecTimeout(patience))

	for name, storage := range map[string]cache.Storage{"with a watch for each view": cache.Flat, "with one watch": cache.OneWatch} {
		It("shows a patch of the status by metadata alone, "+name, func(ctx SpecContext) {
			p := maker{cache: cache.With(cache.Tuning{TuningByObject: cache.TuningByObject{Storage: storage}}), client: client.New}.run(ctx, cache.Options{}, crclient.CacheOptions{})
			Expect(api.Create(ctx, newPod("pod"))).To(Succeed())
			metadata := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "pod"}}
			metadata.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
			p.watch(ctx, &corev1.Pod{}, metadata.DeepCopy())
			patch := crclient.RawPatch("application/merge-patch+json", []byte(`{"status":{"message":"patched"}}`))
			Expect(p.Status().Patch(ctx, metadata, patch)).To(Succeed())
			found, view := &corev1.Pod{}, metadata.DeepCopy()
			Expect(p.Get(ctx, crclient.ObjectKeyFromObject(metadata), found)).To(Succeed())
			Expect(found.Status.Message).To(Equal("patched"))
			Expect(p.Get(ctx, crclient.ObjectKeyFromObject(metadata), view)).To(Succeed())
			Expect(view.ResourceVersion).To(Equal(metadata.ResourceVersion))

			By("a lost answer")
			patch = crclient.RawPatch("application/merge-patch+json", []byte(`{"status":{"message":"again"}}`))
			lose(p, func() error { return p.Status().Patch(ctx, metadata, patch) })
			Expect(p.Get(ctx, crclient.ObjectKeyFromObject(metadata), found)).To(Succeed())
			Expect(found.Status.Message).To(Equal("again"))
		}, SpecTimeout(patience))
	}

	It("waits for nothing after an apply of what the cache does not hold", func(ctx SpecContext) {
		p := ours.run(ctx, cache.Options{DefaultLabelSelector: labels.SelectorFromSet(labels.Set{"app": "x"})}, crclient.CacheOptions{})
		p.watch(ctx, &corev1.ConfigMap{})
		apply := func(app string) error {
			return p.Apply(ctx, applycorev1.ConfigMap("applied", namespace).WithLabels(map[string]string{"app": app}), crclient.FieldOwner("spec"), crclient.ForceOwnership)
		}
		get := func() error {
			return p.Get(ctx, crclient.ObjectKey{Namespace: namespace, Name: "applied"}, &corev1.ConfigMap{})
		}
		Expect(apply("y")).To(Succeed())
		Expect(apierrors.IsNotFound(get())).To(BeTrue())
		Expect(apply("x")).To(Succeed())
		Expect(get()).To(Succeed())
		Expect(apply("z")).To(Succeed())
		Expect(apierrors.IsNotFound(get())).To(BeTrue())
		Expect(p.watches.reads.Load()).To(BeZero())

		By("a lost answer")
		lose(p, func() error { return apply("x") })
		Expect(get()).To(Succeed())
		Expect(p.watches.reads.Load()).To(BeEquivalentTo(1))
	}, SpecTimeout(patience))

	It("goes on with the other namespaces when one of them is deleted", func(ctx SpecContext) {
		other := newNamespace(ctx)
		p := ours.run(ctx, cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}, other: {}}}, crclient.CacheOptions{})
		p.watch(ctx, &corev1.ConfigMap{})
		Expect(p.Create(ctx, configMap(namespace, "a", nil))).To(Succeed())
		Expect(p.Create(ctx, configMap(other, "b", nil))).To(Succeed())
		Expect(api.DeleteAllOf(ctx, &corev1.ConfigMap{}, crclient.InNamespace(other))).To(Succeed())
		Expect(api.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: other}})).To(Succeed())
		Expect(p.Create(ctx, configMap(other, "late", nil))).NotTo(Succeed())
		lose(p, func() error { return p.Create(ctx, configMap(other, "lost", nil)) })
		list := &corev1.ConfigMapList{}
		Expect(p.List(ctx, list)).To(Succeed())
		Expect(names(list)).To(ContainElement("a"))
		Expect(names(list)).NotTo(ContainElements("late", "lost"))

		By("the informers, which are removed")
		Expect(p.cache.RemoveInformer(ctx, &corev1.ConfigMap{})).To(Succeed())
		Expect(p.Create(ctx, configMap(namespace, "c", nil))).To(Succeed())
		p.watches.pass()
		Expect(p.List(ctx, list)).To(Succeed())
		Expect(names(list)).To(ContainElements("a", "c"))
		Expect(names(list)).NotTo(ContainElement("b"))
		p.watches.hold()
	}, SpecTimeout(patience))

	It("writes when its cache has ended", func(ctx SpecContext) {
		p := &program{watches: newConnection(), writes: newConnection()}
		c, err := cache.New(p.watches.config(), cache.Options{})
		Expect(err).NotTo(HaveOccurred())
		p.Client, err = client.New(p.writes.config(), crclient.Options{Cache: &crclient.CacheOptions{Reader: c}})
		Expect(err).NotTo(HaveOccurred())
		Expect(p.Create(ctx, configMap(namespace, "before", nil))).To(Succeed(), "it has not begun")
		running, cancel := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- c.Start(running) }()
		Expect(c.WaitForCacheSync(ctx)).To(BeTrue())
		found := &corev1.ConfigMap{}
		Expect(p.Get(ctx, crclient.ObjectKey{Namespace: namespace, Name: "before"}, found)).To(Succeed())
		cancel()
		Eventually(ended).Should(Receive(BeNil()))

		written := configMap(namespace, "after", nil)
		Expect(p.Create(ctx, written)).To(Succeed())
		lose(p, func() error { return p.Delete(ctx, configMap(namespace, "before", nil)) })
		lose(p, func() error { return p.DeleteAllOf(ctx, &corev1.ConfigMap{}, crclient.InNamespace(namespace)) })
		Expect(apierrors.IsNotFound(p.Get(ctx, crclient.ObjectKeyFromObject(written), found))).To(BeTrue(), "what was cached can still be read, and nothing else")
		Expect(p.watches.reads.Load()).To(BeNumerically("<=", 1), "nobody asks the server")
	}, SpecTimeout(patience))
})
