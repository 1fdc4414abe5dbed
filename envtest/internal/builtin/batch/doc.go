// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package batch has the kinds of the group batch.
package batch
