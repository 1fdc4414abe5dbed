// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tarn is the map of the project; the code is in its packages.
//
// Tarn gives operator authors a local copy of Kubernetes objects that follows the
// API server: a drop-in informer cache for controller-runtime. It has the server
// side of the same pipeline too, an API server with etcd in the test process, so
// that an object's whole way can be exercised in one program.
//
//	 etcd ─► Cacher ─► request handlers ══► Reflector ─► informer ─┬► event handlers
//	                                                 on the engine └► CacheReader: Get, List
//	└────────────── envtest ───────────┘    └────────────────── pkg/cache ─────────────────┘
//
// The pages in docs say how the parts are used (cache.md, consistency.md, options.md, differences.md,
// envtest.md, inspect.md, when-something-is-wrong.md), and how they work: design.md, pipeline.md, flat.md, engine.md, index.md.
//
// # Packages
//
//   - pkg/cache makes the cache: it merges the options, and finds the informers
//     and readers of a kind in one or many namespaces. Tuning has the options of
//     our own.
//   - pkg/client makes a client whose reads show its own writes at once.
//   - pkg/inspect shows what is in a cache, as JSON and on a page.
//   - pkg/informers keeps an informer with its reader for each kind and
//     representation (structured, unstructured, metadata only) of one scope.
//   - pkg/reader reads objects, lists and pages out of an informer's snapshots, as
//     copies that belong to the caller.
//   - pkg/cacher is the Cacher of an API server: it answers reads and watches out of
//     memory, in front of etcd.
//   - internal/informer is client-go's SharedIndexInformer on the engine: it keeps what a
//     Reflector lists and watches, and tells event handlers.
//   - internal/listwatch lists and watches in each representation, and decodes on all cores.
//   - internal/query answers a list from a snapshot, by an index if there is one, for
//     reader and Cacher.
//   - internal/pending keeps what a program has written and its watch has not shown yet.
//   - internal/metrics makes the metrics of a cache of what its informers and reads count.
//   - internal/watchcache is the engine of informer and Cacher: ordered state with snapshots,
//     a window of events, and cursors that may lag.
//   - pkg/index keeps posting lists of labels and declared fields, and plans how a
//     selector is answered from them.
//   - internal/object is what the cache keeps of an object: flat, or decoded.
//   - internal/flat keeps an object as bytes that are cheap to copy out.
//   - internal/flat/dictionary holds the strings that recur among the objects of a store, once.
//   - internal/served says which kinds the API server serves, and tells when that changes.
//   - internal/contain calls functions of users whose panics must not end the process.
//   - internal/stats has the counters and histograms that the parts count with.
//   - envtest runs an API server with its etcd in the test process.
//   - envtest/controllers has controllers for it, which do as kube-controller-manager's, on pkg/cache: they delete namespaces,
//     collect garbage, and make what each namespace has.
//   - envtest/components runs the real kube-controller-manager and kube-scheduler beside it, as processes that it ends.
//   - envtest/nodes has nodes without kubelets for it, whose Pods run and fail on command.
//   - envtest/faults lets it fail and lag on command.
//   - envtest/campaign runs a controller once for each fault at each of its requests and events.
//   - envtest/kubebuilder lets a suite of controller-runtime's envtest run on it.
//   - envtest/cmd/apiserver runs such a server as a process of its own.
//   - envtest/cmd/assets builds the real kube-apiserver and etcd from the Go
//     module proxy, or Tarn's own for suites that start binaries.
//   - envtest/cmd/controlplane holds two programs with the names of the real binaries, for
//     suites that start these, and their tests.
//   - envtest/cmd/controlplane/etcd is etcd's own main function.
//   - envtest/cmd/controlplane/kube-apiserver is envtest's server.
//   - envtest/cmd/oracle runs those real binaries as a process of its own.
//   - bench measures the cache against controller-runtime's own.
//   - examples holds one small program for each use; begin with
//     examples/quickstart.
//
// A test (TestImportsAreAllowed) lists what each package may import, with the reason; another
// sees that a program with pkg/cache links neither an API server nor etcd.
package tarn
