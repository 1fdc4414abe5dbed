// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package serving has the listener of a server, which counts open requests, the certificates, and the clients and informers with
// which the server calls itself. Followed waits until an informer has seen a change.
package serving
