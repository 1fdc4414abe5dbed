// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tokens has the keys with which a server signs tokens of ServiceAccounts, and the documents by which others check them.
package tokens
