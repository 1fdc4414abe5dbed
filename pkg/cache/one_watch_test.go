// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"context"
	"maps"
	"net/http"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/tarn-dev/tarn/pkg/cache"
)

// gadget is a Go type that knows one field of its kind.
type gadget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              gadgetSpec `json:"spec,omitempty"`
}

type gadgetSpec struct {
	Size int `json:"size,omitempty"`
}

func (g *gadget) DeepCopyObject() runtime.Object {
	out := *g
	g.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return &out
}

type gadgetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []gadget `json:"items"`
}

func (l *gadgetList) DeepCopyObject() runtime.Object {
	out := &gadgetList{TypeMeta: l.TypeMeta, ListMeta: l.ListMeta}
	for i := range l.Items {
		out.Items = append(out.Items, *l.Items[i].DeepCopyObject().(*gadget))
	}
	return out
}

var gadgetKind = schema.GroupVersionKind{Group: "views.example.com", Version: "v1", Kind: "Gadget"}

// gadgetCRD returns the definition of gadgets, which takes any field.
func gadgetCRD() *apiextensionsv1.CustomResourceDefinition {
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "gadgets." + gadgetKind.Group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: gadgetKind.Group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "gadgets", Singular: "gadget", Kind: "Gadget", ListKind: "GadgetList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", XPreserveUnknownFields: ptr.To(true),
				}},
			}},
		},
	}
}

// openWatches counts the watches that are under way, and all there ever were. A watch that a watch cache
// refuses while it is being filled does not count: it comes again.
type openWatches struct {
	next     http.RoundTripper
	open, of atomic.Int64
}

func (w *openWatches) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := w.next.RoundTrip(req)
	if err == nil && resp.StatusCode == http.StatusOK && req.URL.Query().Get("watch") == "true" {
		w.of.Add(1)
		w.open.Add(1)
		context.AfterFunc(req.Context(), func() { w.open.Add(-1) })
	}
	return resp, err
}

