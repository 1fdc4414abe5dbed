// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package object_test

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
	"unsafe"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/flat"
	"github.com/tarn-dev/tarn/internal/object"
)

// metadata returns the metadata of an object of any type.
func metadata(g *WithT, obj client.Object) metav1.ObjectMeta {
	partial := metav1.PartialObjectMetadata{}
	if typed, ok := obj.(metav1.ObjectMetaAccessor); ok {
		if m, ok := typed.GetObjectMeta().(*metav1.ObjectMeta); ok {
			return *m
		}
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(content, &partial)).To(Succeed())
	return partial.ObjectMeta
}

// TestWhatIsKeptAnswersLikeItsSource asks all there is to ask of random objects.
func TestWhatIsKeptAnswersLikeItsSource(t *testing.T) {
	random := newRandom(t)
	for _, f := range forms() {
		t.Run(f.name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(f.Reason()).NotTo(HaveOccurred())
			for range 300 {
				source := f.random(random)
				want := source.DeepCopyObject()
				kept := f.Keep(source)
				g.Expect(kept.IsZero()).To(BeFalse())
				g.Expect(kept.IsFlat()).To(Equal(f.flat))
				g.Expect([]string{kept.Namespace(), kept.Name(), kept.ResourceVersion()}).
					To(Equal([]string{source.GetNamespace(), source.GetName(), source.GetResourceVersion()}))
				sameLabels(g, kept, source.GetLabels())

				into := f.empty()
				g.Expect(f.CopyInto(kept, into)).To(Succeed())
				g.Expect(into).To(Equal(want))
				g.Expect(f.Copy(kept)).To(Equal(want))
				g.Expect(f.Materialize(kept)).To(Equal(want))
				other := f.random(random)
				g.Expect(f.MaterializeReusing(kept, f.Keep(other), other)).To(Equal(want))
				g.Expect(f.MaterializeReusing(kept, object.Object{}, &metav1.Status{})).To(Equal(want))
				g.Expect(f.MaterializeReusing(kept, object.Object{}, nil)).To(Equal(want))
				g.Expect(f.Shared(kept)).To(Equal(want))
				into = f.empty()
				g.Expect(f.ShareInto(kept, into)).To(Succeed())
				g.Expect(into).To(Equal(want))

				m := metav1.ObjectMeta{Name: "left over", Finalizers: []string{"left over"}}
				g.Expect(f.MetadataInto(kept, &m)).To(Succeed())
				g.Expect(m).To(Equal(metadata(g, source)))
				g.Expect(source).To(Equal(want), "the source is as it was")
			}
		})
	}
}

func TestWhatIsMaterializedReusingAnotherSharesItsMemory(t *testing.T) {
	g := NewWithT(t)
	f := object.NewForm(object.Options{Type: reflect.TypeFor[*corev1.Pod](), Verify: true})
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "one"}}}}
	pod.ResourceVersion = "1"
	like := pod.DeepCopy()
	like.ResourceVersion = "2"
	made, err := f.MaterializeReusing(f.Keep(pod), f.Keep(like), like)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(made).To(Equal(pod))
	g.Expect(&made.(*corev1.Pod).Spec.Containers[0]).To(BeIdenticalTo(&like.Spec.Containers[0]))
}

func sameLabels(g *WithT, kept object.Object, want map[string]string) {
	for _, key := range []string{"label0", "label1", "label2", "label3", "label4", "label5", "label6", "label7", "", "none"} {
		value, has := want[key]
		got, ok := kept.Label(key)
		g.Expect([]any{got, ok}).To(Equal([]any{value, has}), "label %q", key)
		labels := kept.Labels()
		g.Expect(labels.Has(key)).To(Equal(has))
		g.Expect(labels.Get(key)).To(Equal(value))
		got, ok = labels.Lookup(key)
		g.Expect([]any{got, ok}).To(Equal([]any{value, has}), "label %q", key)
	}
}

func TestTheZeroObjectIsNone(t *testing.T) {
	g := NewWithT(t)
	var none object.Object
	g.Expect(none.IsZero()).To(BeTrue())
	g.Expect(none.IsFlat()).To(BeFalse())
	g.Expect(none.Namespace() + none.Name() + none.ResourceVersion()).To(BeEmpty())
	_, ok := none.Label("a")
	g.Expect(ok).To(BeFalse())
}

