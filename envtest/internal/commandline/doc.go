// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package commandline lets the flags of kube-apiserver say where a server listens, whom it believes, and what it serves.
package commandline
