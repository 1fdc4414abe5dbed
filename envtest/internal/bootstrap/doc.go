// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bootstrap creates what every server has from its start: namespaces, roles, priority classes, and the Service of the
// server itself.
package bootstrap
