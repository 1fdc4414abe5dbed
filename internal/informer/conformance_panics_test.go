// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informer

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// goOnAfterPanics makes utilruntime.HandleCrash report panics to the journal that it returns,
// and go on, until the test ends.
func goOnAfterPanics(t *testing.T) *journal {
	panics := &journal{}
	reallyCrash, handlers := utilruntime.ReallyCrash, utilruntime.PanicHandlers
	t.Cleanup(func() { utilruntime.ReallyCrash, utilruntime.PanicHandlers = reallyCrash, handlers })
	utilruntime.ReallyCrash = false
	utilruntime.PanicHandlers = []func(context.Context, any){func(_ context.Context, r any) { panics.write(fmt.Sprint(r)) }}
	return panics
}

// panickingAt returns a handler that panics at the given events, before it writes them down.
func panickingAt(events ...string) *recording {
	return &recording{before: func(event string) {
		for _, e := range events {
			if e == event {
				panic("at " + event)
			}
		}
	}}
}

func TestInformerGoesOnAfterAHandlerHasPanicked(t *testing.T) {
	panics := goOnAfterPanics(t)
	eachInformer(t, setting{}, func(r *rig) {
		h, other := panickingAt("update ns/a=1>2", "delete ns/b=1"), &recording{}
		registration := r.handle(h)
		r.handle(other)
		r.server.put(configMap("ns/a", "1"))
		r.start()
		r.server.put(configMap("ns/b", "1"))
		r.settle()
		r.Expect(h.take()).To(Equal([]string{"initial ns/a=1", "add ns/b=1"}))

		r.server.put(configMap("ns/a", "2"), configMap("ns/a", "3"))
		r.settle()
		r.Expect(h.take()).To(BeEmpty())
		r.Expect(panics.take()).To(Equal([]string{"at update ns/a=1>2"}))
		r.elapse(999 * time.Millisecond)
		r.Expect(h.take()).To(BeEmpty(), "the next event comes after a second")
		r.elapse(time.Millisecond)
		r.Expect(h.take()).To(Equal([]string{"update ns/a=2>3"}), "the event that it panicked at does not come again")

		r.server.remove("ns/b")
		r.elapse(time.Minute)
		r.Expect(panics.take()).To(Equal([]string{"at delete ns/b=1"}))
		r.server.put(configMap("ns/b", "2"))
		r.server.put(configMap("ns/a", "4"))
		r.settle()
		r.Expect(h.take()).To(BeEmpty(), "the second begins with the next event")
		r.elapse(time.Second)
		r.Expect(h.take()).To(Equal([]string{"add ns/b=2", "update ns/a=3>4"}))
		r.Expect(other.take()).To(HaveLen(7), "others are not held up")
		r.Expect(registration.HasSynced()).To(BeTrue())
	})
}

// TestInformerTellsTheInitialStateToAHandlerThatPanics: in client-go an event of the initial state
// at which the handler panics never counts as delivered. So the handler never syncs, and waiting
// for it never ends. With ours it has when it has been told of everything.
func TestInformerTellsTheInitialStateToAHandlerThatPanics(t *testing.T) {
	panics := goOnAfterPanics(t)
	eachInformer(t, setting{}, func(r *rig) {
		h := panickingAt("initial ns/a=1")
		registration := r.handle(h)
		r.server.put(configMap("ns/a", "1"), configMap("ns/b", "1"))
		r.start()
		r.elapse(time.Minute)
		r.Expect(panics.take()).To(Equal([]string{"at initial ns/a=1"}))
		r.Expect(h.take()).To(Equal([]string{"initial ns/b=1"}))
		r.Expect(r.informer.HasSynced()).To(BeTrue())
		r.Expect(registration.HasSynced()).To(Equal(r.impl.ours))
		r.server.put(configMap("ns/c", "1"))
		r.elapse(time.Second) // client-go's initial events have no order: the panic may have been at the last one
		r.Expect(h.take()).To(Equal([]string{"add ns/c=1"}))
	})
}

