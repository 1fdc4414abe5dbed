// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package controlplane holds two programs, etcd and kube-apiserver, for suites that start these binaries, such as those of
// controller-runtime's envtest; envtest/cmd/assets -tarn builds them. The package itself has only their tests: controller-runtime's
// Environment on both.
package controlplane
