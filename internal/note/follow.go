// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package note

import "context"

// Nothing stands for the resource version that a write has replaced if there was no object.
const Nothing = "0"

// Follower is told of the writes that are made with a context. It calls no function of a user.
type Follower interface {
	// Noter is told of each write whose outcome is Shown, before or after the cache is.
	Noter
	// WillWrite is called before a request is sent, and so before any event tells of its effect.
	WillWrite()
}

// followerKey is the key of the follower of the writes that a cache is told of: those of a client for another cluster are none.
type followerKey struct{ of Noter }

// Follow returns a context with which a client that tells the cache of its writes tells the follower too; nil tells nobody.
func Follow(ctx context.Context, cache Noter, to Follower) context.Context {
	return context.WithValue(ctx, followerKey{cache}, to)
}

// FollowerOf returns the follower of the writes with a context; nil if there is none.
func FollowerOf(ctx context.Context, cache Noter) Follower {
	to, _ := ctx.Value(followerKey{cache}).(Follower)
	return to
}
