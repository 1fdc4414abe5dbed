// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package kind

import (
	"maps"
	"reflect"
	"strings"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
)

// Merged returns a map with the entries of both. The entries of more win.
func Merged(base, more map[string]string) map[string]string {
	if len(more) == 0 {
		return base
	}
	out := maps.Clone(base)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, more)
	return out
}

// Each built-in type is a struct of TypeMeta, ObjectMeta, at most one field named Status, and the rest, which is the
// desired state: mostly one field named Spec. The functions here treat the parts alike for all types.

// clearStatus empties the status of obj.
func clearStatus(obj runtime.Object) {
	StatusOf(obj).SetZero()
}

// CopyStatus gives obj the status of from. Both share its memory afterwards.
func CopyStatus(obj, from runtime.Object) {
	StatusOf(obj).Set(StatusOf(from))
}

// copyDesired gives obj the desired state of from. Both share its memory afterwards.
func copyDesired(obj, from runtime.Object) {
	src := reflect.ValueOf(from).Elem()
	for i, dst := range desired(obj) {
		dst.Set(src.Field(i))
	}
}

// sameDesired reports whether two objects of one type have the same desired state, by API semantics: nil and empty are
// one, and quantities compare by value.
func sameDesired(a, b runtime.Object) bool {
	other := reflect.ValueOf(b).Elem()
	for i, field := range desired(a) {
		if !apiequality.Semantic.DeepEqual(field.Interface(), other.Field(i).Interface()) {
			return false
		}
	}
	return true
}

// desiredNames returns the JSON names of the fields that make up the desired state of obj.
func desiredNames(obj runtime.Object) []string {
	t := reflect.TypeOf(obj).Elem()
	var names []string
	for i := range desired(obj) {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}

// StatusOf returns the settable Status field of obj.
func StatusOf(obj runtime.Object) reflect.Value {
	return reflect.ValueOf(obj).Elem().FieldByName("Status")
}

// desired walks the settable fields of the desired state, with their index in the struct.
func desired(obj runtime.Object) func(yield func(int, reflect.Value) bool) {
	v := reflect.ValueOf(obj).Elem()
	t := v.Type()
	return func(yield func(int, reflect.Value) bool) {
		for i := range t.NumField() {
			switch t.Field(i).Name {
			case "TypeMeta", "ObjectMeta", "Status":
				continue
			}
			if !yield(i, v.Field(i)) {
				return
			}
		}
	}
}