// TestCopiesAreTheCallersOwn spoils everything that can be reached from a copy, and
// then looks at a second one.
func TestCopiesAreTheCallersOwn(t *testing.T) {
	random := newRandom(t)
	for _, f := range forms() {
		t.Run(f.name, func(t *testing.T) {
			g := NewWithT(t)
			places := 0
			for range 100 {
				source := f.random(random)
				want, wantMeta := source.DeepCopyObject(), metadata(g, source.DeepCopyObject().(client.Object))
				kept := f.Keep(source)

				into, m := f.empty(), metav1.ObjectMeta{}
				g.Expect(f.CopyInto(kept, into)).To(Succeed())
				g.Expect(f.MetadataInto(kept, &m)).To(Succeed())
				made, err := f.Copy(kept)
				g.Expect(err).NotTo(HaveOccurred())
				for _, copied := range []any{into, &m, made} {
					places += spoil(reflect.ValueOf(copied))
				}

				g.Expect(f.Copy(kept)).To(Equal(want))
				g.Expect(f.Shared(kept)).To(Equal(want))
				g.Expect(f.MetadataInto(kept, &m)).To(Succeed())
				g.Expect(m).To(Equal(wantMeta))
			}
			g.Expect(places).To(BeNumerically(">", 1000), "the test reaches what it should")
		})
	}
}

// reusingAnother decodes o, as the old object of an update, with reuse of a new one.
func reusingAnother(g *WithT, f form, o object.Object, change func(metav1.Object)) metav1.Object {
	like, err := f.Copy(o)
	g.Expect(err).NotTo(HaveOccurred())
	newer := like.(metav1.Object)
	newer.SetResourceVersion("another version")
	change(newer)
	made, err := f.MaterializeReusing(o, f.Keep(newer), newer)
	g.Expect(err).NotTo(HaveOccurred())
	return made.(metav1.Object)
}

// reads are the ways to get at an object.
var reads = map[string]func(*WithT, form, object.Object) metav1.Object{
	"CopyInto": func(g *WithT, f form, o object.Object) metav1.Object {
		into := f.empty()
		g.Expect(f.CopyInto(o, into)).To(Succeed())
		return into
	},
	"Materialize": func(g *WithT, f form, o object.Object) metav1.Object {
		made, err := f.Materialize(o)
		g.Expect(err).NotTo(HaveOccurred())
		return made.(metav1.Object)
	},
	"MaterializeReusing": func(g *WithT, f form, o object.Object) metav1.Object {
		like, err := f.Copy(o)
		g.Expect(err).NotTo(HaveOccurred())
		made, err := f.MaterializeReusing(o, o, like)
		g.Expect(err).NotTo(HaveOccurred())
		return made.(metav1.Object)
	},
	"MaterializeReusing another version": func(g *WithT, f form, o object.Object) metav1.Object {
		return reusingAnother(g, f, o, func(metav1.Object) {})
	},
	"MaterializeReusing another object of that name": func(g *WithT, f form, o object.Object) metav1.Object {
		return reusingAnother(g, f, o, func(m metav1.Object) { m.SetUID("yet another") })
	},
	"MaterializeReusing an object of another dictionary": func(g *WithT, f form, o object.Object) metav1.Object {
		f.Renew()
		return reusingAnother(g, f, o, func(metav1.Object) {})
	},
	"MetadataInto": func(g *WithT, f form, o object.Object) metav1.Object {
		into := &metav1.ObjectMeta{}
		g.Expect(f.MetadataInto(o, into)).To(Succeed())
		return into
	},
}

// TestWhatUsersKeepOfAnObjectDoesNotKeepTheObject reads each flat object twice: strings
// that point into its bytes would be the same.
func TestWhatUsersKeepOfAnObjectDoesNotKeepTheObject(t *testing.T) {
	random := newRandom(t)
	for _, f := range forms() {
		if !f.flat {
			continue
		}
		for name, read := range reads {
			t.Run(f.name+" "+name, func(t *testing.T) {
				g := NewWithT(t)
				for n := range 3 {
					source := f.random(random)
					source.SetNamespace([]string{"", "namespace", ""}[n])
					source.SetName(fmt.Sprint("a name that is seen once", n))
					source.SetUID(types.UID([]string{"", "a UID", "another"}[n]))
					kept := f.Keep(source)
					one, other := read(g, f, kept), read(g, f, kept)
					for _, get := range []func(metav1.Object) string{
						metav1.Object.GetNamespace, metav1.Object.GetName, func(o metav1.Object) string { return string(o.GetUID()) },
					} {
						g.Expect(get(one)).To(Equal(get(source)))
						if get(one) != "" {
							g.Expect(unsafe.StringData(get(one))).NotTo(BeIdenticalTo(unsafe.StringData(get(other))), get(one))
						}
					}
				}
			})
		}
	}
}

