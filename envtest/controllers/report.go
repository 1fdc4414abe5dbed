// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"errors"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// report is what one look at the content of a namespace has found.
type report struct {
	discovery error // why not all kinds are known
	parsing   error // why one of them has no name

	mu       sync.Mutex    // guards what follows, while kinds are looked at
	found    bool          // there was something
	left     []remaining   // of kinds that fail, or whose objects remain
	estimate time.Duration // until what remains is gone
}

// remaining is what remains of one kind in a namespace.
type remaining struct {
	resource   resource
	found      bool // there was something
	objects    int
	finalizers map[string]int // how many objects each holds
	estimate   time.Duration  // until they are gone; zero if that is not known
	err        error
}

// count counts the objects that remain, and what holds them.
func (r *remaining) count(objects []metav1.PartialObjectMetadata) {
	r.objects, r.finalizers = len(objects), map[string]int{}
	for i := range objects {
		for _, finalizer := range objects[i].Finalizers {
			r.finalizers[finalizer]++
		}
	}
}

// add adds what was found of a kind. It may be called concurrently.
func (r *report) add(kind remaining) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.found = r.found || kind.found
	r.estimate = max(r.estimate, kind.estimate)
	if kind.objects > 0 || kind.err != nil {
		r.left = append(r.left, kind)
	}
}

// remains reports whether something is left, as far as that is known.
func (r *report) remains() bool {
	for _, kind := range r.left {
		if kind.objects > 0 {
			return true
		}
	}
	return false
}

// kinds are the kinds whose objects remain.
func (r *report) kinds() []schema.GroupVersionKind {
	var kinds []schema.GroupVersionKind
	for _, kind := range r.left {
		if kind.objects > 0 {
			kinds = append(kinds, kind.resource.gvk())
		}
	}
	return kinds
}

// err is all that went wrong.
func (r *report) err() error { return errors.Join(append(r.failures(), r.discovery, r.parsing)...) }

// failures are the errors of kinds.
func (r *report) failures() []error {
	var errs []error
	for _, kind := range r.left {
		if kind.err != nil {
			errs = append(errs, kind.err)
		}
	}
	return errs
}