var _ = Describe("One watch for all representations of a kind", Ordered, func() {
	var namespace string
	BeforeAll(func(ctx SpecContext) {
		Expect(env.InstallCRDs(ctx, gadgetCRD())).To(Succeed())
	})
	BeforeEach(func(ctx SpecContext) { namespace = newNamespace(ctx) })

	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(gadgetKind, &gadget{})
	scheme.AddKnownTypeWithName(gadgetKind.GroupVersion().WithKind("GadgetList"), &gadgetList{})
	metav1.AddToGroupVersion(scheme, gadgetKind.GroupVersion())

	content := func(name string, size int) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"size": int64(size), "unknown": []any{"kept"}}}}
		u.SetGroupVersionKind(gadgetKind)
		u.SetNamespace(namespace)
		u.SetName(name)
		u.SetLabels(map[string]string{"name": name})
		return u
	}
	empty := func() (*gadget, *unstructured.Unstructured, *metav1.PartialObjectMetadata) {
		u, m := &unstructured.Unstructured{}, &metav1.PartialObjectMetadata{}
		u.SetGroupVersionKind(gadgetKind)
		m.SetGroupVersionKind(gadgetKind)
		return &gadget{}, u, m
	}
	var seen *openWatches
	begin := func(ctx SpecContext, tuning cache.Tuning, opts cache.Options) cache.Cache {
		transport, err := rest.TransportFor(cfg)
		Expect(err).NotTo(HaveOccurred())
		seen = &openWatches{next: transport}
		opts.Scheme, opts.HTTPClient = scheme, &http.Client{Transport: seen}
		opts.Mapper, err = apiutil.NewDynamicRESTMapper(cfg, opts.HTTPClient)
		Expect(err).NotTo(HaveOccurred())
		return started(ctx, cache.With(tuning), opts)
	}
	shared := cache.Tuning{TuningByObject: cache.TuningByObject{Storage: cache.OneWatch}}

	It("shows of custom resources what a projection keeps, as the other storages do", func(ctx SpecContext) {
		odd := content("odd", 1)
		odd.Object["spec"] = map[string]any{
			"size": int64(1), "port": "http", "none": nil, "empty": map[string]any{}, "list": []any{map[string]any{"a": int64(1), "b": "c"}, nil, int64(3)}, "more": "x",
		}
		create(ctx, odd)
		want := map[string]any{
			"size": int64(1), "port": "http", "none": nil, "empty": map[string]any{}, "list": []any{map[string]any{"a": int64(1)}, nil},
		}
		for _, storage := range []cache.Storage{cache.Flat, cache.Decoded, cache.OneWatch} {
			_, u, m := empty()
			tuning := cache.TuningByObject{Storage: storage, Fields: []string{"spec.size", "spec.port", "spec.none", "spec.empty.x", "spec.list.a", "status.absent"}}
			c := started(ctx, cache.With(cache.Tuning{ByObject: map[client.Object]cache.TuningByObject{u.DeepCopy(): tuning}}), cache.Options{})
			key := client.ObjectKeyFromObject(odd)
			Expect(c.Get(ctx, key, u)).To(Succeed())
			Expect(u.Object["spec"]).To(Equal(want), string(storage))
			Expect(u.Object).NotTo(HaveKey("status"))
			Expect(c.Get(ctx, key, m)).To(Succeed())
			Expect(m.GetSelfLink()).To(And(HavePrefix("?fields=spec.size,"), Equal(u.GetSelfLink())))

			tuning.Fields = []string{"spec"} // of which the Go type knows a part
			typed, u, _ := empty()
			c = begin(ctx, cache.Tuning{ByObject: map[client.Object]cache.TuningByObject{u.DeepCopy(): tuning}}, cache.Options{})
			Expect(c.Get(ctx, key, typed)).To(Succeed())
			Expect(typed.Spec.Size).To(Equal(1))
			Expect(typed.GetSelfLink()).To(Equal("?fields=spec"))
		}
	})

	It("is one, and each representation has its own informer, reads and field indexes", func(ctx SpecContext) {
		create(ctx, content("a", 1), content("b", 2))
		c := begin(ctx, shared, cache.Options{})
		typed, whole, meta := empty()
		got := map[client.Object]*atomic.Int64{}
		for _, obj := range []client.Object{typed, whole, meta} {
			informer, err := c.GetInformer(ctx, obj)
			Expect(err).NotTo(HaveOccurred())
			n := &atomic.Int64{}
			got[obj] = n
			_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: func(got any) {
				defer GinkgoRecover()
				Expect(got).To(BeAssignableToTypeOf(obj))
				n.Add(1)
			}})
			Expect(err).NotTo(HaveOccurred())
		}
		Expect(seen.of.Load()).To(BeEquivalentTo(1))

		Expect(c.IndexField(ctx, &gadget{}, "spec.size", func(o client.Object) []string {
			return []string{string(rune('0' + o.(*gadget).Spec.Size))}
		})).To(Succeed())
		list := &gadgetList{}
		Expect(c.List(ctx, list, client.InNamespace(namespace), client.MatchingFields{"spec.size": "2"})).To(Succeed())
		Expect(list.Items).To(HaveLen(1))
		Expect(list.Items[0].Spec.Size).To(Equal(2))
		Expect(list.Items[0].GroupVersionKind()).To(Equal(gadgetKind))
		wholes := &unstructured.UnstructuredList{}
		wholes.SetGroupVersionKind(gadgetKind.GroupVersion().WithKind("GadgetList"))
		Expect(c.List(ctx, wholes, client.InNamespace(namespace), client.MatchingFields{"spec.size": "2"})).NotTo(Succeed(), "the index is of the Go type")
		Expect(c.List(ctx, wholes, client.InNamespace(namespace), client.MatchingLabels{"name": "a"})).To(Succeed())
		Expect(wholes.Items).To(HaveLen(1))
		unknown, _, _ := unstructured.NestedStringSlice(wholes.Items[0].Object, "spec", "unknown")
		Expect(unknown).To(Equal([]string{"kept"}), "the Go type does not know it")

		key := client.ObjectKey{Namespace: namespace, Name: "a"}
		Expect(c.Get(ctx, key, meta)).To(Succeed())
		Expect(meta.Labels).To(Equal(map[string]string{"name": "a"}))
		Expect(c.Get(ctx, key, typed, client.UnsafeDisableDeepCopy)).To(Succeed())
		Expect(typed.Spec.Size).To(Equal(1))
		for obj := range maps.Keys(got) {
			Eventually(got[obj].Load).Should(BeNumerically(">=", 2), "%T", obj)
		}
		Expect(seen.of.Load()).To(BeEquivalentTo(1))
	})

	It("goes on for the others when one is removed, and ends with the last", func(ctx SpecContext) {
		c := begin(ctx, shared, cache.Options{})
		typed, whole, _ := empty()
		var adds atomic.Int64
		for _, obj := range []client.Object{typed, whole} {
			informer, err := c.GetInformer(ctx, obj)
			Expect(err).NotTo(HaveOccurred())
			if obj == client.Object(whole) {
				_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: func(any) { adds.Add(1) }})
				Expect(err).NotTo(HaveOccurred())
			}
		}
		index := func(o client.Object) []string { return []string{o.GetName()} }
		Expect(c.IndexField(ctx, typed, "name", index)).To(Succeed())
		before := adds.Load()
		for range 3 { // and again: nothing of the view before is in the way
			Expect(c.RemoveInformer(ctx, typed)).To(Succeed())
			Expect(c.IndexField(ctx, typed, "name", index)).To(Succeed())
		}
		Expect(c.RemoveInformer(ctx, typed)).To(Succeed())
		create(ctx, content("late", 1))
		Eventually(adds.Load).Should(BeNumerically(">", before))
		Expect(seen.open.Load()).To(BeEquivalentTo(1))
		Expect(c.RemoveInformer(ctx, whole)).To(Succeed())
		Eventually(seen.open.Load).Should(BeZero())

		Expect(c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "late"}, typed)).To(Succeed(), "it begins anew")
		Expect(seen.of.Load()).To(BeEquivalentTo(2))
	})

	It("is not the default, and is for the kinds that are named", func(ctx SpecContext) {
		create(ctx, content("a", 1))
		for tuning, watches := range map[*cache.Tuning]int64{
			{}: 2,
			{ByObject: map[client.Object]cache.TuningByObject{&gadget{}: {Storage: cache.OneWatch}}}: 1,
		} {
			c := begin(ctx, *tuning, cache.Options{})
			typed, whole, _ := empty()
			for _, obj := range []client.Object{typed, whole} {
				Expect(c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "a"}, obj)).To(Succeed())
			}
			Expect(seen.of.Load()).To(Equal(watches))
		}
	})

	It("lets an object that does not fit the Go type stop reads of the type alone", func(ctx SpecContext) {
		bad := content("bad", 1)
		bad.Object["spec"] = map[string]any{"size": "large"}
		create(ctx, bad, content("good", 1))
		c := begin(ctx, shared, cache.Options{})
		typed, whole, _ := empty()
		err := c.Get(ctx, client.ObjectKeyFromObject(bad), typed)
		Expect(err).To(MatchError(ContainSubstring("/bad does not fit *cache_test.gadget")))
		Expect(c.Get(ctx, client.ObjectKeyFromObject(bad), whole)).To(Succeed())
		Expect(c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "good"}, typed)).To(Succeed())
	})

	It("is refused with informers of the user's, as is each setting that they cannot have", func() {
		users := cache.Options{NewInformer: toolscache.NewSharedIndexInformer}
		for name, settings := range map[string]cache.TuningByObject{
			"Storage OneWatch": {Storage: cache.OneWatch},
			"Storage Flat":     {Storage: cache.Flat},
			"Storage Decoded":  {Storage: cache.Decoded},
			"Window":           {Window: 10},
			"Optional":         {Optional: ptr.To(true)},
		} {
			for _, tuning := range []cache.Tuning{
				{TuningByObject: settings}, {ByObject: map[client.Object]cache.TuningByObject{&corev1.Pod{}: settings}},
			} {
				_, err := cache.With(tuning)(cfg, users)
				Expect(err).To(MatchError(ContainSubstring(name + " cannot be set with the option NewInformer")))
			}
		}
		_, err := cache.With(cache.Tuning{TuningByObject: cache.TuningByObject{Storage: cache.SeparateMetadata, Optional: ptr.To(false)}})(cfg, users)
		Expect(err).NotTo(HaveOccurred())
	})
})