func TestAnotherTypeIsRefused(t *testing.T) {
	random := newRandom(t)
	for _, f := range forms() {
		t.Run(f.name, func(t *testing.T) {
			g := NewWithT(t)
			kept := f.Keep(f.random(random))
			message := MatchError(And(ContainSubstring("cache had type "), ContainSubstring("*v1.Node was asked for")))
			g.Expect(f.CopyInto(kept, &corev1.Node{})).To(message)
			g.Expect(f.ShareInto(kept, &corev1.Node{})).To(message)
		})
	}
}

// closed is an object whose type flat refuses.
type closed struct {
	corev1.Pod
	state func()
}

func (c *closed) DeepCopyObject() runtime.Object {
	return &closed{Pod: *c.DeepCopy(), state: c.state}
}

func TestATypeThatFlatRefusesStaysDecoded(t *testing.T) {
	g := NewWithT(t)
	f := object.NewForm(object.Options{Type: reflect.TypeFor[*closed](), Verify: true})
	var unsupported *flat.UnsupportedError
	g.Expect(errors.As(f.Reason(), &unsupported)).To(BeTrue(), "%v", f.Reason())
	g.Expect(unsupported.Path).To(ContainSubstring("state"))

	source := &closed{Pod: corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"b": "c"}}}}
	kept := f.Keep(source)
	g.Expect(kept.IsFlat()).To(BeFalse())
	into := &closed{}
	g.Expect(f.CopyInto(kept, into)).To(Succeed())
	g.Expect(into).To(Equal(source))
	into.Labels["b"] = "changed"
	g.Expect(source.Labels).To(HaveKeyWithValue("b", "c"))
	g.Expect(f.Stale(1)).To(BeFalse())
	g.Expect(f.Renew()(kept)).To(Equal(kept))
}

func TestAnObjectThatFlatRefusesStaysDecoded(t *testing.T) {
	g := NewWithT(t)
	f := object.NewForm(object.Options{Type: reflect.TypeFor[*appsv1.ControllerRevision](), Verify: true})
	g.Expect(f.Reason()).NotTo(HaveOccurred())
	plain := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: "plain"}, Data: runtime.RawExtension{Raw: []byte(`{}`)}}
	odd := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: "odd"}, Data: runtime.RawExtension{Object: &corev1.Pod{}}}
	g.Expect(f.Keep(plain).IsFlat()).To(BeTrue())
	kept := f.Keep(odd)
	g.Expect(kept.IsFlat()).To(BeFalse())
	g.Expect(kept.Name()).To(Equal("odd"))
	g.Expect(f.Copy(kept)).To(And(Equal(odd), Not(BeIdenticalTo(odd))))
	g.Expect(f.Shared(kept)).To(BeIdenticalTo(odd))
	g.Expect(f.Renew()(kept)).To(Equal(kept), "there is nothing to move")
}

// stub is what a transform might put in place of an object: it has metadata, and is no
// runtime.Object.
type stub struct{ metav1.ObjectMeta }

func TestWhatATransformMade(t *testing.T) {
	for _, f := range forms()[:2] {
		t.Run(f.name, func(t *testing.T) {
			g := NewWithT(t)
			f.Declare("field", func(o client.Object) []string { return []string{o.GetName()} })

			partial := f.Keep(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "p", Labels: map[string]string{"a": "b"}}})
			g.Expect(partial.IsFlat()).To(BeFalse())
			g.Expect(values(f.Form, partial, "field")).To(Equal([]string{"p"}))
			g.Expect(f.CopyInto(partial, &metav1.PartialObjectMetadata{})).To(Succeed())
			g.Expect(f.CopyInto(partial, &corev1.Pod{})).To(MatchError(ContainSubstring("cache had type *v1.PartialObjectMetadata, but *v1.Pod was asked for")))

			thing := &stub{metav1.ObjectMeta{Namespace: "n", Name: "s", ResourceVersion: "7", Labels: map[string]string{"a": "b"}}}
			kept := f.Keep(thing)
			g.Expect([]string{kept.Namespace(), kept.Name(), kept.ResourceVersion(), kept.Labels().Get("a")}).To(Equal([]string{"n", "s", "7", "b"}))
			g.Expect(values(f.Form, kept, "field")).To(BeEmpty(), "fields are of objects")
			g.Expect(f.Materialize(kept)).To(BeIdenticalTo(thing))
			m := metav1.ObjectMeta{}
			g.Expect(f.MetadataInto(kept, &m)).To(Succeed())
			g.Expect(m).To(Equal(thing.ObjectMeta))
			_, err := f.Copy(kept)
			for _, err := range []error{err, f.CopyInto(kept, &corev1.Pod{}), f.ShareInto(kept, &corev1.Pod{})} {
				g.Expect(err).To(MatchError(And(ContainSubstring("stub"), ContainSubstring("check the transform"))))
			}
		})
	}
}
