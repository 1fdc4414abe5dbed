// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package serving is how requests come in and go out: a listener that counts what it works on, the keys and certificates of
// both sides, and the clients and informers by which a server asks itself. What is read through them can be waited for.
package serving
