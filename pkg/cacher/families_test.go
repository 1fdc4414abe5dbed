// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cacher

import (
	"reflect"
	"testing"
	"unsafe"
)

// TestEachFamilyIsExported finds metrics that newFamilies does not make, or all does not have.
func TestEachFamilyIsExported(t *testing.T) {
	f := newFamilies()
	exported := map[unsafe.Pointer]bool{}
	for _, v := range f.all() {
		exported[reflect.ValueOf(v).UnsafePointer()] = true
	}
	fields, metric := reflect.ValueOf(f).Elem(), reflect.TypeFor[vector]()
	n := 0
	for i := range fields.NumField() {
		if !fields.Field(i).Type().Implements(metric) {
			continue
		}
		n++
		if at := fields.Field(i).UnsafePointer(); at == nil || !exported[at] {
			t.Errorf("the metric %s is not among all", fields.Type().Field(i).Name)
		}
	}
	if n != len(exported) {
		t.Errorf("%d metrics are fields, and %d are exported", n, len(exported))
	}
}
