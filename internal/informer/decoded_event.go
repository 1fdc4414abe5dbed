// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informer

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/util/consistencydetector"

	"github.com/tarn-dev/tarn/internal/object"
)

// decodedEvent is an object on its way from a watch, through the Reflector or Follow, into the engine, with what
// the informer keeps of it. The source makes it where it decodes the object, for several at once.
// Both see an object with the metadata and the kind of the one inside.
type decodedEvent struct {
	object   runtime.Object // for the handlers; nil if they have to make it of kept
	metadata metav1.Object  // of the object
	kept     object.Object
}

var (
	_ runtime.Object            = (*decodedEvent)(nil)
	_ metav1.ObjectMetaAccessor = (*decodedEvent)(nil)
)

// GetObjectMeta implements metav1.ObjectMetaAccessor.
func (a *decodedEvent) GetObjectMeta() metav1.Object { return a.metadata }

// GetObjectKind implements runtime.Object.
func (a *decodedEvent) GetObjectKind() schema.ObjectKind {
	if a.object == nil {
		return schema.EmptyObjectKind // as that of objects that were read from protobuf
	}
	return a.object.GetObjectKind()
}

// DeepCopyObject implements runtime.Object. The copy is shallow: the object of a decodedEvent is
// never changed.
func (a *decodedEvent) DeepCopyObject() runtime.Object { c := *a; return &c }

// decodes says whether the source makes a decodedEvent of an event of a type. With a transform it does not:
// that is the user's, and is called for one object at a time, in the order of the events. client-go's
// detector of inconsistencies wants to see the objects as well.
func (in *reflectorStore) decodes(t watch.EventType) bool {
	return in.transform == nil && !consistencydetector.IsDataConsistencyDetectionForWatchListEnabled() &&
		(t == watch.Added || t == watch.Modified)
}

// decode returns an event with a decodedEvent in place of an object that is to be kept. Other events
// stay as they are.
func (in *reflectorStore) decode(e watch.Event) watch.Event {
	if !in.decodes(e.Type) {
		return e
	}
	m, err := meta.Accessor(e.Object)
	if err != nil {
		return e // the Reflector knows what to say
	}
	e.Object = &decodedEvent{object: e.Object, metadata: m, kept: in.form.Keep(e.Object)}
	return e
}

// keepMessage returns the decodedEvent of an object that came as a protobuf message, mostly without decoding it. It returns nil if
// the object must be decoded first, see decode. If there are handlers, the object is made for them here, where
// several are made at once: they would have to wait for it. An initial list is told from the state.
func (in *reflectorStore) keepMessage(t watch.EventType, message []byte) runtime.Object {
	if !in.decodes(t) {
		return nil
	}
	var previous func(namespace, name string) object.Object
	if t == watch.Modified {
		previous = in.previous
	}
	kept, made, ok := in.form.KeepMessage(message, in.handled.Load() && in.complete.Load(), previous)
	if !ok {
		return nil
	}
	a := &decodedEvent{kept: kept, metadata: &metav1.ObjectMeta{
		Namespace: kept.Namespace(), Name: kept.Name(), UID: kept.UID(), ResourceVersion: kept.ResourceVersion(),
	}}
	if made != nil {
		a.object = made.(runtime.Object)
	}
	return a
}

// previous returns the object of that name that is in the engine now, or the zero Object.
func (in *reflectorStore) previous(namespace, name string) object.Object {
	item, _ := in.engine.Get(object.Key(namespace, name))
	return item.Value
}
