// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var _ = Describe("an object", func() {
	It("is created, read, updated and deleted through controller-runtime's client", func(ctx SpecContext) {
		c, err := client.New(target.config, client.Options{})
		Expect(err).NotTo(HaveOccurred())
		cm := configMap("one", "1")
		cm.Namespace = newNamespace(ctx)
		Expect(c.Create(ctx, cm)).To(Succeed())
		Expect(cm.UID).NotTo(BeEmpty())
		Expect(cm.ResourceVersion).NotTo(BeEmpty())
		Expect(cm.CreationTimestamp.IsZero()).To(BeFalse())
		Expect(cm.ManagedFields).NotTo(BeEmpty())

		cm.Data["key"] = "2"
		Expect(c.Update(ctx, cm)).To(Succeed())
		var read corev1.ConfigMap
		Expect(c.Get(ctx, client.ObjectKeyFromObject(cm), &read)).To(Succeed())
		Expect(read.Data).To(Equal(map[string]string{"key": "2"}))

		Expect(c.Delete(ctx, cm)).To(Succeed())
		Expect(apierrors.IsNotFound(c.Get(ctx, client.ObjectKeyFromObject(cm), &read))).To(BeTrue())
	}, SpecTimeout(patience))

	It("cannot be created twice", func(ctx SpecContext) {
		maps := target.kube.CoreV1().ConfigMaps(newNamespace(ctx))
		_, err := maps.Create(ctx, configMap("one", "1"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = maps.Create(ctx, configMap("one", "1"), metav1.CreateOptions{})
		Expect(apierrors.IsAlreadyExists(err)).To(BeTrue(), "%v", err)
	}, SpecTimeout(patience))

	It("is not updated from a stale copy", func(ctx SpecContext) {
		maps := target.kube.CoreV1().ConfigMaps(newNamespace(ctx))
		stale, err := maps.Create(ctx, configMap("one", "1"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		fresh := stale.DeepCopy()
		fresh.Data["key"] = "2"
		_, err = maps.Update(ctx, fresh, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		stale.Data["key"] = "3"
		_, err = maps.Update(ctx, stale, metav1.UpdateOptions{})
		Expect(apierrors.IsConflict(err)).To(BeTrue(), "%v", err)
	}, SpecTimeout(patience))

	It("keeps its resource version when an update changes nothing", func(ctx SpecContext) {
		maps := target.kube.CoreV1().ConfigMaps(newNamespace(ctx))
		made, err := maps.Create(ctx, configMap("one", "1"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		same, err := maps.Update(ctx, made, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(same.ResourceVersion).To(Equal(made.ResourceVersion))
	}, SpecTimeout(patience))

	It("gets a name of the server's choice", func(ctx SpecContext) {
		cm := configMap("", "1")
		cm.GenerateName = "generated-"
		made, err := target.kube.CoreV1().ConfigMaps(newNamespace(ctx)).Create(ctx, cm, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(made.Name).To(MatchRegexp(`^generated-[a-z0-9]{5}$`))
	}, SpecTimeout(patience))

	It("needs a valid name", func(ctx SpecContext) {
		_, err := target.kube.CoreV1().ConfigMaps(newNamespace(ctx)).Create(ctx, configMap("Not_Valid", "1"), metav1.CreateOptions{})
		Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
	}, SpecTimeout(patience))

	It("is not stored by a dry run", func(ctx SpecContext) {
		maps := target.kube.CoreV1().ConfigMaps(newNamespace(ctx))
		made, err := maps.Create(ctx, configMap("one", "1"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		Expect(err).NotTo(HaveOccurred())
		Expect(made.UID).NotTo(BeEmpty())
		_, err = maps.Get(ctx, "one", metav1.GetOptions{})
		Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)

		_, err = maps.Create(ctx, configMap("one", "1"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(maps.Delete(ctx, "one", metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})).To(Succeed())
		_, err = maps.Get(ctx, "one", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
	}, SpecTimeout(patience))

	It("with an unknown field is refused when validation is strict", func(ctx SpecContext) {
		ns := newNamespace(ctx)
		body := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"one"},"unknown":1}`
		post := func(validation string) error {
			return target.kube.CoreV1().RESTClient().Post().Namespace(ns).Resource("configmaps").
				Param("fieldValidation", validation).SetHeader("Content-Type", "application/json").
				Body([]byte(body)).Do(ctx).Error()
		}
		Expect(apierrors.IsBadRequest(post(metav1.FieldValidationStrict))).To(BeTrue())
		Expect(post(metav1.FieldValidationIgnore)).To(Succeed())
	}, SpecTimeout(patience))
})

var _ = Describe("deletion", func() {
	It("honours preconditions", func(ctx SpecContext) {
		maps := target.kube.CoreV1().ConfigMaps(newNamespace(ctx))
		made, err := maps.Create(ctx, configMap("one", "1"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		err = maps.Delete(ctx, "one", metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions("another")})
		Expect(apierrors.IsConflict(err)).To(BeTrue(), "%v", err)
		err = maps.Delete(ctx, "one", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: ptr.To("1")}})
		Expect(apierrors.IsConflict(err)).To(BeTrue(), "%v", err)
		Expect(maps.Delete(ctx, "one", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{
			UID: &made.UID, ResourceVersion: &made.ResourceVersion,
		}})).To(Succeed())
	}, SpecTimeout(patience))

	It("waits for finalizers", func(ctx SpecContext) {
		maps := target.kube.CoreV1().ConfigMaps(newNamespace(ctx))
		cm := configMap("one", "1")
		cm.Finalizers = []string{"example.com/hold"}
		_, err := maps.Create(ctx, cm, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(maps.Delete(ctx, "one", metav1.DeleteOptions{})).To(Succeed())
		held, err := maps.Get(ctx, "one", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(held.DeletionTimestamp).NotTo(BeNil())
		Expect(held.DeletionGracePeriodSeconds).To(HaveValue(BeZero()))

		held.Finalizers = []string{"example.com/hold", "example.com/late"}
		_, err = maps.Update(ctx, held, metav1.UpdateOptions{})
		Expect(apierrors.IsInvalid(err)).To(BeTrue(), "no finalizer may be added: %v", err)
		held.Finalizers = nil
		_, err = maps.Update(ctx, held, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = maps.Get(ctx, "one", metav1.GetOptions{})
		Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
	}, SpecTimeout(patience))

	It("with foreground propagation waits for the garbage collector", func(ctx SpecContext) {
		maps := target.kube.CoreV1().ConfigMaps(newNamespace(ctx))
		_, err := maps.Create(ctx, configMap("one", "1"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(maps.Delete(ctx, "one", metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationForeground)})).To(Succeed())
		held, err := maps.Get(ctx, "one", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(held.Finalizers).To(ConsistOf(metav1.FinalizerDeleteDependents))
	}, SpecTimeout(patience))

	It("of a Pod on a node takes its grace period, and of one on none does not", func(ctx SpecContext) {
		pods := target.kube.CoreV1().Pods(newNamespace(ctx))
		bound := pod("bound")
		bound.Spec.NodeName = "node-1"
		for _, p := range []*corev1.Pod{bound, pod("unbound")} {
			_, err := pods.Create(ctx, p, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			Expect(pods.Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](20)})).To(Succeed())
		}
		_, err := pods.Get(ctx, "unbound", metav1.GetOptions{})
		Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
		leaving, err := pods.Get(ctx, "bound", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(leaving.DeletionTimestamp).NotTo(BeNil())
		Expect(leaving.DeletionGracePeriodSeconds).To(HaveValue(BeEquivalentTo(20)))
		Expect(pods.Delete(ctx, "bound", metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})).To(Succeed())
		_, err = pods.Get(ctx, "bound", metav1.GetOptions{})
		Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
	}, SpecTimeout(patience))

	It("of a collection takes what the selector matches", func(ctx SpecContext) {
		ns := newNamespace(ctx)
		createConfigMaps(ctx, ns, 4)
		maps := target.kube.CoreV1().ConfigMaps(ns)
		Expect(maps.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "value in (1,2)"})).To(Succeed())
		list, err := maps.List(ctx, metav1.ListOptions{LabelSelector: "value"})
		Expect(err).NotTo(HaveOccurred())
		Expect(names(list)).To(ConsistOf("cm-0", "cm-3"))
	}, SpecTimeout(patience))
})

var _ = Describe("a subresource", func() {
	It("status changes nothing but the status, and the object never does", func(ctx SpecContext) {
		deployments := target.kube.AppsV1().Deployments(newNamespace(ctx))
		made, err := deployments.Create(ctx, deployment("one"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(made.Generation).To(BeEquivalentTo(1))

		changed := made.DeepCopy()
		changed.Status.Replicas = 3
		changed.Spec.Replicas = ptr.To[int32](7)
		updated, err := deployments.UpdateStatus(ctx, changed, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(updated.Status.Replicas).To(BeEquivalentTo(3))
		Expect(updated.Spec.Replicas).To(Equal(made.Spec.Replicas))
		Expect(updated.Generation).To(BeEquivalentTo(1))

		updated.Status.Replicas = 9
		updated.Spec.Replicas = ptr.To[int32](7)
		updated, err = deployments.Update(ctx, updated, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(updated.Status.Replicas).To(BeEquivalentTo(3))
		Expect(updated.Generation).To(BeEquivalentTo(2))
	}, SpecTimeout(patience))

	It("status can be patched", func(ctx SpecContext) {
		pods := target.kube.CoreV1().Pods(newNamespace(ctx))
		_, err := pods.Create(ctx, pod("one"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		patched, err := pods.Patch(ctx, "one", types.MergePatchType, []byte(`{"status":{"phase":"Running"}}`), metav1.PatchOptions{}, "status")
		Expect(err).NotTo(HaveOccurred())
		Expect(patched.Status.Phase).To(Equal(corev1.PodRunning))
	}, SpecTimeout(patience))

	It("scale reads and changes the replicas", func(ctx SpecContext) {
		deployments := target.kube.AppsV1().Deployments(newNamespace(ctx))
		_, err := deployments.Create(ctx, deployment("one"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		scale, err := deployments.GetScale(ctx, "one", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(scale.Spec.Replicas).To(BeEquivalentTo(2))
		scale.Spec.Replicas = 5
		_, err = deployments.UpdateScale(ctx, "one", scale, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		read, err := deployments.Get(ctx, "one", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(read.Spec.Replicas).To(HaveValue(BeEquivalentTo(5)))
		Expect(read.Generation).To(BeEquivalentTo(2))
	}, SpecTimeout(patience))
})
