// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package scheduling has PriorityClasses.
package scheduling
