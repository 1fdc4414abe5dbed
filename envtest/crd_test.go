// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/tarn-dev/tarn/envtest"
)

const widgetManifest = "testdata/crds/widgets.yaml"

// widgetCRD returns the definition of the kind Widget in a group of its own.
func widgetCRD(group string) *apiextensionsv1.CustomResourceDefinition {
	GinkgoHelper()
	data, err := os.ReadFile(widgetManifest)
	Expect(err).NotTo(HaveOccurred())
	first, _, _ := strings.Cut(string(data), "\n---\n")
	crd := &apiextensionsv1.CustomResourceDefinition{}
	Expect(yaml.UnmarshalStrict([]byte(first), crd)).To(Succeed())
	crd.Name, crd.Spec.Group = "widgets."+group, group
	return crd
}

// crds is the client for definitions.
func crds() crdclient.Interface { return crdclient.NewForConfigOrDie(target.config) }

// createCRD creates a definition, waits until it is established, and removes it after the spec.
func createCRD(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition) {
	GinkgoHelper()
	client := crds().ApiextensionsV1().CustomResourceDefinitions()
	_, err := client.Create(ctx, crd, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) {
		_ = client.Delete(ctx, crd.Name, metav1.DeleteOptions{}) // a spec may have deleted it
	})
	w, err := client.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + crd.Name})
	Expect(err).NotTo(HaveOccurred())
	defer w.Stop()
	until(ctx, w, func(e watch.Event) bool {
		current, ok := e.Object.(*apiextensionsv1.CustomResourceDefinition)
		return ok && apihelpers.IsCRDConditionTrue(current, apiextensionsv1.Established)
	})
}

// widget returns a Widget of a size.
func widget(group, name string, size int64) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": group + "/v1",
		"kind":       "Widget",
		"metadata":   map[string]any{"name": name},
		"spec":       map[string]any{"size": size},
	}}
}

