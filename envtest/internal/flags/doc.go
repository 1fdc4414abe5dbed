// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package flags reads the command line of kube-apiserver.
//
// Flags that k8s.io/apiserver and k8s.io/component-base have are read by them. The rest are in a table here, each with what
// becomes of it: it is honoured; or it has no effect, which Check says of each that the command line has; or it cannot be
// honoured and a test that gives it would go wrong, and Check refuses it. A flag that kube-apiserver does not know is
// pflag's error.
package flags
