// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	crclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/pkg/cache"
	"github.com/tarn-dev/tarn/pkg/client"
)

// Writes of a program whose watch is late have bounds: of memory, and of requests.
var _ = Describe("the bounds of own writes", func() {
	var namespace string
	BeforeEach(func(ctx SpecContext) { namespace = newNamespace(ctx) })

	Context("of memory", func() {
		var p *program
		const objects = 12 // of 20,000 bytes, in a budget that has room for half of them

		BeforeEach(func(ctx SpecContext) {
			small := maker{cache: cache.With(cache.Tuning{OwnWritesBudget: 200_000}), client: client.New}
			p = small.run(ctx, cache.Options{}, crclient.CacheOptions{})
			for _, name := range []string{"deleted", "held"} {
				Expect(api.Create(ctx, configMap(namespace, name, nil))).To(Succeed())
			}
			p.watch(ctx, &corev1.ConfigMap{}, &corev1.Secret{})
			Expect(p.Delete(ctx, configMap(namespace, "deleted", nil))).To(Succeed())
			for n := range objects {
				large := configMap(namespace, fmt.Sprintf("large-%02d", n), nil)
				large.Data = map[string]string{"key": strings.Repeat(fmt.Sprintf("%08d", n), 2500)}
				Expect(p.Create(ctx, large)).To(Succeed())
			}
		})

		get := func(ctx SpecContext, name string) (*corev1.ConfigMap, error) {
			found := &corev1.ConfigMap{}
			return found, p.Get(within(ctx), crclient.ObjectKey{Namespace: namespace, Name: name}, found)
		}

		It("loses no deletion", func(ctx SpecContext) {
			_, err := get(ctx, "deleted")
			Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
			_, err = get(ctx, "held")
			Expect(err).NotTo(HaveOccurred())
			_, err = get(ctx, fmt.Sprintf("large-%02d", objects-1))
			Expect(err).NotTo(HaveOccurred())
			Expect(p.watches.reads.Load()).To(BeZero())
		}, SpecTimeout(patience))

		It("asks the server once for an object that had no room", func(ctx SpecContext) {
			for range 3 {
				found := &corev1.ConfigMap{}
				Expect(p.Get(ctx, crclient.ObjectKey{Namespace: namespace, Name: "large-00"}, found)).To(Succeed())
				Expect(found.Data["key"]).To(HavePrefix("00000000"))
			}
			Expect(p.watches.reads.Load()).To(BeEquivalentTo(1))
		}, SpecTimeout(patience))

		It("asks the server for a list with what had no room, though the watch is held back", func(ctx SpecContext) {
			list := &corev1.ConfigMapList{}
			Expect(p.List(ctx, list, crclient.InNamespace(namespace))).To(Succeed())
			Expect(list.Items).To(HaveLen(objects + 1))
			for n := range objects {
				Expect(list.Items[n+1].Data["key"]).To(HavePrefix(fmt.Sprintf("%08d", n)))
			}
			Expect(p.watches.reads.Load()).To(BeNumerically("<=", 8))

			By("the watch, which brings them")
			p.watches.pass()
			Eventually(func() int {
				Expect(p.List(ctx, list, crclient.InNamespace(namespace), client.AsCached)).To(Succeed())
				return len(list.Items)
			}).WithContext(ctx).Should(Equal(objects + 1))
			p.watches.hold()
			before := p.watches.reads.Load()
			Expect(p.List(ctx, list, crclient.InNamespace(namespace))).To(Succeed())
			Expect(list.Items).To(HaveLen(objects + 1))
			Expect(p.watches.reads.Load()).To(Equal(before))
		}, SpecTimeout(patience))

		It("leaves room for other kinds", func(ctx SpecContext) {
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "secret"}, Data: map[string][]byte{"key": []byte(strings.Repeat("01234567", 2000))}}
			Expect(p.Create(ctx, secret)).To(Succeed())
			other := secret.DeepCopy()
			other.Name, other.ResourceVersion = "other", ""
			Expect(p.Create(ctx, other)).To(Succeed())
			list := &corev1.SecretList{}
			Expect(p.List(within(ctx), list, crclient.InNamespace(namespace))).To(Succeed())
			Expect(list.Items).To(HaveLen(2))
			Expect(p.watches.reads.Load()).To(BeZero())
		}, SpecTimeout(patience))
	})

	Context("of requests", func() {
		const objects = 30

		It("lists the objects once that a deletion of a collection leaves", func(ctx SpecContext) {
			for n := range objects {
				held := configMap(namespace, fmt.Sprintf("held-%02d", n), nil)
				held.Finalizers = []string{"tarn.dev/test"}
				Expect(api.Create(ctx, held)).To(Succeed())
			}
			DeferCleanup(func(ctx SpecContext) {
				for n := range objects {
					freed := crclient.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
					Expect(crclient.IgnoreNotFound(api.Patch(ctx, configMap(namespace, fmt.Sprintf("held-%02d", n), nil), freed))).To(Succeed())
				}
			})
			p := ours.run(ctx, cache.Options{}, crclient.CacheOptions{})
			p.watch(ctx, &corev1.ConfigMap{})
			Expect(p.DeleteAllOf(ctx, &corev1.ConfigMap{}, crclient.InNamespace(namespace))).To(Succeed())
			list := &corev1.ConfigMapList{}
			Expect(p.List(ctx, list, crclient.InNamespace(namespace))).To(Succeed())
			Expect(list.Items).To(HaveLen(objects))
			for _, item := range list.Items {
				Expect(item.DeletionTimestamp).NotTo(BeNil(), item.Name)
			}
			Expect(p.watches.reads.Load()).To(BeEquivalentTo(1))
		}, SpecTimeout(2*patience))

		It("lists them once if the answer was lost", func(ctx SpecContext) {
			for n := range objects {
				Expect(api.Create(ctx, configMap(namespace, fmt.Sprintf("lost-%02d", n), nil))).To(Succeed())
			}
			p := ours.run(ctx, cache.Options{}, crclient.CacheOptions{})
			p.watch(ctx, &corev1.ConfigMap{})
			p.writes.lose.Store(true)
			Expect(p.DeleteAllOf(ctx, &corev1.ConfigMap{}, crclient.InNamespace(namespace))).NotTo(Succeed())
			p.writes.lose.Store(false)
			list := &corev1.ConfigMapList{}
			Expect(p.List(ctx, list, crclient.InNamespace(namespace))).To(Succeed())
			Expect(list.Items).To(BeEmpty())
			Expect(p.watches.reads.Load()).To(BeEquivalentTo(1))
		}, SpecTimeout(2*patience))

		It("asks what a deletion of a collection has deleted before it was refused", func(ctx SpecContext) {
			for _, name := range []string{"a", "kept", "z"} {
				Expect(api.Create(ctx, configMap(namespace, name, nil))).To(Succeed())
			}
			protect(ctx, configMap(namespace, "kept", nil))
			p := ours.run(ctx, cache.Options{}, crclient.CacheOptions{})
			p.watch(ctx, &corev1.ConfigMap{})
			err := p.DeleteAllOf(ctx, &corev1.ConfigMap{}, crclient.InNamespace(namespace))
			Expect(err).To(MatchError(ContainSubstring("is protected")))
			Expect(apierrors.ReasonForError(err)).NotTo(Equal(metav1.StatusReasonUnknown))
			there, list := &corev1.ConfigMapList{}, &corev1.ConfigMapList{}
			Expect(api.List(ctx, there, crclient.InNamespace(namespace))).To(Succeed())
			Expect(names(there)).NotTo(ContainElement("a"))
			Expect(p.List(ctx, list, crclient.InNamespace(namespace))).To(Succeed())
			Expect(names(list)).To(Equal(names(there)))
		}, SpecTimeout(2*patience))

		It("asks nothing about what the cache never holds", func(ctx SpecContext) {
			outside := configMap(namespace, "outside", map[string]string{"app": "y"})
			Expect(api.Create(ctx, outside)).To(Succeed())
			only := labels.SelectorFromSet(labels.Set{"app": "x"})
			p := ours.run(ctx, cache.Options{DefaultLabelSelector: only}, crclient.CacheOptions{})
			p.watch(ctx, &corev1.ConfigMap{})
			metadata := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "outside"}}
			metadata.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
			patch := crclient.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"a":"b"}}}`))
			Expect(p.Patch(ctx, metadata, patch)).To(Succeed())
			Expect(metadata.Annotations).To(HaveKey("a"))
			err := p.Get(ctx, crclient.ObjectKeyFromObject(outside), &corev1.ConfigMap{})
			Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
			Expect(p.List(ctx, &corev1.ConfigMapList{}, crclient.InNamespace(namespace))).To(Succeed())
			Expect(p.watches.reads.Load()).To(BeZero())
		}, SpecTimeout(patience))
	})
})

// protect has the server refuse the deletion of an object of the core group until the spec ends.
func protect(ctx context.Context, obj crclient.Object) {
	GinkgoHelper()
	name := "protect." + obj.GetNamespace()
	policy := &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: obj.GetNamespace()}},
				ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Delete},
					Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"*"}},
				}}},
			},
			Validations: []admissionv1.Validation{{
				Expression: fmt.Sprintf("oldObject.metadata.name != %q", obj.GetName()), Message: obj.GetName() + " is protected",
			}},
		},
	}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		},
	}
	for _, made := range []crclient.Object{policy, binding} {
		Expect(api.Create(ctx, made)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(api.Delete(ctx, made)).To(Succeed()) })
	}
	Eventually(func() error { return api.Delete(ctx, obj, crclient.DryRunAll) }).WithContext(ctx).Should(MatchError(ContainSubstring("is protected")))
}
