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

	"github.com/tarn-dev/tarn/internal/ordered"
	"github.com/tarn-dev/tarn/internal/projection"
	"github.com/tarn-dev/tarn/internal/relist"
	"github.com/tarn-dev/tarn/internal/stats"
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

// listWatch is the ListerWatcher of a source.
type listWatch struct {
	options  Options
	source   Source
	expected kind
	heard    *idleTimeout
}

// New returns the ListerWatcher of a source. It has the method Follow as well, for which package informer looks. A watch of it owns goroutines, which end with the
// stream of the API server, or with Stop. Stop waits for them.
func New(s Source, o Options) toolscache.ListerWatcher {
	lw := &listWatch{options: o, source: s, expected: kindOf(s.Example())}
	lw.heard = &idleTimeout{limit: o.IdleTimeout, cut: lw.cut}
	return lw
}

// cut notes that a watch is ended because it is silent.
func (lw *listWatch) cut(silent time.Duration) {
	lw.options.Counters.ending(Silent)
	lw.options.Cut(silent)
}

// each finishes an event.
func (lw *listWatch) each(e watch.Event) watch.Event {
	if lw.options.Counters == nil {
		return lw.finish(e)
	}
	begin := stats.Now()
	e = lw.finish(e)
	lw.options.Counters.received(e, begin)
	return e
}

func (lw *listWatch) finish(e watch.Event) watch.Event {
	if u, ok := e.Object.(*undecoded); ok && lw.options.Message != nil && u.protobuf != nil && !u.left {
		if made := lw.options.Message(e.Type, u.protobuf); made != nil {
			u.release()
			return watch.Event{Type: e.Type, Object: made}
		}
	}
	e = lw.expected.check(lw.source.Finish(e))
	if lw.options.Each != nil {
		e = lw.options.Each(e)
	}
	return e
}

// listOptions returns the options of a list as the source gets them.
func (lw *listWatch) listOptions(opts metav1.ListOptions) metav1.ListOptions {
	lw.options.Selector.applyTo(&opts)
	if opts.ResourceVersion == anyVersion && lw.options.Recent != nil && lw.options.Recent() {
		opts.ResourceVersion = ""
	}
	return opts
}

// List implements ListerWatcher.
func (lw *listWatch) List(opts metav1.ListOptions) (runtime.Object, error) {
	return lw.ListWithContext(context.Background(), opts)
}

// ListWithContext implements ListerWatcherWithContext.
func (lw *listWatch) ListWithContext(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	opts = lw.listOptions(opts)
	lw.options.Counters.listing(opts)
	if opts.Continue == "" {
		lw.options.Lists.Begin(ctx)
	}
	return lw.source.List(ctx, opts)
}

// Watch implements ListerWatcher.
func (lw *listWatch) Watch(opts metav1.ListOptions) (watch.Interface, error) {
	return lw.WatchWithContext(context.Background(), opts)
}

// WatchWithContext implements ListerWatcherWithContext.
func (lw *listWatch) WatchWithContext(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	opts.Watch = true
	opts.AllowWatchBookmarks = lw.options.Bookmarks
	lw.options.Selector.applyTo(&opts)
	return lw.options.Counters.watch(ctx, opts, lw.open)
}

// open begins a watch.
func (lw *listWatch) open(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	return lw.options.Lists.Watch(ctx, func() (watch.Interface, error) {
		open := func(ctx context.Context) (watch.Interface, error) { return lw.source.Watch(ctx, opts) }
		if lw.options.Bookmarks && lw.options.IdleTimeout > 0 {
			return lw.heard.watch(ctx, opts, lw.each, open)
		}
		watcher, err := open(ctx)
		if err != nil {
			return nil, err
		}
		return ordered.New(watcher, lw.each), nil
	})
}

// IsWatchListSemanticsUnSupported tells the Reflector to list first and then watch, also if bookmarks are off: a streaming list ends with
// a bookmark (KEP-3157), so it would never be complete.
func (lw *listWatch) IsWatchListSemanticsUnSupported() bool {
	return !lw.options.Bookmarks || lw.options.Unstreamed || lw.options.Lists != nil
}

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
