// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"iter"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tarn-dev/tarn/pkg/informers"
)

// served is the informer of a scope that leases are on: the only one of its map. The lock of the registry guards what may change.
type served struct {
	in       *informers.Map
	settings *informers.Map // of which in is a part
	key      informers.Key
	extent   extent
	age      uint64 // the oldest has the lowest

	leases int
	idle   *time.Timer // nil while there are leases
	since  time.Time   // when the timer began
	turn   uint64      // how often the timer was stopped
	ended  bool
}

// ofKey are the informers of one key of a registry, the oldest first in each part.
type ofKey struct {
	wide  []*served                          // of more than one name
	named map[types.NamespacedName][]*served // of one name; their namespace may be empty
}

func (k *ofKey) add(s *served) {
	if s.extent.name == "" {
		k.wide = append(k.wide, s)
		return
	}
	if k.named == nil {
		k.named = map[types.NamespacedName][]*served{}
	}
	at := types.NamespacedName{Namespace: s.extent.namespace, Name: s.extent.name}
	k.named[at] = append(k.named[at], s)
}

func (k *ofKey) remove(s *served) {
	is := func(other *served) bool { return other == s }
	if s.extent.name == "" {
		k.wide = slices.DeleteFunc(k.wide, is)
		return
	}
	at := types.NamespacedName{Namespace: s.extent.namespace, Name: s.extent.name}
	if k.named[at] = slices.DeleteFunc(k.named[at], is); len(k.named[at]) == 0 {
		delete(k.named, at)
	}
}

func (k *ofKey) empty() bool { return len(k.wide) == 0 && len(k.named) == 0 }

// alike returns how many names have informers if e has one, and how many informers have label selectors if e has some; else zero.
func (k *ofKey) alike(e extent) (n int) {
	switch {
	case e.name != "":
		return len(k.named)
	case len(e.labels) > 0:
		for _, s := range k.wide {
			if len(s.extent.labels) > 0 {
				n++
			}
		}
	}
	return n
}

// fails reports whether the informer has not synced because something fails.
func (s *served) fails() bool {
	entry, made := s.in.Peek(s.key)
	return made && entry.Failing() != nil
}

// oldest returns the oldest informer that is right, among those that may cover what is wanted; nil if there is none.
func (k *ofKey) oldest(wanted extent, right func(*served) bool) *served {
	var found *served
	for s := range k.near(types.NamespacedName{Namespace: wanted.namespace, Name: wanted.name}) {
		if (found == nil || s.age < found.age) && right(s) {
			found = s
		}
	}
	return found
}

// near walks the informers that may hold an object with that key. An empty name stands for every name, and an empty namespace
// for every namespace.
func (k *ofKey) near(key types.NamespacedName) iter.Seq[*served] {
	return func(yield func(*served) bool) {
		for _, s := range k.wide {
			if !yield(s) {
				return
			}
		}
		for _, s := range slices.Concat(k.named[key], k.named[types.NamespacedName{Name: key.Name}]) {
			if !yield(s) {
				return
			}
		}
	}
}

// all walks all informers.
func (k *ofKey) all() iter.Seq[*served] {
	return func(yield func(*served) bool) {
		for _, s := range k.wide {
			if !yield(s) {
				return
			}
		}
		for _, named := range k.named {
			for _, s := range named {
				if !yield(s) {
					return
				}
			}
		}
	}
}
