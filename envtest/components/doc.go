// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package components runs the real kube-controller-manager and kube-scheduler beside an environment, as child processes of
// the environment. envtest/controllers has some controllers in the test process; this package is for tests that need others,
// such as the controllers of Deployments and Jobs.
//
//	go run ./envtest/cmd/assets -controller-manager -scheduler
//
// builds the programs, and prints the line that tells this package where they are.
package components
