// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"context"
	"fmt"
	"reflect"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/projection"
)

// given is a source whose events and lists are given.
type given struct{ example, list runtime.Object }

func (s given) Example() runtime.Object { return s.example }
func (s given) List(context.Context, metav1.ListOptions) (runtime.Object, error) {
	return s.list, nil
}
func (s given) Watch(context.Context, metav1.ListOptions) (watch.Interface, error) { return nil, nil }
func (s given) Finish(e watch.Event) watch.Event                                   { return e }

// redAlone keeps red objects.
func redAlone() *projection.Rule {
	return projection.RuleOf([]client.ListOptions{{LabelSelector: labels.SelectorFromSet(labels.Set{"color": "red"})}}, nil)
}

// TestOnlyObjectsOfTheKindLeave: an error, a bookmark, and an object of another kind stay what they are.
func TestOnlyObjectsOfTheKindLeave(t *testing.T) {
	red, blue := metav1.ObjectMeta{Name: "x", Labels: map[string]string{"color": "red"}}, metav1.ObjectMeta{Name: "x", Namespace: "n", UID: "u", ResourceVersion: "7"}
	table := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": "Table", "metadata": map[string]any{"resourceVersion": "7"}}}
	source := (&Target{Rule: redAlone()}).Projected(given{example: &corev1.ConfigMap{}})
	for _, test := range []struct {
		event  watch.Event
		wanted string
	}{
		{watch.Event{Type: watch.Added, Object: &corev1.ConfigMap{ObjectMeta: red}}, "ADDED *v1.ConfigMap"},
		{watch.Event{Type: watch.Deleted, Object: &corev1.ConfigMap{ObjectMeta: red}}, "DELETED *v1.ConfigMap"},
		{watch.Event{Type: watch.Added, Object: &corev1.ConfigMap{ObjectMeta: blue}}, "DELETED projection.Left"},
		{watch.Event{Type: watch.Modified, Object: &corev1.ConfigMap{ObjectMeta: blue}}, "DELETED projection.Left"},
		{watch.Event{Type: watch.Deleted, Object: &corev1.ConfigMap{ObjectMeta: blue}}, "DELETED projection.Left"},
		{watch.Event{Type: watch.Bookmark, Object: &corev1.ConfigMap{ObjectMeta: blue}}, "BOOKMARK *v1.ConfigMap"},
		{watch.Event{Type: watch.Error, Object: &metav1.Status{}}, "ERROR *v1.Status"},
		{watch.Event{Type: watch.Error, Object: &corev1.ConfigMap{ObjectMeta: blue}}, "ERROR *v1.ConfigMap"},
		{watch.Event{Type: watch.Added, Object: &corev1.Secret{ObjectMeta: blue}}, "ADDED *v1.Status"},
		{watch.Event{Type: watch.Added, Object: table}, "ADDED *v1.Status"},
		{watch.Event{Type: "ODD", Object: &corev1.ConfigMap{ObjectMeta: blue}}, "ODD *v1.ConfigMap"},
	} {
		got := kindOf(&corev1.ConfigMap{}).check(source.Finish(test.event))
		NewWithT(t).Expect(fmt.Sprintf("%s %T", got.Type, got.Object)).To(Equal(test.wanted), "%v", test.event)
		if left, ok := got.Object.(projection.Left); ok {
			NewWithT(t).Expect(left.ObjectMeta).To(Equal(metav1.ObjectMeta{Name: "x", Namespace: "n", UID: "u", ResourceVersion: "7"}))
		}
	}
}

// TestAMessageThatLeavesGivesItsBufferBack, and is not decoded, in either encoding.
func TestAMessageThatLeavesGivesItsBufferBack(t *testing.T) {
	g := NewWithT(t)
	blue := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "x", Labels: map[string]string{"color": "blue"}}, Data: map[string][]byte{"a": make([]byte, 1<<10)}}
	message, err := blue.Marshal()
	g.Expect(err).NotTo(HaveOccurred())
	target := &Target{Rule: redAlone()}
	source := target.Projected(given{example: blue}) // whose Finish would leave it undecoded
	received, ok := undecodedMessage(message, target.keep(blue))
	g.Expect(ok).To(BeTrue())
	g.Expect(received.left).To(BeTrue())
	g.Expect(len(received.protobuf)).To(BeNumerically("<", 100), "the metadata alone")
	g.Expect(source.Finish(watch.Event{Type: watch.Added, Object: received}).Object).To(BeAssignableToTypeOf(projection.Left{}))
	g.Expect(received.protobuf).To(BeNil(), "the buffer is back")

	odd := &undecoded{json: []byte(`{"metadata":{"name":"x"},"data":"no map"}`)}
	left := source.Finish(watch.Event{Type: watch.Modified, Object: odd})
	g.Expect(left.Type).To(Equal(watch.Deleted))
	g.Expect(left.Object.(projection.Left).Name).To(Equal("x"))
	wanted := &undecoded{json: []byte(`{"metadata":{"name":"x","labels":{"color":"red"}}}`)}
	g.Expect(source.Finish(watch.Event{Type: watch.Modified, Object: wanted}).Object).To(BeIdenticalTo(wanted), "the source decodes it")
}

// TestAListThatLosesNothingIsCutInPlace.
func TestAListThatLosesNothingIsCutInPlace(t *testing.T) {
	g := NewWithT(t)
	items := []corev1.ConfigMap{{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Data: map[string]string{"a": "b"}}, {ObjectMeta: metav1.ObjectMeta{Name: "b", Labels: map[string]string{"color": "red"}}}}
	list, err := (&Target{Rule: projection.RuleOf(nil, []string{"metadata"})}).Projected(given{&corev1.ConfigMap{}, &corev1.ConfigMapList{Items: items}}).List(t.Context(), metav1.ListOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(&list.(*corev1.ConfigMapList).Items[0]).To(BeIdenticalTo(&items[0]))
	g.Expect(items[0].Data).To(BeNil())
	list, err = (&Target{Rule: redAlone()}).Projected(given{&corev1.ConfigMap{}, list}).List(t.Context(), metav1.ListOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(list.(*corev1.ConfigMapList).Items).To(ConsistOf(HaveField("Name", "b")))
}

// ownType is a Go type of a program for a kind that client-go has too. It has no tags for protobuf.
type ownType struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
}

func (o *ownType) DeepCopyObject() runtime.Object { c := *o; return &c }

// TestOwnTypesAreCutWhenTheyAreDecoded: nobody knows their messages.
func TestOwnTypesAreCutWhenTheyAreDecoded(t *testing.T) {
	target := &Target{Kind: corev1.SchemeGroupVersion.WithKind("ConfigMap"), Rule: redAlone()}
	_, _, ok := target.keep(&ownType{})(nil, nil)
	NewWithT(t).Expect(ok).To(BeFalse())
	NewWithT(t).Expect(reflect.TypeOf(target.Projected(given{example: &ownType{}}))).To(Equal(reflect.TypeFor[*projected]()))
}
