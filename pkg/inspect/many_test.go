// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"slices"
	"testing"

	"github.com/tarn-dev/tarn/internal/inspected"
	"github.com/tarn-dev/tarn/internal/metrics"
	"github.com/tarn-dev/tarn/pkg/informers"
)

// shown is an entry of a namespace, which counts how often it is asked for what it shows.
type shown struct {
	inspected.Informer // nil
	of                 informers.Representation
	watch              int
	asked              *int
}

func (s shown) Series() metrics.Series { return metrics.Series{Representation: s.of.String()} }

func (s shown) Watch() any {
	*s.asked++
	return s.watch
}

// TestWhoSharesAWatchIsFoundWithoutComparingAllWithAll: a cache may have thousands of namespaces, and the page looks
// every two seconds.
func TestWhoSharesAWatchIsFoundWithoutComparingAllWithAll(t *testing.T) {
	const namespaces = 5000
	asked := 0
	all := func(of informers.Representation, first int) (entries []inspected.Informer) {
		for n := range namespaces {
			entries = append(entries, shown{nil, of, first + n, &asked})
		}
		return entries
	}
	structured, unstructured, metadata := all(informers.Structured, 0), all(informers.Unstructured, 0), all(informers.Metadata, namespaces/2)
	again, names := shared(unstructured, slices.Concat(structured, metadata))
	if !slices.Equal(names, []string{"structured", "metadata"}) || slices.Contains(again, false) {
		t.Errorf("it shares with %q", names)
	}
	again, names = shared(metadata, slices.Concat(structured, unstructured))
	if !slices.Equal(names, []string{"structured", "unstructured"}) || !again[0] || again[namespaces-1] {
		t.Errorf("metadata shares with %q, the first entry %t, the last %t", names, again[0], again[namespaces-1])
	}
	if again, names = shared(structured, nil); names != nil || slices.Contains(again, true) {
		t.Errorf("one that is alone shares with %q", names)
	}
	if asked > 15*namespaces {
		t.Errorf("entries are asked %d times what they show, of %d namespaces", asked, namespaces)
	}
}
