// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cacher_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/feature"
)

// memoryStorage is a storage of Pods in memory that never forgets: what was at any revision
// can be looked up, and so it is the model that a Cacher is compared with. Its lists and
// watches can be made to fail, and to wait: beyond twelve fields, each is for one such fault or
// counts what was asked.
type memoryStorage struct {
	storage.Interface // nil: what is not implemented is not called
	versioner         storage.APIObjectVersioner
	streams           bool // it can send the state as a watch
	forwards          sync.WaitGroup

	mu        sync.Mutex // guards what follows
	log       []change
	pods      map[string]*example.Pod
	revision  uint64
	compacted uint64
	watches   map[*memoryWatch]struct{}
	changed   chan struct{} // closed and replaced with every change
	paused    bool          // watches send nothing
	listError error
	listHook  func(list *example.PodList) // changes what is listed
	lists     int
	requests  int // for progress
}

// change is one write; after is nil for a deletion, before for a creation.
type change struct {
	revision      uint64
	key           string
	before, after *example.Pod
}

func newMemoryStorage() *memoryStorage {
	return &memoryStorage{
		pods: map[string]*example.Pod{}, revision: 1,
		watches: map[*memoryWatch]struct{}{}, changed: make(chan struct{}),
	}
}

// locked changes the storage.
func (s *memoryStorage) locked(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	close(s.changed)
	s.changed = make(chan struct{})
}

func podKey(namespace, name string) string { return podPrefix + namespace + "/" + name }

// put writes a Pod and returns the revision.
func (s *memoryStorage) put(pod *example.Pod) (revision uint64) {
	s.locked(func() { revision = s.putLocked(pod) })
	return revision
}

func (s *memoryStorage) putLocked(pod *example.Pod) uint64 {
	s.revision++
	pod = pod.DeepCopy()
	pod.ResourceVersion = fmt.Sprint(s.revision)
	key := podKey(pod.Namespace, pod.Name)
	s.log = append(s.log, change{s.revision, key, s.pods[key], pod})
	s.pods[key] = pod
	return s.revision
}

// remove deletes a Pod, if it is there.
func (s *memoryStorage) remove(key string) (revision uint64) {
	s.locked(func() {
		s.revision++
		revision = s.revision
		if before := s.pods[key]; before != nil {
			s.log = append(s.log, change{s.revision, key, before, nil})
			delete(s.pods, key)
		}
	})
	return revision
}

// bump is a write of another resource.
func (s *memoryStorage) bump() (revision uint64) {
	s.locked(func() {
		s.revision++
		revision = s.revision
	})
	return revision
}

// now returns the revision.
func (s *memoryStorage) now() (revision uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.revision
}

// compact forgets the revisions before one, for lists and watches.
func (s *memoryStorage) compact(revision uint64) {
	s.locked(func() { s.compacted = max(s.compacted, revision) })
}

// pause makes watches wait before they send more, until resume.
func (s *memoryStorage) pause()  { s.locked(func() { s.paused = true }) }
func (s *memoryStorage) resume() { s.locked(func() { s.paused = false }) }

// breakWatches ends all watches, with an error if that is not nil.
func (s *memoryStorage) breakWatches(err error) {
	s.locked(func() {
		for w := range s.watches {
			w.broken, w.cause = true, err
		}
	})
}

// failLists lets lists fail until it is called with nil.
func (s *memoryStorage) failLists(err error) { s.locked(func() { s.listError = err }) }

// falsify lets lists give something else than what is there; nil ends that.
func (s *memoryStorage) falsify(hook func(*example.PodList)) { s.locked(func() { s.listHook = hook }) }

// listed returns how many lists were asked for.
func (s *memoryStorage) listed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lists
}

// changes returns everything that was written after a revision.
func (s *memoryStorage) changes(after uint64) []change {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changesLocked(after)
}

func (s *memoryStorage) changesLocked(after uint64) []change {
	first, found := slices.BinarySearchFunc(s.log, after, func(c change, revision uint64) int { return cmp.Compare(c.revision, revision) })
	if found {
		first++
	}
	return s.log[first:len(s.log):len(s.log)]
}

// at returns the Pods of a revision in the order of their keys.
func (s *memoryStorage) at(revision uint64) []*example.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.atLocked(revision)
}

