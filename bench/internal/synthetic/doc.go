// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package synthetic makes the Pods of a cluster that does not exist, of the size
// and with the repetition of a real one: each is about 4.9 KB as protobuf, and has
// what a Deployment, the scheduler and the kubelet write, managedFields included.
//
// Pod number i of a seed is always the same, whatever was made before it, so that
// processes that agree on a seed agree on the cluster without talking.
package synthetic
