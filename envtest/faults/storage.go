// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/value"
	"k8s.io/client-go/util/watchlist"

	"github.com/tarn-dev/tarn/envtest/internal/storagekey"
)

// Corrupt makes objects undecodable for calls at the fault point Storage: each object that the rule means. The stored objects do
// not change, and can be read when the fault ends. A get fails (500), and so does a list with such an object; a watch ends with an
// error at its change. Updates and deletions fail if they read the storage; a watch cache that has the object may spare them that.
// A hit is one object that was read once.
func Corrupt() Action { return corrupt{} }

type corrupt struct{}

// readAction happens to objects that are read, at Storage.
type readAction interface {
	Action
	// read returns what is read in place of data.
	read(data []byte) []byte
}

func (corrupt) read([]byte) []byte { return undecodable }

func (corrupt) fits(r *Rule) error {
	if r.Verb == verbCreate {
		return errors.New("Corrupt is about what is read: no create reads an object")
	}
	return nil
}

// undecodable is no object in any form.
var undecodable = []byte("\x00corrupted by a fault of a test")

// Keys says where the objects of a resource are: a call of its storage names them by keys that begin with Prefix, and etcd by
// such keys behind Root.
type Keys struct {
	Resource     schema.GroupResource
	Root, Prefix string
}

// namespaceAndName reads a key. One element is the name, or for a collection the namespace.
func (k Keys) namespaceAndName(key string, collection bool) (namespace, name string) {
	read := storagekey.Within(k.Root, k.Prefix, key, collection)
	return read.Namespace, read.Name
}

// called is the key by which a context has its call at the fault point Storage.
type called struct{}

// Transformer returns a transformer that lets next's data be corrupt. Give it to the store that Storage wraps.
func (i *Injector) Transformer(keys Keys, next value.Transformer) value.Transformer {
	return &transformer{next, i, keys}
}

type transformer struct {
	value.Transformer
	injector *Injector
	keys     Keys
}

// TransformFromStorage implements value.Transformer.
func (t *transformer) TransformFromStorage(ctx context.Context, data []byte, about value.Context) ([]byte, bool, error) {
	if rules := t.injector.inForce(Storage); len(rules) > 0 {
		q, ok := ctx.Value(called{}).(*request)
		if ok {
			one := *t.injector.now(q)
			one.namespace, one.name = t.keys.namespaceAndName(string(about.AuthenticatedData()), false)
			for _, r := range rules {
				if a, ok := r.action.(readAction); ok && r.takes(&one) {
					return a.read(data), false, nil
				}
			}
		}
	}
	return t.Transformer.TransformFromStorage(ctx, data, about)
}

// Storage returns a storage that applies the rules for the fault point Storage to the calls of next. The function ends its watches; the
// owner of the storage calls it when it destroys next.
func (i *Injector) Storage(keys Keys, next storage.Interface) (storage.Interface, func()) {
	s := &store{Interface: next, injector: i, keys: keys, closed: make(chan struct{})}
	return s, sync.OnceFunc(s.close)
}

// store is a storage with faults.
type store struct {
	storage.Interface
	injector *Injector
	keys     Keys

	mu      sync.Mutex     // guards ended and calls of watches.Add
	ended   bool           // no watch begins any more
	closed  chan struct{}  // ends the watches
	watches sync.WaitGroup // that their callers have not ended
}

func (s *store) close() {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	close(s.closed)
	s.watches.Wait()
}

// begin applies the rules to a call, and returns the context for it.
func (s *store) begin(ctx context.Context, verb, key string, collection bool) (context.Context, *request, error) {
	if len(s.injector.inForce(Storage)) == 0 && verb != verbWatch {
		return ctx, nil, nil
	}
	q := s.injector.callOf(ctx, verb, s.keys.Resource)
	q.namespace, q.name = s.keys.namespaceAndName(key, collection)
	if err := s.injector.call(ctx, Storage, q); err != nil {
		return nil, nil, err
	}
	return context.WithValue(ctx, called{}, q), q, nil
}

// Create implements storage.Interface.
func (s *store) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	ctx, _, err := s.begin(ctx, verbCreate, key, false)
	if err != nil {
		return err
	}
	return s.Interface.Create(ctx, key, obj, out, ttl)
}

// Delete implements storage.Interface.
func (s *store) Delete(
	ctx context.Context, key string, out runtime.Object, preconditions *storage.Preconditions, validate storage.ValidateObjectFunc,
	existing runtime.Object, opts storage.DeleteOptions,
) error {
	ctx, _, err := s.begin(ctx, verbDelete, key, false)
	if err != nil {
		return err
	}
	return s.Interface.Delete(ctx, key, out, preconditions, validate, existing, opts)
}

// Get implements storage.Interface.
func (s *store) Get(ctx context.Context, key string, opts storage.GetOptions, object runtime.Object) error {
	ctx, _, err := s.begin(ctx, verbGet, key, false)
	if err != nil {
		return err
	}
	return s.Interface.Get(ctx, key, opts, object)
}

