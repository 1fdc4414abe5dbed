// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"errors"
	"fmt"
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"time"

	"github.com/tarn-dev/tarn/pkg/cache"
	tarnclient "github.com/tarn-dev/tarn/pkg/client"
	"github.com/tarn-dev/tarn/pkg/inspect"
)

var _ = Describe("A look", func() {
	DescribeTable("leaves nothing behind", func(ctx SpecContext, opts cache.Options) {
		namespace := newNamespace(ctx)
		for n := range 150 {
			create(ctx, configMap(namespace, fmt.Sprintf("map-%03d", n), map[string]string{"set": fmt.Sprint(n % 4)}))
		}
		opts.DefaultNamespaces = map[string]cache.Config{namespace: {}}
		c := started(cache.New, cfg, opts)
		watched(ctx, c, &corev1.ConfigMap{})
		l := look(c, inspect.Options{})

		first, second := &corev1.ConfigMapList{}, &corev1.ConfigMapList{}
		Expect(c.List(ctx, first, client.Limit(10))).To(Succeed())
		before := l.json(configMaps)
		for range 400 {
			page := l.json(configMaps+"/objects", "limit", "10", "labelSelector", "set=1")
			Expect(page["items"]).To(HaveLen(10))
			Expect(page).To(HaveKey("continue"))
			l.json(configMaps+"/explain", "labelSelector", "set=1")
		}
		l.text(http.StatusOK, configMaps+"/object", "namespace", namespace, "name", "map-005")
		after := l.json(configMaps)
		for _, what := range []string{"reads", "indexList", "indexHits", "parts"} {
			Expect(after[what]).To(Equal(before[what]), what)
		}
		Expect(c.List(ctx, second, client.Limit(10), client.Continue(first.Continue))).To(Succeed(), "the page has dropped a list of the program")
		Expect(second.Items).To(HaveLen(10))
	},
		Entry("in an informer of Tarn's", cache.Options{}),
		Entry("in an informer that the user made", cache.Options{NewInformer: toolscache.NewSharedIndexInformer}),
	)

	It("reads each page of a list from the state of its time", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		for _, name := range []string{"a", "b", "c", "d"} {
			create(ctx, configMap(namespace, name, nil))
		}
		c := started(cache.New, cfg, cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}})
		watched(ctx, c, &corev1.ConfigMap{})
		l := look(c, inspect.Options{})
		page := l.json(configMaps+"/objects", "limit", "2", "namespace", namespace)
		token := page["continue"].(string)
		Expect(api.Delete(ctx, configMap(namespace, "c", nil))).To(Succeed())
		Eventually(func() []string {
			return namesOf(l.json(configMaps+"/objects", "continue", token, "namespace", namespace))
		}).Should(HaveExactElements("d"))
	})
})

var _ = Describe("A write of the program", func() {
	It("is told of each object that is shown, however many there are", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		last := configMap(namespace, "z-last", nil)
		create(ctx, last)
		traffic := &wire{hold: make(chan struct{})}
		c := started(traffic.through(cache.New), cfg, cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}})
		watched(ctx, c, &corev1.ConfigMap{})
		writes, err := tarnclient.New(cfg, client.Options{Cache: &client.CacheOptions{Reader: c}})
		Expect(err).NotTo(HaveOccurred())
		l := look(c, inspect.Options{})
		close(traffic.hold)
		for n := range 110 {
			Expect(writes.Create(ctx, configMap(namespace, fmt.Sprintf("a-%03d", n), nil))).To(Succeed())
		}
		last.Data["name"] = "changed"
		Expect(writes.Update(ctx, last)).To(Succeed())
		Expect(l.text(http.StatusOK, configMaps+"/object", "namespace", namespace, "name", "z-last")).To(HavePrefix("# A write of this program lies over it"))
		Expect(l.json(configMaps+"/objects", "fieldSelector", "metadata.name=z-last")["items"]).To(ConsistOf(HaveKeyWithValue("ownWrite", "shown")))
		detail := l.json(configMaps)
		Expect(detail["pendingWrites"]).To(HaveLen(100))
		Expect(detail["morePending"]).To(Equal(11.0))
	})
})

// deaf is an informer that takes no more event handlers.
type deaf struct{ toolscache.SharedIndexInformer }

func (deaf) AddEventHandler(toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	return nil, errors.New("no handlers here")
}

