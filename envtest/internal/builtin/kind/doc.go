// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kind has what all built-in kinds are made of: a row says everything that a server knows about one kind, and one
// strategy, one store and one form of tables serve every row. It has the checks, defaults and warnings that many kinds share.
// Rows are immutable and shared by all servers of the process.
package kind
