// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informer

import (
	"context"
	"fmt"
	"reflect"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/listwatch"
)

// views is an informer of unstructured ConfigMaps with a view of each kind.
type views struct {
	*WithT
	server                   *server
	base                     *Informer
	typed, content, metadata *View
	ends                     map[*View]func() // ends a view, and waits for it
}

// withViews runs check in a bubble, on an informer that runs with its views.
func withViews(t *testing.T, check func(v *views)) {
	synctest.Test(t, func(t *testing.T) {
		v := &views{WithT: NewWithT(t), server: newServer(&corev1.ConfigMap{}, false), ends: map[*View]func(){}}
		var err error
		v.base, err = New(func(to Receiver) toolscache.ListerWatcher {
			return listwatch.New(unstructuredSource{serverSource{v.server}}, listwatch.Options{Each: to.Each})
		}, Options{Example: &unstructured.Unstructured{}, NamespaceIndex: true, Verify: true})
		v.Expect(err).NotTo(HaveOccurred())
		run := func(informer toolscache.SharedIndexInformer) func() {
			ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), logr.Discard()))
			done := make(chan struct{})
			go func() { defer close(done); informer.RunWithContext(ctx) }()
			return func() { cancel(); <-done }
		}
		for space, made := range map[string]struct {
			view    **View
			example client.Object
		}{
			"typed/":    {&v.typed, &corev1.ConfigMap{}},
			"content/":  {&v.content, &unstructured.Unstructured{}},
			"metadata/": {&v.metadata, &metav1.PartialObjectMetadata{}},
		} {
			*made.view, err = NewView(v.base, made.example, space)
			v.Expect(err).NotTo(HaveOccurred())
			end := run(*made.view)
			v.ends[*made.view] = end
			t.Cleanup(end)
		}
		t.Cleanup(run(v.base))
		check(v)
	})
}

// received keeps the objects that a handler is told of.
type received struct{ added, updated, deleted []any }

func (r *received) OnAdd(obj any, _ bool)    { r.added = append(r.added, obj) }
func (r *received) OnUpdate(before, obj any) { r.updated = append(r.updated, before, obj) }
func (r *received) OnDelete(obj any)         { r.deleted = append(r.deleted, obj) }

func (v *views) handle(view *View) *received {
	r := &received{}
	_, err := view.AddEventHandler(r)
	v.Expect(err).NotTo(HaveOccurred())
	return r
}

// odd returns a ConfigMap with a field that the Go type does not know.
func odd(name, value string) *unstructured.Unstructured {
	u := toUnstructured(configMap("ns/"+name, value))
	u.Object["unknown"] = map[string]any{"kept": true}
	return u
}

func TestHandlersOfEachViewGetItsRepresentation(t *testing.T) {
	withViews(t, func(v *views) {
		typed, again, content, metadata := v.handle(v.typed), v.handle(v.typed), v.handle(v.content), v.handle(v.metadata)
		synctest.Wait()
		v.server.put(odd("a", "1"))
		synctest.Wait()
		v.server.put(odd("a", "2"))
		synctest.Wait()
		v.server.remove("ns/a")
		synctest.Wait()

		for r, like := range map[*received]apiruntime.Object{typed: &corev1.ConfigMap{}, content: &unstructured.Unstructured{}, metadata: &metav1.PartialObjectMetadata{}} {
			v.Expect(r.added).To(HaveLen(1))
			v.Expect(r.updated).To(HaveLen(2))
			v.Expect(r.deleted).To(HaveLen(1))
			for _, obj := range append(append(r.added, r.updated...), r.deleted...) {
				v.Expect(reflect.TypeOf(obj)).To(Equal(reflect.TypeOf(like)))
				v.Expect(obj.(client.Object).GetName()).To(Equal("a"))
			}
		}
		v.Expect(content.added[0].(*unstructured.Unstructured).Object).To(HaveKeyWithValue("unknown", map[string]any{"kept": true}))
		v.Expect(typed.updated[1].(*corev1.ConfigMap).Data).To(Equal(v.newest(content)))
		v.Expect(again.added[0] == typed.added[0]).To(BeTrue(), "handlers of a view share the objects")
		v.Expect(again.updated[0] == typed.updated[0]).To(BeTrue())
	})
}

// newest returns the data of the newest object that a handler of content was told of.
func (v *views) newest(r *received) map[string]string {
	data, _, err := unstructured.NestedStringMap(r.updated[1].(*unstructured.Unstructured).Object, "data")
	v.Expect(err).NotTo(HaveOccurred())
	return data
}

func TestTheEndOfAViewLeavesTheOthers(t *testing.T) {
	withViews(t, func(v *views) {
		typed, content := v.handle(v.typed), v.handle(v.content)
		v.server.put(odd("a", "1"))
		synctest.Wait()
		v.ends[v.typed]()
		v.server.put(odd("b", "1"))
		synctest.Wait()
		v.Expect(typed.added).To(HaveLen(1))
		v.Expect(content.added).To(HaveLen(2))
		v.Expect(v.typed.IsStopped()).To(BeTrue())
		v.Expect(v.content.IsStopped()).To(BeFalse())
		_, err := v.typed.AddEventHandler(typed)
		v.Expect(err).To(MatchError(errInformerStopped))
		v.Expect(v.typed.AddIndexers(toolscache.Indexers{"late": toolscache.MetaNamespaceIndexFunc})).To(MatchError(errInformerStopped))
	})
}

