// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informer

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
)

// server is one resource of an API server: it lists, watches, sends bookmarks and
// forgets old revisions. All methods are safe for concurrent use.
type server struct {
	example   runtime.Object
	streaming bool // whether it sends initial events

	mu       sync.Mutex // guards all below
	revision int
	objects  map[string]runtime.Object
	history  []watch.Event // since the revision before oldest
	oldest   int           // the oldest revision from which a watch may start
	feeds    []*feed
	failure  error // what lists and watches answer, if not nil
	again    int   // so many watches answer that a list is to follow
	lists    int   // answered lists, streaming ones included
	listing  chan struct{}
}

var _ toolscache.ListerWatcherWithContext = &server{}

// newServer returns a server of objects like example. It has a revision already,
// as any API server has.
func newServer(example runtime.Object, streaming bool) *server {
	return &server{example: example, streaming: streaming, revision: 10, oldest: 10, objects: map[string]runtime.Object{}}
}

// IsWatchListSemanticsUnSupported tells the Reflector whether to stream its lists.
func (s *server) IsWatchListSemanticsUnSupported() bool { return !s.streaming }

// put stores copies of the objects, each under a revision of its own, and tells
// the watches.
func (s *server) put(objects ...runtime.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, object := range objects {
		s.putLocked(object)
	}
}

func (s *server) putLocked(object runtime.Object) {
	object = object.DeepCopyObject()
	key := keyOf(object)
	kind := watch.Added
	if _, exists := s.objects[key]; exists {
		kind = watch.Modified
	}
	s.objects[key] = object
	s.publishLocked(kind, object)
}

// remove deletes the objects under the keys. Watches are sent the last state under
// the revision of the deletion.
func (s *server) remove(keys ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range keys {
		last := s.objects[key].DeepCopyObject()
		delete(s.objects, key)
		s.publishLocked(watch.Deleted, last)
	}
}

// bookmark moves the revision as another resource's write does, tells the watches
// by a bookmark, and returns it.
func (s *server) bookmark() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revision++
	for _, f := range s.feeds {
		f.send(s.bookmarkLocked(nil))
	}
	return strconv.Itoa(s.revision)
}

// miss makes changes while no watch is connected, and forgets them: the watches
// end with 410 Gone, and all that is left to a client is to list again.
func (s *server) miss(changes func()) {
	s.mu.Lock()
	feeds := s.feeds
	s.feeds = nil
	s.mu.Unlock()

	changes()

	s.mu.Lock()
	defer s.mu.Unlock()
	s.revision++
	s.history, s.oldest = nil, s.revision
	for _, f := range feeds {
		f.send(gone())
	}
}

// forget lets go of old revisions, as an API server does after some minutes.
func (s *server) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.history, s.oldest = nil, s.revision
}

// restore goes back to an old revision, as a server does whose storage was restored
// from a backup. To be called while changes are missed.
func (s *server) restore(revision int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revision = revision
}

// disconnect ends the watches. Nothing is forgotten: a client can watch from where
// it was.
func (s *server) disconnect() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.feeds {
		close(f.events)
	}
	s.feeds = nil
}

// fail lets lists and watches answer err from now on, and ends the watches; nil
// lets them work again.
func (s *server) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failure = err
	for _, f := range s.feeds {
		f.send(gone())
	}
	s.feeds = nil
}

// listAgain is an error after which a list follows at once.
type listAgain struct{ *apierrors.StatusError }

func (listAgain) ListsAgain() {}

// hold lets lists wait, streaming ones included, until the returned function is
// called.
func (s *server) hold() (release func()) {
	held := make(chan struct{})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listing = held
	return sync.OnceFunc(func() { close(held) })
}

// current returns the revision of the newest write.
func (s *server) current() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strconv.Itoa(s.revision)
}

// listed returns how many lists were answered.
func (s *server) listed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lists
}

// state describes every object.
func (s *server) state() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := map[string]string{}
	for key, object := range s.objects {
		state[key] = valueOf(object)
	}
	return state
}

func (s *server) publishLocked(kind watch.EventType, object runtime.Object) {
	s.revision++
	accessor, err := meta.Accessor(object)
	if err != nil {
		panic(err)
	}
	accessor.SetResourceVersion(strconv.Itoa(s.revision))
	event := watch.Event{Type: kind, Object: object}
	s.history = append(s.history, event)
	for _, f := range s.feeds {
		f.send(copyOf(event))
	}
}

