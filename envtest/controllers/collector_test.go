// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

var _ = Describe("The garbage collector", func() {
	var ns string

	BeforeEach(func(ctx SpecContext) { ns = newNamespace(ctx).Name })

	It("deletes the dependents of an owner that is gone, and theirs", func(ctx SpecContext) {
		owner, other := create(ctx, configMap(ns, "owner")), create(ctx, configMap(ns, "other"))
		child := create(ctx, owned(secret(ns, "child"), refTo(owner)))
		grandchild := create(ctx, owned(configMap(ns, "grandchild"), refTo(child)))
		shared := create(ctx, owned(configMap(ns, "shared"), refTo(owner), refTo(other)))
		Expect(api.Delete(ctx, owner)).To(Succeed())
		for _, obj := range []client.Object{owner, child, grandchild} {
			Eventually(ctx, gone(ctx, obj)).Should(Succeed())
		}
		Eventually(ctx, ownersOf(ctx, shared)).Should(HaveExactElements(other.GetUID()), "an object with another owner stays")
		Expect(shared.GetDeletionTimestamp()).To(BeNil())
	}, SpecTimeout(patience))

	It("keeps an owner that is deleted in the foreground until those that block it are gone", func(ctx SpecContext) {
		owner := create(ctx, configMap(ns, "owner"))
		child := create(ctx, owned(configMap(ns, "child"), blocking(owner)))
		leaf := create(ctx, owned(configMap(ns, "leaf", hold), blocking(child)))
		aside := create(ctx, owned(configMap(ns, "aside", hold), refTo(owner)))
		known(ctx, ns)
		Expect(api.Delete(ctx, owner, client.PropagationPolicy(metav1.DeletePropagationForeground))).To(Succeed())
		for _, obj := range []client.Object{child, leaf, aside} {
			Eventually(ctx, going(ctx, obj)).Should(BeTrue())
		}
		known(ctx, ns)
		Expect(finalizersOf(ctx, owner)()).To(HaveExactElements(metav1.FinalizerDeleteDependents))
		Expect(finalizersOf(ctx, child)()).To(HaveExactElements(metav1.FinalizerDeleteDependents), "it has a dependent itself")
		letGo(ctx, leaf)
		for _, obj := range []client.Object{leaf, child, owner} {
			Eventually(ctx, gone(ctx, obj)).Should(Succeed())
		}
		Expect(going(ctx, aside)()).To(BeTrue(), "it does not block")
		letGo(ctx, aside)
	}, SpecTimeout(patience))

	It("lets an owner go that is not blocked any more", func(ctx SpecContext) {
		owner := create(ctx, configMap(ns, "owner"))
		child := create(ctx, owned(configMap(ns, "child", hold), blocking(owner)))
		known(ctx, ns)
		Expect(api.Delete(ctx, owner, client.PropagationPolicy(metav1.DeletePropagationForeground))).To(Succeed())
		Eventually(ctx, going(ctx, child)).Should(BeTrue())
		Expect(gone(ctx, owner)()).NotTo(Succeed())
		change(ctx, child, func() { child.SetOwnerReferences([]metav1.OwnerReference{refTo(owner)}) })
		Eventually(ctx, gone(ctx, owner)).Should(Succeed())
		letGo(ctx, child)
	}, SpecTimeout(patience))

	It("lets owners go that wait for each other", func(ctx SpecContext) {
		one := create(ctx, configMap(ns, "one"))
		two := create(ctx, owned(configMap(ns, "two"), blocking(one)))
		change(ctx, one, func() { one.SetOwnerReferences([]metav1.OwnerReference{blocking(two)}) })
		known(ctx, ns)
		Expect(api.Delete(ctx, one, client.PropagationPolicy(metav1.DeletePropagationForeground))).To(Succeed())
		Eventually(ctx, gone(ctx, one)).Should(Succeed())
		Eventually(ctx, gone(ctx, two)).Should(Succeed())
	}, SpecTimeout(patience))

	It("leaves the dependents of an owner that orphans them", func(ctx SpecContext) {
		owner, other := create(ctx, configMap(ns, "owner")), create(ctx, configMap(ns, "other"))
		child := create(ctx, owned(configMap(ns, "child"), blocking(owner)))
		shared := create(ctx, owned(secret(ns, "shared"), refTo(owner), refTo(other)))
		known(ctx, ns)
		Expect(api.Delete(ctx, owner, client.PropagationPolicy(metav1.DeletePropagationOrphan))).To(Succeed())
		Eventually(ctx, gone(ctx, owner)).Should(Succeed())
		Expect(ownersOf(ctx, child)()).To(BeEmpty())
		Expect(ownersOf(ctx, shared)()).To(HaveExactElements(other.GetUID()))
		known(ctx, ns)
		Expect(going(ctx, child)()).To(BeFalse())
	}, SpecTimeout(patience))

	It("deletes an object whose owners have never been there", func(ctx SpecContext) {
		other := create(ctx, configMap(ns, "other"))
		never, wrong := refTo(other), refTo(other)
		never.Name, never.UID, wrong.UID = "never", uuid.NewUUID(), uuid.NewUUID()
		for name, ref := range map[string]metav1.OwnerReference{"of-none": never, "of-another-uid": wrong} {
			Eventually(ctx, gone(ctx, create(ctx, owned(configMap(ns, name), ref)))).Should(Succeed())
		}
		unknown := never
		unknown.APIVersion = "unknown.example.com/v1"
		kept := create(ctx, owned(configMap(ns, "of-an-unknown-kind"), unknown))
		known(ctx, ns)
		Expect(going(ctx, kept)()).To(BeFalse(), "nobody knows whether the owner is there")
	}, SpecTimeout(patience))

	It("deletes the dependents of an owner without a namespace", func(ctx SpecContext) {
		owner := create(ctx, clusterRole())
		inside := create(ctx, owned(configMap(ns, "inside"), refTo(owner)))
		outside := create(ctx, owned(clusterRole(), refTo(owner)))
		Expect(api.Delete(ctx, owner)).To(Succeed())
		Eventually(ctx, gone(ctx, inside)).Should(Succeed())
		Eventually(ctx, gone(ctx, outside)).Should(Succeed())
	}, SpecTimeout(patience))

	It("deletes an object whose owner is in another namespace, and says why", func(ctx SpecContext) {
		owner := create(ctx, configMap(newNamespace(ctx).Name, "owner"))
		known(ctx, owner.GetNamespace())
		child := create(ctx, owned(configMap(ns, "child"), refTo(owner)))
		Eventually(ctx, gone(ctx, child)).Should(Succeed())
		Eventually(ctx, warnings(ctx, ns, child)).Should(ContainElement(invalid(refTo(owner), ns)))
		Expect(going(ctx, owner)()).To(BeFalse())
	}, SpecTimeout(patience))

	It("never deletes an object without a namespace because of an owner in one, and says why", func(ctx SpecContext) {
		owner := create(ctx, configMap(ns, "owner"))
		known(ctx, ns)
		child := create(ctx, owned(clusterRole(), refTo(owner)))
		DeferCleanup(func(ctx SpecContext) { _ = api.Delete(ctx, child) })
		Eventually(ctx, warnings(ctx, "default", child)).Should(ContainElement(invalid(refTo(owner), "")))
		Expect(api.Delete(ctx, owner)).To(Succeed())
		known(ctx, ns)
		Expect(going(ctx, child)()).To(BeFalse())
		Expect(ownersOf(ctx, child)()).To(HaveLen(1))
	}, SpecTimeout(patience))

	It("knows custom resources that come, go, and come back", func(ctx SpecContext) {
		kind := newKind(ctx, apiextensionsv1.NamespaceScoped)
		owner := create(ctx, kind.object(ns, "owner"))
		child := create(ctx, owned(kind.object(ns, "child"), refTo(owner)))
		grandchild := create(ctx, owned(configMap(ns, "grandchild"), refTo(child)))
		Expect(api.Delete(ctx, owner)).To(Succeed())
		Eventually(ctx, gone(ctx, child)).Should(Succeed())
		Eventually(ctx, gone(ctx, grandchild)).Should(Succeed())

		owner = create(ctx, kind.object(ns, "owner"))
		other := create(ctx, owned(configMap(ns, "child-of-a-custom-resource"), refTo(owner)))
		known(ctx, ns)
		Expect(api.Delete(ctx, kind.crd.DeepCopy())).To(Succeed())
		Eventually(ctx, gone(ctx, other)).Should(Succeed(), "its owner went with the CRD")

		Eventually(ctx, func() error { return api.Get(ctx, client.ObjectKeyFromObject(kind.crd), kind.crd.DeepCopy()) }).ShouldNot(Succeed())
		kind.install(ctx)
		owner = create(ctx, kind.object(ns, "owner"))
		child = create(ctx, owned(kind.object(ns, "child"), refTo(owner)))
		Expect(api.Delete(ctx, owner)).To(Succeed())
		Eventually(ctx, gone(ctx, child)).Should(Succeed())
	}, SpecTimeout(patience))
})

