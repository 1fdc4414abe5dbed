// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package index

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
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
// index. Functions cannot be compared, so a later one is run on the objects there are,
// before Declare returns, and then beside the first one. The first object on which it
// disagrees is logged as an error. All of them are called for one object at a time.
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
		known.addTwin(&twin{extract: extract}, objectsOf(informer))
		return nil
	}
	d := &declared{field: field, gvk: f.gvk, logger: f.logger, extract: extract, name: fmt.Sprintf("field %q of %s", field, Describe(f.gvk))}
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

// objectsOf walks the objects that an informer, or a store of client-go's, has now.
func objectsOf(informer Informer) iter.Seq[client.Object] {
	var list func() []any
	switch i := informer.(type) {
	case interface {
		Objects() iter.Seq[client.Object]
	}:
		return i.Objects()
	case toolscache.SharedInformer:
		list = func() []any { return i.GetStore().List() }
	case toolscache.Store:
		list = i.List
	default:
		return func(func(client.Object) bool) {}
	}
	return func(yield func(client.Object) bool) {
		for _, raw := range list() {
			if obj, ok := raw.(client.Object); ok && !yield(obj) {
				return
			}
		}
	}
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
		return d.call(d.extract, obj)
	}
	return nil
}

// declared is one declared field.
type declared struct {
	field  string
	gvk    schema.GroupVersionKind
	name   string // of field and kind, for panics
	logger logr.Logger

	mu      sync.Mutex // held to call extract and twins: client-go calls them one at a time, too
	extract client.IndexerFunc
	twins   []*twin // guarded by mu
}

// twin is a further function that was declared for a field.
type twin struct {
	extract   client.IndexerFunc
	disagreed bool // guarded by declared.mu
}

// addTwin remembers a twin, and looks whether it agrees on the objects there are. What is
// written meanwhile is looked at by values.
func (d *declared) addTwin(t *twin, objects iter.Seq[client.Object]) {
	d.mu.Lock()
	d.twins = append(d.twins, t)
	d.mu.Unlock()
	for obj := range objects {
		if !d.agree(t, obj) {
			return
		}
	}
}

// agree reports whether a twin has agreed so far, also on obj. A function that panics says
// nothing about that.
func (d *declared) agree(t *twin, obj client.Object) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !t.disagreed {
		func() {
			defer utilruntime.HandleCrash()
			d.compareLocked(t, obj, d.call(d.extract, obj))
		}()
	}
	return !t.disagreed
}

// call calls extract or a twin.
func (d *declared) call(extract client.IndexerFunc, obj client.Object) []string {
	defer NameCrash(d.name, obj)
	return extract(obj)
}

// values is extract, with the twins checked beside it until they disagree.
func (d *declared) values(obj client.Object) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	values := d.call(d.extract, obj)
	for _, t := range d.twins {
		d.compareLocked(t, obj, values)
	}
	return values
}

// compareLocked logs the first object on which a twin disagrees. If the twin panics that is
// handled here: the values of the first function are those of the index.
func (d *declared) compareLocked(t *twin, obj client.Object, values []string) {
	if t.disagreed {
		return
	}
	defer utilruntime.HandleCrash()
	other := d.call(t.extract, obj)
	if t.disagreed = !sameValues(values, other); t.disagreed {
		d.logger.Error(errors.New("two functions index one field differently"),
			"The field index keeps the values of the first function; give one of the two another field name",
			"kind", d.gvk.Kind, "field", d.field, "object", client.ObjectKeyFromObject(obj), "first", values, "other", other)
	}
}

// sameValues reports whether an index would be the same with a as with b: their order and
// what occurs twice make no difference to it.
func sameValues(a, b []string) bool {
	return slices.Equal(a, b) || slices.Equal(sortedSet(a), sortedSet(b))
}

func sortedSet(values []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(values)))
}
