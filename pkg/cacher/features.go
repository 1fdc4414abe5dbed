// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cacher

import (
	"k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
)

// featureSet has the feature gates of kube-apiserver that concern a Cacher: on or off. The gates
// are read once, when the Cacher is made: a server sets them before it makes its storage, and so
// all requests of one Cacher are answered by the same rules.
type featureSet struct {
	// watchList lets a watch begin with the state, in place of a list (KEP-3157).
	watchList bool
	// snapshots lets the cache answer lists at an exact revision and later pages (KEP-4988).
	snapshots bool
	// noFallback answers a consistent list 429 if the cache is not fresh in time; otherwise
	// the storage answers it.
	noFallback bool
	// shards lets lists and watches ask for a shard of the objects (KEP-5866).
	shards bool
}

func readFeatures() featureSet {
	gates := utilfeature.DefaultFeatureGate
	return featureSet{
		watchList:  gates.Enabled(features.WatchList),
		snapshots:  gates.Enabled(features.ListFromCacheSnapshot),
		noFallback: gates.Enabled(features.ConsistentListFromCacheSkipTimeoutFallback),
		shards:     gates.Enabled(features.ShardedListAndWatch),
	}
}

// estimatesSizes reports whether the storage is to estimate how large the objects are, by the keys of the cache.
func estimatesSizes() bool {
	return utilfeature.DefaultFeatureGate.Enabled(features.SizeBasedListCostEstimate)
}
