// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package coordination has Leases.
package coordination
