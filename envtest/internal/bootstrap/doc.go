// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bootstrap creates the first objects of a server: namespaces, roles, priority classes, and the Service of the
// server itself.
package bootstrap
