// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/tarn-dev/tarn/internal/cover"
)

// wideList is what a list has brought for namespaces that join later.
type wideList struct {
	covers      []cover.Cover  // of its request, and of those that came later: what one of them has not may have changed unseen
	empty       runtime.Object // a list without objects
	version     string
	byNamespace map[string][]runtime.Object
	objects     map[string]int  // how many there were, by namespace
	changed     map[string]bool // namespaces that have joined, or of which there was an event
}

// newWideList returns what the list of a cover has brought. The list is used no more.
func newWideList(of cover.Cover, listed runtime.Object) (*wideList, error) {
	m, err := meta.ListAccessor(listed)
	if err != nil {
		return nil, err
	}
	l := &wideList{
		covers: []cover.Cover{of}, empty: listed, version: m.GetResourceVersion(),
		byNamespace: map[string][]runtime.Object{}, objects: map[string]int{}, changed: map[string]bool{},
	}
	if _, err := resourceversion.CompareResourceVersion(l.version, l.version); err != nil {
		return nil, err
	}
	items, err := meta.ExtractList(listed)
	if err != nil {
		return nil, err
	}
	for _, obj := range items {
		m, err := meta.Accessor(obj)
		if err != nil {
			return nil, err
		}
		l.byNamespace[m.GetNamespace()] = append(l.byNamespace[m.GetNamespace()], obj)
		l.objects[m.GetNamespace()]++
	}
	return l, meta.SetList(listed, nil)
}

// takeLocked returns the list of a namespace that joins, which belongs to the caller; nil if there is none that is as new as asked for.
func (r *wideRun) takeLocked(namespace, atLeast string) (runtime.Object, error) {
	l := r.list
	if l == nil {
		return nil, nil
	}
	items, changed := l.byNamespace[namespace], l.changed[namespace]
	delete(l.byNamespace, namespace)
	l.changed[namespace] = true // what comes from now on is for the member alone
	unseen := slices.ContainsFunc(l.covers, func(c cover.Cover) bool { return !c.Has(namespace) })
	if changed || unseen || !reaches(l.version, atLeast) {
		return nil, nil
	}
	list := l.empty.DeepCopyObject()
	return list, meta.SetList(list, items)
}
