// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package shard shares keys among the replicas of a program, such as the namespaces that a controller works on. A replica is a member
// of a [Ring] while it holds a Lease of its own. Each key has one member as its owner, by rendezvous hashing of names:
//
//	ring, err := shard.New(shard.Options{Ring: "shop", Namespace: "shop-system", Client: leases})
//	err = mgr.Add(ring)
//
//	builder.Complete(ring.Reconciler(reconciler))
//
// A cache with the Ring as its Tuning.Shard keeps the namespaces of the replica alone.
//
// # Contract
//
// No two members work on one key at a time. Of any two members, at least one yields to the other, and says so in its Lease:
//
//   - A member works on a key if each member that it yields to yields that key to it.
//   - A member that yields to another one yields the keys for which that one has the higher score. It begins no work on them. Keys on
//     which it still works are listed in its Lease, and are not yielded until the work has ended. A member that is leaving yields all keys.
//   - A member that has taken its Lease then lists the Leases of the ring, and yields to all members in the list. Of any two members, the
//     later one has the other in its list. A member yields to a later one when that has said that it yields to it. It says so to none
//     that has not said that it has its list, and never takes it back while the other is a member.
//   - A membership is over when its Lease names another holder, or none. The member writes that when it has left. Others write it
//     when they have not seen the Lease change for LeaseDuration by their own clocks. Their request names the version of the Lease that
//     they saw, so it fails if the member has renewed the Lease since.
//   - A member that has not renewed its Lease for RenewDeadline by its own clock, from before the last request that succeeded, works on
//     nothing until it has. So it has stopped before others take over, if the rates of two clocks differ by less than LeaseDuration
//     is longer than RenewDeadline and the time that cancelled work takes: with the defaults, a fifth, and two seconds.
//   - A Lease that others delete is noticed by its member with the next event or renewal. The others count the member as a ghost for
//     LeaseDuration, and meanwhile yield to nobody who came later and cannot know of it. They do so too if their own Leases were
//     deleted: a member that waits for its Lease follows those of others.
//
// Each key has an owner that works on it, if its work can, within LeaseDuration and a few requests after a member has crashed or was
// cut off, and within a few requests after one has joined or left. The work of one key holds up no other key. If the API server is away
// for longer than RenewDeadline, nobody works. Names are held as Leases are: a second process with the name of a member waits for
// its Lease, and so does a replica that comes back under its name after it has crashed.
//
// Three things are not noticed: a machine whose clock stands still while it is suspended; work that goes on after its context has
// ended, and does not ask [Ring.Check]; and a member that is cut off when somebody deletes its Lease, if a new replica begins before its
// deadline and no Lease is left of a member that knows of it.
//
// # Concurrency
//
// All methods are safe for concurrent use. One lock guards the view of a Ring; no request is made, no context is cancelled, and no
// function of the user runs under it. A life in the ring has three goroutines: one renews the Lease and cancels work, one follows the
// Leases of others, one releases those that have expired. Start waits for all of them. Members promise at most what they hold: a
// member with work on more than 4,096 keys yields to no further member until it has less.
//
// # Files
//
//   - options.go has the options, and hash.go the scores.
//   - ring.go runs the life of a member, and answers who owns a key. hold.go is for work on keys, and reconciler.go for reconciles.
//   - term.go says since when a member has a key without a break.
//   - member.go says what a Lease says. view.go has the rules: what follows from the Leases that were seen.
//   - lease.go has the requests that write Leases; watch.go follows them.
package shard
