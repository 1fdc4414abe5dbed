// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package contain calls functions of users whose panics must not end the process.
package contain

import (
	"fmt"
	"runtime/debug"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Call calls f, which calls a user's function, for a caller that waits for the result. If f panics, Call logs where,
// and returns an error: the process goes on. If f ends its goroutine, as the functions of a test do that end the test,
// that is an error too. The argument who is the subject of these texts. f is called in a goroutine of its own, for which Call
// waits.
func Call(who string, f func() error) error {
	result := make(chan error, 1)
	go func() {
		err := fmt.Errorf("%s ended its goroutine", who)
		defer func() {
			if reason := recover(); reason != nil {
				err = panicked(who, reason)
				utilruntime.HandleError(fmt.Errorf("%w\n%s", err, debug.Stack()))
			}
			result <- err
		}()
		err = f()
	}()
	return <-result
}

// panicked returns the error of a panic with a reason.
func panicked(who string, reason any) error {
	if err, ok := reason.(error); ok {
		return fmt.Errorf("%s panicked: %w", who, err)
	}
	return fmt.Errorf("%s panicked: %v", who, reason)
}

// Name is to be deferred around a call of a user's index function. If the function panics,
// Name panics with an error that names the index, as in `field "image" of Pod (v1)`, and the
// key of obj. The stack of the panic still shows the function. If the function panicked with an
// error, the new error wraps it.
func Name(index string, obj client.Object) {
	switch r := recover().(type) {
	case nil:
	case error:
		panic(fmt.Errorf("the function of %s panicked at %s: %w", index, client.ObjectKeyFromObject(obj), r))
	default:
		panic(fmt.Errorf("the function of %s panicked at %s: %v", index, client.ObjectKeyFromObject(obj), r))
	}
}
