// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package note

import "context"

// fenceKey is the key of the check before the writes with a context.
type fenceKey struct{}

// Fence returns a context with which a client calls check before it sends a request that writes, and sends none if check, or that of a
// fence before it, returns an error. Check must be safe for concurrent use, and must not wait.
func Fence(ctx context.Context, check func() error) context.Context {
	return context.WithValue(ctx, fenceKey{}, func() error {
		if err := Fenced(ctx); err != nil {
			return err
		}
		return check()
	})
}

// Fenced returns why a client must not write with a context, and nil if it may.
func Fenced(ctx context.Context) error {
	if check, is := ctx.Value(fenceKey{}).(func() error); is {
		return check()
	}
	return nil
}
