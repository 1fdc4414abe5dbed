// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"errors"
	"net/http"
	"strconv"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	crclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/pkg/cache"
	"github.com/tarn-dev/tarn/pkg/client"
)

var _ = Describe("reads after writes", func() {
	var namespace string
	BeforeEach(func(ctx SpecContext) { namespace = newNamespace(ctx) })

	get := func(ctx SpecContext, p *program, name string, opts ...crclient.GetOption) (*corev1.ConfigMap, error) {
		found := &corev1.ConfigMap{}
		return found, p.Get(ctx, crclient.ObjectKey{Namespace: namespace, Name: name}, found, opts...)
	}

	It("hides what leaves the scope, and transforms what is in it", func(ctx SpecContext) {
		p := ours.run(ctx, cache.Options{
			DefaultLabelSelector: labels.SelectorFromSet(labels.Set{"app": "x"}),
			DefaultTransform:     cache.TransformStripManagedFields(),
		}, crclient.CacheOptions{})
		p.watch(ctx, &corev1.ConfigMap{})
		created := configMap(namespace, "created", map[string]string{"app": "x"})
		Expect(p.Create(ctx, created)).To(Succeed())
		Expect(created.ManagedFields).NotTo(BeEmpty())
		found, err := get(ctx, p, "created")
		Expect(err).NotTo(HaveOccurred())
		Expect(found.ManagedFields).To(BeEmpty())
		created.Labels["app"] = "y"
		Expect(p.Update(ctx, created)).To(Succeed())
		_, err = get(ctx, p, "created")
		Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
		created.Labels["app"] = "x"
		Expect(p.Update(ctx, created)).To(Succeed())
		found, err = get(ctx, p, "created")
		Expect(err).NotTo(HaveOccurred())
		Expect(found.ResourceVersion).To(Equal(created.ResourceVersion))
	}, SpecTimeout(patience))

	It("asks the server where a field selector cannot be evaluated", func(ctx SpecContext) {
		p := ours.run(ctx, cache.Options{ByObject: map[crclient.Object]cache.ByObject{
			&corev1.Secret{}: {Field: fields.OneTermEqualSelector("type", "mine")},
		}}, crclient.CacheOptions{})
		p.watch(ctx, &corev1.Secret{})
		for _, kind := range []corev1.SecretType{"mine", "other"} {
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: string(kind)}, Type: kind}
			Expect(p.Create(ctx, secret)).To(Succeed())
			before := p.watches.reads.Load()
			for range 3 {
				err := p.Get(ctx, crclient.ObjectKeyFromObject(secret), &corev1.Secret{})
				Expect(apierrors.IsNotFound(err)).To(Equal(kind == "other"), "%v", err)
			}
			Expect(p.watches.reads.Load()-before).To(BeEquivalentTo(1), "once")
		}
	}, SpecTimeout(patience))

	It("evaluates a field selector by a declared field", func(ctx SpecContext) {
		p := ours.run(ctx, cache.Options{ByObject: map[crclient.Object]cache.ByObject{
			&corev1.Secret{}: {Field: fields.OneTermEqualSelector("type", "mine")},
		}}, crclient.CacheOptions{})
		Expect(p.cache.IndexField(ctx, &corev1.Secret{}, "type", func(obj crclient.Object) []string {
			return []string{string(obj.(*corev1.Secret).Type)}
		})).To(Succeed())
		p.watch(ctx, &corev1.Secret{})
		for _, kind := range []corev1.SecretType{"mine", "other"} {
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: string(kind)}, Type: kind}
			Expect(p.Create(ctx, secret)).To(Succeed())
		}
		list := &corev1.SecretList{}
		Expect(p.List(ctx, list, crclient.InNamespace(namespace), crclient.MatchingFields{"type": "mine"})).To(Succeed())
		Expect(list.Items).To(HaveLen(1))
		Expect(p.List(ctx, list, crclient.InNamespace(namespace))).To(Succeed())
		Expect(list.Items).To(HaveLen(1))
		Expect(p.watches.reads.Load()).To(BeZero())
	}, SpecTimeout(patience))

	It("asks the server once what became of a write whose answer was lost", func(ctx SpecContext) {
		p := ours.run(ctx, cache.Options{}, crclient.CacheOptions{})
		p.watch(ctx, &corev1.ConfigMap{})
		p.writes.lose.Store(true)
		Expect(p.Create(ctx, configMap(namespace, "lost", nil))).NotTo(Succeed())
		p.writes.lose.Store(false)
		for range 3 {
			_, err := get(ctx, p, "lost")
			Expect(err).NotTo(HaveOccurred())
		}
		Expect(p.watches.reads.Load()).To(BeEquivalentTo(1))

		By("a deletion whose answer was lost")
		p.writes.lose.Store(true)
		Expect(p.Delete(ctx, configMap(namespace, "lost", nil))).NotTo(Succeed())
		p.writes.lose.Store(false)
		for range 3 {
			_, err := get(ctx, p, "lost")
			Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
		}
		Expect(p.watches.reads.Load()).To(BeEquivalentTo(2))

		By("a server that cannot be asked")
		p.writes.lose.Store(true)
		Expect(p.Create(ctx, configMap(namespace, "unknown", nil))).NotTo(Succeed())
		p.writes.lose.Store(false)
		p.watches.down.Store(true)
		_, err := get(ctx, p, "unknown")
		Expect(err).To(MatchError(ContainSubstring("what became of a write is not known")))
		unanswered := (*client.UnansweredError)(nil)
		Expect(errors.As(err, &unanswered)).To(BeTrue(), "%v", err)
		Expect(unanswered.GVK.Kind).To(Equal("ConfigMap"))
		p.watches.down.Store(false)
		for _, code := range []int{http.StatusNotFound, http.StatusGone} {
			p.watches.refuse.Store(int64(code))
			_, err = get(ctx, p, "unknown")
			Expect(apierrors.IsServiceUnavailable(err)).To(BeTrue(), "%v", err)
			Expect(apierrors.IsNotFound(err)).To(BeFalse(), "the server has not said that of the object: %v", err)
			Expect(apierrors.IsGone(err) || apierrors.IsResourceExpired(err)).To(BeFalse(), "nor that of a page: %v", err)
		}
		p.watches.refuse.Store(0)
		_, err = get(ctx, p, "unknown")
		Expect(err).NotTo(HaveOccurred())
	}, SpecTimeout(patience))

	It("waits for NotOlderThan, and says what it waited for", func(ctx SpecContext) {
		p := ours.run(ctx, cache.Options{}, crclient.CacheOptions{DisableFor: []crclient.Object{&corev1.Secret{}}})
		p.watch(ctx, &corev1.ConfigMap{})
		created := configMap(namespace, "created", nil)
		Expect(api.Create(ctx, created)).To(Succeed())
		read := within(ctx)
		err := p.Get(read, crclient.ObjectKeyFromObject(created), &corev1.ConfigMap{}, client.NotOlderThan(created.ResourceVersion))
		late := (*client.NotFreshError)(nil)
		Expect(errors.As(err, &late)).To(BeTrue(), "%v", err)
		Expect(late.GVK.Kind).To(Equal("ConfigMap"))
		Expect(late.Wanted).To(Equal(created.ResourceVersion))
		reached, err := strconv.Atoi(late.Reached)
		Expect(err).NotTo(HaveOccurred())
		wanted, err := strconv.Atoi(late.Wanted)
		Expect(err).NotTo(HaveOccurred())
		Expect(reached).To(BeNumerically("<", wanted))
		Expect(apierrors.IsTimeout(late)).To(BeTrue())
		Expect(apierrors.HasStatusCause(late, metav1.CauseTypeResourceVersionTooLarge)).To(BeTrue())

		listed := make(chan error, 1)
		list := &corev1.ConfigMapList{}
		go func() {
			listed <- p.List(ctx, list, crclient.InNamespace(namespace), client.NotOlderThan(created.ResourceVersion))
		}()
		Consistently(listed, "50ms").ShouldNot(Receive())
		p.watches.pass()
		Eventually(listed).Should(Receive(BeNil()))
		Expect(names(list)).To(Equal([]string{"created"}))
		p.watches.hold()

		By("an own write, which is new enough itself")
		own := configMap(namespace, "own", nil)
		Expect(p.Create(ctx, own)).To(Succeed())
		_, err = get(ctx, p, "own", client.NotOlderThan(own.ResourceVersion))
		Expect(err).NotTo(HaveOccurred())

		By("a live read")
		_, err = get(ctx, p, "own", client.NotOlderThan("not-a-number"))
		Expect(apierrors.IsBadRequest(err)).To(BeTrue(), "%v", err)
		Expect(p.List(ctx, &corev1.SecretList{}, crclient.InNamespace(namespace), client.NotOlderThan(own.ResourceVersion))).To(Succeed())
	}, SpecTimeout(patience))

	It("is controller-runtime's client with any other reader", func(ctx SpecContext) {
		c, err := client.New(cfg, crclient.Options{Cache: &crclient.CacheOptions{Reader: struct{ crclient.Reader }{api}}})
		Expect(err).NotTo(HaveOccurred())
		created := configMap(namespace, "created", nil)
		Expect(c.Create(ctx, created)).To(Succeed())
		Expect(c.Get(ctx, crclient.ObjectKeyFromObject(created), created)).To(Succeed())
		_, err = client.New(nil, crclient.Options{})
		Expect(err).To(MatchError(ContainSubstring("non-nil rest.Config")))
	}, SpecTimeout(patience))
})
