// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package stores makes the stores of a server's resources on an etcd, in this process or elsewhere, and puts watch caches
// before them. It knows the codecs of the resources, and nothing of their rules.
package stores
