// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package envtest runs a Kubernetes API server with its etcd inside the test process.
//
// No binary is downloaded, built or started. A test needs one line:
//
//	env := envtest.Start(t)
//	client, err := client.New(env.Config(), client.Options{})
//
// The server is made of the same libraries as kube-apiserver: k8s.io/apiserver for handlers, admission and storage,
// k8s.io/apiextensions-apiserver for custom resources, and etcd's store below. What is missing on purpose are
// controllers, the scheduler and the kubelet: a Pod that is created stays as it is, and a namespace that is deleted stays
// in phase Terminating, as with every environment that has only an API server.
//
// # Isolation
//
// Any number of environments can run in one process. Each has an etcd of its own that listens nowhere, a loopback port
// that the kernel picked, certificate authorities that live as long as the server, and client certificates and bearer tokens
// that nobody else knows. A request with another credential is answered with 401. One without any is anonymous, and may ask
// for /healthz, /livez, /readyz and /version, as the default roles of Kubernetes say. Private keys are in memory alone. Stop
// closes everything that Start opened.
//
// # Memory and disk
//
// A suite may write as much as it likes: what has been replaced or deleted is kept for five minutes, as by kube-apiserver,
// and no longer than until 512 MiB more were written. After that a list of such an old resourceVersion, or a token to
// continue one, is answered with 410, and the space is used again. It is on disk, in a file in Options.DataDirectory that
// begins with 5 MiB; the heap holds keys and revisions, and what the watch caches hold.
//
// When the disk is full, writes are refused with an error that says so, until there is space again. When it breaks, all
// requests fail with its error, and so does Stop. Neither ends the process. An environment whose process was killed leaves
// its folder, and the next process that starts one in the same place removes it.
//
// # The watch cache
//
// Between the request handlers and etcd stands the Cacher of package cacher. Options.StorageDecorator chooses it resource by
// resource, as --watch-cache and --watch-cache-sizes of kube-apiserver do, or k8s.io/apiserver's own Cacher, or none; and
// a decorator of a test's own can look at the storage, or let it fail. A suite runs on another watch cache as it is with
//
//	TARN_WATCH_CACHE=upstream go test ./...
//
// where the names are tarn, upstream and none. With TARN_CHECK_CONSISTENCY=true, or Options.CheckConsistency, each Cacher is
// compared with etcd when the environment stops. With TARN_VERIFY_FLAT=true each object that a cache or a Cacher of the process
// keeps flat is compared with its source, from the first Start on.
//
// # Logging
//
// The environment prints nothing, and etcd is silent. Some parts of the libraries log to the process-wide klog however they
// are set up; about a dozen lines at start and half as many at stop are left. A test that does not want them says so once,
// in TestMain:
//
//	klog.SetLogger(logr.Discard())
//
// # Differences from a real server
//
// docs/envtest.md lists them: the resources that are not served, the admission plugins that are not there, and what is
// otherwise on purpose.
//
// # Benchmarks
//
//	go test ./envtest -run '^$' -bench . -benchtime 5x
package envtest
