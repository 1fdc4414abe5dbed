// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// fill sets every field of a struct of options that is not set.
func fill(t *testing.T, options any) {
	t.Helper()
	value := reflect.ValueOf(options).Elem()
	for i := range value.NumField() {
		field, name := value.Field(i), value.Type().Field(i).Name
		switch {
		case field.Type() == reflect.TypeFor[labels.Selector]():
			field.Set(reflect.ValueOf(labels.Everything()))
		case field.Type() == reflect.TypeFor[fields.Selector]():
			field.Set(reflect.ValueOf(fields.Everything()))
		case field.Kind() == reflect.Pointer:
			field.Set(reflect.New(field.Type().Elem()))
		case field.Kind() == reflect.Func:
			typ := field.Type()
			field.Set(reflect.MakeFunc(typ, func([]reflect.Value) (out []reflect.Value) {
				for i := range typ.NumOut() {
					out = append(out, reflect.Zero(typ.Out(i)))
				}
				return out
			}))
		case field.Kind() == reflect.Map:
			field.Set(reflect.MakeMap(field.Type()))
		case field.Kind() == reflect.Bool:
			field.SetBool(true)
		case field.Kind() == reflect.Interface: // Scheme and Mapper are no settings of a Config
		default:
			t.Fatalf("%T.%s is of a kind that this test cannot set: %s", options, name, field.Type())
		}
	}
}

// TestNoSettingIsForgotten tells of a setting that controller-runtime has added to
// Config, and that is not taken from where it can be given.
func TestNoSettingIsForgotten(t *testing.T) {
	var (
		given    Config
		byObject ByObject
		options  Options
	)
	fill(t, &given)
	fill(t, &byObject)
	fill(t, &options)
	for source, config := range map[string]Config{
		"merge(Config{}, …)": merge(Config{}, given),
		"merge(…, Config{})": merge(given, Config{}),
		"objectConfig":       objectConfig(byObject),
		"defaultConfig":      defaultConfig(&options),
	} {
		value := reflect.ValueOf(config)
		for i := range value.NumField() {
			if value.Field(i).IsZero() {
				t.Errorf("%s leaves out Config.%s", source, value.Type().Field(i).Name)
			}
		}
	}
}
