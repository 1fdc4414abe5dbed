// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informer

import (
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
)

func TestInformerTellsWhatIsAddedUpdatedAndDeleted(t *testing.T) {
	eachInformer(t, setting{}, func(r *rig) {
		h := &recording{}
		r.handle(h)
		r.server.put(configMap("ns/a", "1"), configMap("ns/b", "1"))
		r.start()
		r.Expect(h.take()).To(ConsistOf("initial ns/a=1", "initial ns/b=1"))

		r.server.put(configMap("ns/c", "1"))
		r.server.put(configMap("ns/a", "2"), configMap("ns/a", "3"))
		r.server.remove("ns/a")
		r.server.put(configMap("ns/a", "4"))
		r.settle()
		r.Expect(h.take()).To(Equal([]string{
			"add ns/c=1", "update ns/a=1>2", "update ns/a=2>3", "delete ns/a=3", "add ns/a=4",
		}))
	})
}

func TestInformerPassesTheRevisionsOfObjects(t *testing.T) {
	eachInformer(t, setting{}, func(r *rig) {
		r.server.put(configMap("ns/a", "1"))
		first := r.server.current()
		var updated, deleted []string
		_, err := r.informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			UpdateFunc: func(oldObj, newObj any) {
				updated = append(updated, resourceVersionOf(oldObj), resourceVersionOf(newObj))
			},
			DeleteFunc: func(obj any) { deleted = append(deleted, resourceVersionOf(obj)) },
		})
		r.Expect(err).NotTo(HaveOccurred())
		r.start()
		r.server.put(configMap("ns/a", "2"))
		second := r.server.current()
		r.server.remove("ns/a")
		r.settle()
		r.Expect(updated).To(Equal([]string{first, second}))
		r.Expect(deleted).To(Equal([]string{r.server.current()}), "a deletion has a revision of its own")
	})
}

func TestInformerServesEveryKindOfObject(t *testing.T) {
	labelled := metav1.ObjectMeta{Name: "a", Labels: map[string]string{"value": "1"}}
	widget := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.org/v1", "kind": "Widget",
		"metadata": map[string]any{"namespace": "ns", "name": "a", "labels": map[string]any{"value": "1"}},
	}}
	example := &unstructured.Unstructured{}
	example.SetGroupVersionKind(widget.GroupVersionKind())
	partial := &metav1.PartialObjectMetadata{ObjectMeta: *labelled.DeepCopy()}
	partial.Namespace = "ns"
	for name, kind := range map[string]struct {
		example, object runtime.Object
		key             string
	}{
		"cluster-scoped": {&corev1.Node{}, &corev1.Node{ObjectMeta: labelled}, "a"},
		"unstructured":   {example, widget, "ns/a"},
		"metadata":       {&metav1.PartialObjectMetadata{}, partial, "ns/a"},
	} {
		t.Run(name, func(t *testing.T) {
			eachInformer(t, setting{example: kind.example}, func(r *rig) {
				h := &recording{}
				r.handle(h)
				r.server.put(kind.object)
				r.start()
				r.Expect(h.take()).To(Equal([]string{"initial " + kind.key + "=1"}))
				stored, exists, err := r.informer.GetStore().GetByKey(kind.key)
				r.Expect(err).NotTo(HaveOccurred())
				r.Expect(exists).To(BeTrue())
				want := kind.object.DeepCopyObject().(metav1.Object)
				want.SetResourceVersion(r.server.current())
				r.Expect(stored).To(Equal(want))

				r.server.remove(kind.key)
				r.settle()
				r.Expect(h.take()).To(Equal([]string{"delete " + kind.key + "=1"}))
			})
		})
	}
}

// TestInformerPassesOverObjectsOfAnotherKind, which have keys like any others.
func TestInformerPassesOverObjectsOfAnotherKind(t *testing.T) {
	of := func(apiVersion, kind, name string) runtime.Object {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": apiVersion, "kind": kind,
			"metadata": map[string]any{"namespace": "ns", "name": name, "labels": map[string]any{"value": "1"}},
		}}
	}
	for name, kind := range map[string]struct{ example, object, other runtime.Object }{
		"a Table":             {of("example.org/v1", "Widget", ""), of("example.org/v1", "Widget", "a"), of("meta.k8s.io/v1", "Table", "b")},
		"an unstructured":     {of("example.org/v1", "Widget", ""), of("example.org/v1", "Widget", "a"), of("example.org/v2", "Widget", "b")},
		"another type":        {&corev1.ConfigMap{}, configMap("ns/a", "1"), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "b"}}},
		"a typed for untyped": {of("example.org/v1", "Widget", ""), of("example.org/v1", "Widget", "a"), configMap("ns/b", "1")},
	} {
		t.Run(name, func(t *testing.T) {
			eachInformer(t, setting{example: kind.example, notOfViews: true}, func(r *rig) {
				h := &recording{}
				r.handle(h)
				r.start()
				r.server.put(kind.other)
				r.server.put(kind.object)
				r.server.remove("ns/b")
				r.settle()
				r.Expect(h.take()).To(Equal([]string{"add ns/a=1"}))
				r.Expect(r.informer.GetStore().ListKeys()).To(Equal([]string{"ns/a"}))
				r.Expect(r.failures.take()).To(BeEmpty(), "the watch goes on")
			})
		})
	}
}

