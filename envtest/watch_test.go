// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
)

// nameOf returns the name of an event's object.
func nameOf(event watch.Event) string {
	GinkgoHelper()
	accessor, err := meta.Accessor(event.Object)
	Expect(err).NotTo(HaveOccurred())
	return accessor.GetName()
}

var _ = Describe("a watch", func() {
	const selector = "value"

	It("sees each change after its resource version, in order", func(ctx SpecContext) {
		ns := newNamespace(ctx)
		maps := target.kube.CoreV1().ConfigMaps(ns)
		made := createConfigMaps(ctx, ns, 1)[0]
		w, err := maps.Watch(ctx, metav1.ListOptions{ResourceVersion: made.ResourceVersion, LabelSelector: selector})
		Expect(err).NotTo(HaveOccurred())
		defer w.Stop()

		made.Data["key"] = "changed"
		made, err = maps.Update(ctx, made, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		_, err = maps.Create(ctx, configMap("two", "2"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(maps.Delete(ctx, made.Name, metav1.DeleteOptions{})).To(Succeed())

		modified := next(ctx, w)
		Expect(modified.Type).To(Equal(watch.Modified))
		Expect(modified.Object.(*corev1.ConfigMap).ResourceVersion).To(Equal(made.ResourceVersion))
		added := next(ctx, w)
		Expect(added.Type).To(Equal(watch.Added))
		Expect(nameOf(added)).To(Equal("two"))
		deleted := next(ctx, w)
		Expect(deleted.Type).To(Equal(watch.Deleted))
		Expect(nameOf(deleted)).To(Equal(made.Name))
	}, SpecTimeout(patience))

	It("sees an object come and go when it begins and ceases to match a selector", func(ctx SpecContext) {
		ns := newNamespace(ctx)
		maps := target.kube.CoreV1().ConfigMaps(ns)
		made := createConfigMaps(ctx, ns, 1)[0]
		w, err := maps.Watch(ctx, metav1.ListOptions{ResourceVersion: made.ResourceVersion, LabelSelector: "value=wanted"})
		Expect(err).NotTo(HaveOccurred())
		defer w.Stop()
		for _, value := range []string{"wanted", "other"} {
			made.Labels["value"] = value
			made, err = maps.Update(ctx, made, metav1.UpdateOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
		Expect(next(ctx, w).Type).To(Equal(watch.Added))
		Expect(next(ctx, w).Type).To(Equal(watch.Deleted))
	}, SpecTimeout(patience))

	It("begins with the state of now when asked for it, and marks where the state ends", func(ctx SpecContext) {
		ns := newNamespace(ctx)
		createConfigMaps(ctx, ns, 2)
		maps := target.kube.CoreV1().ConfigMaps(ns)
		w, err := maps.Watch(ctx, metav1.ListOptions{
			SendInitialEvents: ptr.To(true), AllowWatchBookmarks: true, LabelSelector: selector,
			ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
		})
		Expect(err).NotTo(HaveOccurred())
		defer w.Stop()
		Expect([]string{nameOf(next(ctx, w)), nameOf(next(ctx, w))}).To(ConsistOf("cm-0", "cm-1"))
		mark := next(ctx, w)
		Expect(mark.Type).To(Equal(watch.Bookmark))
		Expect(mark.Object.(*corev1.ConfigMap).Annotations).To(HaveKeyWithValue(metav1.InitialEventsAnnotationKey, "true"))

		_, err = maps.Create(ctx, configMap("later", "3"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		added := until(ctx, w, func(e watch.Event) bool { return e.Type != watch.Bookmark })
		Expect(nameOf(added)).To(Equal("later"))
	}, SpecTimeout(patience))

	It("ends when its time is over, after a bookmark", func(ctx SpecContext) {
		ns := newNamespace(ctx)
		w, err := target.kube.CoreV1().ConfigMaps(ns).Watch(ctx, metav1.ListOptions{
			ResourceVersion: "0", AllowWatchBookmarks: true, TimeoutSeconds: ptr.To[int64](3), LabelSelector: selector,
		})
		Expect(err).NotTo(HaveOccurred())
		defer w.Stop()
		bookmarks := 0
		for event := range w.ResultChan() { // SpecTimeout ends a watch that does not
			Expect(event.Type).To(Equal(watch.Bookmark))
			bookmarks++
		}
		Expect(ctx.Err()).NotTo(HaveOccurred())
		Expect(bookmarks).To(BeNumerically(">", 0))
	}, SpecTimeout(patience))

	It("from a resource version that is none is refused", func(ctx SpecContext) {
		_, err := target.kube.CoreV1().ConfigMaps(newNamespace(ctx)).Watch(ctx, metav1.ListOptions{ResourceVersion: "nonsense"})
		Expect(err).To(MatchError(ContainSubstring(`Invalid value: "nonsense"`)))
	}, SpecTimeout(patience))

	It("of one object sees that object alone", func(ctx SpecContext) {
		ns := newNamespace(ctx)
		maps := target.kube.CoreV1().ConfigMaps(ns)
		w, err := maps.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=cm-1"})
		Expect(err).NotTo(HaveOccurred())
		defer w.Stop()
		createConfigMaps(ctx, ns, 3)
		Expect(nameOf(next(ctx, w))).To(Equal("cm-1"))
		Expect(maps.Delete(ctx, "cm-0", metav1.DeleteOptions{})).To(Succeed())
		Expect(maps.Delete(ctx, "cm-1", metav1.DeleteOptions{})).To(Succeed())
		deleted := next(ctx, w)
		Expect(deleted.Type).To(Equal(watch.Deleted))
		Expect(nameOf(deleted)).To(Equal("cm-1"))
	}, SpecTimeout(patience))
})
