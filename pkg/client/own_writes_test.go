// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/utils/ptr"
	crclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/pkg/cache"
	"github.com/tarn-dev/tarn/pkg/client"
)

var _ = Describe("own writes", func() {
	var (
		p         *program
		namespace string
	)
	BeforeEach(func(ctx SpecContext) {
		namespace = newNamespace(ctx)
		p = ours.run(ctx, cache.Options{}, crclient.CacheOptions{})
	})

	get := func(ctx SpecContext, name string) *corev1.ConfigMap {
		GinkgoHelper()
		found := &corev1.ConfigMap{}
		Expect(p.Get(ctx, crclient.ObjectKey{Namespace: namespace, Name: name}, found)).To(Succeed())
		return found
	}
	missing := func(ctx SpecContext, name string) {
		GinkgoHelper()
		err := p.Get(ctx, crclient.ObjectKey{Namespace: namespace, Name: name}, &corev1.ConfigMap{})
		Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
	}
	listed := func(ctx SpecContext, opts ...crclient.ListOption) []string {
		GinkgoHelper()
		list := &corev1.ConfigMapList{}
		Expect(p.List(ctx, list, append(opts, crclient.InNamespace(namespace))...)).To(Succeed())
		return names(list)
	}

	It("shows what was created, updated, patched, applied and deleted, though the watch is held back", func(ctx SpecContext) {
		before := configMap(namespace, "b", map[string]string{"app": "x"})
		Expect(api.Create(ctx, before)).To(Succeed())
		p.watch(ctx, &corev1.ConfigMap{})

		created := configMap(namespace, "a", map[string]string{"app": "x"})
		Expect(p.Create(ctx, created)).To(Succeed())
		Expect(get(ctx, "a").ObjectMeta).To(Equal(created.ObjectMeta))
		Expect(listed(ctx)).To(Equal([]string{"a", "b"}), "at its place")
		Expect(listed(ctx, crclient.MatchingLabels{"app": "x"})).To(Equal([]string{"a", "b"}))
		Expect(listed(ctx, crclient.MatchingFields{"metadata.name": "a"})).To(Equal([]string{"a"}))

		created.Labels["app"] = "y"
		Expect(p.Update(ctx, created)).To(Succeed())
		Expect(get(ctx, "a").Labels).To(HaveKeyWithValue("app", "y"))
		Expect(listed(ctx, crclient.MatchingLabels{"app": "x"})).To(Equal([]string{"b"}))

		patch := crclient.MergeFrom(before.DeepCopy())
		before.Labels["app"] = "y"
		Expect(p.Patch(ctx, before, patch)).To(Succeed())
		Expect(listed(ctx, crclient.MatchingLabels{"app": "y"})).To(Equal([]string{"a", "b"}))

		applied := applycorev1.ConfigMap("c", namespace).WithLabels(map[string]string{"app": "z"})
		Expect(p.Apply(ctx, applied, crclient.FieldOwner("spec"))).To(Succeed())
		Expect(get(ctx, "c").Labels).To(HaveKeyWithValue("app", "z"))

		Expect(p.Delete(ctx, created)).To(Succeed())
		missing(ctx, "a")
		Expect(p.Delete(ctx, configMap(namespace, "b", nil))).To(Succeed())
		Expect(listed(ctx)).To(Equal([]string{"c"}))

		again := configMap(namespace, "a", nil)
		Expect(p.Create(ctx, again)).To(Succeed())
		Expect(get(ctx, "a").UID).To(Equal(again.UID), "a new object of the same name")
		Expect(listed(ctx)).To(Equal([]string{"a", "c"}))

		By("looking at what the watch has brought alone")
		cached := &corev1.ConfigMapList{}
		Expect(p.List(ctx, cached, crclient.InNamespace(namespace), client.AsCached)).To(Succeed())
		Expect(names(cached)).To(Equal([]string{"b"}))
		Expect(apierrors.IsNotFound(p.Get(ctx, crclient.ObjectKeyFromObject(again), again, client.AsCached))).To(BeTrue())
		Expect(p.watches.reads.Load()+p.writes.reads.Load()).To(BeZero(), "no read asks the server")
	})

	It("pages and walks over one state", func(ctx SpecContext) {
		for _, name := range []string{"b", "d", "f"} {
			Expect(api.Create(ctx, configMap(namespace, name, nil))).To(Succeed())
		}
		p.watch(ctx, &corev1.ConfigMap{})
		for _, name := range []string{"a", "c", "g"} {
			Expect(p.Create(ctx, configMap(namespace, name, nil))).To(Succeed())
		}
		Expect(p.Delete(ctx, configMap(namespace, "d", nil))).To(Succeed())

		page := &corev1.ConfigMapList{}
		Expect(p.List(ctx, page, crclient.InNamespace(namespace), crclient.Limit(2))).To(Succeed())
		Expect(names(page)).To(Equal([]string{"a", "b"}))
		Expect(page.RemainingItemCount).To(HaveValue(BeNumerically("==", 3)))
		Expect(p.Create(ctx, configMap(namespace, "e", nil))).To(Succeed())
		Expect(p.Delete(ctx, configMap(namespace, "c", nil))).To(Succeed())
		Expect(p.List(ctx, page, crclient.InNamespace(namespace), crclient.Limit(2), crclient.Continue(page.Continue))).To(Succeed())
		Expect(names(page)).To(Equal([]string{"c", "f"}), "the state of the first page")
		Expect(p.List(ctx, page, crclient.InNamespace(namespace), crclient.Limit(2), crclient.Continue(page.Continue))).To(Succeed())
		Expect(names(page)).To(Equal([]string{"g"}))

		var walked []string
		for obj, err := range cache.Iterate(ctx, p.cache, &corev1.ConfigMap{}, crclient.InNamespace(namespace)) {
			Expect(err).NotTo(HaveOccurred())
			walked = append(walked, obj.Name)
		}
		Expect(walked).To(Equal([]string{"a", "b", "e", "f", "g"}))
	})

	It("shows a write in every representation", func(ctx SpecContext) {
		content := &unstructured.Unstructured{}
		content.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
		metadata := &metav1.PartialObjectMetadata{}
		metadata.SetGroupVersionKind(content.GroupVersionKind())
		p = ours.run(ctx, cache.Options{}, crclient.CacheOptions{Unstructured: true})
		p.watch(ctx, metadata, content, &corev1.ConfigMap{})

		created := configMap(namespace, "typed", map[string]string{"app": "x"})
		created.Data = map[string]string{"key": "value"}
		Expect(p.Create(ctx, created)).To(Succeed())
		live := content.DeepCopy()
		live.SetGroupVersionKind(content.GroupVersionKind())
		Expect(api.Get(ctx, crclient.ObjectKeyFromObject(created), live)).To(Succeed())
		Expect(p.Get(ctx, crclient.ObjectKeyFromObject(created), content)).To(Succeed())
		Expect(content).To(Equal(live), "as a watch in JSON would bring it")
		Expect(p.Get(ctx, crclient.ObjectKeyFromObject(created), metadata)).To(Succeed())
		Expect(metadata.ObjectMeta).To(Equal(created.ObjectMeta))

		By("writing content")
		Expect(unstructured.SetNestedField(content.Object, "other", "data", "key")).To(Succeed())
		Expect(p.Update(ctx, content)).To(Succeed())
		Expect(get(ctx, "typed").Data).To(HaveKeyWithValue("key", "other"))
		Expect(p.Get(ctx, crclient.ObjectKeyFromObject(created), metadata)).To(Succeed())
		Expect(metadata.ResourceVersion).To(Equal(content.GetResourceVersion()))

		By("writing metadata, whose response has no data")
		patch := crclient.MergeFrom(metadata.DeepCopy())
		metadata.Labels["app"] = "y"
		Expect(p.Patch(ctx, metadata, patch)).To(Succeed())
		Expect(get(ctx, "typed").Labels).To(HaveKeyWithValue("app", "y"), "the server was asked")
	})

	It("shows the deletionTimestamp of an object with finalizers, and an orphaned one", func(ctx SpecContext) {
		held := configMap(namespace, "held", nil)
		held.Finalizers = []string{"tarn.dev/test"}
		Expect(api.Create(ctx, held)).To(Succeed())
		free := configMap(namespace, "free", nil)
		Expect(api.Create(ctx, free)).To(Succeed())
		p.watch(ctx, &corev1.ConfigMap{})
		Expect(p.Delete(ctx, held)).To(Succeed())
		Expect(get(ctx, "held").DeletionTimestamp).NotTo(BeNil())
		Expect(p.Delete(ctx, free, crclient.PropagationPolicy(metav1.DeletePropagationForeground))).To(Succeed())
		live := &corev1.ConfigMap{}
		if err := api.Get(ctx, crclient.ObjectKeyFromObject(free), live); apierrors.IsNotFound(err) {
			missing(ctx, "free")
		} else {
			Expect(get(ctx, "free").ObjectMeta).To(Equal(live.ObjectMeta))
		}

		held = get(ctx, "held")
		held.Finalizers = nil
		Expect(p.Update(ctx, held)).To(Succeed())
		missing(ctx, "held") // although the answer is the object, at the version of before
	})

	It("deletes a collection", func(ctx SpecContext) {
		for _, name := range []string{"a", "b", "c"} {
			Expect(api.Create(ctx, configMap(namespace, name, map[string]string{"app": name}))).To(Succeed())
		}
		held := configMap(namespace, "held", map[string]string{"app": "b"})
		held.Finalizers = []string{"tarn.dev/test"}
		Expect(api.Create(ctx, held)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) {
			Expect(api.Patch(ctx, held, crclient.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)))).To(Succeed())
		})
		p.watch(ctx, &corev1.ConfigMap{})
		selector := crclient.MatchingLabelsSelector{Selector: labels.SelectorFromSet(labels.Set{"app": "b"})}
		Expect(p.DeleteAllOf(ctx, &corev1.ConfigMap{}, crclient.InNamespace(namespace), selector)).To(Succeed())
		missing(ctx, "b")
		Expect(get(ctx, "held").DeletionTimestamp).NotTo(BeNil())
		Expect(listed(ctx)).To(Equal([]string{"a", "c", "held"}))
	})

	It("knows what subresources have written", func(ctx SpecContext) {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "pod"},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		}
		Expect(api.Create(ctx, pod)).To(Succeed())
		labels := map[string]string{"app": "x"}
		deployment := &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "deployment"},
			Spec: appsv1.DeploymentSpec{
				Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod.Spec},
			},
		}
		Expect(api.Create(ctx, deployment)).To(Succeed())
		p.watch(ctx, &corev1.Pod{}, &appsv1.Deployment{})

		pod.Status.Phase = corev1.PodRunning
		Expect(p.Status().Update(ctx, pod)).To(Succeed())
		seen := &corev1.Pod{}
		Expect(p.Get(ctx, crclient.ObjectKeyFromObject(pod), seen)).To(Succeed())
		Expect(seen.Status.Phase).To(Equal(corev1.PodRunning))

		scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: 7}}
		Expect(p.SubResource("scale").Update(ctx, deployment, crclient.WithSubResourceBody(scale))).To(Succeed())
		Expect(p.Get(ctx, crclient.ObjectKeyFromObject(deployment), deployment)).To(Succeed())
		Expect(deployment.Spec.Replicas).To(HaveValue(BeNumerically("==", 7)))

		Expect(p.SubResource("binding").Create(ctx, pod, &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: "node"}})).To(Succeed())
		Expect(p.Get(ctx, crclient.ObjectKeyFromObject(pod), seen)).To(Succeed())
		Expect(seen.Spec.NodeName).To(Equal("node"))

		Expect(p.SubResource("eviction").Create(ctx, pod, &policyv1.Eviction{DeleteOptions: &metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](7)}})).To(Succeed())
		Expect(p.Get(ctx, crclient.ObjectKeyFromObject(pod), seen)).To(Succeed())
		Expect(seen.DeletionGracePeriodSeconds).To(HaveValue(BeNumerically("==", 7)))
		Expect(p.Delete(ctx, seen, crclient.GracePeriodSeconds(0))).To(Succeed())
		Expect(apierrors.IsNotFound(p.Get(ctx, crclient.ObjectKeyFromObject(pod), seen))).To(BeTrue())
	})
})
