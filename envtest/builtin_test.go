// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest_test

import (
	"context"
	"encoding/json"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/ptr"
)

// sampleLabel marks the objects of these specs.
const sampleLabel = "tarn.example.com/sample"

var _ = Describe("a built-in kind", func() {
	for _, s := range samples() {
		if s.kind == "FlowSchema" {
			continue // a server that queues requests by them writes their status at any time
		}
		It("lives its life: "+s.resource.Resource+"."+s.resource.GroupVersion().String(), func(ctx SpecContext) {
			objects, obj := s.object(ctx)
			w, err := objects.Watch(ctx, metav1.ListOptions{LabelSelector: sampleLabel + "=" + obj.GetLabels()[sampleLabel]})
			Expect(err).NotTo(HaveOccurred())
			defer w.Stop()

			By("creating, reading and finding it")
			created, err := objects.Create(ctx, obj, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
			Expect(err).NotTo(HaveOccurred())
			Expect(created.GetKind()).To(Equal(s.kind))
			Expect(objects.Get(ctx, obj.GetName(), metav1.GetOptions{})).To(Equal(created))
			s.expectFound(ctx, objects, created)
			Expect(next(ctx, w).Type).To(Equal(watch.Added))

			By("changing what is wanted")
			changed, err := objects.Patch(ctx, obj.GetName(), types.MergePatchType, []byte(s.change), metav1.PatchOptions{})
			Expect(err).NotTo(HaveOccurred())
			Expect(changed.GetResourceVersion()).NotTo(Equal(created.GetResourceVersion()))
			want := created.GetGeneration()
			if s.counted {
				want++
			}
			Expect(changed.GetGeneration()).To(Equal(want))
			Expect(next(ctx, w).Type).To(Equal(watch.Modified))

			s.expectStatusApart(ctx, objects, changed)

			By("deleting it")
			s.delete(ctx, objects, obj.GetName())
			until(ctx, w, func(e watch.Event) bool { return e.Type == watch.Deleted })
			_, err = objects.Get(ctx, obj.GetName(), metav1.GetOptions{})
			Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
		}, SpecTimeout(patience))
	}

	It("is in the list of samples", func() {
		onlyOurs()
		known := map[schema.GroupVersionResource]bool{}
		for _, s := range samples() {
			known[s.resource] = true
		}
		client, err := discovery.NewDiscoveryClientForConfig(target.config)
		Expect(err).NotTo(HaveOccurred())
		lists, err := client.ServerPreferredResources()
		Expect(err).NotTo(HaveOccurred())
		for _, list := range lists {
			gv, err := schema.ParseGroupVersion(list.GroupVersion)
			Expect(err).NotTo(HaveOccurred())
			// Custom resources and their definitions have specs of their own.
			if strings.HasSuffix(gv.Group, ".example.com") || gv.Group == "apiextensions.k8s.io" {
				continue
			}
			for _, r := range list.APIResources {
				if len(r.Verbs) > 2 { // reviews can only be created, and componentstatuses only be read
					Expect(known).To(HaveKey(gv.WithResource(r.Name)))
				}
			}
		}
	})
})

// object returns the client and the sample, in a namespace of its own if it has one.
func (s sample) object(ctx context.Context) (dynamic.ResourceInterface, *unstructured.Unstructured) {
	GinkgoHelper()
	namespace := newNamespace(ctx)
	obj, err := s.in(namespace)
	Expect(err).NotTo(HaveOccurred())
	return s.client(target.dyn, namespace), obj
}

// client returns what reads and writes the sample in a namespace.
func (s sample) client(all dynamic.Interface, namespace string) dynamic.ResourceInterface {
	if s.cluster {
		return all.Resource(s.resource)
	}
	return all.Resource(s.resource).Namespace(namespace)
}

// in returns the sample for a namespace. The name of a cluster-scoped one begins with that of the namespace, if it can.
func (s sample) in(namespace string) (*unstructured.Unstructured, error) {
	obj := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(strings.ReplaceAll(s.content, "NAMESPACE", namespace)), &obj.Object); err != nil {
		return nil, err
	}
	obj.SetAPIVersion(s.resource.GroupVersion().String())
	obj.SetKind(s.kind)
	obj.SetName("sample")
	obj.SetLabels(map[string]string{sampleLabel: namespace})
	if !s.cluster {
		return obj, nil
	}
	obj.SetName(namespace + ".sample")
	if s.kind == "Namespace" {
		obj.SetName(namespace + "-sample")
	}
	if s.name != "" {
		obj.SetName(s.name)
	}
	return obj, nil
}

