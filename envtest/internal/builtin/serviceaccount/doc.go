// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package serviceaccount gives tokens to ServiceAccounts, and knows whose a token is.
package serviceaccount
