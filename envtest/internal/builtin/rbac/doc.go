// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rbac has roles and bindings, and refuses grants of what a user does not have.
package rbac