func (s *memoryStorage) atLocked(revision uint64) (pods []*example.Pod) {
	state := map[string]*example.Pod{}
	for key, pod := range s.pods {
		state[key] = pod
	}
	for _, c := range slices.Backward(s.changesLocked(revision)) {
		if c.before == nil {
			delete(state, c.key)
		} else {
			state[c.key] = c.before
		}
	}
	for _, pod := range state {
		pods = append(pods, pod)
	}
	slices.SortFunc(pods, func(a, b *example.Pod) int {
		return strings.Compare(podKey(a.Namespace, a.Name), podKey(b.Namespace, b.Name))
	})
	return pods
}

// Versioner implements storage.Interface.
func (s *memoryStorage) Versioner() storage.Versioner { return s.versioner }

// GetCurrentResourceVersion implements storage.Interface.
func (s *memoryStorage) GetCurrentResourceVersion(ctx context.Context) (uint64, error) {
	return s.now(), context.Cause(ctx)
}

// CompactRevision implements storage.Interface.
func (s *memoryStorage) CompactRevision() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int64(s.compacted)
}

// EnableResourceSizeEstimation implements storage.Interface.
func (s *memoryStorage) EnableResourceSizeEstimation(storage.KeysFunc) error { return nil }

// IsWatchListSemanticsUnSupported tells a Reflector whether to list.
func (s *memoryStorage) IsWatchListSemanticsUnSupported() bool { return !s.streams }

// RequestWatchProgress implements storage.Interface.
func (s *memoryStorage) RequestWatchProgress(context.Context) error {
	s.locked(func() {
		s.requests++
		for w := range s.watches {
			w.progress = w.progress || w.notify
		}
	})
	return nil
}

// Get implements storage.Interface.
func (s *memoryStorage) Get(ctx context.Context, key string, opts storage.GetOptions, into runtime.Object) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	pod := s.pods[key]
	switch {
	case pod != nil:
		pod.DeepCopyInto(into.(*example.Pod))
	case opts.IgnoreNotFound:
		*into.(*example.Pod) = example.Pod{}
	default:
		return storage.NewKeyNotFoundError(key, int64(s.revision))
	}
	return context.Cause(ctx)
}

// GetList implements storage.Interface.
func (s *memoryStorage) GetList(ctx context.Context, key string, opts storage.ListOptions, into runtime.Object) error {
	key, err := storage.PrepareKey(podPrefix, key, opts.Recursive)
	if err != nil {
		return err
	}
	revision, from, err := storage.ValidateListOptions(key, s.versioner, opts)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lists++
	switch at := uint64(revision); {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case s.listError != nil:
		return s.listError
	case at == 0:
		at = s.revision
		fallthrough
	case at >= s.compacted && at <= s.revision:
		return s.fillLocked(key, from, at, opts, into.(*example.PodList))
	case at > s.revision:
		return storage.NewTooLargeResourceVersionError(at, s.revision, 0)
	}
	return apierrors.NewResourceExpired("compacted")
}

func (s *memoryStorage) fillLocked(key, from string, revision uint64, opts storage.ListOptions, list *example.PodList) error {
	list.Items = []example.Pod{}
	list.ResourceVersion, list.Continue, list.RemainingItemCount = fmt.Sprint(revision), "", nil
	var candidates []*example.Pod
	for _, pod := range s.atLocked(revision) {
		if k := podKey(pod.Namespace, pod.Name); k >= from && (strings.HasPrefix(k, key) && opts.Recursive || k == key) {
			candidates = append(candidates, pod)
		}
	}
	last, more := "", false
	for _, pod := range candidates {
		if opts.Predicate.Limit > 0 && int64(len(list.Items)) == opts.Predicate.Limit {
			more = true
			break
		}
		if matches(opts.Predicate, pod) {
			last = podKey(pod.Namespace, pod.Name)
			list.Items = append(list.Items, *pod.DeepCopy())
		}
	}
	if s.listHook != nil {
		s.listHook(list)
	}
	var err error
	list.Continue, list.RemainingItemCount, err = storage.PrepareContinueToken(last, key, int64(revision), int64(len(candidates)), more, opts)
	return err
}

// matches applies a predicate as plainly as can be.
func matches(p storage.SelectionPredicate, pod *example.Pod) bool {
	p.GetAttrs = podAttributes
	ok, err := p.Matches(pod)
	if err != nil {
		panic(err)
	}
	return ok
}

// supportProgress lets storages say what a new etcd supports.
func supportProgress(t testing.TB) {
	t.Helper()
	feature.DefaultFeatureSupportChecker.CheckClient(context.Background(), newEtcd{}, storage.RequestWatchProgress)
	NewWithT(t).Eventually(func() bool {
		return feature.DefaultFeatureSupportChecker.Supports(storage.RequestWatchProgress)
	}).WithPolling(time.Millisecond).Should(BeTrue())
}

