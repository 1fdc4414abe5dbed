// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package controllers has controllers of kube-controller-manager, written anew, for environments of package envtest.
//
//	env := envtest.StartWith(t, envtest.Options{Controllers: controllers.Named("namespace-controller")})
//
// There are namespace-controller, garbage-collector-controller, serviceaccount-controller and
// root-ca-certificate-publisher-controller.
//
// An API server alone deletes no namespace and collects no garbage. With these controllers a test sees what a cluster does:
// a namespace goes with all that is in it when finalizers allow it, and so do objects whose owners are gone.
//
// # Semantics
//
// They do what those of kube-controller-manager do, with the same conditions, reasons, messages and events; one suite runs on
// both. They differ in time. kube-controller-manager waits for five seconds before it deletes the contents of a namespace,
// asks for new kinds every thirty seconds, and comes back to a namespace after some seconds if something remains. Here, each
// controller does its work as soon as its watches show that there is some.
//
// Two more differences are deliberate. While Pods remain, the condition NamespaceContentRemaining says so; there, it says that
// all content is removed. An object that was created right before its owner was deleted, with orphans to be left, stays: there, it
// is collected if the collector sees it too late.
//
// # How they are written
//
// As an operator is written on this project's cache: a manager of controller-runtime with cache.With and client.New.
// Each controller has a manager and a cache of its own, holds metadata alone where that is enough, and ends all its goroutines
// before its Run returns. It may be read as an example.
//
// # Files
//
//   - named.go has the names, manager.go what all controllers have in common.
//   - namespace.go, content.go, report.go, conditions.go and leftovers.go are the namespace controller: its steps, the deletion,
//     the findings, the status, and the wait for the rest.
//   - collector.go, collector_writes.go and owners.go are the garbage collector: its steps, its writes, and what owners are.
//   - kinds.go follows the kinds that the collector needs: kinds_events.go has their events, and kinds_read.go reads them.
//   - serviceaccount.go and rootca.go are one controller each.
//
// To add a controller, write it in a file of its own with a suite that the real one passes too, and add its name to named.go, to the
// lists here, and to docs/controllers.md.
package controllers
