// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package source

import "fmt"

// mostUpdated bounds the memory for update events: two for each such Pod.
const mostUpdated = 20_000

// Updated returns how many of a catalog's Pods have update events.
func Updated(pods int) int { return min(pods, mostUpdated) }

// Updates are update events that a measured process asks for.
type Updates struct {
	First  int  // the number of the first one, from 0; its resourceVersion follows from it
	Count  int  // how many
	Rate   int  // events a second; 0 is full speed
	Skewed bool // four fifths of the events are of a twentieth of the Pods
}

func (u Updates) check() error {
	if u.First < 0 || u.Count < 1 || u.Rate < 0 {
		return fmt.Errorf("count must be positive, first and rate not negative: %+v", u)
	}
	return nil
}

// turn returns which of the updated Pods event number n changes, and how often this Pod was changed
// before. The Pods take turns; in a skewed sequence the often changed Pods take turns among
// themselves, and so do the seldom changed ones.
func (u Updates) turn(n, updated int) (pod, before int) {
	often := updated / 20
	switch {
	case !u.Skewed || often == 0:
		return n % updated, n / updated
	case n%5 == 4:
		seldom := updated - often
		return often + n/5%seldom, n / 5 / seldom
	}
	n = n/5*4 + n%5
	return n % often, n / often
}

// Newest tells of each of the events whether none after it changes the same Pod.
func (u Updates) Newest(pods int) []bool {
	updated := Updated(pods)
	newest, seen := make([]bool, u.Count), make([]bool, updated)
	for i := u.Count - 1; i >= 0; i-- {
		pod, _ := u.turn(u.First+i, updated)
		newest[i], seen[pod] = !seen[pod], true
	}
	return newest
}
