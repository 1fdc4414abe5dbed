// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"k8s.io/apiserver/pkg/storage"

	"github.com/tarn-dev/tarn/pkg/cacher/internal/element"
)

// Scope is what the watchers of an object or a namespace have in common; empty strings
// stand for all.
type Scope struct{ Namespace, Name string }

// address says where the index keeps a watcher.
type address struct {
	scope     Scope
	trigger   string
	triggered bool // the watcher is found by the trigger
	place     int  // in its group
}

// watcherIndex finds the watchers that an event may concern. Watchers of one value of the
// trigger are found by that value, the others by their scope.
type watcherIndex struct {
	trigger   *trigger // nil for none; it does not change
	byScope   map[Scope]*group
	byTrigger map[string]*group
}

func newWatcherIndex() *watcherIndex {
	return &watcherIndex{byScope: map[Scope]*group{}, byTrigger: map[string]*group{}}
}

// trigger is the field by whose value watchers are found.
type trigger struct {
	field string
	value storage.IndexerFunc
	form  *element.Form
}

// address returns where a watcher belongs.
func (i *watcherIndex) address(asked Watch) address {
	at, p := address{scope: asked.Scope}, &asked.Filter.Predicate
	if i.trigger == nil || p.Field == nil {
		return at
	}
	for _, field := range p.IndexFields {
		if value, ok := p.Field.RequiresExactMatch(field); ok && field == i.trigger.field {
			at.trigger, at.triggered = value, true
		}
	}
	return at
}

// group is a set of watchers that is quick to walk.
type group struct{ watchers []*watcher }

func (i *watcherIndex) add(w *watcher) {
	at := &w.address
	g := i.groupOf(at)
	if g == nil {
		g = &group{}
		if at.triggered {
			i.byTrigger[at.trigger] = g
		} else {
			i.byScope[at.scope] = g
		}
	}
	at.place = len(g.watchers)
	g.watchers = append(g.watchers, w)
}

func (i *watcherIndex) remove(w *watcher) {
	at := &w.address
	g := i.groupOf(at)
	last := len(g.watchers) - 1
	g.watchers[at.place] = g.watchers[last]
	g.watchers[at.place].address.place = at.place
	g.watchers[last] = nil
	g.watchers = g.watchers[:last]
	switch {
	case last > 0:
	case at.triggered:
		delete(i.byTrigger, at.trigger)
	default:
		delete(i.byScope, at.scope)
	}
}

func (i *watcherIndex) groupOf(at *address) *group {
	if at.triggered {
		return i.byTrigger[at.trigger]
	}
	return i.byScope[at.scope]
}

// each calls f for the watchers that an event of the object in scope concerns. These may leave
// the index meanwhile. triggers are the values of the trigger before and after the event.
func (i *watcherIndex) each(object Scope, triggers []string, f func(*watcher)) {
	if object.Namespace != "" {
		i.byScope[Scope{Namespace: object.Namespace}].each(f)
	}
	if object.Name != "" {
		i.byScope[Scope{Name: object.Name}].each(f)
	}
	if object.Namespace != "" && object.Name != "" {
		i.byScope[object].each(f)
	}
	i.byScope[Scope{}].each(f)
	for _, value := range triggers {
		i.byTrigger[value].each(f)
	}
}

func (g *group) each(f func(*watcher)) {
	if g == nil {
		return
	}
	for n := len(g.watchers) - 1; n >= 0; n-- { // backwards: a watcher that leaves is replaced by the last
		f(g.watchers[n])
	}
}

// values returns the values of the trigger before and after the event.
func (t *trigger) values(e *event) (values []string) {
	if t == nil {
		return nil
	}
	for _, of := range []*element.Element{e.Item.Value, e.Previous.Value} {
		if of == nil {
			continue
		}
		value, ok := of.Field(t.field)
		if !ok {
			obj, err := t.form.Object(of)
			if err != nil {
				continue // the watchers that are given the event are told
			}
			value = t.value(obj)
		}
		if len(values) == 0 || values[0] != value {
			values = append(values, value)
		}
	}
	return values
}
