// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cacher

import (
	"context"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher/progress"

	"github.com/tarn-dev/tarn/internal/watchcache"
)

// idle returns the parts of a Cacher without its goroutines: the test does what they would.
func idle(t *testing.T, options ...func(*Config)) *Cacher {
	t.Helper()
	config := Config{
		Storage:        struct{ storage.Interface }{},
		ResourcePrefix: "/pods/",
		KeyFunc:        func(obj runtime.Object) (string, error) { return storage.NamespaceKeyFunc("/pods/", obj) },
		GetAttrsFunc: func(runtime.Object) (labels.Set, fields.Set, error) {
			return nil, nil, nil
		},
		NewFunc:     func() runtime.Object { return &example.Pod{} },
		NewListFunc: func() runtime.Object { return &example.PodList{} },
	}
	for _, o := range options {
		o(&config)
	}
	config, err := config.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	c := &Cacher{config: config, storage: config.Storage, elements: newElements(config), ready: newReadiness(config.Clock)}
	c.engine = newEngine(config, c.elements)
	c.indexes = newIndexes(c.engine, config)
	c.progress = progress.NewConditionalProgressRequester(func(context.Context) error { return nil }, config.Clock, nil)
	c.dispatcher = newDispatcher(c)
	if c.metrics, err = newMetrics(config); err != nil {
		t.Fatal(err)
	}
	if err := (&intake{Cacher: c}).Replace(nil, "100"); err != nil {
		t.Fatal(err)
	}
	return c
}

// write writes a Pod of the given revision into the cache.
func (c *Cacher) write(t *testing.T, revision int) {
	t.Helper()
	pod := &example.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "one", ResourceVersion: fmt.Sprint(revision)}}
	if err := (&intake{Cacher: c}).Update(pod); err != nil {
		t.Fatal(err)
	}
}

// TestBookmarkWhileEventsAreDispatched sends a bookmark between two events of a batch: it must
// not be of an older revision than the first of them.
func TestBookmarkWhileEventsAreDispatched(t *testing.T) {
	g := NewWithT(t)
	c := idle(t)
	d := c.dispatcher
	generation, err := c.ready.check()
	g.Expect(err).NotTo(HaveOccurred())
	w := c.newWatcher(t.Context(), "/pods/", storage.ListOptions{Predicate: storage.SelectionPredicate{AllowWatchBookmarks: true}})
	w.since = 100
	g.Expect(d.start(t.Context(), w, &beginning{position: d.position, revision: 100}, generation)).To(BeTrue())
	d.parked.Wait() // it follows
	c.write(t, 101)
	c.write(t, 102)
	events := make([]watchcache.Event[*element, *sharing], 2)
	position := d.position
	n, _, ok := c.engine.Events(position, events)
	g.Expect(ok && n == 2).To(BeTrue())
	d.dispatch(position, &events[0], true)
	d.sendBookmarks(time.Now().Add(bookmarkFrequency + time.Second))
	d.dispatch(position+1, &events[1], true)
	w.Stop()
	var got []string
	for event := range w.ResultChan() {
		m := event.Object.(metav1.Object)
		got = append(got, fmt.Sprint(event.Type, " ", m.GetResourceVersion()))
	}
	g.Expect(got).To(HaveExactElements(
		fmt.Sprint(watch.Added, " 101"), fmt.Sprint(watch.Bookmark, " 101"), fmt.Sprint(watch.Modified, " 102")))
}

// TestWatcherAheadOfTheDispatcher lets a watcher read events before they are dispatched: it must
// not get them again.
func TestWatcherAheadOfTheDispatcher(t *testing.T) {
	g := NewWithT(t)
	c := idle(t)
	d := c.dispatcher
	generation, err := c.ready.check()
	g.Expect(err).NotTo(HaveOccurred())
	position := d.position
	c.write(t, 101)
	c.write(t, 102)
	w := c.newWatcher(t.Context(), "/pods/", storage.ListOptions{Predicate: storage.SelectionPredicate{AllowWatchBookmarks: true}})
	w.since = 100
	g.Expect(d.start(t.Context(), w, &beginning{position: position, revision: 100}, generation)).To(BeTrue())
	d.parked.Wait() // it has read both, and follows
	d.sendBookmarks(time.Now().Add(bookmarkFrequency + time.Second))
	c.write(t, 103)
	events := make([]watchcache.Event[*element, *sharing], 3)
	n, _, ok := c.engine.Events(position, events)
	g.Expect(ok && n == 3).To(BeTrue())
	for i := range events {
		d.dispatch(position+uint64(i), &events[i], true)
	}
	w.Stop()
	var got []string
	for event := range w.ResultChan() {
		got = append(got, fmt.Sprint(event.Type, " ", event.Object.(metav1.Object).GetResourceVersion()))
	}
	g.Expect(got).To(HaveExactElements(
		fmt.Sprint(watch.Added, " 101"), fmt.Sprint(watch.Modified, " 102"), fmt.Sprint(watch.Modified, " 103")),
		"and no bookmark while the dispatcher is behind")
}

// listed remembers how it was asked for a list.
type listed struct {
	storage.Interface
	opts storage.ListOptions
}

func (l *listed) GetList(_ context.Context, _ string, opts storage.ListOptions, _ runtime.Object) error {
	l.opts = opts
	return nil
}

// TestListsOfReflectors are the newest, but those by which a Reflector's watch is checked.
func TestListsOfReflectors(t *testing.T) {
	g, below := NewWithT(t), &listed{}
	l := &listerWatcher{storage: below, prefix: "/pods/", newList: func() runtime.Object { return &example.PodList{} }, rewatch: func() error { return nil }}
	_, err := l.ListWithContext(t.Context(), metav1.ListOptions{ResourceVersion: "0", Limit: 7})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(below.opts.ResourceVersion).To(BeEmpty())
	g.Expect(below.opts.Predicate.Limit).To(BeEquivalentTo(7))
	_, err = l.ListWithContext(t.Context(), metav1.ListOptions{ResourceVersion: "5", ResourceVersionMatch: metav1.ResourceVersionMatchExact})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(below.opts.ResourceVersion).To(Equal("5"))
	g.Expect(below.opts.ResourceVersionMatch).To(Equal(metav1.ResourceVersionMatchExact))
}
