// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/tarn-dev/tarn/pkg/cache"
)

// contender is a cache to measure.
type contender struct {
	name string
	new  ctrlcache.NewCacheFunc
}

// The names of the caches.
const (
	theirs = "controller-runtime"
	ours   = "tarn"
)

// contenders returns the caches in the order in which they take turns.
func contenders() []contender {
	return []contender{
		{name: theirs, new: ctrlcache.New},
		{name: ours, new: cache.New},
	}
}

func names() []string {
	var all []string
	for _, c := range contenders() {
		all = append(all, c.name)
	}
	return all
}
