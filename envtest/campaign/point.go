// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package campaign

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/tarn-dev/tarn/envtest/faults"
	"github.com/tarn-dev/tarn/internal/served"
)

// point is a place in what a controller does: its nth request of some kind for some object, or the nth event of some type for an
// object that its watches get. Runs have the same points whatever the order in which objects take their turns.
type point struct {
	verb            string // of a request, or "event" and its type
	group, resource string
	sub             string // subresource
	namespace, name string // a generated name has a * in place of its random part
	nth             int
}

func (p point) String() string {
	resource := p.group + "/" + p.resource
	if p.sub != "" {
		resource += "/" + p.sub
	}
	object := p.name
	if p.namespace != "" {
		object = p.namespace + "/" + p.name
	}
	return strings.Join(strings.Fields(fmt.Sprintf("%s %s %s #%d", p.verb, resource, object, p.nth)), " ")
}

const eventPrefix = "event "

// event says whether it is an event, and not a request.
func (p point) event() bool { return strings.HasPrefix(p.verb, eventPrefix) }

func (p point) writes() bool { return !p.event() && !p.reads() }
func (p point) reads() bool  { return p.verb == "get" || p.verb == "list" }

// mostPoints bounds the trace of one run. A controller that does more in some steps does not settle.
const mostPoints = 20_000

// trace has the points of one run. It is safe for concurrent use.
type trace struct {
	activity *activity
	fault    *fault // nil without one

	mu        sync.Mutex // guards what follows
	points    []point
	counts    map[point]int // by the point without its number
	generated map[kindOf][]string
	hit       bool // the fault
	since     int  // requests since then
}

// kindOf is where a generated name belongs.
type kindOf struct{ group, resource, namespace string }

func newTrace(a *activity, f *fault) *trace {
	return &trace{activity: a, fault: f, counts: map[point]int{}, generated: map[kindOf][]string{}}
}

// meet adds a request or an event, and says whether it is the point of the fault. It is a function for faults.Rule.
func (t *trace) meet(h faults.Held) bool {
	verb := h.Verb
	if h.Type != "" {
		verb = eventPrefix + h.Type
	} else if verb == "watch" {
		return false // its events are the points
	}
	t.activity.saw()
	if served.IsOwn(h.UserAgent) {
		return false // the cache asks which kinds there are, and the controller has asked for none of it
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	p := point{verb: verb, group: h.Group, resource: h.Resource, sub: h.Subresource, namespace: h.Namespace, name: t.nameLocked(h)}
	t.counts[p]++
	p.nth = t.counts[p]
	if len(t.points) < mostPoints {
		t.points = append(t.points, p)
	}
	if t.hit && !p.event() {
		t.since++
	}
	if t.fault == nil || t.fault.point != p {
		return false
	}
	t.hit = true
	t.fault.kind.met(t.activity)
	return true
}

// nameLocked is the name of an object, or what it begins with if the server has generated it. The server appends five letters.
func (t *trace) nameLocked(h faults.Held) string {
	const letters = 5
	kind := kindOf{h.Group, h.Resource, h.Namespace}
	known := t.generated[kind]
	if g := h.GenerateName; g != "" {
		if !slices.Contains(known, g) {
			t.generated[kind] = append(known, g)
		}
		if h.Name == "" {
			return g + "*"
		}
	}
	for _, g := range t.generated[kind] {
		if len(h.Name) == len(g)+letters && strings.HasPrefix(h.Name, g) {
			return g + "*"
		}
	}
	return h.Name
}

// last describes the last points, for an error.
func (t *trace) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var last []string
	for _, p := range t.points[max(0, len(t.points)-3):] {
		last = append(last, p.String())
	}
	if len(last) == 0 {
		return "it has asked for nothing"
	}
	return "at last: " + strings.Join(last, ", ")
}

// sinceHit returns how many requests there were since the fault happened.
func (t *trace) sinceHit() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.since
}

// all returns the points, and whether that of the fault was among them.
func (t *trace) all() (points []point, hit bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.points, t.hit
}
