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

	declaring sync.Mutex // held by Declare; it comes before mu, and before the informer's locks

	mu     sync.RWMutex // guards byName; no function of a user's is called with it
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

// FieldInformer is an informer that keeps the values of a field by itself, and
// needs no keys made of them.
type FieldInformer interface {
	// AddField makes the informer keep an index, called name, of the values that
	// extract returns.
	AddField(name string, extract client.IndexerFunc) error
}

// Declare adds an index over the values that extract returns to informer; it
// works before and after the informer has started.
//
// Declaring a field that is declared already succeeds, so that several
// controllers can each declare what they list by: the first function serves the
// index. Functions cannot be compared, so the later ones are run beside it, and
// the first object on which they disagree is logged as an error. All of them are called
// for one object at a time.
func (f *Fields) Declare(informer Informer, field string, extract client.IndexerFunc) error {
	switch {
	case field == "":
		return fmt.Errorf("cannot index %s: the name of the field is empty", Describe(f.gvk))
	case extract == nil:
		return fmt.Errorf("cannot index field %q of %s: the function that extracts its values is nil", field, Describe(f.gvk))
	}
	// To index all objects there are may take seconds, in which lists go on.
	f.declaring.Lock()
	defer f.declaring.Unlock()
	if known, ok := f.declared(field); ok {
		known.addTwin(extract)
		return nil
	}
	d := &declared{field: field, gvk: f.gvk, logger: f.logger, extract: extract}
	if err := add(informer, Name(field), d.values); err != nil {
		return fmt.Errorf("cannot index field %q of %s: %w", field, Describe(f.gvk), err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.byName[field] = d
	return nil
}

func (f *Fields) declared(field string) (*declared, bool) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	d, ok := f.byName[field]
	return d, ok
}

func add(informer Informer, name string, extract client.IndexerFunc) error {
	if own, ok := informer.(FieldInformer); ok {
		return own.AddField(name, extract)
	}
	return informer.AddIndexers(toolscache.Indexers{name: indexFunc(extract)})
}

// Fields that every object has, so that they need not be declared. A declaration
// takes precedence.
const (
	fieldName      = "metadata.name"
	fieldNamespace = "metadata.namespace"
)

// indexed reports whether an index serves field; a field that none serves and that
// not every object has is an error.
func (f *Fields) indexed(field string) (bool, error) {
	if _, ok := f.declared(field); ok {
		return true, nil
	}
	if field == fieldName || field == fieldNamespace {
		return false, nil
	}
	return false, &NotIndexedError{GVK: f.gvk, Field: field}
}

// Values returns the values of a declared field of obj; none of others.
func (f *Fields) Values(obj client.Object, field string) []string {
	if d, ok := f.declared(field); ok {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.extract(obj)
	}
	return nil
}

// declared is one declared field.
type declared struct {
	field  string
	gvk    schema.GroupVersionKind
	logger logr.Logger

	mu      sync.Mutex // held to call extract and twins: client-go calls them one at a time, too
	extract client.IndexerFunc

	twins     atomic.Pointer[[]client.IndexerFunc] // replaced under Fields.declaring, read without
	disagreed atomic.Bool
}

// addTwin remembers a further function declared for the same field; the caller
// holds Fields.declaring.
func (d *declared) addTwin(extract client.IndexerFunc) {
	twins := []client.IndexerFunc{extract}
	if known := d.twins.Load(); known != nil {
		twins = append(slices.Clone(*known), extract)
	}
	d.twins.Store(&twins)
}

// values is extract, with the twins checked beside it until one disagrees.
func (d *declared) values(obj client.Object) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
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