func TestInformerTellsALateHandlerWhatIsThere(t *testing.T) {
	eachInformer(t, setting{}, func(r *rig) {
		r.server.put(configMap("ns/a", "1"))
		r.start()
		r.server.put(configMap("ns/a", "2"), configMap("other/b", "1"))
		r.settle()
		h := &recording{}
		r.handle(h)
		r.settle()
		r.Expect(h.take()).To(ConsistOf("initial ns/a=2", "initial other/b=1"))
		r.server.put(configMap("ns/a", "3"), configMap("ns/c", "1"))
		r.settle()
		r.Expect(h.take()).To(Equal([]string{"update ns/a=2>3", "add ns/c=1"}))
	})
}

func TestInformerTellsAHandlerThatComesDuringTheFirstList(t *testing.T) {
	eachInformer(t, setting{}, func(r *rig) {
		r.server.put(configMap("ns/a", "1"))
		release := r.server.hold()
		r.start()
		h := &recording{}
		registration := r.handle(h)
		r.settle()
		r.Expect(registration.HasSynced()).To(BeFalse())
		release()
		r.settle()
		r.Expect(h.take()).To(Equal([]string{"initial ns/a=1"}))
		r.Expect(registration.HasSynced()).To(BeTrue())
	})
}

func TestInformerLosesAndDoublesNothingForHandlersThatComeAnyTime(t *testing.T) {
	eachInformer(t, setting{}, func(r *rig) {
		r.start()
		written := make(chan struct{})
		go func() {
			defer close(written)
			for i := range 400 {
				key := "ns/" + strconv.Itoa(i%7)
				r.server.put(configMap(key, strconv.Itoa(i)))
				if i%5 == 0 {
					r.server.remove(key)
				}
			}
		}()
		var handlers []*recording
		for range 20 {
			h := &recording{}
			r.handle(h)
			handlers = append(handlers, h)
		}
		<-written
		r.settle()
		for _, h := range handlers {
			state, err := replay(h.take())
			r.Expect(err).NotTo(HaveOccurred())
			r.Expect(state).To(Equal(r.server.state()))
		}
	})
}

func TestInformerTellsARemovedHandlerNothing(t *testing.T) {
	eachInformer(t, setting{}, func(r *rig) {
		early, late, kept := &recording{}, &recording{}, &recording{}
		beforeStart := r.handle(early)
		r.handle(kept)
		r.Expect(r.informer.RemoveEventHandler(beforeStart)).To(Succeed())
		r.server.put(configMap("ns/a", "1"))
		r.start()
		registration := r.handle(late)
		r.settle()
		late.take()

		r.Expect(r.informer.RemoveEventHandler(registration)).To(Succeed())
		r.Expect(r.informer.RemoveEventHandler(registration)).To(Succeed(), "removing again is no error")
		r.server.put(configMap("ns/a", "2"))
		r.settle()
		r.Expect(early.take()).To(BeEmpty())
		r.Expect(late.take()).To(BeEmpty())
		r.Expect(kept.take()).To(Equal([]string{"initial ns/a=1", "update ns/a=1>2"}))

		r.stop()
		r.Expect(r.informer.RemoveEventHandler(registration)).To(Succeed(), "nor is it after the end")
	})
}

func TestInformerDropsWhatIsPendingForARemovedHandler(t *testing.T) {
	eachInformer(t, setting{}, func(r *rig) {
		door := r.gate()
		h := &recording{before: func(string) { door.pass() }}
		registration := r.handle(h)
		r.server.put(configMap("ns/a", "1"))
		r.start()
		r.server.put(configMap("ns/a", "2"), configMap("ns/b", "1"))
		r.settle()
		r.Expect(r.informer.RemoveEventHandler(registration)).To(Succeed())
		r.settle()
		door.open()
		r.settle()
		r.Expect(h.take()).To(Equal([]string{"initial ns/a=1"}), "only the event that it was at")
	})
}