var _ = Describe("Events", func() {
	names := func(l looking, path string, after float64) func() []string {
		return func() (names []string) {
			for _, e := range l.json(path+"/events", "after", fmt.Sprint(after))["events"].([]any) {
				names = append(names, e.(tree)["type"].(string)+" "+e.(tree)["name"].(string))
			}
			return names
		}
	}

	It("of an informer that the user made are shown", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		create(ctx, configMap(namespace, "before", nil))
		c := started(cache.New, cfg, cache.Options{
			NewInformer: toolscache.NewSharedIndexInformer, DefaultNamespaces: map[string]cache.Config{namespace: {}}, SyncPeriod: ptr.To(100 * time.Millisecond),
		})
		watched(ctx, c, &corev1.ConfigMap{})
		l := look(c, inspect.Options{})
		Expect(l.json(configMaps + "/events")).To(And(HaveKeyWithValue("events", BeEmpty()), Not(HaveKey("problem"))))
		seen := func() []string { // the handler is added a moment after the first look
			Expect(client.IgnoreAlreadyExists(api.Create(ctx, configMap(namespace, "new", nil)))).To(Succeed())
			Expect(api.Delete(ctx, configMap(namespace, "new", nil))).To(Succeed())
			return names(l, configMaps, 0)()
		}
		Eventually(seen).Should(ContainElements("ADDED new", "DELETED new"))
		Expect(names(l, configMaps, 0)()).NotTo(ContainElement(ContainSubstring("before")), "neither the first list nor a resync is an event")
	})

	It("that cannot be followed have a reason", func(ctx SpecContext) {
		c := started(cache.New, cfg, cache.Options{NewInformer: func(lw toolscache.ListerWatcher, obj runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
			return deaf{toolscache.NewSharedIndexInformer(lw, obj, resync, indexers)}
		}})
		watched(ctx, c, &corev1.ConfigMap{})
		l := look(c, inspect.Options{})
		Eventually(func() string {
			problem, _ := l.json(configMaps + "/events")["problem"].(string)
			return problem
		}).Should(And(
			ContainSubstring("no handlers here"), ContainSubstring("inspect_test.deaf"), ContainSubstring("NewInformer")))
	})

	It("are followed on when the informer was removed and made again", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		c := started(cache.New, cfg, cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}})
		watched(ctx, c, &corev1.ConfigMap{})
		l := look(c, inspect.Options{})
		l.json(configMaps + "/events")
		create(ctx, configMap(namespace, "first", nil))
		Eventually(names(l, configMaps, 0)).Should(Equal([]string{"ADDED first"}))
		Expect(c.RemoveInformer(ctx, &corev1.ConfigMap{})).To(Succeed())
		watched(ctx, c, &corev1.ConfigMap{})
		create(ctx, configMap(namespace, "unseen", nil))
		Eventually(func() error {
			return c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "unseen"}, &corev1.ConfigMap{})
		}).Should(Succeed())
		Expect(l.json(configMaps)["events"]).To(HaveKeyWithValue("added", 1.0))
		Expect(l.json(configMaps + "/events")).To(HaveKeyWithValue("missed", 1.0))
		create(ctx, configMap(namespace, "second", nil))
		Eventually(names(l, configMaps, 1)).Should(Equal([]string{"ADDED second"}))
		Expect(l.json(configMaps + "/events")).To(HaveKeyWithValue("missed", 1.0))
	})

	It("are followed on when the kind was dormant and is back", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		whale := &unstructured.Unstructured{}
		whale.SetAPIVersion("deep.example.com/v1")
		whale.SetKind("Whale")
		whale.SetNamespace(namespace)
		whale.SetName("first")
		crd := crdOf(whale)
		Expect(env.InstallCRDs(ctx, crd)).To(Succeed())
		c := started(cache.With(cache.Tuning{TuningByObject: cache.TuningByObject{Optional: ptr.To(true)}}), cfg, cache.Options{})
		watched(ctx, c, whale)
		l := look(c, inspect.Options{})
		const whales = "/api/v1/kinds/deep.example.com/v1/Whale/unstructured"
		l.json(whales + "/events")
		create(ctx, whale.DeepCopy())
		Eventually(names(l, whales, 0)).Should(Equal([]string{"ADDED first"}))
		Expect(api.Delete(ctx, named(crd))).To(Succeed())
		state := func() any { return l.informer("Whale", "unstructured")["state"] }
		Eventually(state).WithTimeout(patience).Should(HaveKeyWithValue("phase", "dormant"))
		crd = crdOf(whale)
		Expect(env.InstallCRDs(ctx, crd)).To(Succeed())
		Eventually(state).WithTimeout(patience).Should(HaveKeyWithValue("phase", "synced"))
		whale.SetName("second")
		create(ctx, whale.DeepCopy())
		Eventually(names(l, whales, 1)).Should(Equal([]string{"DELETED first", "ADDED second"}))
		Expect(l.json(whales + "/events")).NotTo(HaveKey("missed"))
		Expect(api.Delete(ctx, named(crd))).To(Succeed())
	})
})

// named names a definition for a client that does not know its type.
func named(crd *apiextensionsv1.CustomResourceDefinition) client.Object {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	u.SetName(crd.Name)
	return u
}

// crdOf returns a definition of the kind of an object.
func crdOf(obj *unstructured.Unstructured) *apiextensionsv1.CustomResourceDefinition {
	gvk := obj.GroupVersionKind()
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "whales." + gvk.Group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: gvk.Group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "whales", Singular: "whale", Kind: gvk.Kind, ListKind: gvk.Kind + "List"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: gvk.Version, Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", XPreserveUnknownFields: ptr.To(true),
				}},
			}},
		},
	}
}
