// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package contents reads and replaces all that a server has stored, for Snapshot, Restore and Reset. Writes wait until every
// part of the server has seen the new state.
package contents
