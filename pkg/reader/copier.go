// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package reader

import (
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
)

// copier deep-copies objects of one type. DeepCopyObject would make an object of
// its own for each copy; DeepCopyInto, which every generated type has beside it,
// writes straight to where the copy is wanted.
type copier struct {
	into reflect.Value // func(in, out *T), or invalid
}

var copiers sync.Map // reflect.Type (a pointer type) to copier; types do not change

func copierFor(t reflect.Type) copier {
	if known, ok := copiers.Load(t); ok {
		return known.(copier)
	}
	made := copier{}
	// The signature is checked because a type that embeds another API type has
	// that one's DeepCopyInto promoted to it.
	if m, ok := t.MethodByName("DeepCopyInto"); ok && m.Type == reflect.FuncOf([]reflect.Type{t, t}, nil, false) {
		made.into = m.Func
	}
	copiers.Store(t, made)
	return made
}

// copyInto replaces what out points to by a deep copy of obj. Both are of the
// copier's type.
func (c copier) copyInto(obj runtime.Object, out reflect.Value) {
	if c.into.IsValid() {
		c.into.Call([]reflect.Value{reflect.ValueOf(obj), out})
		return
	}
	out.Elem().Set(reflect.ValueOf(obj.DeepCopyObject()).Elem())
}
