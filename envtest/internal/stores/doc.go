// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

// Package stores makes the stores of a server's resources on an etcd, in this process or elsewhere, and puts watch caches
// before them. It knows nothing of what the resources are.
package stores
