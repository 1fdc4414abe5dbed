// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package aggregation does for a server what kube-aggregator does for kube-apiserver: it keeps the APIServices of the server
// itself, and passes requests on to other servers.
package aggregation
