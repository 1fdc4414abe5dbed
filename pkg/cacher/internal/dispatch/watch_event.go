// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"sync"
	"weak"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	pathkey "k8s.io/apiserver/pkg/storage/cacher/key"

	"github.com/tarn-dev/tarn/internal/watchcache"
	"github.com/tarn-dev/tarn/pkg/cacher/internal/element"
)

// maker makes what watchers are sent. It does not change.
type maker struct {
	form      *element.Form
	versioner storage.Versioner
	newObject func() runtime.Object
}

// watchEvent returns an event of the engine as watchers see it.
func (m *maker) watchEvent(e *event) *watchEvent { return &watchEvent{maker: m, event: e} }

// bookmark returns the event that says that everything up to revision was sent.
func (m *maker) bookmark(revision uint64) (watch.Event, error) {
	obj := m.newObject()
	err := m.versioner.UpdateObject(obj, revision)
	return watch.Event{Type: watch.Bookmark, Object: obj}, err
}

// watchEvent is an event of the engine on its way to watchers, which share the objects that are
// made for it. It belongs to one goroutine.
type watchEvent struct {
	maker *maker
	event *event

	before, after runtime.Object // made for the first filter that looks at them
	written, gone *cachingObject // made for the first watcher that wants them
}

// Sharing is attached to an event of the engine. It has the objects that were made of the event
// for some watcher, as long as one of them is in use, for watchers that come to the event by
// themselves. After a burst all watchers may do so.
type Sharing struct {
	mu            sync.Mutex // guards what follows
	written, gone weak.Pointer[cachingObject]
}

// revision returns the revision of the change.
func (e *watchEvent) revision() uint64 { return e.event.Item.Revision }

// seenBy returns the event as a watcher with a filter sees it: an object that begins to match is
// added, an object that ceases to match is deleted. ok is false if the watcher sees nothing.
func (e *watchEvent) seenBy(f *element.Filter) (event watch.Event, ok bool, err error) {
	key := e.event.Item.Key
	if !pathkey.HasPathPrefix(key, f.Prefix) {
		return event, false, nil
	}
	var before, after bool
	if e.event.Type != watchcache.Added {
		if before, err = f.Matches(e.event.Previous.Value, &e.before); err != nil {
			return event, false, err
		}
	}
	if e.event.Type != watchcache.Deleted {
		if after, err = f.Matches(e.event.Item.Value, &e.after); err != nil {
			return event, false, err
		}
	}
	var object *cachingObject
	switch {
	case after && before:
		event.Type = watch.Modified
		object, err = e.writtenObject()
	case after:
		event.Type = watch.Added
		object, err = e.writtenObject()
	case before:
		event.Type = watch.Deleted
		object, err = e.goneObject()
	default:
		return event, false, nil
	}
	event.Object = object
	return event, err == nil, err
}

// writtenObject returns the object as it was written.
func (e *watchEvent) writtenObject() (made *cachingObject, err error) {
	if e.written == nil {
		e.written, err = e.shared(func(s *Sharing) *weak.Pointer[cachingObject] { return &s.written }, e.makeWritten)
	}
	return e.written, err
}

func (e *watchEvent) makeWritten() (*cachingObject, error) {
	if err := e.maker.form.Once(e.event.Item.Value, &e.after); err != nil {
		return nil, err
	}
	return share(e.after)
}

// goneObject returns the object as it was before, with the revision of the change.
func (e *watchEvent) goneObject() (made *cachingObject, err error) {
	if e.gone == nil {
		e.gone, err = e.shared(func(s *Sharing) *weak.Pointer[cachingObject] { return &s.gone }, e.makeGone)
	}
	return e.gone, err
}

func (e *watchEvent) makeGone() (*cachingObject, error) {
	obj, err := e.maker.form.Copy(e.event.Previous.Value)
	if err != nil {
		return nil, err
	}
	if err := e.maker.versioner.UpdateObject(obj, e.revision()); err != nil {
		return nil, err
	}
	return share(obj)
}

// shared returns the object that other watchers were given, or makes it. Others that want it
// wait meanwhile, since they would make the same.
func (e *watchEvent) shared(
	among func(*Sharing) *weak.Pointer[cachingObject], create func() (*cachingObject, error),
) (made *cachingObject, err error) {
	s := e.event.Attached
	if s == nil { // of the state a watcher begins with
		return create()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if made = among(s).Value(); made != nil {
		return made, nil
	}
	if made, err = create(); err == nil {
		*among(s) = weak.Make(made)
	}
	return made, err
}
