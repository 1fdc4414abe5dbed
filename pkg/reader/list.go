// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package reader

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/pkg/index"
)

// continueNotSupported is what controller-runtime's cache writes into the
// continue field of every list. A list that is complete has no continuation, so
// ours is empty, with two exceptions: a list that Limit cut short, and a list
// without any option, because controller-runtime's own test suite asserts it
// there ("should return an error if pagination is used").
const continueNotSupported = "continue-not-supported"

// errContinue has the text that controller-runtime's suite asserts.
var errContinue = errors.New("continue list option is not supported by the cache")

// item is an object of a store, with what it is sorted by.
type item struct {
	namespace, name string
	obj             client.Object
	from            *CacheReader
}

func compareItems(a, b item) int {
	if c := strings.Compare(a.namespace, b.namespace); c != 0 {
		return c
	}
	return strings.Compare(a.name, b.name)
}

// List reads what matches opts in all readers, which hold disjoint scopes of one
// kind, into out: sorted by namespace and name, at most opts.Limit of it.
//
// The resourceVersion of the list is one that every scope has reached: the list
// holds every change up to it, and may hold later ones.
func List(_ context.Context, out client.ObjectList, opts *client.ListOptions, readers ...*CacheReader) error {
	if opts.Continue != "" {
		if opts.Continue == continueNotSupported {
			return errContinue
		}
		return fmt.Errorf("%w: list without Continue, the cache holds everything", errContinue)
	}
	var (
		items   []item
		version string
	)
	for i, r := range readers {
		found, foundVersion, err := r.find(opts)
		if err != nil {
			return err
		}
		items = append(items, found...)
		if i == 0 || older(foundVersion, version) {
			version = foundVersion
		}
	}
	slices.SortFunc(items, compareItems)
	total := len(items)
	if opts.Limit > 0 && int64(total) > opts.Limit {
		items = items[:opts.Limit]
	}
	if err := fill(out, items, opts.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	out.SetResourceVersion(version)
	out.SetContinue("")
	if len(items) < total || unconstrained(opts) {
		out.SetContinue(continueNotSupported)
	}
	return nil
}

// unconstrained reports that no option restricts the list.
func unconstrained(o *client.ListOptions) bool {
	return o.Namespace == "" && o.LabelSelector == nil && o.FieldSelector == nil && o.Limit == 0
}

// older reports whether resource version a is before b. One that cannot be
// compared, such as that of a store that knows none, counts as the oldest.
func older(a, b string) bool {
	c, err := resourceversion.CompareResourceVersion(a, b)
	if err != nil {
		return a == ""
	}
	return c < 0
}

// find returns the objects that match opts, in no order, and the resource
// version up to which they are complete.
func (r *CacheReader) find(opts *client.ListOptions) ([]item, string, error) {
	if r.scope == meta.RESTScopeNameRoot && opts.Namespace != "" {
		return nil, "", fmt.Errorf("cannot list %s in namespace %q: the kind is cluster-scoped, list it without a namespace", r.gvk.Kind, opts.Namespace)
	}
	selection, err := r.fields.Select(opts.FieldSelector)
	if err != nil {
		return nil, "", err
	}
	// The version is read before the objects, so that it never promises what they
	// do not hold.
	version := r.indexer.LastStoreSyncResourceVersion()
	candidates, err := r.candidates(opts.Namespace, selection)
	if err != nil {
		return nil, "", err
	}
	items := make([]item, 0, len(candidates))
	for _, candidate := range candidates {
		obj, ok := candidate.(client.Object)
		if !ok {
			return nil, "", fmt.Errorf("the cache of %s holds a %T, which is no client.Object; check the transform of this kind", r.gvk.Kind, candidate)
		}
		it := item{namespace: obj.GetNamespace(), name: obj.GetName(), obj: obj, from: r}
		if (opts.Namespace == "" || it.namespace == opts.Namespace) && matches(obj, opts.LabelSelector, selection) {
			items = append(items, it)
		}
	}
	return items, version, nil
}

// candidates returns the smallest set of objects known to include all matches.
func (r *CacheReader) candidates(namespace string, selection index.Selection) ([]any, error) {
	if selection.Nothing() {
		return nil, nil
	}
	if name, ok := selection.Name(); ok && (namespace != "" || r.scope == meta.RESTScopeNameRoot) {
		obj, exists, err := r.indexer.GetByKey(storeKey(client.ObjectKey{Namespace: namespace, Name: name}))
		if err != nil || !exists {
			return nil, err
		}
		return []any{obj}, nil
	}
	if name, key, ok := selection.Index(namespace); ok {
		return r.indexer.ByIndex(name, key)
	}
	if namespace != "" {
		return r.indexer.ByIndex(toolscache.NamespaceIndex, namespace)
	}
	return r.indexer.List(), nil
}

func matches(obj client.Object, byLabel labels.Selector, byField index.Selection) bool {
	return (byLabel == nil || byLabel.Matches(labels.Set(obj.GetLabels()))) && byField.Matches(obj)
}
