// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/watchlist"
)

var podKind = corev1.SchemeGroupVersion.WithKind("Pod")

// recorder is a source that records what it was asked for.
type recorder struct{ listed, watched metav1.ListOptions }

func (r *recorder) Example() runtime.Object { return &corev1.Pod{} }

func (r *recorder) List(_ context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	r.listed = opts
	return &corev1.PodList{}, nil
}

func (r *recorder) Finish(e watch.Event) watch.Event { return e }

func (r *recorder) Watch(_ context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	r.watched = opts
	return watch.NewFake(), nil
}

func TestListWatchAppliesTheSelector(t *testing.T) {
	g := NewWithT(t)
	src := &recorder{}
	lw := toolscache.ToListerWatcherWithContext(New(src, Options{
		Selector: Selector{
			Label: labels.SelectorFromSet(labels.Set{"app": "a"}),
			Field: fields.OneTermEqualSelector("metadata.name", "n"),
		},
		Bookmarks: true,
	}))

	_, err := lw.ListWithContext(t.Context(), metav1.ListOptions{ResourceVersion: "5"})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(src.listed).To(Equal(metav1.ListOptions{LabelSelector: "app=a", FieldSelector: "metadata.name=n", ResourceVersion: "5"}))

	w, err := lw.WatchWithContext(t.Context(), metav1.ListOptions{ResourceVersion: "5"})
	g.Expect(err).NotTo(HaveOccurred())
	w.Stop()
	g.Expect(src.watched).To(Equal(metav1.ListOptions{
		LabelSelector: "app=a", FieldSelector: "metadata.name=n", ResourceVersion: "5", Watch: true, AllowWatchBookmarks: true,
	}))
}

func TestWithoutBookmarksThereIsNoStreamingList(t *testing.T) {
	g := NewWithT(t)
	src := &recorder{}
	lw := New(src, Options{})
	w, err := toolscache.ToListerWatcherWithContext(lw).WatchWithContext(t.Context(), metav1.ListOptions{AllowWatchBookmarks: true})
	g.Expect(err).NotTo(HaveOccurred())
	w.Stop()
	g.Expect(src.watched.AllowWatchBookmarks).To(BeFalse())
	g.Expect(watchlist.DoesClientNotSupportWatchListSemantics(lw)).To(BeTrue())
	g.Expect(watchlist.DoesClientNotSupportWatchListSemantics(New(src, Options{Bookmarks: true}))).To(BeFalse())
}

func TestSelectorNamespace(t *testing.T) {
	for selector, want := range map[string]string{
		"":                                       "",
		"metadata.namespace=a":                   "a",
		"metadata.namespace=a,metadata.name=b":   "a",
		"metadata.namespace!=a":                  "",
		"metadata.namespace!=a,metadata.name==b": "",
	} {
		parsed := fields.ParseSelectorOrDie(selector)
		NewWithT(t).Expect(Selector{Field: parsed}.Namespace()).To(Equal(want), selector)
	}
}

func TestMetadataEventsGetTheirKindAndErrorsKeepTheirs(t *testing.T) {
	g := NewWithT(t)
	s := &partial{gvk: podKind}
	event := s.Finish(watch.Event{Type: watch.Added, Object: &metav1.PartialObjectMetadata{}})
	g.Expect(event.Object.GetObjectKind().GroupVersionKind()).To(Equal(podKind))

	status := &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}}
	event = s.Finish(watch.Event{Type: watch.Error, Object: status})
	g.Expect(event.Object.GetObjectKind().GroupVersionKind().Kind).To(Equal("Status"))
}
