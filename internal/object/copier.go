// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
)

// Copier deep-copies objects of one type. It uses DeepCopyInto, which every generated type has in
// addition to DeepCopyObject: DeepCopyInto writes straight to the target, while DeepCopyObject
// allocates an object for each copy.
type Copier struct {
	into reflect.Value // func(in, out *T), or invalid
}

var copiers sync.Map // reflect.Type (a pointer type) to Copier; types do not change

// CopierFor returns the copier of a pointer type.
func CopierFor(t reflect.Type) Copier {
	if known, ok := copiers.Load(t); ok {
		return known.(Copier)
	}
	made := Copier{}
	// The signature is checked because a type that embeds another API type has the DeepCopyInto
	// method of the embedded type.
	if m, ok := t.MethodByName("DeepCopyInto"); ok && m.Type == reflect.FuncOf([]reflect.Type{t, t}, nil, false) {
		made.into = m.Func
	}
	copiers.Store(t, made)
	return made
}

// CopyInto overwrites the object that out points to with a deep copy of obj. Both are of the
// copier's type.
func (c Copier) CopyInto(obj runtime.Object, out reflect.Value) {
	if c.into.IsValid() {
		c.into.Call([]reflect.Value{reflect.ValueOf(obj), out})
		return
	}
	out.Elem().Set(reflect.ValueOf(obj.DeepCopyObject()).Elem())
}