// GetList implements storage.Interface.
func (s *store) GetList(ctx context.Context, key string, opts storage.ListOptions, list runtime.Object) error {
	ctx, _, err := s.begin(ctx, verbList, key, opts.Recursive)
	if err != nil {
		return err
	}
	return s.Interface.GetList(ctx, key, opts, list)
}

// GuaranteedUpdate implements storage.Interface.
func (s *store) GuaranteedUpdate(
	ctx context.Context, key string, destination runtime.Object, ignoreNotFound bool, preconditions *storage.Preconditions,
	update storage.UpdateFunc, existing runtime.Object,
) error {
	ctx, _, err := s.begin(ctx, verbUpdate, key, false)
	if err != nil {
		return err
	}
	return s.Interface.GuaranteedUpdate(ctx, key, destination, ignoreNotFound, preconditions, update, existing)
}

// IsWatchListSemanticsUnSupported says what the storage below does.
func (s *store) IsWatchListSemanticsUnSupported() bool {
	return watchlist.DoesClientNotSupportWatchListSemantics(s.Interface)
}

// Watch implements storage.Interface.
func (s *store) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	ctx, q, err := s.begin(ctx, verbWatch, key, opts.Recursive)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		return nil, errStopped
	}
	s.watches.Add(1)
	s.mu.Unlock()
	next, err := s.Interface.Watch(ctx, key, opts)
	if err != nil {
		s.watches.Done()
		return nil, err
	}
	w := &storedWatch{
		injector: s.injector, next: next, request: q, out: make(chan watch.Event), stopped: make(chan struct{}), hit: make(chan struct{}), looked: map[*rule]bool{},
	}
	s.injector.addStored(w)
	for _, r := range s.injector.inForce(Storage) {
		w.atOnce(r)
	}
	go func() { // until the watch has ended; close ends it and waits
		defer s.watches.Done()
		defer s.injector.forgetStored(w)
		w.run(s.closed)
	}()
	return w, nil
}

func (i *Injector) addStored(w *storedWatch) {
	i.opens.Lock()
	defer i.opens.Unlock()
	i.opened++
	w.number = i.opened
	i.stored[w] = struct{}{}
}

func (i *Injector) forgetStored(w *storedWatch) {
	i.opens.Lock()
	defer i.opens.Unlock()
	delete(i.stored, w)
}

// sweepStored applies a rule to the watches that are open, in the order in which they began.
func (i *Injector) sweepStored(r *rule) {
	i.opens.Lock()
	open := slices.SortedFunc(maps.Keys(i.stored), func(a, b *storedWatch) int { return cmp.Compare(a.number, b.number) })
	i.opens.Unlock()
	for _, w := range open {
		w.atOnce(r)
	}
}

// storedWatch is a watch of a storage. Its goroutine passes the events on, until the watch is stopped, has ended, or the store is
// closed.
type storedWatch struct {
	injector *Injector
	next     watch.Interface
	request  *request
	number   uint64 // in the order in which watches began
	out      chan watch.Event
	stop     sync.Once
	stopped  chan struct{} // closed by Stop
	hit      chan struct{} // closed when a fault ends the watch

	mu     sync.Mutex // guards what follows
	over   bool
	last   *watch.Event   // what the fault says; set before hit is closed
	looked map[*rule]bool // the rules that were checked
}

// Stop implements watch.Interface.
func (w *storedWatch) Stop() {
	w.stop.Do(func() { close(w.stopped) })
	w.next.Stop()
}

// ResultChan implements watch.Interface.
func (w *storedWatch) ResultChan() <-chan watch.Event { return w.out }

// atOnce lets a rule end the watch.
func (w *storedWatch) atOnce(r *rule) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if a, ok := r.action.(streamAction); !ok || !a.atOnce() || w.over || w.looked[r] || !r.matches(w.injector.now(w.request)) || !r.meansScope(w.request) {
		return
	}
	w.looked[r] = true
	if !r.asks(w.request.held) || !r.hit() {
		return
	}
	w.over = true
	if _, ok := r.action.(expire); ok {
		status := expired()
		w.last = &watch.Event{Type: watch.Error, Object: &status}
	}
	close(w.hit)
}

// run passes events on.
func (w *storedWatch) run(closed <-chan struct{}) {
	defer close(w.out)
	defer w.next.Stop()
	for {
		select {
		case e, ok := <-w.next.ResultChan():
			if !ok || !w.pass(e, closed) {
				return
			}
		case <-w.hit:
			if w.last != nil {
				w.send(*w.last, closed)
			}
			return
		case <-w.stopped:
			return
		case <-closed:
			return
		}
	}
}

// pass sends an event, or what the fault says if it comes meanwhile. It returns false if the watch has ended.
func (w *storedWatch) pass(e watch.Event, closed <-chan struct{}) bool {
	select {
	case w.out <- e:
		return true
	case <-w.hit:
		if w.last != nil {
			w.send(*w.last, closed)
		}
	case <-w.stopped:
	case <-closed:
	}
	return false
}

func (w *storedWatch) send(e watch.Event, closed <-chan struct{}) {
	select {
	case w.out <- e:
	case <-w.stopped:
	case <-closed:
	}
}
