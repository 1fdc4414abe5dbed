// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build race

package reader_test

// detector says whether the race detector looks at the tests. It loses some of what reads use again, so the allocations of a read differ.
const detector = true
