// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package shard shares keys, such as namespaces, among the replicas of a program. A replica is a member of a [Ring] while it holds a
// Lease of its own. Each key has one member as its owner, by rendezvous hashing of names:
//
//	ring, err := shard.New(shard.Options{Ring: "shop", Namespace: "shop-system", Client: leases})
//	err = mgr.Add(ring)
//
//	builder.Complete(ring.Reconciler(reconciler))
//
// A cache whose Tuning.Shard is the Ring keeps the namespaces of the replica alone. [Ring.Selector] has a cache keep the replica's
// part of a kind, by any Options.Key.
//
// # Contract
//
// No two members work on one key at a time. Of any two members, at least one yields to the other, and says so in its Lease:
//
//   - A member works on a key if each member that it yields to yields that key to it.
//   - A member that yields to another one yields the keys for which that one has the higher score. It begins no work on them. Keys on
//     which it still works are listed in its Lease, and are not yielded until the work has ended. A member that is leaving yields all keys.
//   - When a member has taken its Lease, it lists the Leases of the ring, and follows them. It joins when it has had its Lease for
//     RetryPeriod, and works on nothing before. Then it yields to all members that it knows. Of any two members, the later one has the
//     earlier one in its list. The earlier one yields to the later one when the Lease of the later one says that it yields. What a Lease
//     has said holds while both are members.
//   - While a member yields to one that has not joined, its Lease names only members whose Leases name it. So of replicas that start
//     together none takes keys of the others, and keys rarely go to a member that cannot work on them yet.
//   - A membership is over when its Lease names another holder, or none. The member writes that when it has left. Others write it
//     when they have not seen the Lease change for LeaseDuration by their own clocks. Their request names the version of the Lease that
//     they saw, so it fails if the member has renewed the Lease since.
//   - A member that has not renewed its Lease for RenewDeadline by its own clock, from before the last request that succeeded, works on
//     nothing until it has. So it has stopped before others take over, if RenewDeadline and the time of cancelled work, by the slower
//     clock, are shorter than LeaseDuration by the faster one. The defaults allow two seconds of cancelled work, and rates that differ
//     by a fifth.
//   - A Lease that others delete is noticed by its member with the next event or renewal. The others count the member as a ghost for
//     LeaseDuration, and meanwhile yield to nobody who came later and cannot know of it. A member whose own Lease was deleted still counts
//     ghosts: it follows the other Leases while it waits for its own.
//
// Each key has an owner that works on it, if its work can, within LeaseDuration, RetryPeriod and a few requests after a member has
// crashed or was cut off, and within RetryPeriod and a few requests after one has come or left. The work of one key holds up no other
// key. If the API server is away for longer than RenewDeadline, nobody works. Names are held as Leases are: a second process with the
// name of a member waits for its Lease, and so does a replica that comes back under its name after it has crashed.
//
// A label or the UID of an object as its key (Options.Key) is less safe than its namespace. An object moves safely if its key stays the
// same: if a label changes, or a name comes back with another UID, the owners of both keys may work on that name at a time.
//
// Three things are not noticed: a machine whose clock stands still while it is suspended; work that goes on after its context has
// ended, and does not ask [Ring.Check]; and a member that is cut off when somebody deletes its Lease, if a new replica begins before its
// deadline and no Lease is left of a member that knows of it.
//
// # Concurrency
//
// All methods are safe for concurrent use. One lock guards the view of a Ring; no request is made, no context is cancelled, and no
// function of the user runs under it. A life in the ring has three goroutines: one renews the Lease and cancels work, one follows the
// Leases of others, one releases those that have expired. Start waits for all of them. A member with work on more than 4,096 keys yields
// to no further member until it has less.
//
// # Files
//
//   - options.go has the options, and hash.go the scores.
//   - ring.go runs the life of a member, and answers who owns a key. hold.go is for work on keys, and reconciler.go for reconciles.
//   - term.go says since when a member has a key without a break. selector.go has the keys of objects, and selects those that have a term.
//   - member.go says what a Lease says. view.go has the rules: what follows from the Leases that were seen.
//   - lease.go has the requests that write Leases; watch.go follows them.
package shard
