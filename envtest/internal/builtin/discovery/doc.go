// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package discovery has EndpointSlices.
package discovery