// create creates an object, and returns it.
func create[T client.Object](ctx context.Context, obj T) T {
	GinkgoHelper()
	Expect(api.Create(ctx, obj)).To(Succeed())
	return obj
}

// change changes an object.
func change(ctx context.Context, obj client.Object, how func()) {
	GinkgoHelper()
	before := obj.DeepCopyObject().(client.Object)
	how()
	Expect(api.Patch(ctx, obj, client.MergeFrom(before))).To(Succeed())
}

// known returns when the collector has seen what was there before: it collects an object that is made for this.
func known(ctx context.Context, namespace string) {
	GinkgoHelper()
	for _, obj := range []client.Object{configMap(namespace, ""), secret(namespace, "")} {
		obj.SetGenerateName("probe-")
		owned(obj, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "never", UID: uuid.NewUUID()})
		Eventually(ctx, gone(ctx, create(ctx, obj))).Should(Succeed())
	}
}

func secret(namespace, name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

func clusterRole() *rbacv1.ClusterRole {
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{GenerateName: "spec-"}}
	DeferCleanup(func(ctx SpecContext) { _ = api.Delete(ctx, role) })
	return role
}

// owned gives an object owners.
func owned[T client.Object](obj T, owners ...metav1.OwnerReference) T {
	obj.SetOwnerReferences(owners)
	return obj
}

