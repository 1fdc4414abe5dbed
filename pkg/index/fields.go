// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package index

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Fields is the registry of the field indexes of one informer. It is safe for
// concurrent use.
type Fields struct {
	gvk    schema.GroupVersionKind
	logger logr.Logger

	mu     sync.RWMutex // guards byName
	byName map[string]*declared
}

// NewFields returns the registry for an informer of gvk. The logger is told
// when two declarations of one field turn out to disagree.
func NewFields(gvk schema.GroupVersionKind, logger logr.Logger) *Fields {
	return &Fields{gvk: gvk, logger: logger, byName: map[string]*declared{}}
}

// Informer is the part of a SharedIndexInformer that a field index needs.
type Informer interface {
	AddIndexers(toolscache.Indexers) error
}

// Declare adds an index over the values that extract returns to informer; it
// works before and after the informer has started.
//
// Declaring a field that is declared already succeeds, so that several
// controllers can each declare what they list by: the first function serves the
// index. Functions cannot be compared, so the later ones are run beside it, and
// the first object on which they disagree is logged as an error.
func (f *Fields) Declare(informer Informer, field string, extract client.IndexerFunc) error {
	switch {
	case field == "":
		return fmt.Errorf("cannot index %s: the name of the field is empty", Describe(f.gvk))
	case extract == nil:
		return fmt.Errorf("cannot index field %q of %s: the function that extracts its values is nil", field, Describe(f.gvk))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if known, ok := f.byName[field]; ok {
		known.addTwin(extract)
		return nil
	}
	d := &declared{field: field, gvk: f.gvk, logger: f.logger, extract: extract}
	if err := informer.AddIndexers(toolscache.Indexers{Name(field): indexFunc(d.values)}); err != nil {
		return fmt.Errorf("cannot index field %q of %s: %w", field, Describe(f.gvk), err)
	}
	f.byName[field] = d
	return nil
}

// extractor returns the function behind field and whether an index serves it.
func (f *Fields) extractor(field string) (extract client.IndexerFunc, indexed bool, err error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if d, ok := f.byName[field]; ok {
		return d.extract, true, nil
	}
	if extract := builtin(field); extract != nil {
		return extract, false, nil
	}
	return nil, false, &NotIndexedError{GVK: f.gvk, Field: field}
}

// builtin returns the extractor of a field that every object has, so that it
// need not be declared; nil for others. A declaration takes precedence.
func builtin(field string) client.IndexerFunc {
	switch field {
	case "metadata.name":
		return func(obj client.Object) []string { return []string{obj.GetName()} }
	case "metadata.namespace":
		return func(obj client.Object) []string { return []string{obj.GetNamespace()} }
	}
	return nil
}

// declared is one declared field.
type declared struct {
	field   string
	gvk     schema.GroupVersionKind
	logger  logr.Logger
	extract client.IndexerFunc

	twins     atomic.Pointer[[]client.IndexerFunc] // replaced under Fields.mu, read without
	disagreed atomic.Bool
}

// addTwin remembers a further function declared for the same field; the caller
// holds Fields.mu.
func (d *declared) addTwin(extract client.IndexerFunc) {
	twins := []client.IndexerFunc{extract}
	if known := d.twins.Load(); known != nil {
		twins = append(slices.Clone(*known), extract)
	}
	d.twins.Store(&twins)
}

// values is extract, with the twins checked beside it until one disagrees.
func (d *declared) values(obj client.Object) []string {
	values := d.extract(obj)
	twins := d.twins.Load()
	if twins == nil || d.disagreed.Load() {
		return values
	}
	for _, twin := range *twins {
		if other := twin(obj); !slices.Equal(values, other) && d.disagreed.CompareAndSwap(false, true) {
			d.logger.Error(errors.New("two functions index one field differently"),
				"The field index keeps the values of the first function; give one of the two another field name",
				"kind", d.gvk.Kind, "field", d.field, "object", client.ObjectKeyFromObject(obj), "first", values, "other", other)
		}
	}
	return values
}
