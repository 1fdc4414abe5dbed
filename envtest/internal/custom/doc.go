// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package custom completes the CRD server of k8s.io for a test environment: it reads and installs
// definitions, waits until they are served, and knows the stores of their objects, so that nothing is left of them when the
// server stops.
package custom
