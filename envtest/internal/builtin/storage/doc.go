// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package storage has the kinds of the group storage.k8s.io.
package storage
