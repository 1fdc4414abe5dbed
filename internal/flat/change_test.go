// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package flat_test

import (
	"math/rand"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// changeOne changes what can be reached from v at one random place, if there is any: a value, the
// length of a slice or a map, or whether something is nil.
func changeOne(v reflect.Value, r *rand.Rand) {
	var places []func()
	findPlaces(v, r, func(change func()) { places = append(places, change) })
	if len(places) > 0 {
		places[r.Intn(len(places))]()
	}
}

// findPlaces passes what changes v and what is in it to found.
func findPlaces(v reflect.Value, r *rand.Rand, found func(func())) {
	switch x := v.Addr().Interface().(type) {
	case *time.Time:
		found(func() { *x = x.Add(time.Second) })
		found(func() { *x = x.In(zones[r.Intn(len(zones))]) })
		return
	case *resource.Quantity:
		found(func() { x.Format += "x" })
		found(func() { x.Add(resource.MustParse("1m")) })
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				findPlaces(v.Field(i), r, found)
			}
		}
	case reflect.Pointer:
		if v.IsNil() {
			found(func() { v.Set(reflect.New(v.Type().Elem())) })
			return
		}
		found(v.SetZero)
		findPlaces(v.Elem(), r, found)
	case reflect.Slice:
		placesOfSlice(v, r, found)
	case reflect.Array:
		for i := range v.Len() {
			findPlaces(v.Index(i), r, found)
		}
	case reflect.Map:
		placesOfMap(v, r, found)
	case reflect.Interface:
		if v.NumMethod() > 0 {
			return
		}
		found(func() { v.Set(reflect.ValueOf("changed")) })
		if !v.IsNil() {
			inner := reflect.New(v.Elem().Type()).Elem()
			inner.Set(v.Elem())
			findPlaces(inner, r, func(change func()) { found(func() { change(); v.Set(inner) }) })
		}
	default:
		found(func() { overwrite(v) })
	}
}

// placesOfSlice is findPlaces for slices.
func placesOfSlice(v reflect.Value, r *rand.Rand, found func(func())) {
	if v.IsNil() {
		found(func() { v.Set(reflect.MakeSlice(v.Type(), 0, 0)) })
		return
	}
	found(v.SetZero)
	found(func() { v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem()))) })
	if v.Len() > 0 {
		found(func() { v.SetLen(v.Len() - 1) })
	}
	for i := range v.Len() {
		findPlaces(v.Index(i), r, found)
	}
}

// placesOfMap is findPlaces for maps.
func placesOfMap(v reflect.Value, r *rand.Rand, found func(func())) {
	if v.IsNil() {
		found(func() { v.Set(reflect.MakeMap(v.Type())) })
		return
	}
	found(v.SetZero)
	for _, k := range v.MapKeys() {
		found(func() { v.SetMapIndex(k, reflect.Value{}) })
		if k.Kind() == reflect.String {
			found(func() { // as many, but another key
				v.SetMapIndex(reflect.ValueOf(k.String()+"x").Convert(k.Type()), v.MapIndex(k))
				v.SetMapIndex(k, reflect.Value{})
			})
		}
		value := reflect.New(v.Type().Elem()).Elem()
		value.Set(v.MapIndex(k))
		findPlaces(value, r, func(change func()) { found(func() { change(); v.SetMapIndex(k, value) }) })
	}
}
