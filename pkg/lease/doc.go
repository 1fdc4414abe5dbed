// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lease lets a program hold what it uses of a kind, and no more. A lease is on a [Scope]: a namespace, a name, labels or
// fields. [Acquire] gives one:
//
//	secret, err := lease.Acquire(ctx, mgr.GetCache(), &corev1.Secret{}, lease.Scope{Namespace: "shop", Name: "tls"})
//
// A lease reads, and has event handlers, as a cache of the scope alone. An informer whose scope covers that of the lease serves
// it. If there is none, one begins: it lists and watches the scope alone, so a lease on a name needs the permission for that name.
// It ends when no lease has needed it for the idle time, Tuning.LeaseIdleTime of package cache.
//
// [References] are leases that the requests of a controller hold on what their reconciles read.
//
// # Contract
//
// An informer covers a scope if its namespace is that of the scope or all, and its selectors require nothing that the scope does
// not require. A field is not evaluated here unless it is metadata.name or metadata.namespace: an informer covers a scope with
// another field only if it requires the same of it. Of several that cover a scope, that of the cache's own configuration serves
// it, if it is there already, and else the oldest. A wider one whose list or watch fails is passed over, because the scope alone may
// be permitted, and so is one that does not hold an optional kind with each scope with which it may come, unless that of the lease has
// a namespace. A lease stays with its informer: that lives as long as any lease that it serves. If a wider one
// fails later, the errors of reads name its scope: a lease that is acquired then has another informer.
//
// If the informer is wider, its reads and events are restricted here: an object that enters the scope by an update is added, and
// one that leaves it is deleted. Labels are those that the kind's transform has left.
//
// # Concurrency
//
// All functions and methods are safe for concurrent use. The lock of the registry of a cache comes before those of the maps of
// package informers, and so does that of a [Lease]; neither is held with the other, nor while a function of the user runs. The
// lock of [References] comes before both. The goroutines of an informer are those of the map whose settings it has: Start of the
// cache waits for them, and for a goroutine for each informer that has refused a read of a reference, until it answers reads or serves
// no reference any more. An idle time is a timer, which holds no goroutine. An informer that is
// evicted has one of the cache, which waits for it. To evict a copy takes the place of a read; one that is being read stays.
//
// # Files
//
//   - scope.go says what a scope is, and when one covers another.
//   - registry.go finds, begins and ends informers; served.go has what it keeps of each; evict.go ends those
//     without leases early.
//   - lease.go has the reads of a lease, handlers.go its event handlers.
//   - references.go has the reads of reconciles, wake.go what wakes their requests, why.go says what did, and handled.go what handlers
//     were told of; newest.go shows the newest requests; own.go ignores own writes; names.go chooses how a name is held.
package lease
