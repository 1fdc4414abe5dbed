// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/tarn-dev/tarn/internal/inspected"
	"github.com/tarn-dev/tarn/pkg/informers"
)

// leaseInfo are the leases on one scope that one informer serves.
type leaseInfo struct {
	Scope string `json:"scope"`
	// Informer is the scope of the informer, which covers that of the leases.
	Informer string `json:"informer"`
	Leases   int    `json:"leases"`
}

// leases returns how many leases each informer serves.
func (h *handler) leases() map[*informers.MapEntry]int {
	all := map[*informers.MapEntry]int{}
	h.cache.Held(func(by *informers.MapEntry, _ fmt.Stringer) { all[by]++ })
	return all
}

// leasesOf returns the leases of a kind by scope and informer, the most first.
func (h *handler) leasesOf(f found) []leaseInfo {
	kind := make(map[*informers.MapEntry]string, len(f.entries))
	for _, entry := range f.entries {
		kind[entry] = scopeOf(entry)
	}
	counts := map[leaseInfo]int{}
	h.cache.Held(func(by *informers.MapEntry, scope fmt.Stringer) {
		if informer, ok := kind[by]; ok {
			counts[leaseInfo{Scope: scope.String(), Informer: informer}]++
		}
	})
	all := make([]leaseInfo, 0, len(counts))
	for of, n := range counts {
		of.Leases = n
		all = append(all, of)
	}
	slices.SortFunc(all, func(a, b leaseInfo) int {
		return cmp.Or(cmp.Compare(b.Leases, a.Leases), cmp.Compare(a.Scope, b.Scope), cmp.Compare(a.Informer, b.Informer))
	})
	return all
}

// controllerList is the answer to api/v1/controllers.
type controllerList struct {
	Controllers []inspected.Controller `json:"controllers"`
	More        int                    `json:"more,omitempty"`
}

// controllers answers api/v1/controllers.
func (h *handler) controllers(*http.Request) (controllerList, error) {
	list := controllerList{Controllers: append([]inspected.Controller{}, h.cache.Controllers()...)}
	list.More = cut(&list.Controllers, maxRows)
	for _, c := range list.Controllers {
		for i := range c.Requests {
			c.Requests[i].Request = shortened(c.Requests[i].Request)
		}
	}
	return list, nil
}

// scopeOf names the scope of an informer, as leases name theirs.
func scopeOf(entry *informers.MapEntry) string {
	var parts []string
	if namespace := entry.Namespace(); namespace != "" {
		parts = append(parts, fmt.Sprintf("namespace %q", namespace))
	}
	if selects := entry.Inspected().Selects(); selects != "" {
		parts = append(parts, selects)
	}
	return cmp.Or(strings.Join(parts, " and "), "all")
}
