// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package reader

import (
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/object"
)

// fill replaces the items of out by those given.
func fill(out client.ObjectList, items *selected, disableDeepCopy *bool) error {
	target, err := meta.GetItemsPtr(out)
	if err != nil {
		return fmt.Errorf("cannot list into %T: %w", out, err)
	}
	slice := reflect.ValueOf(target).Elem()
	elem := slice.Type().Elem()
	if elem.Kind() != reflect.Struct || elem == rawExtension {
		return fillAny(out, items, disableDeepCopy)
	}

	filled := reflect.MakeSlice(slice.Type(), items.len(), items.len())
	for i, it := range items.each() {
		slot, ok := filled.Index(i).Addr().Interface().(runtime.Object)
		if !ok {
			return fmt.Errorf("cannot list %s into %T: its items are %s, which are no objects", it.from.gvk.Kind, out, elem)
		}
		if err := it.from.write(it.Value, slot, disableDeepCopy); err != nil {
			return fmt.Errorf("cannot list %s into %T: %w", it.from.gvk.Kind, out, err)
		}
	}
	slice.Set(filled)
	return nil
}

// write overwrites into with a copy, or with what is shared. A shared value is left as the store
// has it; a copy gets its kind.
func (r *CacheReader) write(o object.Object, into runtime.Object, disableDeepCopy *bool) error {
	write, shared := r.objects.CopyInto, r.shares(disableDeepCopy)
	if shared {
		write = r.objects.ShareInto
	}
	if err := write(o, into); err != nil {
		return err
	}
	if _, metadata := into.(*metav1.PartialObjectMetadata); metadata || !shared {
		into.GetObjectKind().SetGroupVersionKind(r.gvk)
	}
	return nil
}

// rawExtension is the item type of lists of mixed kinds.
var rawExtension = reflect.TypeFor[runtime.RawExtension]()

// fillAny serves lists whose items are not plain structs: pointers, interfaces
// and raw extensions.
func fillAny(out client.ObjectList, items *selected, disableDeepCopy *bool) error {
	objs := make([]runtime.Object, items.len())
	for i, it := range items.each() {
		shared := it.from.shares(disableDeepCopy)
		obj, err := it.from.object(it.Value, shared)
		if err != nil {
			return fmt.Errorf("cannot list %s into %T: %w", it.from.gvk.Kind, out, err)
		}
		objs[i] = obj
	}
	if err := meta.SetList(out, objs); err != nil {
		return fmt.Errorf("cannot list into %T: %w", out, err)
	}
	return nil
}

// object returns an object of its own, or one that is shared.
func (r *CacheReader) object(o object.Object, shared bool) (runtime.Object, error) {
	if !shared {
		obj, err := r.objects.Copy(o)
		if err == nil {
			obj.GetObjectKind().SetGroupVersionKind(r.gvk)
		}
		return obj, err
	}
	raw, err := r.objects.Shared(o)
	if err != nil {
		return nil, err
	}
	obj, ok := raw.(runtime.Object)
	if !ok {
		return nil, fmt.Errorf("the cache holds a %T, which is no object; check the transform of this kind", raw)
	}
	return obj, nil
}
