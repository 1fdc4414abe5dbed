// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"reflect"
	"testing"
)

// TestKindTuningOrKeepsEachSetting sets one field after the other, on either side of Or.
func TestKindTuningOrKeepsEachSetting(t *testing.T) {
	for n := range reflect.TypeFor[KindTuning]().NumField() {
		var set KindTuning
		field := reflect.ValueOf(&set).Elem().Field(n)
		switch field.Kind() {
		case reflect.Pointer:
			field.Set(reflect.New(field.Type().Elem()))
		case reflect.Int, reflect.Int64:
			field.SetInt(7)
		case reflect.Slice:
			field.Set(reflect.MakeSlice(field.Type(), 7, 7))
		case reflect.String:
			field.SetString("seven")
		default:
			t.Fatalf("%s: teach this test what a %s is", reflect.TypeFor[KindTuning]().Field(n).Name, field.Type())
		}
		if !reflect.DeepEqual(set.Or(KindTuning{}), set) || !reflect.DeepEqual((KindTuning{}).Or(set), set) {
			t.Errorf("Or loses %s", reflect.TypeFor[KindTuning]().Field(n).Name)
		}
	}
}
