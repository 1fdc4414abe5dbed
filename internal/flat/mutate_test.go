// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package flat_test

import (
	"math/big"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// mutate overwrites everything that can be reached from v, the spare capacity of slices
// included, and returns how many places it wrote to.
func mutate(v reflect.Value) int {
	switch x := v.Addr().Interface().(type) {
	case *time.Time:
		*x = time.Unix(42, 42)
		return 1
	case *resource.Quantity:
		return mutateQuantity(x)
	}
	switch v.Kind() {
	case reflect.Struct:
		n := 0
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				n += mutate(v.Field(i))
			}
		}
		return n
	case reflect.Pointer:
		if v.IsNil() {
			return 0
		}
		n := mutate(v.Elem())
		v.SetZero()
		return n + 1
	case reflect.Slice:
		full := v.Slice(0, v.Cap())
		if v.Type().Elem().Kind() == reflect.Uint8 { // damaged objects may have very many
			bytes := full.Bytes()
			for i := range bytes {
				bytes[i] = ^bytes[i]
			}
			return len(bytes)
		}
		n := 0
		for i := range full.Len() {
			n += mutate(full.Index(i))
		}
		return n
	case reflect.Array:
		n := 0
		for i := range v.Len() {
			n += mutate(v.Index(i))
		}
		return n
	case reflect.Map:
		return mutateMap(v)
	case reflect.Interface:
		return mutateInterface(v)
	default:
		return overwrite(v)
	}
}

// overwrite changes a value that holds no other.
func overwrite(v reflect.Value) int {
	switch {
	case v.Kind() == reflect.String:
		v.SetString("overwritten")
	case v.Kind() == reflect.Bool:
		v.SetBool(!v.Bool())
	case v.CanInt():
		v.SetInt(^v.Int())
	case v.CanUint():
		v.SetUint(^v.Uint())
	case v.CanFloat():
		v.SetFloat(v.Float() + 1e9)
	default:
		panic("mutate does not know " + v.Type().String())
	}
	return 1
}

// mutateMap changes every value of a map, what the values refer to, and its keys.
func mutateMap(v reflect.Value) int {
	n := 0
	for _, k := range v.MapKeys() {
		value := reflect.New(v.Type().Elem()).Elem()
		value.Set(v.MapIndex(k))
		n += mutate(value)
		v.SetMapIndex(k, value)
	}
	if !v.IsNil() && v.Type().Key().Kind() == reflect.String {
		v.SetMapIndex(reflect.ValueOf("another key").Convert(v.Type().Key()), reflect.Zero(v.Type().Elem()))
		n++
	}
	return n
}

// mutateInterface changes what an interface refers to, and the interface.
func mutateInterface(v reflect.Value) int {
	n := 0
	if !v.IsNil() {
		inner := reflect.New(v.Elem().Type()).Elem()
		inner.Set(v.Elem())
		n = mutate(inner)
	}
	if v.NumMethod() == 0 {
		v.Set(reflect.ValueOf("overwritten"))
		n++
	}
	return n
}

// mutateQuantity changes a quantity and the words of its big number.
func mutateQuantity(q *resource.Quantity) int {
	number := q.AsDec()
	words := number.UnscaledBig().Bits()
	for i := range words {
		words[i] ^= big.Word(0x55)
	}
	if scale := int64(number.Scale()); max(scale, -scale) < 1000 { // in a damaged object, a sum may have billions of digits
		q.Add(resource.MustParse("1Ki"))
	}
	q.Format = "overwritten"
	return 3
}
