// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"context"
	goruntime "runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/watchlist"
	"k8s.io/utils/ptr"
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

func TestOrderedWatchEndsWithItsSource(t *testing.T) {
	g := NewWithT(t)
	from := watch.NewFakeWithChanSize(2, false)
	ordered := inOrder(from, func(e watch.Event) watch.Event { e.Type = watch.Modified; return e })
	from.Add(&corev1.Pod{})
	g.Expect((<-ordered.ResultChan()).Type).To(Equal(watch.Modified))
	from.Stop()
	_, open := <-ordered.ResultChan()
	g.Expect(open).To(BeFalse())
	ordered.Stop()
}

func TestOrderedWatchKeepsTheOrder(t *testing.T) {
	g := NewWithT(t)
	from := watch.NewFakeWithChanSize(500, false)
	for i := range 500 {
		from.Add(&corev1.Pod{Spec: corev1.PodSpec{Priority: ptr.To(int32(i))}})
	}
	from.Stop()
	var atOnce, most atomic.Int32
	ordered := inOrder(from, func(e watch.Event) watch.Event {
		most.Store(max(most.Load(), atOnce.Add(1)))
		for range 100 * (*e.Object.(*corev1.Pod).Spec.Priority % 7) { // some take longer
			goruntime.Gosched()
		}
		atOnce.Add(-1)
		return e
	})
	next := int32(0)
	for e := range ordered.ResultChan() {
		g.Expect(*e.Object.(*corev1.Pod).Spec.Priority).To(Equal(next))
		next++
	}
	g.Expect(next).To(Equal(int32(500)))
	if goruntime.GOMAXPROCS(0) > 1 {
		g.Expect(most.Load()).To(BeNumerically(">", 1), "several events are worked on at once")
	}
}

// TestAWatchHasWorkersOnlyWhileEventsAreQueued: many informers are idle most of the time.
func TestAWatchHasWorkersOnlyWhileEventsAreQueued(t *testing.T) {
	const cores, events = 4, 20
	defer goruntime.GOMAXPROCS(goruntime.GOMAXPROCS(cores))
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		from, release := watch.NewFakeWithChanSize(events, false), make(chan struct{})
		before := goroutines()
		goroutines := func() int { return goroutines() - before }
		ordered := inOrder(from, func(e watch.Event) watch.Event { <-release; return e })
		g.Expect(goroutines()).To(BeNumerically("<=", 1), "that of the watch")
		from.Add(&corev1.Pod{})
		g.Expect(goroutines()).To(BeNumerically("<=", 1), "an event that comes alone needs no other")
		for range events - 1 {
			from.Add(&corev1.Pod{})
		}
		release <- struct{}{}
		<-ordered.ResultChan()
		g.Expect(goroutines()).To(BeNumerically("<=", 2+cores), "a sender, and workers")
		g.Expect(workers.Load()).To(BeEquivalentTo(cores))
		close(release)
		for range events - 1 {
			<-ordered.ResultChan()
		}
		g.Expect(goroutines()).To(BeNumerically("<=", 1))
		g.Expect(workers.Load()).To(BeZero())
		ordered.Stop()
		g.Expect(goroutines()).To(BeNumerically("<=", 0))
	})
}

// TestAWatchGoesOnWithoutWorkers: others may have all of them, and keep them.
func TestAWatchGoesOnWithoutWorkers(t *testing.T) {
	const events = 100
	taken := int32(goruntime.GOMAXPROCS(0))
	workers.Add(taken)
	defer workers.Add(-taken)
	g := NewWithT(t)
	from := watch.NewFakeWithChanSize(events, false)
	for i := range events {
		from.Add(&corev1.Pod{Spec: corev1.PodSpec{Priority: ptr.To(int32(i))}})
	}
	ordered := inOrder(from, func(e watch.Event) watch.Event { e.Type = watch.Modified; return e })
	for i := range events {
		e := <-ordered.ResultChan()
		g.Expect(e.Type).To(Equal(watch.Modified))
		g.Expect(*e.Object.(*corev1.Pod).Spec.Priority).To(BeEquivalentTo(i))
	}
	ordered.Stop()
}

func TestStopOfAnOrderedWatchWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		from, release, stopped := watch.NewFakeWithChanSize(3, false), make(chan struct{}), make(chan struct{})
		ordered := inOrder(from, func(e watch.Event) watch.Event { <-release; return e })
		for range 3 {
			from.Add(&corev1.Pod{})
		}
		synctest.Wait()
		go func() {
			ordered.Stop()
			close(stopped)
		}()
		synctest.Wait()
		g.Expect(stopped).NotTo(BeClosed(), "the function is working on an event")
		close(release)
		<-stopped
	})
}

func TestOrderedWatchEndsWhenStoppedWithAnEventUnread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // fails if a goroutine is left
		from := watch.NewFakeWithChanSize(2, false)
		ordered := inOrder(from, func(e watch.Event) watch.Event { return e })
		from.Add(&corev1.Pod{})
		synctest.Wait()
		ordered.Stop()
		ordered.Stop()
		synctest.Wait()
	})
}
