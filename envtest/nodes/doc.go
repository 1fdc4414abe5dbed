// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nodes has Nodes without kubelets, for environments of package envtest: Pods that are bound to one run, as far as
// the API shows it, and fail on command.
//
//	machines := nodes.New(nodes.Options{Count: 2, Schedule: true})
//	env := envtest.StartWith(t, envtest.Options{Controllers: []envtest.Controller{machines.Controller()}})
//	crash, err := machines.Inject(nodes.Rule{Namespace: "default", Name: "web-0", Times: 1}, nodes.Crash(1))
//
// No container runs. The package writes what a kubelet would: Node objects with the condition Ready and a Lease, and the
// status of each Pod from Pending to Succeeded or Failed, with the reasons of a kubelet. A Pod that is deleted ends, and then
// goes.
//
// # Files
//
//   - nodes.go has the options, and runs all; node.go writes Nodes and Leases.
//   - pods.go reconciles Pods: it asks life.go what the next status is, and writes it. containers.go is the life of containers.
//   - rules.go has the failures, schedule.go binds Pods.
package nodes
