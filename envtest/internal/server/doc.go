// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package server puts the parts of an API server together, in the order in which they need each other, and ends them in the
// reverse order. run.go makes, runs and stops a server; build.go and parts.go have what it is made of, chain.go the handler chain.
package server
