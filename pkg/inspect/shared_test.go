// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/pkg/cache"
	"github.com/tarn-dev/tarn/pkg/inspect"
)

var _ = Describe("An informer that representations share", func() {
	It("counts once in sums, and each representation names the others", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		create(ctx, configMap(namespace, "one", nil), configMap(namespace, "two", nil))
		c := started(cache.With(cache.Tuning{TuningByObject: cache.TuningByObject{Storage: cache.OneWatch}}), cfg,
			cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}})
		whole, meta := &unstructured.Unstructured{}, &metav1.PartialObjectMetadata{}
		for _, obj := range []client.Object{whole, meta} {
			obj.GetObjectKind().SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
		}
		watched(ctx, c, &corev1.ConfigMap{}, &corev1.Secret{})
		l := look(c, inspect.Options{})
		Expect(l.informer("ConfigMap", "structured")).NotTo(HaveKey("sharedWith"))
		alone := l.json("/api/v1/overview")

		watched(ctx, c, whole, meta)
		informer, err := c.GetInformer(ctx, meta)
		Expect(err).NotTo(HaveOccurred())
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{})
		Expect(err).NotTo(HaveOccurred())
		Expect(c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "one"}, whole)).To(Succeed())

		all := l.json("/api/v1/overview")
		Expect(all["kinds"]).To(HaveLen(4))
		for _, name := range []string{"informers", "phases"} {
			Expect(all[name]).To(Equal(alone[name]), "%s: nothing is watched beside it", name)
		}
		total, was := all["total"].(tree), alone["total"].(tree)
		for _, name := range []string{"objects", "bookmarks", "decoded", "lists"} {
			Expect(total[name]).To(Equal(was[name]), name)
		}
		Expect(total["handlers"]).To(Equal(1.0))
		Expect(total["reads"]).To(Equal(tree{"key": 1.0}))
		maps, secrets := l.informer("ConfigMap", "structured"), l.informer("Secret", "structured")
		Expect(total["objects"]).To(Equal(maps["objects"].(float64) + secrets["objects"].(float64)))
		Expect(total["bytes"]).To(Equal(maps["bytes"].(float64) + secrets["bytes"].(float64)))

		Expect(maps["sharedWith"]).To(Equal([]any{"unstructured", "metadata"}))
		Expect(l.informer("ConfigMap", "metadata")["sharedWith"]).To(Equal([]any{"structured", "unstructured"}))
		Expect(l.json(configMaps)["sharedWith"]).To(Equal([]any{"unstructured", "metadata"}))
		Expect(secrets).NotTo(HaveKey("sharedWith"))
	})
})