func TestInformerResyncsAHandlerThatPanics(t *testing.T) {
	panics := goOnAfterPanics(t)
	eachInformer(t, setting{resync: 10 * time.Second}, func(r *rig) {
		h := panickingAt("update ns/a=1>1")
		r.handle(h)
		r.server.put(configMap("ns/a", "1"), configMap("ns/b", "1"))
		r.start()
		h.take()
		r.elapse(12 * time.Second)
		r.elapse(10 * time.Second)
		r.Expect(panics.take()).To(Equal([]string{"at update ns/a=1>1", "at update ns/a=1>1"}))
		r.Expect(h.take()).To(Equal([]string{"update ns/b=1>1", "update ns/b=1>1"}))
	})
}

// TestInformerEndsWhileAHandlerWaitsAfterAPanic: the end of an informer waits for nothing that
// nobody needs.
func TestInformerEndsWhileAHandlerWaitsAfterAPanic(t *testing.T) {
	goOnAfterPanics(t)
	eachInformer(t, setting{}, func(r *rig) {
		h := panickingAt("initial ns/a=1", "initial ns/b=1")
		r.handle(h)
		r.server.put(configMap("ns/a", "1"), configMap("ns/b", "1"))
		r.start()
		begin := time.Now()
		r.stop()
		if r.impl.ours {
			r.Expect(time.Since(begin)).To(BeZero())
		}
	})
}

// TestInformerKeepsAnObjectThatAnIndexFunctionPanicsAt: the object is in the store, and others
// come after it. Client-go's informer tells handlers neither of it nor of what comes in one batch
// with it, and waits for a second; ours tells them, and has the object in all its other indexes.
func TestInformerKeepsAnObjectThatAnIndexFunctionPanicsAt(t *testing.T) {
	panics := goOnAfterPanics(t)
	value := func(obj any) ([]string, error) {
		if obj.(client.Object).GetName() == "bad" && valueOf(obj) == "2" {
			panic("at " + describe(obj))
		}
		return []string{valueOf(obj)}, nil
	}
	name := func(obj any) ([]string, error) { return []string{obj.(client.Object).GetName()}, nil }
	eachInformer(t, setting{indexers: toolscache.Indexers{"value": value, "name": name}}, func(r *rig) {
		h := &recording{}
		r.handle(h)
		r.server.put(configMap("ns/a", "1"), configMap("ns/bad", "1"))
		r.start()
		r.Expect(h.take()).To(HaveLen(2))
		r.server.put(configMap("ns/bad", "2"))
		r.elapse(2 * time.Second)
		if r.impl.ours {
			r.Expect(h.take()).To(Equal([]string{"update ns/bad=1>2"}))
			found, err := r.informer.GetIndexer().ByIndex("name", "bad")
			r.Expect(err).NotTo(HaveOccurred())
			r.Expect(describeAll(found)).To(ConsistOf("ns/bad=2"))
		}
		r.server.put(configMap("ns/a", "2"))
		r.settle()
		r.Expect(panics.take()).To(ContainElement(ContainSubstring("at ns/bad=2")))
		stored, exists, err := r.informer.GetStore().GetByKey("ns/bad")
		r.Expect(err).NotTo(HaveOccurred())
		r.Expect(exists).To(BeTrue())
		r.Expect(describe(stored)).To(Equal("ns/bad=2"))
		r.Expect(h.take()).To(ContainElement("update ns/a=1>2"))
		found, err := r.informer.GetIndexer().ByIndex("value", "2")
		r.Expect(err).NotTo(HaveOccurred())
		r.Expect(describeAll(found)).To(ConsistOf("ns/a=2"))

		r.server.put(configMap("ns/bad", "3"))
		r.elapse(2 * time.Second)
		if r.impl.ours { // client-go's panics again: it asks for the values of the old object
			r.Expect(h.take()).To(Equal([]string{"update ns/bad=2>3"}))
			found, err = r.informer.GetIndexer().ByIndex("value", "3")
			r.Expect(err).NotTo(HaveOccurred())
			r.Expect(describeAll(found)).To(ConsistOf("ns/bad=3"))
		}
		panics.take()
	})
}

