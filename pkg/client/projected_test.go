// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	crclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/pkg/cache"
	"github.com/tarn-dev/tarn/pkg/client"
)

// recorded is a patch that remembers what it has sent.
type recorded struct {
	crclient.Patch
	data []byte
}

func (r *recorded) Data(obj crclient.Object) (data []byte, err error) {
	r.data, err = r.Patch.Data(obj)
	return r.data, err
}

var _ = Describe("Projected objects", func() {
	const mark = "?fields=spec.nodeName,spec.containers.image,status.phase"
	fields := []string{"spec.nodeName", "spec.containers.image", "status.phase"}
	var namespace string
	var key crclient.ObjectKey

	pod := func(name string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: name, Labels: map[string]string{"app": "web"}, Annotations: map[string]string{"a": "b"}, Finalizers: []string{"example.com/stay"},
			},
			Spec: corev1.PodSpec{
				NodeName: "node-1", Tolerations: []corev1.Toleration{{Key: "k", Operator: corev1.TolerationOpExists}},
				Containers: []corev1.Container{
					{Name: "one", Image: "image:1", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1")}}},
					{Name: "two", Image: "image:2"},
				},
			},
		}
	}
	BeforeEach(func(ctx SpecContext) {
		namespace = newNamespace(ctx)
		key = crclient.ObjectKey{Namespace: namespace, Name: "web"}
		Expect(api.Create(ctx, pod("web"))).To(Succeed())
		DeferCleanup(func(ctx SpecContext) {
			list := &corev1.PodList{}
			Expect(api.List(ctx, list, crclient.InNamespace(namespace))).To(Succeed())
			for i := range list.Items {
				patch := crclient.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
				Expect(api.Patch(ctx, &list.Items[i], patch)).To(Succeed())
			}
		})
	})
	tuned := func(storage cache.Storage) maker {
		return maker{client: client.New, cache: cache.With(cache.Tuning{ByObject: map[crclient.Object]cache.TuningByObject{
			&corev1.Pod{}: {Fields: fields, Storage: storage},
		}})}
	}
	opts := func() cache.Options {
		return cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}}
	}
	unstructuredPods := crclient.CacheOptions{Unstructured: true}
	storages := []cache.Storage{cache.Flat, cache.Decoded, cache.SeparateMetadata, cache.OneWatch}

	// examples returns an empty Pod in each representation.
	examples := func() []crclient.Object {
		u, m := &unstructured.Unstructured{}, &metav1.PartialObjectMetadata{}
		u.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
		m.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
		return []crclient.Object{&corev1.Pod{}, u, m}
	}
	// checkCut checks that an object has what is kept, the mark, and nothing else.
	checkCut := func(obj crclient.Object, image string) {
		GinkgoHelper()
		Expect(obj.GetSelfLink()).To(Equal(mark))
		Expect(obj.GetLabels()).To(HaveKeyWithValue("app", "web"))
		Expect(obj.GetUID()).NotTo(BeEmpty())
		Expect(obj.GetAnnotations()).To(BeNil())
		Expect(obj.GetManagedFields()).To(BeEmpty())
		switch obj := obj.(type) {
		case *corev1.Pod:
			Expect(obj.Spec).To(Equal(corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{{Image: image}, {Image: "image:2"}}}))
			Expect(obj.Status).To(Equal(corev1.PodStatus{Phase: corev1.PodPending}))
		case *unstructured.Unstructured:
			Expect(obj.Object["spec"]).To(Equal(map[string]any{"nodeName": "node-1", "containers": []any{map[string]any{"image": image}, map[string]any{"image": "image:2"}}}))
			Expect(obj.Object["status"]).To(Equal(map[string]any{"phase": "Pending"}))
		}
	}

	for _, storage := range storages {
		for n, representation := range []string{"structured", "unstructured", "metadata"} {
			It("are cut and marked: "+string(storage)+", "+representation, func(ctx SpecContext) {
				example := examples()[n]
				p := tuned(storage).run(ctx, opts(), unstructuredPods)
				events := make(chan crclient.Object, 100)
				informer, err := p.cache.GetInformer(ctx, example)
				Expect(err).NotTo(HaveOccurred())
				_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
					AddFunc:    func(obj any) { events <- obj.(crclient.Object) },
					UpdateFunc: func(_, obj any) { events <- obj.(crclient.Object) },
					DeleteFunc: func(obj any) { events <- obj.(crclient.Object) },
				})
				Expect(err).NotTo(HaveOccurred())
				read := func() crclient.Object {
					GinkgoHelper()
					obj := examples()[n]
					Expect(p.Get(ctx, key, obj)).To(Succeed())
					return obj
				}
				checkCut(read(), "image:1")
				checkCut(<-events, "image:1")

				p.watches.hold() // an own write, and then what the watch brings
				patch := crclient.RawPatch(types.StrategicMergePatchType, []byte(`{"metadata":{"annotations":{"x":"y"}},"spec":{"containers":[{"name":"one","image":"image:3"}]}}`))
				target := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}}
				Expect(p.Patch(ctx, target, patch)).To(Succeed())
				checkCut(read(), "image:3")
				p.watches.pass()
				Eventually(events).Should(Receive(Satisfy(func(obj crclient.Object) bool {
					checkCut(obj, "image:3")
					return obj.GetResourceVersion() == target.ResourceVersion
				})))
				checkCut(read(), "image:3")

				Expect(p.Delete(ctx, target, crclient.GracePeriodSeconds(0))).To(Succeed())
				target.Finalizers = nil
				Expect(api.Patch(ctx, target, crclient.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))).To(Succeed())
				Eventually(func() error { return p.Get(ctx, key, examples()[n]) }).Should(Satisfy(apierrors.IsNotFound))
			})
		}
	}

	It("are whole when they are read through, and can be updated then", func(ctx SpecContext) {
		for _, storage := range storages {
			p := tuned(storage).run(ctx, opts(), unstructuredPods)
			for _, obj := range examples()[:2] {
				Expect(p.Get(ctx, key, obj)).To(Succeed())
				checkCut(obj, "image:1")
				Expect(p.Get(ctx, key, obj, cache.ReadThrough())).To(Succeed())
				Expect(obj.GetSelfLink()).To(BeEmpty())
				Expect(obj.GetAnnotations()).To(HaveKeyWithValue("a", "b"))
				obj.SetLabels(map[string]string{"app": "web", "by": string(storage)})
				Expect(p.Update(ctx, obj)).To(Succeed())
			}
		}
	})

	It("are cut before a transform, and selected by labels and by fields that are kept", func(ctx SpecContext) {
		o := opts()
		o.DefaultTransform = func(obj any) (any, error) {
			pod := obj.(*corev1.Pod)
			Expect(pod.Spec.Tolerations).To(BeEmpty())
			pod.Annotations = map[string]string{"image": pod.Spec.Containers[0].Image}
			return pod, nil
		}
		Expect(api.Create(ctx, pod("other"))).To(Succeed())
		p := tuned(cache.Flat).run(ctx, o, crclient.CacheOptions{})
		nodes := func(obj crclient.Object) []string { return []string{obj.(*corev1.Pod).Spec.NodeName} }
		Expect(p.cache.IndexField(ctx, &corev1.Pod{}, "spec.nodeName", nodes)).To(Succeed())
		Expect(p.cache.IndexField(ctx, &corev1.Pod{}, ".spec.hostNetwork", nodes)).To(MatchError(And(
			ContainSubstring("cannot index Pod"), ContainSubstring("spec.nodeName, spec.containers.image, status.phase"))))
		list := &corev1.PodList{}
		Expect(p.List(ctx, list, crclient.MatchingFields{"spec.nodeName": "node-1"}, crclient.MatchingLabels{"app": "web"})).To(Succeed())
		Expect(list.Items).To(HaveLen(2))
		Expect(list.Items[0].Annotations).To(Equal(map[string]string{"image": "image:1"}))
		Expect(list.Items[1].GetSelfLink()).To(Equal(mark))
	})

	It("are refused by writes that would send them, which controller-runtime's client sends", func(ctx SpecContext) {
		p := tuned(cache.Flat).run(ctx, opts(), unstructuredPods)
		for _, obj := range examples()[:2] {
			Expect(p.Get(ctx, key, obj)).To(Succeed())
			refused := And(Satisfy(apierrors.IsBadRequest), MatchError(And(ContainSubstring("spec.nodeName, spec.containers.image, status.phase"),
				ContainSubstring("use a merge patch, or read the whole object with the option cache.ReadThrough()"))))
			created := obj.DeepCopyObject().(crclient.Object)
			created.SetName("created")
			created.SetResourceVersion("")
			before := obj.DeepCopyObject()
			writes := p.writes.reads.Load()
			Expect(p.Update(ctx, obj)).To(refused)
			Expect(p.Update(ctx, obj, crclient.DryRunAll)).To(refused)
			Expect(p.Create(ctx, created)).To(refused)
			Expect(p.Status().Update(ctx, obj)).To(refused)
			Expect(p.Status().Update(ctx, pod("web"), crclient.WithSubResourceBody(obj))).To(refused)
			Expect(p.SubResource("resize").Update(ctx, obj)).To(refused)
			Expect(p.Patch(ctx, obj, crclient.Merge)).To(refused)
			//lint:ignore SA1019 programs have it
			Expect(p.Patch(ctx, obj, crclient.Apply, crclient.FieldOwner("me"))).To(refused)
			Expect(p.Patch(ctx, obj, crclient.MergeFrom(pod("web")))).To(refused)
			Expect(p.Status().Patch(ctx, obj, crclient.Merge)).To(refused)
			content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
			Expect(err).NotTo(HaveOccurred())
			whole := &unstructured.Unstructured{Object: content}
			whole.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
			Expect(p.Apply(ctx, crclient.ApplyConfigurationFromUnstructured(whole), crclient.FieldOwner("me"))).To(refused)
			Expect(p.Status().Apply(ctx, crclient.ApplyConfigurationFromUnstructured(whole), crclient.FieldOwner("me"))).To(refused)
			Expect(obj).To(Equal(before), "a refused write changes no object")
			Expect(p.writes.reads.Load()).To(Equal(writes))
		}
		is := &corev1.Pod{}
		Expect(api.Get(ctx, key, is)).To(Succeed())
		Expect(is.Spec.Tolerations).NotTo(BeEmpty())

		// A merge patch without a whole object is as with controller-runtime's client: a cut object alone is known by its mark.
		theirs, err := crclient.New(cfg, crclient.Options{})
		Expect(err).NotTo(HaveOccurred())
		cut := &corev1.Pod{}
		Expect(p.Get(ctx, key, cut)).To(Succeed())
		Expect(theirs.Update(ctx, cut)).To(MatchError(ContainSubstring("Required value")), "the server gets it, and sees that names are missing")
	})

	It("make patches of what was changed, without the mark", func(ctx SpecContext) {
		p := tuned(cache.Flat).run(ctx, opts(), unstructuredPods)
		for n, base := range []func(crclient.Object) crclient.Patch{
			crclient.MergeFrom, func(o crclient.Object) crclient.Patch { return crclient.StrategicMergeFrom(o) },
			func(o crclient.Object) crclient.Patch {
				return crclient.MergeFromWithOptions(o, crclient.MergeFromWithOptimisticLock{})
			},
		} {
			for _, obj := range examples() {
				if _, typed := obj.(*corev1.Pod); n == 1 && !typed {
					continue
				}
				Expect(p.Get(ctx, key, obj)).To(Succeed())
				patch := &recorded{Patch: base(obj.DeepCopyObject().(crclient.Object))}
				value := time.Now().Format("150405.000000")
				obj.SetLabels(map[string]string{"app": "web", "changed": value})
				obj.SetAnnotations(map[string]string{"changed": value}) // which were cut
				Expect(p.Patch(ctx, obj, patch)).To(Succeed())
				Expect(string(patch.data)).NotTo(ContainSubstring("fields="))
				Expect(string(patch.data)).NotTo(ContainSubstring("selfLink"))
				Expect(obj.GetSelfLink()).To(BeEmpty(), "the response is whole")
				is := &corev1.Pod{}
				Expect(api.Get(ctx, key, is)).To(Succeed())
				Expect(is.Annotations).To(Equal(map[string]string{"a": "b", "changed": value}))
				Expect(is.Labels).To(HaveKeyWithValue("changed", value))
				Expect(is.GetSelfLink()).To(BeEmpty())
				Expect(is.Spec.Tolerations).NotTo(BeEmpty())
				Expect(is.Spec.Containers[0].Resources.Requests).NotTo(BeEmpty())
			}
		}
		cut := &corev1.Pod{}
		Expect(p.Get(ctx, key, cut)).To(Succeed())
		patch := &recorded{Patch: crclient.MergeFrom(cut.DeepCopy())}
		cut.Status.Phase = corev1.PodRunning
		Expect(p.Status().Patch(ctx, cut, patch)).To(Succeed())
		Expect(patch.data).To(MatchJSON(`{"status":{"phase":"Running"}}`))
	})

	It("refuse a patch that would replace a list which is not kept, and no other", func(ctx SpecContext) {
		p := tuned(cache.Flat).run(ctx, opts(), unstructuredPods)
		get := func() *corev1.Pod {
			GinkgoHelper()
			cut := &corev1.Pod{}
			Expect(p.Get(ctx, key, cut)).To(Succeed())
			return cut
		}
		cut := get()
		patch := crclient.MergeFrom(cut.DeepCopy())
		cut.Spec.Tolerations = append(cut.Spec.Tolerations, corev1.Toleration{Operator: corev1.TolerationOpExists})
		Expect(p.Patch(ctx, cut, patch)).To(MatchError(ContainSubstring("would replace the list spec.tolerations")))
		Expect(p.Patch(ctx, cut, crclient.StrategicMergeFrom(cut.DeepCopy()))).To(Succeed(), "nothing has changed")
		cut = get()
		patch = crclient.MergeFrom(cut.DeepCopy())
		cut.Spec.Containers[0].Image = "image:4"
		Expect(p.Patch(ctx, cut, patch)).To(MatchError(ContainSubstring("would replace the list spec.containers")))

		cut = get()
		patch = crclient.MergeFrom(cut.DeepCopy())
		cut.Finalizers = append(cut.Finalizers, "example.com/more") // a list that is kept
		Expect(p.Patch(ctx, cut, patch)).To(Succeed())
		Expect(cut.Finalizers).To(HaveLen(2))
		cut = get()
		all := crclient.RawPatch(types.JSONPatchType, []byte(`[{"op":"replace","path":"/metadata/finalizers","value":["example.com/stay"]}]`))
		Expect(p.Patch(ctx, cut, all)).To(Succeed(), "the program says what it sends")
		cut = get()
		Expect(p.SubResource("eviction").Create(ctx, cut, &policyv1.Eviction{DeleteOptions: &metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(0))}})).To(Succeed())
	})
})
