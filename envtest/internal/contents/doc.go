// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package contents is all that a server has stored, as a whole: it is read at one moment, and replaced in one step, which all
// parts of the server follow before the next write.
package contents