// TestInformerListsAnewAfterATransformHasPanicked: the Reflector is at that, and begins again.
func TestInformerListsAnewAfterATransformHasPanicked(t *testing.T) {
	panics := goOnAfterPanics(t)
	eachInformer(t, setting{}, func(r *rig) {
		broken := true
		r.Expect(r.informer.SetTransform(func(obj any) (any, error) {
			if broken && describe(obj) == "ns/a=2" {
				broken = false
				panic("at " + describe(obj))
			}
			return obj, nil
		})).To(Succeed())
		h := &recording{}
		r.handle(h)
		r.server.put(configMap("ns/a", "1"))
		r.start()
		h.take()
		r.server.put(configMap("ns/a", "2"), configMap("ns/b", "1"))
		r.elapse(time.Minute)
		r.Expect(panics.take()).To(Equal([]string{"at ns/a=2"}))
		r.Expect(h.take()).To(ConsistOf("update ns/a=1>2", "add ns/b=1"))
	})
}

// TestAPanicIsReportedBeforeTheProcessEnds: as it is by default, in the goroutines of ours that
// run a user's functions and are not one of client-go's.
func TestAPanicIsReportedBeforeTheProcessEnds(t *testing.T) {
	bad := watch.Event{Type: watch.Added, Object: configMap("ns/bad", "1")}
	broken := func() { panic("broken") }
	for name, do := range map[string]func(context.Context){
		"indexing what a watch sent": func(context.Context) {
			i, err := New(noSource, Options{Example: &corev1.ConfigMap{}})
			NewWithT(t).Expect(err).NotTo(HaveOccurred())
			NewWithT(t).Expect(i.AddField("field", func(client.Object) []string { broken(); return nil })).To(Succeed())
			i.store.decode(bad)
		},
		"handling": func(ctx context.Context) {
			i, err := New(noSource, Options{Example: &corev1.ConfigMap{}})
			NewWithT(t).Expect(err).NotTo(HaveOccurred())
			NewWithT(t).Expect(i.GetStore().Add(bad.Object)).To(Succeed())
			handle, err := i.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: func(any) { broken() }})
			NewWithT(t).Expect(err).NotTo(HaveOccurred())
			handle.(*registration).run(ctx, ctx)
		},
	} {
		t.Run(name, func(t *testing.T) {
			panics := goOnAfterPanics(t)
			utilruntime.ReallyCrash = true
			g := NewWithT(t)
			g.Expect(func() { do(t.Context()) }).To(PanicWith("broken"))
			g.Expect(panics.take()).To(Equal([]string{"broken"}))
		})
	}
}

// TestNoHandlerGetsAnUpdateWithoutItsOldObject: the old object of an update is made once for all
// handlers. Here the check of flat objects panics meanwhile, because a transform has changed an
// object that it had returned.
func TestNoHandlerGetsAnUpdateWithoutItsOldObject(t *testing.T) {
	panics := goOnAfterPanics(t)
	labelled := func(value string) *corev1.ConfigMap {
		cm := configMap("ns/a", value)
		cm.Labels = map[string]string{"app": "a"}
		return cm
	}
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, implementation{new: newOwnInformer(false, asDecodedEvents), ours: true}, setting{}, true)
		var returned *corev1.ConfigMap
		r.Expect(r.informer.SetTransform(func(obj any) (any, error) {
			returned = obj.(*corev1.ConfigMap)
			return obj, nil
		})).To(Succeed())
		gate, without, told := r.gate(), &journal{}, &journal{}
		for range 2 {
			r.handle(toolscache.ResourceEventHandlerFuncs{AddFunc: func(any) { gate.pass() }, UpdateFunc: func(oldObj, newObj any) {
				if oldObj == nil {
					without.write(describe(newObj))
					return
				}
				told.write(describe(oldObj) + ">" + valueOf(newObj))
			}})
		}
		r.start()
		r.server.put(labelled("1"))
		r.settle()
		r.server.put(labelled("2"))
		r.settle()
		returned.Labels["app"] = "changed"
		gate.open()
		r.settle()
		r.Expect(without.take()).To(BeEmpty())
		r.Expect(panics.take()).To(HaveLen(1))
		r.Expect(told.take()).To(BeEmpty())
		r.server.put(labelled("3"))
		r.elapse(time.Minute)
		r.Expect(told.take()).To(Equal([]string{"ns/a=2>3", "ns/a=2>3"}))
	})
}
