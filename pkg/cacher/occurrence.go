// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cacher

import (
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	pathkey "k8s.io/apiserver/pkg/storage/cacher/key"

	"github.com/tarn-dev/tarn/pkg/watchcache"
)

// occurrence is an event on its way to watchers, who share what is made for them. It belongs
// to one goroutine.
type occurrence struct {
	elements  *elements
	versioner storage.Versioner
	event     *watchcache.Event[*element]

	written, gone *sharedObject // made for the first watcher that wants them
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
		if before, err = f.matches(key, o.event.Previous.Value); err != nil {
			return event, false, err
		}
	}
	if o.event.Type != watchcache.Deleted {
		if after, err = f.matches(key, o.event.Item.Value); err != nil {
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
func (o *occurrence) writtenObject() (*sharedObject, error) {
	if o.written == nil {
		obj, err := o.elements.object(o.event.Item.Value)
		if err != nil {
			return nil, err
		}
		if o.written, err = share(obj); err != nil {
			return nil, err
		}
	}
	return o.written, nil
}

// goneObject returns the object as it was before, with the revision of the change.
func (o *occurrence) goneObject() (*sharedObject, error) {
	if o.gone == nil {
		obj, err := o.elements.own(o.event.Previous.Value)
		if err != nil {
			return nil, err
		}
		if err := o.versioner.UpdateObject(obj, o.revision()); err != nil {
			return nil, err
		}
		if o.gone, err = share(obj); err != nil {
			return nil, err
		}
	}
	return o.gone, nil
}
