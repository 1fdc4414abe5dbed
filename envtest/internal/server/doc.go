// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package server puts the parts of an API server together, in the order in which they need each other, and ends them in the
// opposite one. The handler chain is here.
package server
