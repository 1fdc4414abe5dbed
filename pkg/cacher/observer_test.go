// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cacher_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
)

// observer is one watch with what came out of it. It is compared with the storage, which knows
// exactly which events must come, in which order: the watch brings the first of them, and all if it
// was read to its end.
type observer struct {
	key    string
	opts   storage.ListOptions
	called uint64 // the revision of the storage when the watch was asked for
	events []watch.Event
}

// seen is an event as it is compared.
type seen struct {
	revision uint64
	kind     watch.EventType
	pod      *example.Pod
}

func (s seen) String() string {
	return fmt.Sprintf("%s %s/%s at %s", s.kind, s.pod.Namespace, s.pod.Name, s.pod.ResourceVersion)
}

func (s seen) equal(other seen) bool {
	return s.kind == other.kind && s.revision == other.revision && apiequality.Semantic.DeepEqual(s.pod, other.pod)
}

// podOf returns the Pod in an event.
func podOf(object runtime.Object) *example.Pod {
	if shared, ok := object.(runtime.CacheableObject); ok {
		object = shared.GetObject()
	}
	return object.(*example.Pod)
}

func revisionOf(pod *example.Pod) uint64 {
	revision, err := strconv.ParseUint(pod.ResourceVersion, 10, 64)
	if err != nil {
		panic(err)
	}
	return revision
}

func seenIn(event watch.Event) seen {
	pod := podOf(event.Object)
	return seen{revision: revisionOf(pod), kind: event.Type, pod: pod}
}

// sendsInitial reports that the watch begins with a state.
func (o *observer) sendsInitial() bool {
	if o.opts.SendInitialEvents != nil {
		return *o.opts.SendInitialEvents
	}
	return o.opts.ResourceVersion == "" || o.opts.ResourceVersion == "0"
}

// concerns reports whether the watch is about a Pod.
func (o *observer) concerns(pod *example.Pod) bool {
	return pod != nil && strings.HasPrefix(podKey(pod.Namespace, pod.Name), o.key) && matches(o.opts.Predicate, pod)
}

// state is what a watch that begins with the state of a revision sends first.
func (o *observer) state(s *memoryStorage, revision uint64) (events []seen) {
	for _, pod := range s.at(revision) {
		if o.concerns(pod) {
			events = append(events, seen{revisionOf(pod), watch.Added, pod})
		}
	}
	return events
}

// expected is what a watch from a revision sends.
func (o *observer) expected(s *memoryStorage, after uint64) (events []seen) {
	for _, c := range s.changes(after) {
		switch before, now := o.concerns(c.before), o.concerns(c.after); {
		case before && now:
			events = append(events, seen{c.revision, watch.Modified, c.after})
		case now:
			events = append(events, seen{c.revision, watch.Added, c.after})
		case before:
			events = append(events, seen{c.revision, watch.Deleted, c.gone()})
		}
	}
	return events
}

// last returns the revision from which a client goes on, and false if it has to begin anew.
func (o *observer) last() (string, bool) {
	n := len(o.events)
	switch {
	case n > 0 && o.events[n-1].Type == watch.Error:
		return "", false
	case n == 0:
		return o.opts.ResourceVersion, !o.sendsInitial() && o.opts.ResourceVersion != ""
	case o.sendsInitial() && !slices.ContainsFunc(o.events, func(e watch.Event) bool { return e.Type == watch.Bookmark }):
		return "", false // the state may have been cut short
	}
	return podOf(o.events[n-1].Object).ResourceVersion, true
}

var errIncomplete = errors.New("events are missing at the end")

// check compares with the storage. complete says that all events must have come.
func (o *observer) check(s *memoryStorage, complete bool) error {
	events := o.events
	if n := len(events); n > 0 && events[n-1].Type == watch.Error {
		if err := apierrors.FromObject(events[n-1].Object); !tellsWhatToDo(err) {
			return fmt.Errorf("the watch ended with an error that does not say what to do: %w", err)
		}
		events, complete = events[:n-1], false
	}
	if !o.sendsInitial() {
		after, err := strconv.ParseUint(o.opts.ResourceVersion, 10, 64)
		if err != nil || after == 0 { // from now
			return o.checkFromAny(s, events, complete, nil)
		}
		return compareEvents(events, o.expected(s, after), after, complete)
	}
	if o.opts.SendInitialEvents != nil && o.opts.Predicate.AllowWatchBookmarks {
		return o.checkStream(s, events, complete)
	}
	return o.checkFromAny(s, events, complete, o.state)
}

