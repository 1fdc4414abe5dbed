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

// mostPoints bounds what is noted of one run. A controller that does more in some steps does not settle.
const mostPoints = 20_000

// notes has the points of one run. It is safe for concurrent use.
type notes struct {
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

func newNotes(a *activity, f *fault) *notes {
	return &notes{activity: a, fault: f, counts: map[point]int{}, generated: map[kindOf][]string{}}
}

// meet notes a request or an event, and says whether it is the point of the fault. It is a function for faults.Rule.
func (n *notes) meet(h faults.Held) bool {
	verb := h.Verb
	if h.Type != "" {
		verb = eventPrefix + h.Type
	} else if verb == "watch" {
		return false // its events are the points
	}
	n.activity.saw()
	if served.IsOwn(h.UserAgent) {
		return false // the cache asks which kinds there are, and the controller has asked for none of it
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	p := point{verb: verb, group: h.Group, resource: h.Resource, sub: h.Subresource, namespace: h.Namespace, name: n.nameLocked(h)}
	n.counts[p]++
	p.nth = n.counts[p]
	if len(n.points) < mostPoints {
		n.points = append(n.points, p)
	}
	if n.hit && !p.event() {
		n.since++
	}
	if n.fault == nil || n.fault.point != p {
		return false
	}
	n.hit = true
	n.fault.kind.met(n.activity)
	return true
}

// nameLocked is the name of an object, or what it begins with if the server has generated it. The server appends five letters.
func (n *notes) nameLocked(h faults.Held) string {
	const letters = 5
	kind := kindOf{h.Group, h.Resource, h.Namespace}
	known := n.generated[kind]
	if g := h.GenerateName; g != "" {
		if !slices.Contains(known, g) {
			n.generated[kind] = append(known, g)
		}
		if h.Name == "" {
			return g + "*"
		}
	}
	for _, g := range n.generated[kind] {
		if len(h.Name) == len(g)+letters && strings.HasPrefix(h.Name, g) {
			return g + "*"
		}
	}
	return h.Name
}

// last describes what was noted last, for an error.
func (n *notes) last() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var last []string
	for _, p := range n.points[max(0, len(n.points)-3):] {
		last = append(last, p.String())
	}
	if len(last) == 0 {
		return "it has asked for nothing"
	}
	return "at last: " + strings.Join(last, ", ")
}

// sinceHit returns how many requests there were since the fault happened.
func (n *notes) sinceHit() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.since
}

// all returns the points, and whether that of the fault was among them.
func (n *notes) all() (points []point, hit bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.points, n.hit
}
