// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// RememberFor is how long a Reader knows that the server does not have an object. An object that
	// is made meanwhile comes with the watch of the cache, if it is in the scope of the cache.
	RememberFor = time.Second
	// Remembered is how many such answers a Reader keeps at most.
	Remembered = 1024
)

// Answer says how a read ended, for metrics.
type Answer string

// The answers.
const (
	Found      Answer = "found"      // the server has the object
	NotFound   Answer = "not_found"  // the server does not have it
	Known      Answer = "remembered" // the server did not have it a moment ago
	Failed     Answer = "error"      // the server did not answer, or refused
	Unanswered Answer = "gave_up"    // the caller's context ended first
)

// Options are what a Reader needs. All but Clock, Requested and Answered are required.
type Options struct {
	// Client makes the client that asks the server. It is called before the first request.
	Client func() (client.Reader, error)
	// Requested is called before each request, and Answered at the end of each read.
	Requested func(schema.GroupVersionKind)
	Answered  func(schema.GroupVersionKind, Answer)
	// Clock tells how old an answer is. If it is nil, that is the real one.
	Clock clock.Clock
}

// Request is the object to read.
type Request struct {
	GVK schema.GroupVersionKind
	Key client.ObjectKey
	// Transform changes the object as the cache would before it stores it. Nil leaves it as it is.
	Transform func(any) (any, error)
	// Keep, if it is set, takes from the object what the cache would not keep, before Transform. It reports false if the cache would
	// not keep the object: the answer is NotFound then. A read with Keep shares no answer with one without.
	Keep func(runtime.Object) bool
}

// Reader reads objects from the API server. It is safe for concurrent use.
type Reader struct {
	options Options
	client  func() (client.Reader, error)
	absent  *utilcache.LRUExpireCache // object -> the NotFound error of the server

	mu      sync.Mutex // guards flights, and the waiters of each
	flights map[place]*flight
}

// errPanicked is the error of a read whose transform has panicked.
var errPanicked = errors.New("the read panicked")

// object names an object.
type object struct {
	gvk schema.GroupVersionKind
	key client.ObjectKey
}

// place is an object as a Go type: one object may be read in several representations.
type place struct {
	object
	typ  reflect.Type
	part bool // of the object that a Keep leaves
}

// New returns a reader. It has no goroutine unless somebody waits for an answer.
func New(o Options) *Reader {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return &Reader{
		options: o,
		client:  sync.OnceValues(o.Client),
		absent:  utilcache.NewLRUExpireCacheWithClock(Remembered, o.Clock),
		flights: map[place]*flight{},
	}
}

// Get reads the object of r into out, which is the caller's own. An object that the server does not
// have is a NotFound API error; so it is for RememberFor after the server has said so. If ctx ends
// first, the error is the cause.
func (r *Reader) Get(ctx context.Context, what Request, out client.Object) error {
	answer, err := r.get(ctx, what, out)
	if r.options.Answered != nil {
		r.options.Answered(what.GVK, answer)
	}
	return err
}

// Forget says that an object may have changed, or any object of the namespace if the key has no name, of
// all namespaces if it is empty: reads that begin later ask the server anew.
func (r *Reader) Forget(gvk schema.GroupVersionKind, key client.ObjectKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.absent.Remove(object{gvk, key})
	if key.Name == "" {
		for _, known := range r.absent.Keys() {
			if known.(object).among(gvk, key) {
				r.absent.Remove(known)
			}
		}
	}
	for at := range r.flights {
		if at.object.among(gvk, key) {
			delete(r.flights, at) // its callers get its answer
		}
	}
}

// among reports whether o is the object under a key or, if the key has no name, one of its namespace.
func (o object) among(gvk schema.GroupVersionKind, key client.ObjectKey) bool {
	return o.gvk == gvk && (key.Name == "" || o.key.Name == key.Name) && (key == client.ObjectKey{} || o.key.Namespace == key.Namespace)
}

func (r *Reader) get(ctx context.Context, what Request, out client.Object) (Answer, error) {
	at := place{object{what.GVK, what.Key}, reflect.TypeOf(out), what.Keep != nil}
	if known, ok := r.absent.Get(at.object); ok {
		return Known, known.(error)
	}
	obj, err := r.await(ctx, at, what)
	switch {
	case err == nil:
		reflect.ValueOf(out).Elem().Set(reflect.ValueOf(obj.DeepCopyObject()).Elem())
		return Found, nil
	case apierrors.IsNotFound(err):
		return NotFound, err
	case ctx.Err() != nil:
		return Unanswered, fmt.Errorf("gave up reading %s %s from the API server: %w", what.GVK.Kind, what.Key, err)
	}
	return Failed, fmt.Errorf("reading %s %s from the API server: %w", what.GVK.Kind, what.Key, err)
}

// request asks the server. Ctx ends when nobody waits any more.
func (r *Reader) request(ctx context.Context, at place, what Request) (client.Object, error) {
	reader, err := r.client()
	if err != nil {
		return nil, err
	}
	if r.options.Requested != nil {
		r.options.Requested(what.GVK)
	}
	obj := reflect.New(at.typ.Elem()).Interface().(client.Object)
	obj.GetObjectKind().SetGroupVersionKind(what.GVK) // the client wants it of what has no Go type
	if err := reader.Get(ctx, what.Key, obj); err != nil {
		return nil, err
	}
	obj.GetObjectKind().SetGroupVersionKind(what.GVK) // as a read of the cache has it
	if what.Keep != nil && !what.Keep(obj) {
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: what.GVK.Group, Resource: what.GVK.Kind}, what.Key.Name)
	}
	if what.Transform == nil {
		return obj, nil
	}
	changed, err := what.Transform(obj)
	if err != nil {
		return nil, fmt.Errorf("the transform of the cache failed: %w", err)
	}
	if reflect.TypeOf(changed) != at.typ {
		return nil, fmt.Errorf("the transform of the cache made a %T of a %T: a read cannot return that", changed, obj)
	}
	return changed.(client.Object), nil
}