func refTo(owner client.Object) metav1.OwnerReference {
	GinkgoHelper()
	kind, err := apiutil.GVKForObject(owner, api.Scheme())
	Expect(err).NotTo(HaveOccurred())
	return metav1.OwnerReference{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Name: owner.GetName(), UID: owner.GetUID()}
}

// blocking is refTo for an owner that must not go first.
func blocking(owner client.Object) metav1.OwnerReference {
	ref := refTo(owner)
	ref.BlockOwnerDeletion = ptr.To(true)
	return ref
}

// ownersOf returns a function that reads an object, and returns the UIDs of its owners.
func ownersOf(ctx context.Context, obj client.Object) func() []types.UID {
	return func() []types.UID {
		Expect(api.Get(ctx, client.ObjectKeyFromObject(obj), obj)).To(Succeed())
		var uids []types.UID
		for _, ref := range obj.GetOwnerReferences() {
			uids = append(uids, ref.UID)
		}
		return uids
	}
}

// finalizersOf returns a function that reads an object, and returns its finalizers.
func finalizersOf(ctx context.Context, obj client.Object) func() []string {
	return func() []string {
		Expect(api.Get(ctx, client.ObjectKeyFromObject(obj), obj)).To(Succeed())
		return obj.GetFinalizers()
	}
}

// going returns a function that reads an object, and reports whether it is being deleted.
func going(ctx context.Context, obj client.Object) func() bool {
	return func() bool {
		Expect(api.Get(ctx, client.ObjectKeyFromObject(obj), obj)).To(Succeed())
		return obj.GetDeletionTimestamp() != nil
	}
}

// warnings returns a function that returns the messages of the events that warn of the owners of an object.
func warnings(ctx context.Context, namespace string, of client.Object) func() []string {
	return func() []string {
		list := &corev1.EventList{}
		Expect(api.List(ctx, list, client.InNamespace(namespace))).To(Succeed())
		var messages []string
		for _, event := range list.Items {
			if event.InvolvedObject.UID == of.GetUID() && event.Reason == "OwnerRefInvalidNamespace" && event.Type == corev1.EventTypeWarning {
				messages = append(messages, event.Message)
			}
		}
		return messages
	}
}

// invalid is what such an event says.
func invalid(ref metav1.OwnerReference, namespace string) string {
	return "ownerRef [" + ref.APIVersion + "/" + ref.Kind + ", namespace: " + namespace + ", name: " + ref.Name + ", uid: " + string(ref.UID) +
		"] does not exist in namespace \"" + namespace + "\""
}
