// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package etcd is an etcd of one member in this process, made of etcd's own parts: its multi-version store, its leases,
// its transactions and its bbolt database. It leaves out what a member needs for other members: raft, the write-ahead
// log, snapshots, and a listener. There are no others, and the data need not outlive the process.
//
// # Answers
//
// A client of Server.Client is answered as by etcd: revisions, compares, leases, events with the value before, progress
// notifications, and etcd's errors. Every read after an event of a watch sees that event. It has the methods that
// k8s.io/apiserver uses, and answers the rest with Unimplemented. A watch that its client does not read fast enough costs
// no memory: the store notes how far it came, and reads the events again from the database.
//
// # Memory and disk
//
// The heap holds the keys with their revisions, and what was written since the last commit: up to 4 MiB. Values are in
// the database, a file of the folder that Start makes. Replaced and deleted values stay for five minutes, as with
// kube-apiserver, up to 512 MiB; older revisions are compacted. Their space is used again, so that the file holds little
// more than the living objects and the history.
//
// # A full disk
//
// Space is reserved before it is needed: a write without space is refused with an error, and changes nothing. Reads go
// on, and so do writes when there is space again. Where space cannot be reserved, because the file system is unable to,
// or if the disk itself fails, the server has failed: every call returns why, and Stop does too. The process goes on in
// each case, though etcd would end it.
//
// # Concurrency
//
// All methods may be called at any time, except that Stop comes last. Reads run beside each other and beside a write. Writes
// run one after the other, under Server.write, because a transaction compares before it writes; a watch that was told of a
// write waits for its end. Exchange makes many writes without another one between them. It waits now and then for the
// watches, because the store leaves slow watches behind. Start starts two goroutines, which Stop ends: one revokes leases
// that have expired, the other compacts. Each watch has one more, which ends with its context or its client.
package etcd