// tellsWhatToDo reports that an error tells a client to begin anew, or to come back.
func tellsWhatToDo(err error) bool {
	return apierrors.IsResourceExpired(err) || storage.IsTooLargeResourceVersion(err) || apierrors.IsTooManyRequests(err)
}

// checkStream checks a watch that stands for a list: a bookmark says which state it was.
func (o *observer) checkStream(s *memoryStorage, events []watch.Event, complete bool) error {
	end := -1
	for i, event := range events {
		if event.Type != watch.Bookmark || podOf(event.Object).Annotations[metav1.InitialEventsAnnotationKey] == "" {
			continue
		}
		if end >= 0 {
			return errors.New("the end of the initial events was said twice")
		}
		end = i
	}
	if end < 0 {
		if complete {
			return errors.New("the end of the initial events was not said")
		}
		return o.checkFromAny(s, events, false, o.state)
	}
	revision := revisionOf(podOf(events[end].Object))
	asked := o.called
	if o.opts.ResourceVersion != "" {
		asked, _ = strconv.ParseUint(o.opts.ResourceVersion, 10, 64)
	}
	if revision < asked {
		return fmt.Errorf("the state is that of revision %d, asked for was %d", revision, asked)
	}
	state := o.state(s, revision)
	if err := compareEvents(events[:end], state, 0, true); err != nil {
		return fmt.Errorf("initial events: %w", err)
	}
	return compareEvents(events[end+1:], o.expected(s, revision), revision, complete)
}

// checkFromAny looks for a revision with which the events agree.
func (o *observer) checkFromAny(
	s *memoryStorage, events []watch.Event, complete bool, state func(*memoryStorage, uint64) []seen,
) (err error) {
	var candidates []uint64 // a state is that of the last change; the likely ones come first
	for _, c := range slices.Backward(s.changes(0)) {
		if c.revision <= o.called {
			candidates = append(candidates, c.revision)
		}
	}
	candidates = append(candidates, 0)
	for _, c := range s.changes(o.called) {
		candidates = append(candidates, c.revision)
	}
	for _, revision := range candidates {
		var initial []seen
		if state != nil {
			initial = state(s, revision)
		}
		n := min(len(initial), len(events))
		if n > 0 && !seenIn(events[n-1]).equal(initial[n-1]) { // quick to see
			err = fmt.Errorf("it sent no state: %s", seenIn(events[n-1]))
			continue
		}
		if err = compareEvents(events[:n], initial, 0, n < len(events)); err != nil {
			continue
		}
		if err = compareEvents(events[n:], o.expected(s, revision), revision, complete); err == nil {
			return nil
		}
	}
	first := []string{fmt.Sprintf("the %d events agree with no revision; it was called at %d, complete=%v", len(events), o.called, complete)}
	for _, event := range events[:min(len(events), 20)] {
		first = append(first, seenIn(event).String())
	}
	return fmt.Errorf("%s; with the last one that was tried: %w", strings.Join(first, "; "), err)
}

// compareEvents compares events with all that there are after a revision.
func compareEvents(events []watch.Event, expected []seen, after uint64, complete bool) error {
	reached, n := after, 0
	for i, event := range events {
		if event.Type == watch.Bookmark {
			revision := revisionOf(podOf(event.Object))
			switch {
			case revision < reached:
				return fmt.Errorf("event %d is a bookmark that goes back from %d to %d", i, reached, revision)
			case n < len(expected) && expected[n].revision <= revision:
				return fmt.Errorf("event %d is a bookmark of %d before the event: %s", i, revision, expected[n])
			}
			reached = revision
			continue
		}
		got := seenIn(event)
		if n == len(expected) {
			return fmt.Errorf("event %d should not be: %s", i, got)
		}
		if !got.equal(expected[n]) {
			return fmt.Errorf("event %d is %s, expected %s", i, got, expected[n])
		}
		reached = max(reached, got.revision)
		n++
	}
	if complete && n < len(expected) {
		return fmt.Errorf("%w: %d of %d came, the next would be %s", errIncomplete, n, len(expected), expected[n])
	}
	return nil
}
