// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package metrics makes the metrics of a cache. Informers and reads count; docs/metrics.md lists what is exported.
//
// # Files
//
//   - metrics.go registers the metrics and collects them; informer.go says what they are collected from.
//   - names.go has the names, figures.go what is added up to one series.
//   - lives.go has the counts of ended informers, reads.go the reads that the cache cannot answer, bounds.go what
//     is evicted, leases.go the leases, and namespaces.go the namespaces that come and go.
package metrics