func (s *server) List(opts metav1.ListOptions) (runtime.Object, error) {
	return s.ListWithContext(context.Background(), opts)
}

func (s *server) Watch(opts metav1.ListOptions) (watch.Interface, error) {
	return s.WatchWithContext(context.Background(), opts)
}

// ListWithContext implements ListerWatcherWithContext.
func (s *server) ListWithContext(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
	if err := s.wait(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failure != nil {
		return nil, s.failure
	}
	s.lists++
	list := &corev1.List{}
	if err := meta.SetList(list, s.copiesLocked()); err != nil {
		return nil, err
	}
	list.ResourceVersion = strconv.Itoa(s.revision)
	return list, nil
}

// WatchWithContext implements ListerWatcherWithContext.
func (s *server) WatchWithContext(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	initial := opts.SendInitialEvents != nil && *opts.SendInitialEvents
	if initial {
		if err := s.wait(ctx); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failure != nil {
		return nil, s.failure
	}
	var backlog []watch.Event
	if initial {
		s.lists++
		for _, object := range s.copiesLocked() {
			backlog = append(backlog, watch.Event{Type: watch.Added, Object: object})
		}
		backlog = append(backlog, s.bookmarkLocked(map[string]string{metav1.InitialEventsAnnotationKey: "true"}))
	} else {
		if s.again > 0 {
			s.again--
			return nil, listAgain{apierrors.NewResourceExpired("listing again")}
		}
		from, err := strconv.Atoi(opts.ResourceVersion)
		if err != nil {
			return nil, apierrors.NewBadRequest("watch from " + opts.ResourceVersion)
		}
		if from < s.oldest {
			return nil, apierrors.NewResourceExpired("too old resource version")
		}
		backlog = s.sinceLocked(from)
	}
	f := newFeed(backlog)
	s.feeds = append(s.feeds, f)
	return f, nil
}

// wait returns when lists are not held back.
func (s *server) wait(ctx context.Context) error {
	s.mu.Lock()
	held := s.listing
	s.mu.Unlock()
	if held == nil {
		return nil
	}
	select {
	case <-held:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// copiesLocked returns copies of all objects in the order of their keys.
func (s *server) copiesLocked() []runtime.Object {
	copies := make([]runtime.Object, 0, len(s.objects))
	for _, key := range slices.Sorted(maps.Keys(s.objects)) {
		copies = append(copies, s.objects[key].DeepCopyObject())
	}
	return copies
}

func (s *server) sinceLocked(revision int) []watch.Event {
	var events []watch.Event
	for _, event := range s.history {
		if at, err := strconv.Atoi(resourceVersionOf(event.Object)); err == nil && at > revision {
			events = append(events, copyOf(event))
		}
	}
	return events
}

func (s *server) bookmarkLocked(annotations map[string]string) watch.Event {
	bookmark := s.example.DeepCopyObject()
	accessor, err := meta.Accessor(bookmark)
	if err != nil {
		panic(err)
	}
	accessor.SetResourceVersion(strconv.Itoa(s.revision))
	accessor.SetAnnotations(annotations)
	return watch.Event{Type: watch.Bookmark, Object: bookmark}
}

func gone() watch.Event {
	status := apierrors.NewResourceExpired("too old resource version").Status()
	return watch.Event{Type: watch.Error, Object: &status}
}

func copyOf(event watch.Event) watch.Event {
	return watch.Event{Type: event.Type, Object: event.Object.DeepCopyObject()}
}

// feed is one watch.
type feed struct {
	events  chan watch.Event
	stopped chan struct{}
	once    sync.Once // closes stopped
}

// newFeed returns a watch with the backlog to read already.
func newFeed(backlog []watch.Event) *feed {
	f := &feed{events: make(chan watch.Event, len(backlog)+16), stopped: make(chan struct{})}
	for _, event := range backlog {
		f.events <- event
	}
	return f
}

// send returns when the event is on its way, or the client has stopped.
func (f *feed) send(event watch.Event) {
	select {
	case f.events <- event:
	case <-f.stopped:
	}
}

func (f *feed) ResultChan() <-chan watch.Event { return f.events }

func (f *feed) Stop() { f.once.Do(func() { close(f.stopped) }) }
