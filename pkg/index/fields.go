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

	"github.com/tarn-dev/tarn/internal/contain"
	"github.com/tarn-dev/tarn/internal/object"
	"github.com/tarn-dev/tarn/internal/postings"
)

// Fields is the registry of the field indexes of one informer. It is safe for
// concurrent use.
type Fields struct {
	gvk    schema.GroupVersionKind
	logger logr.Logger
	space  string // begins the names of the fields in the names of indexes

	declaring sync.Mutex // held by Declare; it comes before mu, and before the informer's locks

	mu     sync.RWMutex // guards byName; no function of a user's is called with it
	byName map[string]*declared
}

// NewFields returns an empty registry for an informer of gvk. If two functions are declared
// for one field and return different values of an object, the registry logs an error.
func NewFields(gvk schema.GroupVersionKind, logger logr.Logger) *Fields {
	return &Fields{gvk: gvk, logger: logger, byName: map[string]*declared{}}
}

// In returns an empty registry like f for a view of the informer: space begins the names of its
// fields in the names of indexes, so that the fields of several views do not meet. An object that the view
// cannot show may have any value: see postings.Selection.MayMatch.
func (f *Fields) In(space string) *Fields {
	in := NewFields(f.gvk, f.logger)
	in.space = space
	return in
}

// Declare adds an index of the values that extract returns to informer, a SharedIndexInformer or an Indexer, before or after the
// informer has started. When Declare returns, lists can select by the field.
//
// A field can be declared again, so that several controllers can each declare what they list
// by. The first function serves the index. Whether a later function returns the same values
// cannot be seen without calling it: Declare calls it for the objects of the informer, and from
// then on it is called for each object after the first function. The first object for which the
// values differ is logged as an error.
//
// The error says that field is empty, that extract is nil, or why the informer refused the index.
func (f *Fields) Declare(informer interface {
	AddIndexers(toolscache.Indexers) error
}, field string, extract client.IndexerFunc) error {
	switch {
	case field == "":
		return fmt.Errorf("cannot index %s: the name of the field is empty", object.Describe(f.gvk))
	case extract == nil:
		return fmt.Errorf("cannot index field %q of %s: the function that extracts its values is nil", field, object.Describe(f.gvk))
	}
	// To index all objects there are may take seconds, in which lists go on.
	f.declaring.Lock()
	defer f.declaring.Unlock()
	if known, ok := f.declared(field); ok {
		known.addTwin(&twin{extract: extract}, objectsOf(informer))
		return nil
	}
	d := &declared{field: field, index: postings.Name(f.space + field), gvk: f.gvk, logger: f.logger, extract: extract, name: fmt.Sprintf("field %q of %s", field, object.Describe(f.gvk))}
	add := func() error { return informer.AddIndexers(toolscache.Indexers{d.index: indexFunc(d.values)}) }
	if own, ok := informer.(postings.Informer); ok {
		add = func() error { return own.AddField(d.index, d.values) }
	}
	if err := add(); err != nil {
		return fmt.Errorf("cannot index field %q of %s: %w", field, object.Describe(f.gvk), err)
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

// objectsOf walks the objects that an informer, or a store of client-go's, has now.
func objectsOf(informer any) iter.Seq[client.Object] {
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

// IndexOf returns the name of the index of a field. It is empty for metadata.name and metadata.namespace, which every object
// has, unless they are declared. The error is a [*NotIndexedError] for any other field that is not declared.
func (f *Fields) IndexOf(field string) (string, error) {
	if d, ok := f.declared(field); ok {
		return d.index, nil
	}
	if postings.EveryObjectHas(field) {
		return "", nil
	}
	return "", &NotIndexedError{GVK: f.gvk, Field: field}
}

// Space is what In was called with; empty for the fields of an informer.
func (f *Fields) Space() string { return f.space }

// String names the kind.
func (f *Fields) String() string { return object.Describe(f.gvk) }

// Values calls the function of a declared field for obj and returns its values; nil if the
// field is not declared. It panics if the function does, with an error that names both.
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
	index  string // the name of the index
	gvk    schema.GroupVersionKind
	name   string // of field and kind, for panics
	logger logr.Logger

	mu      sync.Mutex // held while extract or a twin runs: client-go calls them one at a time, too
	extract client.IndexerFunc
	twins   []*twin // guarded by mu
}

// twin is a further function that was declared for a field.
type twin struct {
	extract   client.IndexerFunc
	disagreed bool // guarded by declared.mu
}

// addTwin adds a twin, and compares it with extract for the objects of the informer. The method
// values compares the two for objects that are written meanwhile.
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

// agree compares a twin with extract for obj, and reports whether the two have agreed for all
// objects so far. An object for which one of them panics does not count.
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
	defer contain.Name(d.name, obj)
	return extract(obj)
}

// values returns the values of extract for obj, and compares those of the twins with them.
func (d *declared) values(obj client.Object) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	values := d.call(d.extract, obj)
	for _, t := range d.twins {
		d.compareLocked(t, obj, values)
	}
	return values
}

// compareLocked compares the values of a twin for obj with those of extract, and logs the first
// object for which they differ. A panic of the twin ends here, since the index does not need it.
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

// sameValues reports whether a and b are equal as sets: an index ignores the order of values,
// and how often one occurs.
func sameValues(a, b []string) bool {
	return slices.Equal(a, b) || slices.Equal(sortedSet(a), sortedSet(b))
}

func sortedSet(values []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(values)))
}
