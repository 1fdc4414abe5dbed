// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package core has the kinds of the core group, but Services and Events. A file holds what belongs to one kind or to one stage.
package core
