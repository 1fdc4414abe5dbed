// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package source is the server of the benchmark: it answers lists and watches of synthetic Pods, or of custom
// resources like them, from bytes encoded beforehand, so that it takes little CPU from a process that is measured
// beside it.
//
// A [Catalog] holds those bytes and never changes. A [Server] serves one measured
// process from it: it has the state of that one watch, and is thrown away after.
//
// It speaks as much of the Kubernetes API as an informer needs: a list, a watch that
// begins with the list (sendInitialEvents), Pods in protobuf, Workloads in JSON, and
// update events when the measured process asks for them. It does not filter, does
// not page and does not go back in time.
package source
