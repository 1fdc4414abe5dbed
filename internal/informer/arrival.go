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

// arrival is an object on its way from a watch through the Reflector into the engine, together
// with what is kept of it. The source makes it where it decodes the object, for several at once.
// The Reflector sees an object with the metadata and the kind of the one inside.
type arrival struct {
	object   runtime.Object // for the handlers
	metadata metav1.Object  // of object
	kept     object.Object
}

var (
	_ runtime.Object            = (*arrival)(nil)
	_ metav1.ObjectMetaAccessor = (*arrival)(nil)
)

// GetObjectMeta implements metav1.ObjectMetaAccessor.
func (a *arrival) GetObjectMeta() metav1.Object { return a.metadata }

// GetObjectKind implements runtime.Object.
func (a *arrival) GetObjectKind() schema.ObjectKind { return a.object.GetObjectKind() }

// DeepCopyObject implements runtime.Object. What an arrival refers to is never changed.
func (a *arrival) DeepCopyObject() runtime.Object { c := *a; return &c }

// arrive returns an event with an arrival in place of an object that is to be kept. Other events
// stay as they are. With a transform all events do: it is the user's, and is called for one
// object at a time, in the order of the events. client-go's detector of inconsistencies wants to
// see the objects as well.
func (in *intake) arrive(e watch.Event) watch.Event {
	if in.transform != nil || consistencydetector.IsDataConsistencyDetectionForWatchListEnabled() ||
		e.Type != watch.Added && e.Type != watch.Modified {
		return e
	}
	m, err := meta.Accessor(e.Object)
	if err != nil {
		return e // the Reflector knows what to say
	}
	e.Object = &arrival{object: e.Object, metadata: m, kept: in.form.Keep(e.Object)}
	return e
}
