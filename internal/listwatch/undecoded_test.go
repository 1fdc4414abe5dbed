// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
)

// plainPod is a type of a user's for Pods, which knows no protobuf.
type plainPod struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
}

func (p *plainPod) DeepCopyObject() runtime.Object {
	return &plainPod{TypeMeta: p.TypeMeta, ObjectMeta: *p.ObjectMeta.DeepCopy()}
}

// Of one object that cannot be decoded client-go makes an error event: the watch ends
// with it, and the program does not.
func TestAnEventThatCannotBeDecodedIsAnError(t *testing.T) {
	for name, test := range map[string]struct {
		example  runtime.Object
		received undecoded
	}{
		"protobuf of a type without":  {&plainPod{}, undecoded{protobuf: []byte{1}}},
		"nothing, of the same":        {&plainPod{}, undecoded{}},
		"protobuf cut short":          {&corev1.Pod{}, undecoded{protobuf: []byte{0x0a, 0x7f}}},
		"JSON of another form":        {&corev1.Pod{}, undecoded{json: []byte(`{"metadata":[]}`)}},
		"JSON cut short":              {&corev1.Pod{}, undecoded{json: []byte(`{"metadata":`)}},
		"JSON of a type without form": {&plainPod{}, undecoded{json: []byte(`1`)}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			scheme := runtime.NewScheme()
			scheme.AddKnownTypeWithName(podKind, test.example)
			s := &structured{scheme: scheme, gvk: podKind}
			event := s.Finish(watch.Event{Type: watch.Added, Object: &test.received})
			g.Expect(event.Type).To(Equal(watch.Error))
			g.Expect(event.Object.(*metav1.Status).Message).To(ContainSubstring("unable to decode"))
		})
	}
}

// The result of Message replaces an object that came as a protobuf message, and all other objects
// are decoded as usual.
func TestMessagesAreOfferedBeforeTheyAreDecoded(t *testing.T) {
	g := NewWithT(t)
	full := runtime.NewScheme()
	g.Expect(corev1.AddToScheme(full)).To(Succeed())
	message, err := (&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}}).Marshal()
	g.Expect(err).NotTo(HaveOccurred())
	from := watch.NewFakeWithChanSize(3, false)
	from.Modify(&undecoded{protobuf: message})
	from.Delete(&undecoded{protobuf: message})
	from.Add(&undecoded{json: []byte(`{"metadata":{"name":"b"}}`)})
	s := &watchedSource{Source: &structured{scheme: full, gvk: podKind, object: &corev1.Pod{}}, watch: from}
	placed := &metav1.Status{Message: "placed"}
	lw := New(s, Options{Message: func(e watch.EventType, got []byte) runtime.Object {
		g.Expect(got).To(Equal(message))
		if e == watch.Modified {
			return placed
		}
		return nil
	}})
	w, err := toolscache.ToListerWatcherWithContext(lw).WatchWithContext(t.Context(), metav1.ListOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	defer w.Stop()
	g.Expect(<-w.ResultChan()).To(Equal(watch.Event{Type: watch.Modified, Object: placed}))
	g.Expect((<-w.ResultChan()).Object.(*corev1.Pod).Name).To(Equal("a"))
	g.Expect((<-w.ResultChan()).Object.(*corev1.Pod).Name).To(Equal("b"))
}

// watchedSource is a source with a watch of its own.
type watchedSource struct {
	Source
	watch watch.Interface
}

func (s *watchedSource) Watch(context.Context, metav1.ListOptions) (watch.Interface, error) {
	return s.watch, nil
}