// Indexes of one name have the functions of their views.
func TestEachViewHasItsIndexes(t *testing.T) {
	withViews(t, func(v *views) {
		v.Expect(v.typed.AddField("typed/value", func(obj client.Object) []string {
			return []string{"typed " + obj.(*corev1.ConfigMap).Data["value"]}
		})).To(Succeed())
		v.server.put(odd("a", "1"))
		synctest.Wait()
		v.Expect(v.content.AddField("content/value", func(obj client.Object) []string {
			value, _, _ := unstructured.NestedString(obj.(*unstructured.Unstructured).Object, "data", "value")
			return []string{"content " + value}
		})).To(Succeed())
		v.server.put(odd("b", "1"))
		synctest.Wait()

		byName := func(obj any) ([]string, error) { return []string{fmt.Sprintf("%T", obj)}, nil }
		for view, x := range map[*View]struct{ field, value, typ string }{
			v.typed: {"typed/value", "typed 1", "*v1.ConfigMap"}, v.content: {"content/value", "content 1", "*unstructured.Unstructured"},
		} {
			v.Expect(view.AddIndexers(toolscache.Indexers{"type": byName})).To(Succeed())
			for name, value := range map[string]string{x.field: x.value, "type": x.typ} {
				found, err := view.GetIndexer().ByIndex(name, value)
				v.Expect(err).NotTo(HaveOccurred())
				v.Expect(found).To(HaveLen(2), "%s", name)
				v.Expect(view.GetIndexer().ListIndexFuncValues(name)).To(Equal([]string{value}))
			}
		}
		_, err := v.metadata.GetIndexer().ByIndex("type", "*v1.ConfigMap")
		v.Expect(err).To(MatchError(ContainSubstring("does not exist")))
	})
}

// An object that does not fit the Go type stops nobody else.
func TestAnObjectThatDoesNotFitIsMissingInItsViewAlone(t *testing.T) {
	withViews(t, func(v *views) {
		typed, content := v.handle(v.typed), v.handle(v.content)
		bad := odd("bad", "1")
		bad.Object["data"] = "no map"
		v.server.put(bad, odd("good", "1"))
		synctest.Wait()
		v.Expect(content.added).To(HaveLen(2))
		v.Expect(typed.added).To(HaveLen(1))
		v.Expect(v.typed.GetStore().List()).To(HaveLen(1))
		_, _, err := v.typed.GetStore().GetByKey("ns/bad")
		v.Expect(err).To(MatchError(ContainSubstring("ns/bad does not fit *v1.ConfigMap")))
	})
}

func TestAViewCannotBeWrittenTo(t *testing.T) {
	withViews(t, func(v *views) {
		store := v.typed.GetStore()
		for _, write := range []func(any) error{store.Add, store.Update, store.Delete} {
			v.Expect(write(configMap("ns/a", "1"))).To(MatchError(errReadOnly))
		}
		v.Expect(store.Replace(nil, "1")).To(MatchError(errReadOnly))
		v.Expect(v.typed.SetTransform(nil)).To(MatchError(errOwner))
	})
}

func TestOnlyUnstructuredObjectsHaveViews(t *testing.T) {
	base, err := New(noSource, Options{Example: &corev1.ConfigMap{}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewView(base, &unstructured.Unstructured{}, ""); err == nil {
		t.Error("a Go type may lack what the server sent")
	}
	if same, err := NewView(base, &corev1.ConfigMap{}, ""); err != nil || same.as != nil {
		t.Error("the type of the store needs no view", err)
	}
}

// A view adds no copy of the objects.
func TestThreeViewsTakeTheMemoryOfOne(t *testing.T) {
	const objects = 3000
	withViews(t, func(v *views) {
		for i := range objects {
			v.server.put(odd(fmt.Sprint("object-", i), fmt.Sprint(i)))
		}
		handle := func(view *View) {
			_, err := view.AddEventHandler(toolscache.ResourceEventHandlerFuncs{})
			v.Expect(err).NotTo(HaveOccurred())
			synctest.Wait()
		}
		heap := func() int {
			runtime.GC()
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return int(m.HeapAlloc)
		}
		handle(v.typed)
		one, store := heap(), 0
		for item := range v.base.Engine().Snapshot().Items("", "") {
			store += item.Value.Bytes()
		}
		handle(v.content)
		handle(v.metadata)
		v.Expect(v.content.GetStore().ListKeys()).To(HaveLen(objects))
		v.Expect(heap()-one).To(BeNumerically("<", store*15/100), "the objects take %d bytes", store)
	})
}
