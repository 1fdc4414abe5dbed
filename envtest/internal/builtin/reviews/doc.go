// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package reviews answers questions about users and their rights, which clients ask by creating an object.
package reviews
