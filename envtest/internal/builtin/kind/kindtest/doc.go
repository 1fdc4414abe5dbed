// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kindtest has what the tests of built-in kinds share.
package kindtest
