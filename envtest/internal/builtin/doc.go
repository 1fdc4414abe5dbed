// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package builtin is the built-in kinds of the API server in the test process.
package builtin
