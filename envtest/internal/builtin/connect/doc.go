// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package connect has the subresources that reach into Pods, Services and Nodes: proxy, exec, attach, port-forward and logs.
package connect
