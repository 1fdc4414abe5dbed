// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !race

package variable

// Detector says whether the race detector looks at the program.
const Detector = false
