// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package flags reads the command line of kube-apiserver.
//
// Flags that k8s.io/apiserver and k8s.io/component-base have are read by them. The rest are in a table here, each with what
// becomes of it: it is honoured; it has no effect, and Check reports it; or Check refuses it, because a test would give wrong
// results. A flag that kube-apiserver does not know is
// pflag's error.
package flags
