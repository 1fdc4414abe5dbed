// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/envtest"
	"github.com/tarn-dev/tarn/envtest/controllers"
	"github.com/tarn-dev/tarn/envtest/faults"
)

const hold = "example.com/hold"

var _ = Describe("The namespace controller", func() {
	var ns *corev1.Namespace

	BeforeEach(func(ctx SpecContext) { ns = newNamespace(ctx) })

	It("deletes what is in a namespace, and the namespace", func(ctx SpecContext) {
		objects := objectsOfManyKinds(ns.Name, 3)
		kind := newKind(ctx, "Namespaced")
		objects = append(objects, kind.object(ns.Name, "custom"))
		for _, obj := range objects {
			Expect(api.Create(ctx, obj)).To(Succeed())
		}
		other := newNamespace(ctx)
		stays := configMap(other.Name, "stays")
		Expect(api.Create(ctx, stays)).To(Succeed())

		Expect(api.Delete(ctx, ns)).To(Succeed())
		Eventually(ctx, gone(ctx, ns)).Should(Succeed())
		for _, obj := range objects {
			Expect(gone(ctx, obj)()).To(Succeed())
		}
		Expect(api.Get(ctx, client.ObjectKeyFromObject(stays), stays)).To(Succeed(), "another namespace is not its business")
		Expect(stays.DeletionTimestamp).To(BeNil())
	}, SpecTimeout(patience))

	It("lets the namespace go at once when the kind of what remains has gone", func(ctx SpecContext) {
		if isReal() {
			Skip("about ours: kube-controller-manager comes back after its estimate")
		}
		injector := faults.New()
		own(envtest.Options{Controllers: controllers.Named("namespace-controller"), Faults: injector})
		kind := newKind(ctx, apiextensionsv1.NamespaceScoped)
		ns := newNamespace(ctx)
		remains := kind.object(ns.Name, "remains")
		remains.SetFinalizers([]string{hold})
		create(ctx, remains)
		answers, err := injector.HoldAnswers(faults.Rule{Verb: "update", Resource: "namespaces", Subresource: "status"})
		Expect(err).NotTo(HaveOccurred())
		Expect(api.Delete(ctx, ns)).To(Succeed())
		Expect(answers.Wait(ctx, 1)).To(Succeed(), "it has found what remains, and says so")
		letGo(ctx, remains)
		Expect(api.Delete(ctx, kind.crd.DeepCopy())).To(Succeed())
		asks := discovery.NewDiscoveryClientForConfigOrDie(env.Config())
		Eventually(ctx, func() error {
			_, err := asks.ServerResourcesForGroupVersionWithContext(ctx, kind.crd.Spec.Group+"/v1")
			return err
		}).ShouldNot(Succeed())
		answers.End()
		const estimated = 8 * time.Second // until it would look again
		Eventually(ctx, gone(ctx, ns)).WithTimeout(estimated).Should(Succeed())
	}, SpecTimeout(patience))

	It("says what remains, and lets the namespace go when it is gone", func(ctx SpecContext) {
		held := configMap(ns.Name, "held", hold)
		free := configMap(ns.Name, "free")
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "held", Finalizers: []string{hold, "example.com/more"}}}
		for _, obj := range []client.Object{held, free, secret} {
			Expect(api.Create(ctx, obj)).To(Succeed())
		}
		Expect(api.Delete(ctx, ns)).To(Succeed())
		Eventually(ctx, conditions(ctx, ns)).Should(ConsistOf(
			"NamespaceDeletionDiscoveryFailure=False ResourcesDiscovered: All resources successfully discovered",
			"NamespaceDeletionGroupVersionParsingFailure=False ParsedGroupVersions: All legacy kube types successfully parsed",
			"NamespaceDeletionContentFailure=False ContentDeleted: All content successfully deleted, may be waiting on finalization",
			"NamespaceContentRemaining=True SomeResourcesRemain: Some resources are remaining: configmaps. has 1 resource instances, secrets. has 1 resource instances",
			"NamespaceFinalizersRemaining=True SomeFinalizersRemain: Some content in the namespace has finalizers remaining: example.com/hold in 2 resource instances, example.com/more in 1 resource instances",
		))
		Expect(api.Get(ctx, client.ObjectKeyFromObject(ns), ns)).To(Succeed())
		Expect(ns.Status.Phase).To(Equal(corev1.NamespaceTerminating))
		Expect(gone(ctx, free)()).To(Succeed())

		letGo(ctx, secret)
		Eventually(ctx, conditions(ctx, ns)).Should(ContainElement(
			"NamespaceContentRemaining=True SomeResourcesRemain: Some resources are remaining: configmaps. has 1 resource instances"))
		letGo(ctx, held)
		Eventually(ctx, gone(ctx, ns)).Should(Succeed())
	}, SpecTimeout(patience))

	It("deletes Pods first, with their grace period, and waits for them", func(ctx SpecContext) {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "runs"},
			Spec: corev1.PodSpec{
				NodeName: "node", TerminationGracePeriodSeconds: ptr.To[int64](100),
				Containers: []corev1.Container{{Name: "main", Image: "example.com/image:1"}},
			},
		}
		needed := configMap(ns.Name, "needed")
		Expect(api.Create(ctx, pod)).To(Succeed())
		Expect(api.Create(ctx, needed)).To(Succeed())
		Expect(api.Delete(ctx, ns)).To(Succeed())
		Eventually(ctx, func() *int64 {
			Expect(api.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
			return pod.DeletionGracePeriodSeconds
		}).Should(HaveValue(BeEquivalentTo(100)))
		says := "NamespaceContentRemaining=True SomeResourcesRemain: Some resources are remaining: pods. has 1 resource instances"
		if isReal() {
			says = "NamespaceContentRemaining=False ContentRemoved: All content successfully removed" // a difference, on purpose
		}
		Eventually(ctx, conditions(ctx, ns)).Should(ContainElement(says))
		Expect(api.Get(ctx, client.ObjectKeyFromObject(needed), needed)).To(Succeed())
		Expect(needed.DeletionTimestamp).To(BeNil(), "the Pod may need it to end")

		Expect(api.Delete(ctx, pod, client.GracePeriodSeconds(0))).To(Succeed()) // as the kubelet does at the end
		Eventually(ctx, gone(ctx, ns)).Should(Succeed())
	}, SpecTimeout(patience))

	It("leaves a namespace to those who have finalizers of their own", func(ctx SpecContext) {
		special := &corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "spec-", Finalizers: []string{hold}},
			Spec:       corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{"example.com/other"}},
		}
		Expect(api.Create(ctx, special)).To(Succeed())
		content := configMap(special.Name, "content")
		Expect(api.Create(ctx, content)).To(Succeed())
		Expect(api.Delete(ctx, special)).To(Succeed())
		Eventually(ctx, func() []corev1.FinalizerName {
			Expect(api.Get(ctx, client.ObjectKeyFromObject(special), special)).To(Succeed())
			return special.Spec.Finalizers
		}).Should(HaveExactElements(corev1.FinalizerName("example.com/other")))
		Expect(gone(ctx, content)()).To(Succeed())

		special.Spec.Finalizers = nil
		Expect(api.SubResource("finalize").Update(ctx, special)).To(Succeed())
		Expect(api.Get(ctx, client.ObjectKeyFromObject(special), special)).To(Succeed(), "the finalizer in its metadata holds it")
		letGo(ctx, special)
		Expect(gone(ctx, special)()).To(Succeed())
	}, SpecTimeout(patience))

	It("says which groups it cannot see, and waits for them", func(ctx SpecContext) {
		apiService := unreachable()
		Expect(api.Create(ctx, apiService)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { _ = client.IgnoreNotFound(api.Delete(ctx, apiService)) })
		asks := discovery.NewDiscoveryClientForConfigOrDie(env.Config())
		Eventually(ctx, func() error {
			_, err := asks.ServerPreferredNamespacedResourcesWithContext(ctx)
			return err
		}).ShouldNot(Succeed(), "discovery knows of the group")
		content := configMap(ns.Name, "content")
		Expect(api.Create(ctx, content)).To(Succeed())
		Expect(api.Delete(ctx, ns)).To(Succeed())
		Eventually(ctx, conditions(ctx, ns)).Should(ContainElement(HavePrefix(
			"NamespaceDeletionDiscoveryFailure=True DiscoveryFailed: Discovery failed for some groups, 1 failing: ")))
		Expect(gone(ctx, content)()).To(Succeed(), "what can be seen is deleted")
		Expect(api.Delete(ctx, apiService)).To(Succeed())
		Eventually(ctx, gone(ctx, ns)).Should(Succeed())
	}, SpecTimeout(patience))

	It("says what it may not delete, and tries again", func(ctx SpecContext) {
		policy, binding := forbidDeletion(ns.Name)
		content := configMap(ns.Name, "content")
		for _, obj := range []client.Object{policy, binding, content} {
			Expect(api.Create(ctx, obj)).To(Succeed())
		}
		Eventually(ctx, func() error { return api.Delete(ctx, content, client.DryRunAll) }).Should(MatchError(ContainSubstring("denied request")))
		Expect(api.Delete(ctx, ns)).To(Succeed())
		Eventually(ctx, conditions(ctx, ns)).Should(ContainElement(And(
			HavePrefix("NamespaceDeletionContentFailure=True ContentDeletionFailed: Failed to delete all resource types, 1 remaining: "),
			ContainSubstring("denied request"))))
		Expect(api.Delete(ctx, binding)).To(Succeed())
		Expect(api.Delete(ctx, policy)).To(Succeed())
		Eventually(ctx, gone(ctx, ns)).Should(Succeed())
	}, SpecTimeout(patience))
})

// conditions returns a function that returns the conditions of a namespace, each as one text.
func conditions(ctx context.Context, ns *corev1.Namespace) func() []string {
	return func() []string {
		now := &corev1.Namespace{}
		Expect(api.Get(ctx, client.ObjectKeyFromObject(ns), now)).To(Succeed())
		var texts []string
		for _, c := range now.Status.Conditions {
			texts = append(texts, string(c.Type)+"="+string(c.Status)+" "+c.Reason+": "+c.Message)
		}
		return texts
	}
}