// newEtcd is what is asked of a client of etcd.
type newEtcd struct{}

func (newEtcd) Endpoints() []string { return []string{"memory"} }

func (newEtcd) Status(context.Context, string) (*clientv3.StatusResponse, error) {
	return &clientv3.StatusResponse{Version: "3.7.0"}, nil
}

// memoryWatch is a watch of all Pods.
type memoryWatch struct {
	storage *memoryStorage
	result  chan watch.Event
	stop    context.CancelFunc
	notify  bool
	initial []*example.Pod
	marked  bool // the end of the initial events is

	// Guarded by storage.mu.
	revision uint64 // everything up to it was sent
	progress bool   // was asked for
	broken   bool
	cause    error
}

// Watch implements storage.Interface for watches of everything.
func (s *memoryStorage) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	revision, err := s.versioner.ParseResourceVersion(opts.ResourceVersion)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	w := &memoryWatch{storage: s, result: make(chan watch.Event, 10), stop: stop, notify: opts.ProgressNotify, revision: revision}
	s.mu.Lock()
	defer s.mu.Unlock()
	w.marked = opts.SendInitialEvents != nil && *opts.SendInitialEvents
	if revision == 0 || w.marked {
		w.initial, w.revision = s.atLocked(s.revision), s.revision
	}
	s.watches[w] = struct{}{}
	s.forwards.Go(func() { w.forward(ctx) })
	return w, nil
}

// ResultChan implements watch.Interface.
func (w *memoryWatch) ResultChan() <-chan watch.Event { return w.result }

// Stop implements watch.Interface.
func (w *memoryWatch) Stop() { w.stop() }

// forward sends until ctx ends or the watch is broken.
func (w *memoryWatch) forward(ctx context.Context) {
	defer close(w.result)
	defer w.stop()
	defer w.storage.locked(func() { delete(w.storage.watches, w) })
	for {
		events, wake, end := w.next()
		for _, event := range events {
			select {
			case w.result <- event:
			case <-ctx.Done():
				return
			}
		}
		if end {
			return
		}
		if len(events) > 0 {
			continue
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return
		}
	}
}

// next returns what is to be sent next, or what wakes the watch.
func (w *memoryWatch) next() (events []watch.Event, wake <-chan struct{}, end bool) {
	s := w.storage
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case w.broken && w.cause != nil:
		status := w.cause.(apierrors.APIStatus).Status()
		return []watch.Event{{Type: watch.Error, Object: &status}}, nil, true
	case w.broken:
		return nil, nil, true
	case s.paused:
		return nil, s.changed, false
	case w.initial != nil || w.marked:
		return w.initialLocked(), nil, false
	case w.revision < s.compacted && len(s.changesLocked(w.revision)) > 0:
		status := apierrors.NewResourceExpired("compacted").Status()
		return []watch.Event{{Type: watch.Error, Object: &status}}, nil, true
	}
	for _, c := range s.changesLocked(w.revision) {
		events, w.revision = append(events, c.event()), c.revision
		if len(events) == 10 {
			return events, nil, false
		}
	}
	if w.progress {
		w.progress, w.revision = false, s.revision
		events = append(events, watch.Event{Type: watch.Bookmark, Object: &example.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: fmt.Sprint(s.revision)}}})
	}
	return events, s.changed, false
}

func (w *memoryWatch) initialLocked() (events []watch.Event) {
	for _, pod := range w.initial {
		events = append(events, watch.Event{Type: watch.Added, Object: pod.DeepCopy()})
	}
	if w.marked {
		end := &example.Pod{ObjectMeta: metav1.ObjectMeta{
			ResourceVersion: fmt.Sprint(w.revision), Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
		}}
		events = append(events, watch.Event{Type: watch.Bookmark, Object: end})
	}
	w.initial, w.marked = nil, false
	return events
}

// event is the change as who watches everything sees it.
func (c change) event() watch.Event {
	switch {
	case c.before == nil:
		return watch.Event{Type: watch.Added, Object: c.after.DeepCopy()}
	case c.after != nil:
		return watch.Event{Type: watch.Modified, Object: c.after.DeepCopy()}
	}
	return watch.Event{Type: watch.Deleted, Object: c.gone()}
}

// gone is the deleted object with the revision of the change.
func (c change) gone() *example.Pod {
	gone := c.before.DeepCopy()
	gone.ResourceVersion = fmt.Sprint(c.revision)
	return gone
}
