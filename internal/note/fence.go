// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package note

import "context"

// fenceKey is the context key of a check.
type fenceKey struct{}

// Fence returns a context with which a client sends a write only if check, and each check that ctx has already, returns nil. Check must
// be safe for concurrent use, and must not wait.
func Fence(ctx context.Context, check func() error) context.Context {
	return context.WithValue(ctx, fenceKey{}, func() error {
		if err := CheckFence(ctx); err != nil {
			return err
		}
		return check()
	})
}

// CheckFence returns why a client must not write with a context, and nil if it may.
func CheckFence(ctx context.Context) error {
	if check, is := ctx.Value(fenceKey{}).(func() error); is {
		return check()
	}
	return nil
}
