// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build race

package cacher_test

// detector says whether the race detector looks at the tests.
const detector = true
