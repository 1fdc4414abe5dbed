// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"reflect"
	"unique"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tarn-dev/tarn/internal/flat"
)

// Object is one kept object, flat or decoded. The zero Object holds no object.
type Object struct{ kept }

// kept stands apart, because the linker writes the fields of an Object into the name of each function that is generic over it.
type kept struct {
	flat    flat.Object
	decoded any                   // if flat is zero; a runtime.Object unless a transform made it something else
	terms   unique.Handle[string] // the values of the declared fields, see terms.go
	fields  *[]*declared          // of terms; nil if none were written down
}

// IsZero reports that o holds no object.
func (o Object) IsZero() bool { return o.flat.IsZero() && o.decoded == nil }

// IsFlat reports that the object is kept flat.
func (o Object) IsFlat() bool { return !o.flat.IsZero() }

// Identity identifies the flat object of an Object and its copies, as flat.Identity does. The zero
// Identity stands for no object, and for a decoded object.
type Identity struct{ flat flat.Identity }

// Identity returns the identity of o.
func (o Object) Identity() Identity {
	if !o.IsFlat() {
		return Identity{}
	}
	return Identity{o.flat.Identity()}
}

// Same reports whether o and other are one object in memory.
func (o Object) Same(other Object) bool {
	if o.IsFlat() || other.IsFlat() {
		return o.Identity() == other.Identity()
	}
	a, b := reflect.ValueOf(o.decoded), reflect.ValueOf(other.decoded)
	return a.Kind() == reflect.Pointer && b.Kind() == reflect.Pointer && a.UnsafePointer() == b.UnsafePointer()
}

// Bytes returns about how many bytes of memory o refers to, without its share of the dictionary.
// For a decoded object they are added up, which takes longer.
func (o Object) Bytes() int {
	if o.IsFlat() {
		return Allocated(o.flat.Size())
	}
	return MemoryOf(o.decoded)
}

// Namespace returns metadata.namespace.
func (o Object) Namespace() string {
	if o.IsFlat() {
		return o.flat.Namespace()
	}
	if m, err := meta.Accessor(o.decoded); err == nil {
		return m.GetNamespace()
	}
	return ""
}

// Name returns metadata.name.
func (o Object) Name() string {
	if o.IsFlat() {
		return o.flat.Name()
	}
	if m, err := meta.Accessor(o.decoded); err == nil {
		return m.GetName()
	}
	return ""
}

// UID returns metadata.uid.
func (o Object) UID() types.UID {
	if o.IsFlat() {
		return types.UID(o.flat.UID())
	}
	if m, err := meta.Accessor(o.decoded); err == nil {
		return m.GetUID()
	}
	return ""
}

// ResourceVersion returns metadata.resourceVersion.
func (o Object) ResourceVersion() string {
	if o.IsFlat() {
		return o.flat.ResourceVersion()
	}
	if m, err := meta.Accessor(o.decoded); err == nil {
		return m.GetResourceVersion()
	}
	return ""
}

// Label returns the label with that key, without decoding the object.
func (o Object) Label(key string) (value string, ok bool) {
	if o.IsFlat() {
		return o.flat.Label(key)
	}
	if m, err := meta.Accessor(o.decoded); err == nil {
		value, ok = m.GetLabels()[key]
	}
	return value, ok
}

// Labels implements labels.Labels on the labels of an object, without a copy.
type Labels struct{ object Object }

// Labels returns the labels.
func (o Object) Labels() Labels { return Labels{o} }

// Has implements labels.Labels.
func (l Labels) Has(key string) bool { _, ok := l.object.Label(key); return ok }

// Get implements labels.Labels.
func (l Labels) Get(key string) string { value, _ := l.object.Label(key); return value }

// Lookup implements labels.Labels.
func (l Labels) Lookup(key string) (string, bool) { return l.object.Label(key) }
