// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Cut takes all that is not kept from an object, which belongs to the caller, and marks it. What has no metadata stays as it
// is. A nil projection does nothing.
func (p *Projection) Cut(obj runtime.Object) {
	if p == nil {
		return
	}
	if u, ok := obj.(*unstructured.Unstructured); ok {
		p.cutContent(u)
		return
	}
	m, ok := obj.(metav1.ObjectMetaAccessor)
	v := reflect.ValueOf(obj)
	if !ok || v.Kind() != reflect.Pointer || v.IsNil() {
		return
	}
	cut, ok := p.plans.Load(v.Type())
	if !ok {
		cut, _ = p.plans.LoadOrStore(v.Type(), p.root.compile(v.Type().Elem()))
	}
	cut.(func(reflect.Value))(v.Elem())
	m.GetObjectMeta().SetSelfLink(p.mark)
}

func (p *Projection) cutContent(u *unstructured.Unstructured) {
	u.Object = p.root.content(u.Object)
	m, ok := u.Object["metadata"].(map[string]any)
	if !ok {
		return
	}
	if kept, ok := m["annotations"].(map[string]any); ok && len(kept) == 0 && !p.Keeps([]string{"metadata", "annotations"}) {
		delete(m, "annotations") // as in a Go type
	}
	m["selfLink"] = p.mark
}

// content returns what is kept of an object of JSON.
func (n *node) content(object map[string]any) map[string]any {
	if object == nil {
		return nil
	}
	kept := make(map[string]any, min(len(object), len(n.under)))
	for name, child := range n.under {
		value, ok := object[name]
		if ok {
			value, ok = child.value(value)
		}
		if ok {
			kept[name] = value
		}
	}
	return kept
}

// value returns what is kept of a value of JSON. It reports false if the value is cut.
func (n *node) value(value any) (any, bool) {
	if n.whole {
		return value, true
	}
	switch v := value.(type) {
	case nil:
		return nil, true
	case map[string]any:
		return n.content(v), true
	case []any:
		if v == nil {
			return v, true
		}
		kept := make([]any, 0, len(v))
		for _, element := range v {
			if element, ok := n.value(element); ok {
				kept = append(kept, element)
			}
		}
		return kept, true
	}
	return nil, false
}

func setZero(v reflect.Value) { v.SetZero() }

// compile returns a function that takes from a value of t what is not kept.
func (n *node) compile(t reflect.Type) func(reflect.Value) {
	switch {
	case n.whole:
		return func(reflect.Value) {}
	case t.Kind() == reflect.Interface:
		return func(v reflect.Value) {
			if kept, ok := n.value(v.Interface()); !ok || kept == nil {
				v.SetZero()
			} else {
				v.Set(reflect.ValueOf(kept))
			}
		}
	case t.Kind() == reflect.Pointer:
		element := n.compile(t.Elem())
		return func(v reflect.Value) {
			if !v.IsNil() {
				element(v.Elem())
			}
		}
	case isThrough(t):
		element := n.compile(t.Elem())
		return func(v reflect.Value) {
			for i := range v.Len() {
				element(v.Index(i))
			}
		}
	case isOpaque(t):
		return setZero
	case t.Kind() == reflect.Map:
		return n.compileMap(t)
	}
	return n.compileStruct(t)
}

func (n *node) compileMap(t reflect.Type) func(reflect.Value) {
	if t.Key().Kind() != reflect.String {
		return setZero
	}
	type entry struct {
		key reflect.Value
		cut func(reflect.Value)
	}
	var entries []entry
	for _, name := range n.names() {
		entries = append(entries, entry{reflect.ValueOf(name).Convert(t.Key()), n.under[name].compile(t.Elem())})
	}
	return func(v reflect.Value) {
		kept := reflect.Zero(t) // nil if nothing is left, as when it is read from protobuf
		for _, e := range entries {
			if value := v.MapIndex(e.key); value.IsValid() {
				own := reflect.New(t.Elem()).Elem()
				own.Set(value)
				e.cut(own)
				if kept.IsNil() {
					kept = reflect.MakeMap(t)
				}
				kept.SetMapIndex(e.key, own)
			}
		}
		v.Set(kept)
	}
}

func (n *node) compileStruct(t reflect.Type) func(reflect.Value) {
	type part struct {
		field int
		cut   func(reflect.Value)
	}
	var parts []part
	for i := range t.NumField() {
		f := t.Field(i)
		name, inline := jsonName(f)
		switch child := n.under[name]; {
		case !f.IsExported() && !inline:
		case inline:
			parts = append(parts, part{i, n.compile(f.Type)})
		case child == nil:
			parts = append(parts, part{i, setZero})
		case !child.whole:
			parts = append(parts, part{i, child.compile(f.Type)})
		}
	}
	return func(v reflect.Value) {
		for _, p := range parts {
			p.cut(v.Field(p.field))
		}
	}
}
