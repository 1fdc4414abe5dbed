// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package aggregation is what kube-aggregator is before a kube-apiserver: the APIServices of what the server itself serves,
// and the way to other servers.
package aggregation
