// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"context"
	"fmt"
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/tarn-dev/tarn/internal/projection"
	"github.com/tarn-dev/tarn/internal/relist"
)

// Options configure a ListerWatcher.
type Options struct {
	Selector Selector
	// Bookmarks asks the API server for bookmarks. Streaming lists need them.
	Bookmarks bool
	// Unstreamed asks for lists alone, and not for watches that begin with one.
	Unstreamed bool
	// Message, if it is set, is called with each object of a watch that came as a protobuf message,
	// before the object is decoded. The returned object replaces the object of the event, and the
	// event goes neither through Source.Finish nor through Each. If it returns nil, they decode the
	// object as usual, as they do with one that the rule does not keep. Message must not keep the
	// bytes, whose memory is used again. It is called as Each is.
	Message func(t watch.EventType, message []byte) runtime.Object
	// Each, if it is set, is called with every event of a watch after Source.Finish. The event that
	// it returns takes the place of the first one. Each is called for several events at the same
	// time; the results keep the order of the events.
	Each func(watch.Event) watch.Event
	// IdleTimeout is how long a watch may bring nothing, if the API server sends bookmarks. A watch that
	// is silent for longer is ended. Zero, and a negative number, mean that no watch is. Cut, which
	// must be set then, is told of each watch that is ended.
	IdleTimeout time.Duration
	Cut         func(silent time.Duration)
	// Recent, if it is set, reports whether lists must be the most recent ones: a list that may come from
	// the cache of the API server, however old that is, is asked for without a resource version then.
	Recent func() bool
	// Lists has a list follow when the rule of the source keeps something else from then on, see Failures.Relist. Nil if it never does.
	Lists *relist.Lists
	// Counters, if set, count the lists and watches.
	Counters *Counters
}

// anyVersion is the resource version with which a Reflector asks for its first list.
const anyVersion = "0"

type listWatch struct {
	*toolscache.ListWatch
	streams bool // watches that begin with a list
}

// New returns the ListerWatcher of a source. A watch of it owns goroutines, which end with the
// stream of the API server, or with Stop. Stop waits for them.
func New(s Source, o Options) toolscache.ListerWatcher {
	expected := kindOf(s.Example())
	finish := func(e watch.Event) watch.Event { return expected.check(s.Finish(e)) }
	each := finish
	if o.Each != nil {
		each = func(e watch.Event) watch.Event { return o.Each(finish(e)) }
	}
	if o.Message != nil {
		each = withMessages(o.Message, each)
	}
	each = o.Counters.each(each)
	heard := &idleTimeout{limit: o.IdleTimeout, cut: func(silent time.Duration) {
		o.Counters.ending(Silent)
		o.Cut(silent)
	}}
	begin := func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
		if o.Bookmarks && o.IdleTimeout > 0 {
			return heard.watch(ctx, opts, each, func(ctx context.Context) (watch.Interface, error) { return s.Watch(ctx, opts) })
		}
		watcher, err := s.Watch(ctx, opts)
		if err != nil {
			return nil, err
		}
		return inOrder(watcher, each), nil
	}
	open := func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
		return o.Lists.Watch(ctx, func() (watch.Interface, error) { return begin(ctx, opts) })
	}
	return &listWatch{streams: o.Bookmarks && !o.Unstreamed && o.Lists == nil, ListWatch: &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			o.Selector.applyTo(&opts)
			if opts.ResourceVersion == anyVersion && o.Recent != nil && o.Recent() {
				opts.ResourceVersion = ""
			}
			o.Counters.listing(opts)
			if opts.Continue == "" {
				o.Lists.Begin(ctx)
			}
			return s.List(ctx, opts)
		},
		WatchFuncWithContext: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			opts.Watch = true
			opts.AllowWatchBookmarks = o.Bookmarks
			o.Selector.applyTo(&opts)
			return o.Counters.watch(ctx, opts, open)
		},
	}}
}

// withMessages returns each with message before it.
func withMessages(message func(watch.EventType, []byte) runtime.Object, each func(watch.Event) watch.Event) func(watch.Event) watch.Event {
	return func(e watch.Event) watch.Event {
		if u, ok := e.Object.(*undecoded); ok && u.protobuf != nil && !u.left {
			if made := message(e.Type, u.protobuf); made != nil {
				u.release()
				return watch.Event{Type: e.Type, Object: made}
			}
		}
		return each(e)
	}
}

// IsWatchListSemanticsUnSupported tells the Reflector to list first and then watch, also if bookmarks are off: a streaming list ends with
// a bookmark (KEP-3157), so it would never be complete.
func (lw *listWatch) IsWatchListSemanticsUnSupported() bool { return !lw.streams }

// kind is the type that the objects of a watch must have. Unstructured objects of all kinds have
// the same Go type, so for them the name of the kind counts too.
type kind struct {
	goType reflect.Type
	gvk    schema.GroupVersionKind // empty unless unstructured
}

func kindOf(obj runtime.Object) kind {
	k := kind{goType: reflect.TypeOf(obj)}
	if u, ok := obj.(*unstructured.Unstructured); ok {
		k.gvk = u.GroupVersionKind()
	}
	return k
}

// check replaces an object of another kind, such as a Table, by a Status, because the informer must
// not keep that object. The Reflector logs an event with a Status and skips it. In client-go's
// informer the Reflector does the same with an object of an unexpected kind.
func (k kind) check(event watch.Event) watch.Event {
	if _, left := event.Object.(projection.Left); left || event.Type == watch.Error || k.is(event.Object) {
		return event
	}
	event.Object = &metav1.Status{Message: fmt.Sprintf("the watch is of %v, and sent %v", k, kindOf(event.Object))}
	return event
}

// is reports whether an object is of the kind.
func (k kind) is(obj runtime.Object) bool {
	got := kindOf(obj)
	return got.goType == k.goType && (k.gvk.Empty() || got.gvk == k.gvk)
}
