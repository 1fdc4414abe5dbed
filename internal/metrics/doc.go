// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package metrics makes the metrics of a cache, which docs/metrics.md lists, of what its informers and reads
// count. names.go has the names, figures.go what is added up to one series, lives.go what stays of informers that
// have ended, and reads.go the reads that the cache cannot answer.
package metrics
