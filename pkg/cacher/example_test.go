// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cacher_test

import (
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage/storagebackend"

	"github.com/tarn-dev/tarn/pkg/cacher"
)

// An API server that is built on k8s.io/apiserver chooses its Cacher where it chooses its
// storage.
func ExampleStorageWithCacher() {
	restOptions := func(config *storagebackend.ConfigForResource) generic.RESTOptions {
		return generic.RESTOptions{
			StorageConfig: config,
			Decorator:     cacher.StorageWithCacher(nil, cacher.Options{}), // the one line
		}
	}
	_ = restOptions
}

// The Cachers of all resources share a bound for what their histories hold.
func ExampleNewHistoryBudget() {
	options := cacher.Options{HistoryBudget: cacher.NewHistoryBudget(64 << 20)}
	_ = cacher.StorageWithCacher(nil, options)
}
