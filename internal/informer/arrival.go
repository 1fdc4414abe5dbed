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

// arrival is an object on its way from a watch through the Reflector into the
// engine, with what is kept of it: that is made where the object is decoded, for
// several at once. To the Reflector it is an object like any other; only what that
// asks for is there.
type arrival struct {
	metav1.Object // nil
	kept          object.Object
	source        any // the object itself, for the handlers
	version       string
}

var _ runtime.Object = (*arrival)(nil)

func (a *arrival) GetNamespace() string              { return a.kept.Namespace() }
func (a *arrival) GetName() string                   { return a.kept.Name() }
func (a *arrival) GetResourceVersion() string        { return a.version }
func (a *arrival) GetAnnotations() map[string]string { return nil }
func (a *arrival) GetObjectKind() schema.ObjectKind  { return schema.EmptyObjectKind }
func (a *arrival) DeepCopyObject() runtime.Object    { c := *a; return &c }

// arrive makes an arrival of the object of an event that is to be kept. Other events
// stay as they are, and so do all if there is a transform: that is the user's, and is
// called for one object at a time, in the order of the events. client-go's detector of
// inconsistencies wants to see the objects as well.
func (in *intake) arrive(event watch.Event) watch.Event {
	if in.transform != nil || consistencydetector.IsDataConsistencyDetectionForWatchListEnabled() ||
		event.Type != watch.Added && event.Type != watch.Modified {
		return event
	}
	m, err := meta.Accessor(event.Object)
	if err != nil {
		return event // the Reflector knows what to say
	}
	event.Object = &arrival{
		kept:    in.informer.form.Keep(event.Object),
		source:  event.Object,
		version: m.GetResourceVersion(),
	}
	return event
}
