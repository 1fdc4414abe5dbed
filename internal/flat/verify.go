// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package flat

import (
	"fmt"
	"maps"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tarn-dev/tarn/internal/flat/decode"
)

// MismatchError says that an Object was decoded to something else than was encoded. The cause is a
// bug of this package, or a change of the source object after its encoding.
type MismatchError struct {
	// Type is the type of the codec.
	Type reflect.Type
	// Path leads to the first difference.
	Path string
}

// Error names the type and the first difference.
func (e *MismatchError) Error() string {
	return fmt.Sprintf("flat: %v does not survive its flat form: first difference at %s", e.Type, e.Path)
}

// Verify decodes o and compares the result with obj, the object that was encoded. The comparison is
// that of reflect.DeepEqual: nil and empty values differ, and so do time zones and the formats and
// cached strings of quantities. An object with a NaN in it equals no other. Verify also compares
// the metadata that the methods of o return. The error is a *MismatchError that names the first
// difference, or an error of Decode.
func (c *Codec) Verify(obj any, o decode.Object) error {
	if _, err := c.root.Memory(obj); err != nil {
		return err
	}
	return c.verify(obj, o, true)
}

// verify is Verify, and decodes with values in slabs or singly.
func (c *Codec) verify(obj any, o decode.Object, inSlabs bool) error {
	got := reflect.New(c.root.Type)
	if err := decode.Decode(c.root, o, got.Interface(), inSlabs); err != nil {
		return err
	}
	if !reflect.DeepEqual(obj, got.Interface()) {
		path, _ := difference(reflect.ValueOf(obj).Elem(), got.Elem(), c.root.Type.Name())
		return &MismatchError{Type: c.root.Type, Path: path}
	}
	return c.verifyMetadata(obj, o)
}

// verifyMetadata compares the metadata that o returns with the metadata of obj, if obj has any. It
// does so even if the codec found no ObjectMeta in the type.
func (c *Codec) verifyMetadata(obj any, o decode.Object) error {
	m, err := meta.Accessor(obj)
	if err != nil {
		return nil
	}
	for name, values := range map[string][2]string{
		"namespace":       {m.GetNamespace(), o.Namespace()},
		"name":            {m.GetName(), o.Name()},
		"resourceVersion": {m.GetResourceVersion(), o.ResourceVersion()},
		"uid":             {string(m.GetUID()), o.UID()},
	} {
		if values[0] != values[1] {
			return &MismatchError{Type: c.root.Type, Path: fmt.Sprintf("metadata.%s, which is %q, and read from the bytes %q", name, values[0], values[1])}
		}
	}
	if !sameStrings(maps.Collect(o.Labels()), m.GetLabels()) || !sameStrings(maps.Collect(o.Annotations()), m.GetAnnotations()) {
		return &MismatchError{Type: c.root.Type, Path: "labels or annotations read from the bytes"}
	}
	if c.root.IsContent() {
		return nil // what is no metadata is an error of DecodeMetadata, and nothing for the methods
	}
	var read metav1.ObjectMeta
	if err := o.DecodeMetadata(&read); err != nil {
		return err
	}
	if want := meta.AsPartialObjectMetadata(m).ObjectMeta; !reflect.DeepEqual(want, read) {
		path, _ := difference(reflect.ValueOf(want), reflect.ValueOf(read), "metadata")
		return &MismatchError{Type: c.root.Type, Path: path + " read from the bytes"}
	}
	return nil
}

// sameStrings says whether two maps are equal; nil equals empty.
func sameStrings(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if w, ok := b[k]; !ok || v != w {
			return false
		}
	}
	return true
}

// difference returns the path of the first difference between a and b, which are of one type. It
// returns false if they are equal.
func difference(a, b reflect.Value, path string) (string, bool) {
	if !a.CanInterface() || a.Type() == reflect.TypeFor[time.Time]() {
		return path, true
	}
	if reflect.DeepEqual(a.Interface(), b.Interface()) {
		return "", false
	}
	switch a.Kind() {
	case reflect.Struct:
		for i := range a.NumField() {
			if f := a.Type().Field(i); f.IsExported() {
				if p, ok := difference(a.Field(i), b.Field(i), path+"."+f.Name); ok {
					return p, true
				}
			}
		}
	case reflect.Pointer, reflect.Interface:
		if !a.IsNil() && !b.IsNil() && a.Elem().Type() == b.Elem().Type() {
			return difference(a.Elem(), b.Elem(), path)
		}
	case reflect.Slice:
		if a.Len() == b.Len() && a.IsNil() == b.IsNil() {
			for i := range a.Len() {
				if p, ok := difference(a.Index(i), b.Index(i), fmt.Sprintf("%s[%d]", path, i)); ok {
					return p, true
				}
			}
		}
	case reflect.Map:
		return mapDifference(a, b, path)
	}
	return path, true
}

// mapDifference is difference for maps.
func mapDifference(a, b reflect.Value, path string) (string, bool) {
	if a.Len() != b.Len() || a.IsNil() != b.IsNil() {
		return path, true
	}
	for _, k := range a.MapKeys() {
		at := fmt.Sprintf("%s[%v]", path, k)
		v, w := a.MapIndex(k), b.MapIndex(k)
		if !w.IsValid() {
			return at, true
		}
		if p, ok := difference(v, w, at); ok {
			return p, true
		}
	}
	return path, true
}
