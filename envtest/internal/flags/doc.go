// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package flags reads the command line of kube-apiserver.
//
// Flags that k8s.io/apiserver and k8s.io/component-base have are read by them. The rest are in a table here, each with what
// becomes of it: it is honoured; it has no effect, and Check reports it; or Check refuses it, because a test would give wrong
// results. A flag that kube-apiserver does not know is
// pflag's error.
//
// To honour a flag, add it with its validation to access.go, plugins.go or aggregator.go, and to process.go of internal/commandline. A
// flag without an effect is a row of table.go. Both need a line in testdata/flags-v1.36.txt.
package flags
