// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cacher

import (
	"sync"
	"weak"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	pathkey "k8s.io/apiserver/pkg/storage/cacher/key"

	"github.com/tarn-dev/tarn/internal/watchcache"
)

// occurrence is an event on its way to watchers, who share what is made for them. It belongs
// to one goroutine.
type occurrence struct {
	elements  *elements
	versioner storage.Versioner
	event     *watchcache.Event[*element, *sharing]

	before, after runtime.Object // made for the first filter that looks at them
	written, gone *sharedObject  // made for the first watcher that wants them
}

// sharing is attached to an event: it finds what was made of it for watchers, as long as one
// of them has it, for those who come to the event by themselves. After a burst these can be
// all watchers.
type sharing struct {
	mu            sync.Mutex // guards what follows
	written, gone weak.Pointer[sharedObject]
}

func (c *Cacher) occurrence(event *watchcache.Event[*element, *sharing]) *occurrence {
	return &occurrence{elements: c.elements, versioner: c.config.Versioner, event: event}
}

// revision is that of the change.
func (o *occurrence) revision() uint64 { return o.event.Item.Revision }

// seenBy returns the event as one sees it who sees only what matches: an object that begins
// to match is added, one that ceases to is deleted. ok is false if there is nothing to see.
func (o *occurrence) seenBy(f *filter) (event watch.Event, ok bool, err error) {
	key := o.event.Item.Key
	if !pathkey.HasPathPrefix(key, f.prefix) {
		return event, false, nil
	}
	var before, after bool
	if o.event.Type != watchcache.Added {
		if before, err = f.matchesWith(o.event.Previous.Value, &o.before); err != nil {
			return event, false, err
		}
	}
	if o.event.Type != watchcache.Deleted {
		if after, err = f.matchesWith(o.event.Item.Value, &o.after); err != nil {
			return event, false, err
		}
	}
	var object *sharedObject
	switch {
	case after && before:
		event.Type = watch.Modified
		object, err = o.writtenObject()
	case after:
		event.Type = watch.Added
		object, err = o.writtenObject()
	case before:
		event.Type = watch.Deleted
		object, err = o.goneObject()
	default:
		return event, false, nil
	}
	event.Object = object
	return event, err == nil, err
}

// writtenObject returns the object as it was written.
func (o *occurrence) writtenObject() (made *sharedObject, err error) {
	if o.written == nil {
		o.written, err = o.shared(func(s *sharing) *weak.Pointer[sharedObject] { return &s.written }, o.makeWritten)
	}
	return o.written, err
}

func (o *occurrence) makeWritten() (*sharedObject, error) {
	if err := o.elements.make(o.event.Item.Value, &o.after); err != nil {
		return nil, err
	}
	return share(o.after)
}

// goneObject returns the object as it was before, with the revision of the change.
func (o *occurrence) goneObject() (made *sharedObject, err error) {
	if o.gone == nil {
		o.gone, err = o.shared(func(s *sharing) *weak.Pointer[sharedObject] { return &s.gone }, o.makeGone)
	}
	return o.gone, err
}

func (o *occurrence) makeGone() (*sharedObject, error) {
	obj, err := o.elements.own(o.event.Previous.Value)
	if err != nil {
		return nil, err
	}
	if err := o.versioner.UpdateObject(obj, o.revision()); err != nil {
		return nil, err
	}
	return share(obj)
}

// shared returns what others were given of the event, or makes it. Meanwhile they wait, as
// it would be the same.
func (o *occurrence) shared(
	among func(*sharing) *weak.Pointer[sharedObject], create func() (*sharedObject, error),
) (made *sharedObject, err error) {
	s := o.event.Attached
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
