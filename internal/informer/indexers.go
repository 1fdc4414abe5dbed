// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informer

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/contain"
)

// indexers are the indexes that users have added, by name. Safe for concurrent use.
type indexers struct {
	description string // of the kind, in errors
	// declare adds an index to the engine; it may take long.
	declare func(name string, extract func(client.Object) []string)
	// byNamespace says that the order of the keys answers the index toolscache.NamespaceIndex,
	// for which the engine has none.
	byNamespace bool
	// space begins the names that indexes of client-go's functions have in the engine, so that those
	// of several views do not meet. The indexes of fields have names of their own.
	space string

	// mu guards what follows. It is held while an index is declared, so it comes before
	// reflectorStore.mu.
	mu        sync.Mutex
	functions toolscache.Indexers // but for that by namespace; nil before the first, as names
	names     map[string]string   // in the engine
	closed    bool                // no index is taken any more
}

// newIndexers returns no indexers, or the one by namespace.
func newIndexers(byNamespace bool, description string, declare func(string, func(client.Object) []string)) *indexers {
	return &indexers{description: description, declare: declare, byNamespace: byNamespace}
}

// inOrder reports whether the order of the keys answers the index.
func (x *indexers) inOrder(name string) bool {
	return x.byNamespace && name == toolscache.NamespaceIndex
}

// all returns a copy of the map of all functions.
func (x *indexers) all() toolscache.Indexers {
	x.mu.Lock()
	defer x.mu.Unlock()
	all := toolscache.Indexers{}
	maps.Copy(all, x.functions)
	if x.byNamespace {
		all[toolscache.NamespaceIndex] = toolscache.MetaNamespaceIndexFunc
	}
	return all
}

// named returns the function of an index.
func (x *indexers) named(name string) (toolscache.IndexFunc, bool) {
	if x.inOrder(name) {
		return toolscache.MetaNamespaceIndexFunc, true
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	f, ok := x.functions[name]
	return f, ok
}

// inEngine returns the name of an index in the engine.
func (x *indexers) inEngine(name string) string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.names[name]
}

// add adds indexes with client-go's functions, all or none.
func (x *indexers) add(added toolscache.Indexers) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		return fmt.Errorf("indexer was not added: %w", errInformerStopped)
	}
	for name := range added {
		if err := x.conflictLocked(name); err != nil {
			return err
		}
	}
	for name, f := range added {
		x.nameLocked(name, f, x.space+name)
		what := fmt.Sprintf("index %q of %s", name, x.description)
		x.declare(x.space+name, func(obj client.Object) []string { return mustIndex(f, what, obj) })
	}
	return nil
}

// addField adds the index of a field.
func (x *indexers) addField(name string, extract client.IndexerFunc) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		return errInformerStopped
	}
	if err := x.conflictLocked(name); err != nil {
		return err
	}
	x.nameLocked(name, func(raw any) ([]string, error) { return extract(raw.(client.Object)), nil }, name)
	x.declare(name, extract)
	return nil
}

// nameLocked notes an index, with its name in the engine.
func (x *indexers) nameLocked(name string, f toolscache.IndexFunc, inEngine string) {
	if x.functions == nil {
		x.functions, x.names = toolscache.Indexers{}, map[string]string{}
	}
	x.functions[name], x.names[name] = f, inEngine
}

func (x *indexers) conflictLocked(name string) error {
	if _, taken := x.functions[name]; taken || x.inOrder(name) {
		return fmt.Errorf("indexer conflict: there is an index called %q", name)
	}
	return nil
}

// close refuses indexes from now on: the informer has stopped. It returns the names of those in the engine.
func (x *indexers) close() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.closed = true
	return slices.Collect(maps.Values(x.names))
}

// mustIndex returns the values of f. It panics on an error, as client-go's store does: the index
// would be wrong from then on.
func mustIndex(f toolscache.IndexFunc, name string, obj client.Object) []string {
	values, err := func() ([]string, error) {
		defer contain.Name(name, obj)
		return f(obj)
	}()
	if err != nil {
		panic(fmt.Errorf("unable to calculate an index entry for %s on %s: %w", client.ObjectKeyFromObject(obj), name, err))
	}
	return values
}