func TestInformerLetsAHandlerRemoveItself(t *testing.T) {
	eachInformer(t, setting{}, func(r *rig) {
		door := r.gate()
		var registration toolscache.ResourceEventHandlerRegistration
		h := &recording{before: func(string) {
			door.pass()
			r.Expect(r.informer.RemoveEventHandler(registration)).To(Succeed())
		}}
		registration = r.handle(h)
		r.server.put(configMap("ns/a", "1"))
		r.start()
		r.server.put(configMap("ns/a", "2"))
		r.settle()
		door.open()
		r.settle()
		r.Expect(h.take()).To(Equal([]string{"initial ns/a=1"}))
	})
}

func TestInformerLetsAHandlerAddAnother(t *testing.T) {
	eachInformer(t, setting{}, func(r *rig) {
		second := &recording{}
		first := &recording{before: func(event string) {
			if event == "add ns/b=1" {
				r.handle(second)
			}
		}}
		r.handle(first)
		r.server.put(configMap("ns/a", "1"))
		r.start()
		r.server.put(configMap("ns/b", "1"))
		r.settle()
		r.server.put(configMap("ns/b", "2"))
		r.settle()
		events := second.take()
		r.Expect(events).To(HaveLen(3))
		r.Expect(events[:2]).To(ConsistOf("initial ns/a=1", "initial ns/b=1"))
		r.Expect(events[2]).To(Equal("update ns/b=1>2"))
	})
}

func TestInformerShutsAHandlerDown(t *testing.T) {
	eachInformer(t, setting{}, func(r *rig) {
		door := r.gate()
		h := &recording{before: func(string) { door.pass() }}
		registration := r.handle(h)
		r.server.put(configMap("ns/a", "1"))
		r.start()
		shut := make(chan error, 1)
		go func() { shut <- toolscache.ShutDownEventHandler(r.informer, registration) }()
		r.settle()
		r.Expect(shut).NotTo(Receive(), "the handler is still at an event")
		door.open()
		r.settle()
		r.Expect(shut).To(Receive(BeNil()))
	})
}

func TestInformerShutsAHandlerDownThatDoesNotRun(t *testing.T) {
	eachInformer(t, setting{}, func(r *rig) {
		early, late := r.handle(&recording{}), r.handle(&recording{})
		r.Expect(toolscache.ShutDownEventHandler(r.informer, early)).To(Succeed())
		r.start()
		r.stop()
		r.Expect(toolscache.ShutDownEventHandler(r.informer, early)).To(Succeed())
		r.Expect(toolscache.ShutDownEventHandler(r.informer, late)).To(Succeed())
	})
}

func TestInformerRefusesAForeignRegistration(t *testing.T) {
	eachInformer(t, setting{}, func(r *rig) {
		type foreign struct {
			toolscache.ResourceEventHandlerRegistration
		}
		r.Expect(r.informer.RemoveEventHandler(foreign{})).NotTo(Succeed())
	})
}

func TestInformerDoesNotLetASlowHandlerDelayAnother(t *testing.T) {
	eachInformer(t, setting{}, func(r *rig) {
		door := r.gate()
		slow, quick := &recording{before: func(string) { door.pass() }}, &recording{}
		r.handle(slow)
		r.handle(quick)
		r.server.put(configMap("ns/a", "1"))
		r.start()
		r.server.put(configMap("ns/a", "2"))
		r.settle()
		r.Expect(slow.take()).To(BeEmpty())
		r.Expect(quick.take()).To(Equal([]string{"initial ns/a=1", "update ns/a=1>2"}))
		door.open()
		r.settle()
		r.Expect(slow.take()).To(Equal([]string{"initial ns/a=1", "update ns/a=1>2"}))
	})
}

// Client-go queues every event for a slow handler. Ours keeps a window of them, and
// beyond that one event a key.
func TestInformerBoundsWhatASlowHandlerMissed(t *testing.T) {
	const updates, keys = 4 * conformanceWindow, 10
	eachInformer(t, setting{}, func(r *rig) {
		door := r.gate()
		slow := &recording{before: func(string) { door.pass() }}
		quick := &recording{}
		r.server.put(configMap("ns/first", "0"))
		r.handle(slow)
		r.handle(quick)
		r.start()
		for i := range updates {
			r.server.put(configMap("ns/"+strconv.Itoa(i%keys), strconv.Itoa(i)))
		}
		r.settle()
		quick.take() // how many it got depends on its own pace
		door.open()
		r.settle()

		events := slow.take()
		state, err := replay(events)
		r.Expect(err).NotTo(HaveOccurred())
		r.Expect(state).To(Equal(r.server.state()))
		r.Expect(strings.HasPrefix(events[0], "initial ")).To(BeTrue())
		if r.impl.ours {
			r.Expect(len(events) - 1).To(BeNumerically("<=", r.impl.window+keys))
		} else {
			r.Expect(events).To(HaveLen(updates + 1))
		}
	})
}
