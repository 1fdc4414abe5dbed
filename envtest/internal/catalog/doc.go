// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package catalog says what a server serves: discovery, in all its forms, and the OpenAPI documents. Clients can wait until both
// show a change.
package catalog
