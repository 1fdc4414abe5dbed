// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"context"
	"fmt"
	"iter"
	"reflect"
	"testing"
	"time"
	"weak"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/tarn-dev/tarn/internal/watchcache"
	"github.com/tarn-dev/tarn/pkg/cacher/internal/element"
)

// stage is a dispatcher on an engine, without its goroutines: the test does what they would.
type stage struct {
	*Dispatcher
	engine *Engine
	form   *element.Form
	clock  *clocktesting.FakeClock
}

// uncounted are metrics that nobody looks at.
type uncounted struct{}

func (uncounted) Dispatched() {}
func (uncounted) CatchingUp() {}
func (uncounted) Expired()    {}

// newStage returns a stage at revision 100, whose history keeps so many events at most; zero is
// the default.
func newStage(t *testing.T, maxEvents int) *stage {
	t.Helper()
	none := func(runtime.Object) (labels.Set, fields.Set, error) { return nil, nil, nil }
	s := &stage{form: element.NewForm(reflect.TypeFor[*example.Pod](), true, none), clock: clocktesting.NewFakeClock(time.Now())}
	s.engine = watchcache.New[*element.Element, *Sharing](watchcache.Options[*element.Element]{
		History: &watchcache.History[*element.Element]{MinAge: BookmarkFrequency + 15*time.Second, MaxEvents: maxEvents},
	})
	s.Dispatcher = New(Config{
		Engine: s.engine, Form: s.form, Versioner: storage.APIObjectVersioner{}, Clock: s.clock, Metrics: uncounted{},
		NewObject: func() runtime.Object { return &example.Pod{} },
		Admit:     func(int) bool { return true },
	})
	s.engine.Replace(nil, 100)
	s.Reset()
	return s
}

// change returns what the engine is told of a Pod that was written, and what tells whether the
// Pod is still in memory.
func (s *stage) change(t *testing.T, name string, revision uint64) (Change, weak.Pointer[example.Pod]) {
	t.Helper()
	pod := &example.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, ResourceVersion: fmt.Sprint(revision)}}
	kept, err := s.form.Keep(pod)
	if err != nil {
		t.Fatal(err)
	}
	return Change{Item: Item{Key: "/pods/a/" + name, Revision: revision, Value: kept}, Attached: &Sharing{}}, weak.Make(pod)
}

// put writes a Pod and returns what tells whether it is still in memory.
func (s *stage) put(t *testing.T, name string, revision int) weak.Pointer[example.Pod] {
	t.Helper()
	change, pod := s.change(t, name, uint64(revision))
	s.engine.Apply(change)
	return pod
}

// deletion returns what the engine is told of a Pod that was deleted.
func deletion(name string, revision uint64) Change {
	return Change{Item: Item{Key: "/pods/a/" + name, Revision: revision}, Deleted: true, Attached: &Sharing{}}
}

// next returns the n events from position on.
func (s *stage) next(t *testing.T, position uint64, n int) []event {
	t.Helper()
	next, err := s.engine.ExpiringCursor(position, n+1).Poll()
	if err != nil || len(next.Events) != n {
		t.Fatalf("there are %d events, not %d; error %v", len(next.Events), n, err)
	}
	return next.Events
}

// watch begins a watch of everything, with bookmarks.
func (s *stage) watch(ctx context.Context, t *testing.T, begin *Beginning) *watcher {
	t.Helper()
	predicate := storage.SelectionPredicate{AllowWatchBookmarks: true}
	w, ok := s.Start(ctx, Watch{Filter: element.NewFilter("/pods/", predicate, s.form, false), Begin: begin})
	if !ok {
		t.Fatal("the watch did not start")
	}
	return w.(*watcher)
}

// walk is Beginning.Objects for a watch of everything.
func walk(state *Snapshot, from string) iter.Seq[Item] { return state.Items("/pods/", from) }
