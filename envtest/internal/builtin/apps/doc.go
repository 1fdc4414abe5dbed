// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apps has the kinds of the group apps.
package apps
