// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cacher

// scope is what the watchers of an object or a namespace have in common; empty strings
// stand for all.
type scope struct{ namespace, name string }

// interest finds the watchers that an event may concern. Watchers of one value of the
// trigger are found by that value, the others by their scope.
type interest struct {
	byScope   map[scope]*group
	byTrigger map[string]*group
}

func newInterest() *interest {
	return &interest{byScope: map[scope]*group{}, byTrigger: map[string]*group{}}
}

// group is a set of watchers that is quick to walk.
type group struct{ watchers []*watcher }

func (i *interest) add(w *watcher) {
	g := i.groupOf(w)
	if g == nil {
		g = &group{}
		if w.triggered {
			i.byTrigger[w.trigger] = g
		} else {
			i.byScope[w.scope] = g
		}
	}
	w.place = len(g.watchers)
	g.watchers = append(g.watchers, w)
}

func (i *interest) remove(w *watcher) {
	g := i.groupOf(w)
	last := len(g.watchers) - 1
	g.watchers[w.place] = g.watchers[last]
	g.watchers[w.place].place = w.place
	g.watchers[last] = nil
	g.watchers = g.watchers[:last]
	switch {
	case last > 0:
	case w.triggered:
		delete(i.byTrigger, w.trigger)
	default:
		delete(i.byScope, w.scope)
	}
}

func (i *interest) groupOf(w *watcher) *group {
	if w.triggered {
		return i.byTrigger[w.trigger]
	}
	return i.byScope[w.scope]
}

// each calls f for the watchers that an event of an object concerns, who may leave
// meanwhile. triggers are the values of the trigger before and after it.
func (i *interest) each(namespace, name string, triggers []string, f func(*watcher)) {
	if namespace != "" {
		i.byScope[scope{namespace: namespace}].each(f)
	}
	if name != "" {
		i.byScope[scope{name: name}].each(f)
	}
	if namespace != "" && name != "" {
		i.byScope[scope{namespace, name}].each(f)
	}
	i.byScope[scope{}].each(f)
	for _, value := range triggers {
		i.byTrigger[value].each(f)
	}
}

func (g *group) each(f func(*watcher)) {
	if g == nil {
		return
	}
	for n := len(g.watchers) - 1; n >= 0; n-- { // backwards: one that leaves is replaced by the last
		f(g.watchers[n])
	}
}
