// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import "slices"

// median returns that of at least one value, which it leaves as they are.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// comparison is one measure of two caches over all rounds.
type comparison struct {
	theirs, ours float64 // medians
	ratio        float64 // of the medians, ours to theirs
	least, most  float64 // of the rounds' ratios
}

// compare returns false unless both caches have a value, other than 0, of each round.
func compare(theirs, ours []float64) (comparison, bool) {
	if len(theirs) == 0 || len(theirs) != len(ours) || slices.Contains(theirs, 0) {
		return comparison{}, false
	}
	ratios := make([]float64, len(ours))
	for round := range ours {
		ratios[round] = ours[round] / theirs[round]
	}
	c := comparison{theirs: median(theirs), ours: median(ours), least: slices.Min(ratios), most: slices.Max(ratios)}
	c.ratio = c.ours / c.theirs
	return c, true
}
