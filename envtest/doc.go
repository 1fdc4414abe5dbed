// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package envtest runs a Kubernetes API server with its etcd inside the test process.
//
// No binary is downloaded, built or started. A test needs one line:
//
//	env := envtest.Start(t)
//	client, err := client.New(env.Config(), client.Options{})
//
// The server consists of the same libraries as kube-apiserver: k8s.io/apiserver for handlers, admission and storage,
// k8s.io/apiextensions-apiserver for custom resources, and below them etcd's store. There are no controllers, no scheduler
// and no kubelet, on purpose. So a Pod stays as it was created, and a deleted namespace stays in phase Terminating, as in
// every environment that has only an API server. Options.Controllers adds controllers, such as those of package
// envtest/controllers.
//
// # Isolation
//
// Any number of environments can run in one process. Each has an etcd of its own that listens nowhere, a loopback port
// that the kernel picked, and certificate authorities that live as long as the server. No other process or environment
// has its client certificates and bearer tokens. A request with another credential is answered with 401. A request
// without a credential is anonymous, and may ask for /healthz, /livez, /readyz and /version, as the default roles of
// Kubernetes allow. Private keys exist only in memory. Stop closes everything that Start opened.
//
// # Memory and disk
//
// A suite may write as much as it likes. A version of an object that was replaced or deleted is kept for five minutes,
// as by kube-apiserver, and no longer than until 512 MiB more were written. After that, a list of such an old
// resourceVersion, or a token to continue one, is answered with 410, and the space is used again. The space is on disk,
// in a file in Options.DataDirectory that begins with 5 MiB. The heap holds keys, revisions, and the objects of the
// watch caches.
//
// When the disk is full, writes are refused with an error that says so, until there is space again. When the disk
// fails, all requests fail with its error, and so does Stop. Neither a full nor a failing disk ends the process. If the
// process of an environment was killed, its folder is left; the next process that starts an environment in the same
// place removes it.
//
// # The watch cache
//
// The Cacher of package cacher is between the request handlers and etcd. For each resource, Options.StorageDecorator
// chooses this Cacher, or k8s.io/apiserver's own, or none, as --watch-cache and --watch-cache-sizes of kube-apiserver
// do. A test's own decorator can watch the storage, or let it fail. A suite runs without a change on another watch
// cache with
//
//	TARN_WATCH_CACHE=upstream go test ./...
//
// The names are tarn, upstream and none. With TARN_CHECK_CONSISTENCY=true, or Options.CheckConsistency, each Cacher is
// compared with etcd when the environment stops. With TARN_VERIFY_FLAT=true, each object that a cache or a Cacher of
// the process keeps flat is compared with its source, from the first Start on.
//
// # A clean slate
//
// Reset deletes all that came after Start, and restores what Start made. Snapshot and Restore do so with a state of any other
// time. They write to the storage itself, so that nothing can refuse a deletion and every watch sees it, and return when the
// server acts on the new state alone; see Environment.Restore.
//
// # Logging
//
// The environment prints nothing, and etcd is silent. Some parts of the libraries always log to klog, which belongs to
// the process: about a dozen lines at the start and half as many at the stop. A test that does not want them switches
// klog off, once, in TestMain:
//
//	klog.SetLogger(logr.Discard())
//
// # Differences from a real server
//
// docs/fidelity.md lists them: resources that are not served, admission plugins that do not exist here, deliberate
// differences, and what a corpus of requests to this server and a real one found to differ. The defaults and the validation
// of built-in kinds are written anew; the corpus checks them.
//
// # Benchmarks
//
//	go test ./envtest -run '^$' -bench . -benchtime 5x
package envtest
