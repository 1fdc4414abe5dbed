// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package commandline configures a server by the flags of kube-apiserver.
package commandline
