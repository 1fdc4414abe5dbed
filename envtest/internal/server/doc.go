// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package server puts the parts of an API server together, in the order in which they need each other, and ends them in the
// reverse order. chain.go has the handler chain, build.go the construction, run.go the life.
package server
