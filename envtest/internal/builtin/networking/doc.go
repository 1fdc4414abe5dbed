// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package networking has the kinds of the group networking.k8s.io.
package networking
