// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package policy has PodDisruptionBudgets. Evictions, which spend them, are in package core.
package policy
