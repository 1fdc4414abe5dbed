// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package reader

import (
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// fill replaces the items of out by those given.
func fill(out client.ObjectList, items []item, disableDeepCopy *bool) error {
	target, err := meta.GetItemsPtr(out)
	if err != nil {
		return fmt.Errorf("cannot list into %T: %w", out, err)
	}
	slice := reflect.ValueOf(target).Elem()
	elem := slice.Type().Elem()
	if elem.Kind() != reflect.Struct || elem == rawExtension {
		return fillAny(out, items, disableDeepCopy)
	}

	filled := reflect.MakeSlice(slice.Type(), len(items), len(items))
	want := reflect.PointerTo(elem)
	copier := copierFor(want)
	for i, it := range items {
		if have := reflect.TypeOf(it.obj); have != want {
			return fmt.Errorf("cannot list %s into %T: its items are %s, the cache holds %s", it.from.gvk.Kind, out, elem, have)
		}
		slot := filled.Index(i)
		if it.from.shares(disableDeepCopy) {
			slot.Set(reflect.ValueOf(it.obj).Elem())
			continue
		}
		copier.copyInto(it.obj, slot.Addr())
		slot.Addr().Interface().(client.Object).GetObjectKind().SetGroupVersionKind(it.from.gvk)
	}
	slice.Set(filled)
	return nil
}

// rawExtension is the item type of lists of mixed kinds.
var rawExtension = reflect.TypeFor[runtime.RawExtension]()

// fillAny serves lists whose items are not plain structs: pointers, interfaces
// and raw extensions.
func fillAny(out client.ObjectList, items []item, disableDeepCopy *bool) error {
	objs := make([]runtime.Object, len(items))
	for i, it := range items {
		if it.from.shares(disableDeepCopy) {
			objs[i] = it.obj
			continue
		}
		objs[i] = it.obj.DeepCopyObject()
		objs[i].GetObjectKind().SetGroupVersionKind(it.from.gvk)
	}
	if err := meta.SetList(out, objs); err != nil {
		return fmt.Errorf("cannot list into %T: %w", out, err)
	}
	return nil
}
