// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"bytes"
	"fmt"
	"io"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// cachingObject is an object that many watchers are given. It is encoded once for each media
// type, and copied for whoever wants to change it: by GetObject, or by a setter.
type cachingObject struct {
	mu      sync.Mutex // guards what follows
	object  metaObject
	encoded map[runtime.Identifier]*encoding
}

type metaObject interface {
	runtime.Object
	metav1.Object
}

// encoding is the object in one media type.
type encoding struct {
	once  sync.Once
	bytes []byte
	err   error
}

var (
	_ runtime.CacheableObject = (*cachingObject)(nil)
	_ metaObject              = (*cachingObject)(nil)
)

// share returns obj, which must not be changed any more, as an object for many.
func share(obj runtime.Object) (*cachingObject, error) {
	m, ok := obj.(metaObject)
	if !ok {
		return nil, fmt.Errorf("a %T has no metadata and cannot be given to watchers", obj)
	}
	return &cachingObject{object: m}, nil
}

// CacheEncode implements runtime.CacheableObject.
func (o *cachingObject) CacheEncode(id runtime.Identifier, encode func(runtime.Object, io.Writer) error, w io.Writer) error {
	obj, e := o.encoding(id)
	e.once.Do(func() {
		var buffer bytes.Buffer
		// Encoders set the kind while they write, and so must have a copy.
		e.err = encode(obj.DeepCopyObject(), &buffer)
		e.bytes = buffer.Bytes()
	})
	if e.err != nil {
		return e.err
	}
	if s, ok := w.(runtime.Splice); ok {
		s.Splice(e.bytes)
		return nil
	}
	_, err := w.Write(e.bytes)
	return err
}

func (o *cachingObject) encoding(id runtime.Identifier) (metaObject, *encoding) {
	o.mu.Lock()
	defer o.mu.Unlock()
	e := o.encoded[id]
	if e == nil {
		if o.encoded == nil {
			o.encoded = map[runtime.Identifier]*encoding{}
		}
		e = &encoding{}
		o.encoded[id] = e
	}
	return o.object, e
}

// read returns the object, which does not change as long as nobody calls a setter.
func (o *cachingObject) read() metaObject {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.object
}

// write changes a copy, and forgets what was encoded.
func (o *cachingObject) write(change func(metaObject)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.object = o.object.DeepCopyObject().(metaObject)
	o.encoded = nil
	change(o.object)
}

// GetObject implements runtime.CacheableObject: it is the caller's own copy.
func (o *cachingObject) GetObject() runtime.Object { return o.read().DeepCopyObject() }

// GetObjectKind implements runtime.Object. To set the kind is to call a setter.
func (o *cachingObject) GetObjectKind() schema.ObjectKind { return cachingKind{o} }

type cachingKind struct{ object *cachingObject }

// GroupVersionKind implements schema.ObjectKind.
func (k cachingKind) GroupVersionKind() schema.GroupVersionKind {
	return k.object.read().GetObjectKind().GroupVersionKind()
}

// SetGroupVersionKind implements schema.ObjectKind.
func (k cachingKind) SetGroupVersionKind(kind schema.GroupVersionKind) {
	k.object.write(func(m metaObject) { m.GetObjectKind().SetGroupVersionKind(kind) })
}

// DeepCopyObject implements runtime.Object.
func (o *cachingObject) DeepCopyObject() runtime.Object {
	return &cachingObject{object: o.read().DeepCopyObject().(metaObject)}
}

// The following methods implement metav1.Object.

func (o *cachingObject) GetNamespace() string               { return o.read().GetNamespace() }
func (o *cachingObject) GetName() string                    { return o.read().GetName() }
func (o *cachingObject) GetGenerateName() string            { return o.read().GetGenerateName() }
func (o *cachingObject) GetUID() types.UID                  { return o.read().GetUID() }
func (o *cachingObject) GetResourceVersion() string         { return o.read().GetResourceVersion() }
func (o *cachingObject) GetGeneration() int64               { return o.read().GetGeneration() }
func (o *cachingObject) GetSelfLink() string                { return o.read().GetSelfLink() }
func (o *cachingObject) GetCreationTimestamp() metav1.Time  { return o.read().GetCreationTimestamp() }
func (o *cachingObject) GetDeletionTimestamp() *metav1.Time { return o.read().GetDeletionTimestamp() }
func (o *cachingObject) GetDeletionGracePeriodSeconds() *int64 {
	return o.read().GetDeletionGracePeriodSeconds()
}
func (o *cachingObject) GetLabels() map[string]string      { return o.read().GetLabels() }
func (o *cachingObject) GetAnnotations() map[string]string { return o.read().GetAnnotations() }
func (o *cachingObject) GetFinalizers() []string           { return o.read().GetFinalizers() }
func (o *cachingObject) GetOwnerReferences() []metav1.OwnerReference {
	return o.read().GetOwnerReferences()
}
func (o *cachingObject) GetManagedFields() []metav1.ManagedFieldsEntry {
	return o.read().GetManagedFields()
}

func (o *cachingObject) SetNamespace(v string) { o.write(func(m metaObject) { m.SetNamespace(v) }) }
func (o *cachingObject) SetName(v string)      { o.write(func(m metaObject) { m.SetName(v) }) }
func (o *cachingObject) SetGenerateName(v string) {
	o.write(func(m metaObject) { m.SetGenerateName(v) })
}
func (o *cachingObject) SetUID(v types.UID) { o.write(func(m metaObject) { m.SetUID(v) }) }
func (o *cachingObject) SetResourceVersion(v string) {
	o.write(func(m metaObject) { m.SetResourceVersion(v) })
}
func (o *cachingObject) SetGeneration(v int64) { o.write(func(m metaObject) { m.SetGeneration(v) }) }
func (o *cachingObject) SetSelfLink(v string)  { o.write(func(m metaObject) { m.SetSelfLink(v) }) }
func (o *cachingObject) SetCreationTimestamp(v metav1.Time) {
	o.write(func(m metaObject) { m.SetCreationTimestamp(v) })
}
func (o *cachingObject) SetDeletionTimestamp(v *metav1.Time) {
	o.write(func(m metaObject) { m.SetDeletionTimestamp(v) })
}
func (o *cachingObject) SetDeletionGracePeriodSeconds(v *int64) {
	o.write(func(m metaObject) { m.SetDeletionGracePeriodSeconds(v) })
}
func (o *cachingObject) SetLabels(v map[string]string) {
	o.write(func(m metaObject) { m.SetLabels(v) })
}
func (o *cachingObject) SetAnnotations(v map[string]string) {
	o.write(func(m metaObject) { m.SetAnnotations(v) })
}
func (o *cachingObject) SetFinalizers(v []string) {
	o.write(func(m metaObject) { m.SetFinalizers(v) })
}
func (o *cachingObject) SetOwnerReferences(v []metav1.OwnerReference) {
	o.write(func(m metaObject) { m.SetOwnerReferences(v) })
}
func (o *cachingObject) SetManagedFields(v []metav1.ManagedFieldsEntry) {
	o.write(func(m metaObject) { m.SetManagedFields(v) })
}
