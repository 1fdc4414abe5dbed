// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/runtime"
)

// NotRegistered returns the error for a Go type that is not in the scheme. The error advises to add
// the type. Otherwise is text about another way, or empty. runtime.IsNotRegisteredError recognizes
// the error unless it is wrapped.
func NotRegistered(scheme *runtime.Scheme, goType, otherwise string) error {
	return runtime.NewNotRegisteredErrForType(scheme.Name(), advised{
		text: fmt.Sprintf("%s (add it with the AddToScheme function of its API package%s)", goType, otherwise),
	})
}

// advised is a reflect.Type whose name contains advice. Package runtime builds the text of its
// error from the names of the type and the scheme, and quotes the name of the scheme, so the advice
// stands in the name of the type.
//
// Method and MethodByName hide those of reflect.Type. If they could be called, the linker would keep
// every exported method of every type in the program.
type advised struct {
	reflect.Type // nil
	text         string
}

func (a advised) String() string { return a.text }

func (advised) Method(int) reflect.Method { return reflect.Method{} }

func (advised) MethodByName(string) (reflect.Method, bool) { return reflect.Method{}, false }
