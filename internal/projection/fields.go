// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Check returns an error if a field is none of the objects of t, a pointer to a struct. If t is nil, the Go type is not known,
// and metadata are checked.
func (p *Projection) Check(t reflect.Type) error {
	for _, field := range p.fields {
		path := split(field)
		in := t
		if in == nil {
			if in = reflect.TypeFor[metav1.PartialObjectMetadata](); path[0] != "metadata" && path[0] != "kind" && path[0] != "apiVersion" {
				continue
			}
		}
		if err := find(in, path); err != nil {
			return fmt.Errorf("%q: %w", field, err)
		}
	}
	return nil
}

// CheckIndex returns an error if an index by that name would be of a field that is cut. An index may have any name: it
// is of a field if that is the path of one.
func (p *Projection) CheckIndex(name string, t reflect.Type) error {
	path := strings.TrimPrefix(name, ".")
	if p == nil || t == nil || !shape.MatchString(path) || find(t, split(path)) != nil || p.Keeps(split(path)) {
		return nil
	}
	return fmt.Errorf("the index %q would be empty: the cache keeps only %s of the kind; add the field to Fields", name, p)
}

// find returns an error if a path leads to nothing in a Go type.
func find(t reflect.Type, path []string) error {
	for at, name := range path {
		for isThrough(t) {
			t = t.Elem()
		}
		before := strings.Join(path[:at], ".")
		switch {
		case t.Kind() == reflect.Interface:
			return nil // any content
		case isOpaque(t):
			return fmt.Errorf("%s is a %s, which is kept or cut as a whole", before, t)
		case t.Kind() == reflect.Map && t.Key().Kind() == reflect.String:
			t = t.Elem()
		default:
			field, ok := fieldOf(t, name)
			if !ok {
				return fmt.Errorf("%s has no field %q", t, name)
			}
			t = field
		}
	}
	return nil
}

// isThrough reports whether a path goes through values of t to their elements.
func isThrough(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer:
		return true
	case reflect.Slice, reflect.Array:
		return t.Elem().Kind() != reflect.Uint8 && !hasOwnJSON(t)
	}
	return false
}

// isOpaque reports whether values of t have no parts that a path could name.
func isOpaque(t reflect.Type) bool {
	return t.Kind() != reflect.Struct && t.Kind() != reflect.Map || hasOwnJSON(t)
}

// hasOwnJSON reports whether values of t write their JSON themselves.
func hasOwnJSON(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[json.Marshaler]())
}

// fieldOf returns the type of the field of a struct that has a name in JSON.
func fieldOf(t reflect.Type, name string) (reflect.Type, bool) {
	for i := range t.NumField() {
		f := t.Field(i)
		is, inline := jsonName(f)
		if inline && f.Type.Kind() == reflect.Struct {
			if found, ok := fieldOf(f.Type, name); ok {
				return found, true
			}
		} else if is == name && f.IsExported() {
			return f.Type, true
		}
	}
	return nil, false
}

// jsonName returns the name of a field in JSON; inline is a struct whose fields stand in place of it.
func jsonName(f reflect.StructField) (name string, inline bool) {
	name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
	inline = f.Anonymous && name == "" || strings.Contains(options, "inline")
	if name == "" {
		name = f.Name
	}
	return name, inline
}
