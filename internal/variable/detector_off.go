// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !race

package variable

// Detector is true in a program that is built with -race.
const Detector = false
