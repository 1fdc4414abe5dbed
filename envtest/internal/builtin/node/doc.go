// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package node has RuntimeClasses.
package node