// expectFound looks for the object with selectors.
func (s sample) expectFound(ctx context.Context, objects dynamic.ResourceInterface, obj *unstructured.Unstructured) {
	GinkgoHelper()
	list, err := objects.List(ctx, metav1.ListOptions{
		LabelSelector: sampleLabel + "=" + obj.GetLabels()[sampleLabel],
		FieldSelector: "metadata.name=" + obj.GetName(),
	})
	Expect(err).NotTo(HaveOccurred())
	Expect(list.Items).To(HaveLen(1))
	Expect(list.Items[0].Object).To(Equal(obj.Object))
	_, err = objects.List(ctx, metav1.ListOptions{FieldSelector: "spec.nobodyKnows=1"})
	Expect(apierrors.IsBadRequest(err)).To(BeTrue(), "%v", err)
}

// expectStatusApart checks that only the status subresource writes the status, and nothing else.
func (s sample) expectStatusApart(ctx context.Context, objects dynamic.ResourceInterface, obj *unstructured.Unstructured) {
	GinkgoHelper()
	if s.status == "" {
		_, err := objects.Patch(ctx, obj.GetName(), types.MergePatchType, []byte(`{}`), metav1.PatchOptions{}, "status")
		Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
		return
	}
	By("changing its status")
	ignored, err := objects.Patch(ctx, obj.GetName(), types.MergePatchType, []byte(s.status), metav1.PatchOptions{})
	Expect(err).NotTo(HaveOccurred())
	Expect(ignored.Object["status"]).To(Equal(obj.Object["status"]))
	updated, err := objects.Patch(ctx, obj.GetName(), types.MergePatchType, []byte(s.status), metav1.PatchOptions{}, "status")
	Expect(err).NotTo(HaveOccurred())
	Expect(updated.GetGeneration()).To(Equal(obj.GetGeneration()))
	var patch map[string]map[string]any
	Expect(json.Unmarshal([]byte(s.status), &patch)).To(Succeed())
	if len(patch["status"]) > 0 && s.kind != "Service" { // an empty load balancer changes nothing
		Expect(updated.Object["status"]).NotTo(Equal(obj.Object["status"]))
	}
	_, err = objects.Patch(ctx, obj.GetName(), types.MergePatchType, []byte(s.change), metav1.PatchOptions{}, "status")
	Expect(err).NotTo(HaveOccurred())
	read, err := objects.Get(ctx, obj.GetName(), metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	Expect(read.Object["spec"]).To(Equal(obj.Object["spec"]))
	Expect(read.Object["status"]).To(Equal(updated.Object["status"]))
}

// delete removes the object for good, as controllers would.
func (s sample) delete(ctx context.Context, objects dynamic.ResourceInterface, name string) {
	GinkgoHelper()
	Expect(objects.Delete(ctx, name, metav1.DeleteOptions{
		GracePeriodSeconds: ptr.To[int64](0), PropagationPolicy: ptr.To(metav1.DeletePropagationBackground),
	})).To(Succeed())
	switch s.kind {
	case "PersistentVolume", "PersistentVolumeClaim", "VolumeAttributesClass":
		// A controller removes the finalizer when nothing uses the volume any more.
		_, err := objects.Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
	}
	if s.kind != "Namespace" {
		return
	}
	ns, err := target.kube.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	Expect(string(ns.Status.Phase)).To(Equal("Terminating"))
	Expect(ns.DeletionTimestamp).NotTo(BeNil())
	ns.Spec.Finalizers = nil
	_, err = target.kube.CoreV1().Namespaces().Finalize(ctx, ns, metav1.UpdateOptions{})
	Expect(err).NotTo(HaveOccurred())
}
