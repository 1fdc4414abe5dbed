// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package events has Events, which two groups serve from one storage.
package events