var _ = Describe("a custom resource", Ordered, func() {
	const group = "specs.tarn.example.com"
	var widgets dynamic.NamespaceableResourceInterface

	BeforeAll(func(ctx SpecContext) {
		crd := widgetCRD(group)
		client := crds().ApiextensionsV1().CustomResourceDefinitions()
		_, err := client.Create(ctx, crd, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func(ctx SpecContext) { Expect(client.Delete(ctx, crd.Name, metav1.DeleteOptions{})).To(Succeed()) })
		widgets = target.dyn.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: "widgets"})
		Eventually(func() error {
			_, err := widgets.List(ctx, metav1.ListOptions{})
			return err
		}).WithContext(ctx).WithPolling(fast).Should(Succeed())
	}, NodeTimeout(patience))

	It("is defaulted and pruned", func(ctx SpecContext) {
		w := widget(group, "one", 2)
		Expect(unstructured.SetNestedField(w.Object, "x", "spec", "unknown")).To(Succeed())
		made, err := widgets.Namespace(newNamespace(ctx)).Create(ctx, w, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(made.Object["spec"]).To(Equal(map[string]any{"size": int64(2), "color": "blue"}))
		Expect(made.GetGeneration()).To(BeEquivalentTo(1))
	}, SpecTimeout(patience))

	It("is validated by schema and by rules", func(ctx SpecContext) {
		ns := newNamespace(ctx)
		_, err := widgets.Namespace(ns).Create(ctx, widget(group, "large", 101), metav1.CreateOptions{})
		Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
		_, err = widgets.Namespace(ns).Create(ctx, widget(group, "odd", 3), metav1.CreateOptions{})
		Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
		Expect(err).To(MatchError(ContainSubstring("size must be even")))
		_, err = widgets.Namespace(ns).Create(ctx, widget(group, "strict", 2), metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
		Expect(err).NotTo(HaveOccurred())
	}, SpecTimeout(patience))

	It("has a status of its own and a scale", func(ctx SpecContext) {
		client := widgets.Namespace(newNamespace(ctx))
		made, err := client.Create(ctx, widget(group, "one", 2), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(unstructured.SetNestedField(made.Object, "Ready", "status", "phase")).To(Succeed())
		Expect(unstructured.SetNestedField(made.Object, int64(4), "spec", "size")).To(Succeed())
		updated, err := client.UpdateStatus(ctx, made, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(updated.Object["status"]).To(Equal(map[string]any{"phase": "Ready"}))
		Expect(updated.Object["spec"]).To(HaveKeyWithValue("size", int64(2)))
		Expect(updated.GetGeneration()).To(BeEquivalentTo(1))

		scaled, err := client.Patch(ctx, "one", types.MergePatchType, []byte(`{"spec":{"replicas":3}}`), metav1.PatchOptions{}, "scale")
		Expect(err).NotTo(HaveOccurred())
		Expect(scaled.GetKind()).To(Equal("Scale"))
		read, err := client.Get(ctx, "one", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(read.Object["spec"]).To(HaveKeyWithValue("replicas", int64(3)))
		Expect(read.GetGeneration()).To(BeEquivalentTo(2))
	}, SpecTimeout(patience))

	It("can be selected by the fields that its definition names", func(ctx SpecContext) {
		client := widgets.Namespace(newNamespace(ctx))
		red := widget(group, "red", 2)
		Expect(unstructured.SetNestedField(red.Object, "red", "spec", "color")).To(Succeed())
		for _, w := range []*unstructured.Unstructured{red, widget(group, "blue", 2)} {
			_, err := client.Create(ctx, w, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
		list, err := client.List(ctx, metav1.ListOptions{FieldSelector: "spec.color=red"})
		Expect(err).NotTo(HaveOccurred())
		Expect(names(list)).To(Equal([]string{"red"}))
		_, err = client.List(ctx, metav1.ListOptions{FieldSelector: "spec.size=2"})
		Expect(apierrors.IsBadRequest(err)).To(BeTrue(), "%v", err)
	}, SpecTimeout(patience))

	It("is applied with lists that merge by key", func(ctx SpecContext) {
		client := widgets.Namespace(newNamespace(ctx))
		part := func(name string) *unstructured.Unstructured {
			w := widget(group, "one", 2)
			Expect(unstructured.SetNestedSlice(w.Object, []any{map[string]any{"name": name, "weight": int64(1)}}, "spec", "parts")).To(Succeed())
			return w
		}
		_, err := client.Apply(ctx, "one", part("a"), metav1.ApplyOptions{FieldManager: "first"})
		Expect(err).NotTo(HaveOccurred())
		merged, err := client.Apply(ctx, "one", part("b"), metav1.ApplyOptions{FieldManager: "second"})
		Expect(err).NotTo(HaveOccurred())
		parts, _, err := unstructured.NestedSlice(merged.Object, "spec", "parts")
		Expect(err).NotTo(HaveOccurred())
		Expect(parts).To(HaveLen(2))
	}, SpecTimeout(patience))

	It("is watched, finalized and listed as a table", func(ctx SpecContext) {
		ns := newNamespace(ctx)
		client := widgets.Namespace(ns)
		w, err := client.Watch(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		defer w.Stop()
		held := widget(group, "held", 2)
		held.SetFinalizers([]string{"example.com/hold"})
		made, err := client.Create(ctx, held, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(next(ctx, w).Type).To(Equal(watch.Added))

		var table metav1.Table
		body := fetch(ctx, fmt.Sprintf("/apis/%s/v1/namespaces/%s/widgets", group, ns), "application/json;as=Table;g=meta.k8s.io;v=v1")
		Expect(json.Unmarshal(body, &table)).To(Succeed())
		Expect(table.Rows[0].Cells).To(Equal([]any{"held", "blue"}))

		Expect(client.Delete(ctx, "held", metav1.DeleteOptions{})).To(Succeed())
		Expect(next(ctx, w).Type).To(Equal(watch.Modified))
		_, err = client.Patch(ctx, "held", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		deleted := next(ctx, w)
		Expect(deleted.Type).To(Equal(watch.Deleted))
		Expect(deleted.Object.(*unstructured.Unstructured).GetUID()).To(Equal(made.GetUID()))
	}, SpecTimeout(patience))

	It("is in discovery and in OpenAPI", func(ctx SpecContext) {
		Eventually(func(g Gomega) { // a definition is established before its group is listed
			var list metav1.APIGroupList
			g.Expect(json.Unmarshal(fetch(ctx, "/apis", "application/json"), &list)).To(Succeed())
			g.Expect(list.Groups).To(ContainElement(HaveField("Name", group)))
		}).WithContext(ctx).WithPolling(fast).Should(Succeed())
		Expect(string(fetch(ctx, "/apis", aggregatedJSON))).To(ContainSubstring(`"` + group + `"`))
		resources, err := target.kube.Discovery().ServerResourcesForGroupVersion(group + "/v1")
		Expect(err).NotTo(HaveOccurred())
		Expect(resources.APIResources).To(ContainElement(And(HaveField("Name", "widgets"), HaveField("ShortNames", ConsistOf("wd")))))
		Eventually(func() string {
			return string(fetch(ctx, "/openapi/v3", "application/json"))
		}).WithContext(ctx).WithPolling(fast).Should(ContainSubstring("apis/" + group + "/v1"))
	}, SpecTimeout(patience))
})

var _ = Describe("a definition that is deleted", func() {
	It("takes its resources and its group away", func(ctx SpecContext) {
		const group = "gone.tarn.example.com"
		createCRD(ctx, widgetCRD(group))
		widgets := target.dyn.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: "widgets"})
		_, err := widgets.Namespace("default").Create(ctx, widget(group, "one", 2), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(crds().ApiextensionsV1().CustomResourceDefinitions().Delete(ctx, "widgets."+group, metav1.DeleteOptions{})).To(Succeed())
		Eventually(func() bool {
			_, err := widgets.Namespace("default").List(ctx, metav1.ListOptions{})
			return apierrors.IsNotFound(err)
		}).WithContext(ctx).WithPolling(fast).Should(BeTrue())
		Eventually(func() string {
			return string(fetch(ctx, "/apis", "application/json"))
		}).WithContext(ctx).WithPolling(fast).ShouldNot(ContainSubstring(group))
	}, SpecTimeout(patience))
})

var _ = Describe("InstallCRDs", func() {
	BeforeEach(onlyOurs)

	It("returns when custom resources can be used at once", func(ctx SpecContext) {
		const group = "installed.tarn.example.com"
		crd := widgetCRD(group)
		Expect(target.env.InstallCRDs(ctx, crd)).To(Succeed())
		resources, err := target.kube.Discovery().ServerResourcesForGroupVersion(group + "/v1")
		Expect(err).NotTo(HaveOccurred())
		Expect(resources.APIResources).NotTo(BeEmpty())
		began := time.Now()
		_, err = target.dyn.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: "widgets"}).
			Namespace("default").Create(ctx, widget(group, "one", 2), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(time.Since(began)).To(BeNumerically("<", time.Second), "the CRD server's delay of two seconds is in the way")

		By("updating it with a further version")
		second := crd.Spec.Versions[0].DeepCopy()
		second.Name, second.Storage = "v2", false
		crd.Spec.Versions = append(crd.Spec.Versions, *second)
		Expect(target.env.InstallCRDs(ctx, crd)).To(Succeed())
		_, err = target.dyn.Resource(schema.GroupVersionResource{Group: group, Version: "v2", Resource: "widgets"}).
			Namespace("default").Get(ctx, "one", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
	}, SpecTimeout(patience))

	It("returns when a changed schema is in force", func(ctx SpecContext) {
		const group = "changing.tarn.example.com"
		crd := widgetCRD(group)
		widgets := target.dyn.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: "widgets"}).Namespace("default")
		for i := range 10 {
			field := fmt.Sprintf("field%d", i)
			properties := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties
			properties[field] = apiextensionsv1.JSONSchemaProps{Type: "string"}
			Expect(target.env.InstallCRDs(ctx, crd)).To(Succeed())
			obj := widget(group, fmt.Sprintf("one-%d", i), 2)
			Expect(unstructured.SetNestedField(obj.Object, "kept", "spec", field)).To(Succeed())
			made, err := widgets.Create(ctx, obj, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			kept, _, err := unstructured.NestedString(made.Object, "spec", field)
			Expect(err).NotTo(HaveOccurred())
			Expect(kept).To(Equal("kept"), "a field that the old schema does not know is dropped")
		}
	}, SpecTimeout(patience))

	It("tells of a definition whose names are taken, and of a nil one", func(ctx SpecContext) {
		const group = "taken.tarn.example.com"
		Expect(target.env.InstallCRDs(ctx, widgetCRD(group))).To(Succeed())
		other := widgetCRD(group)
		other.Name, other.Spec.Names.Plural = "gadgets."+group, "gadgets"
		err := target.env.InstallCRDs(ctx, other)
		Expect(err).To(MatchError(envtest.ErrCRDNotEstablished))
		Expect(err).To(MatchError(ContainSubstring(other.Name)))
		Expect(target.env.InstallCRDs(ctx, nil)).To(MatchError(ContainSubstring("nil")))
	}, SpecTimeout(patience))
})
