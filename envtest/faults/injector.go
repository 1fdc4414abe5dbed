// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/watch"
)

// Rule says which requests are meant. An empty field means all.
type Rule struct {
	// Verb is that of the request as authorization knows it: get, list, watch, create, update, patch, delete or
	// deletecollection.
	Verb string
	// Group and Resource are those of the path, such as apps and deployments; the group of Pods is "core" here, since the
	// empty one means all.
	Group, Resource string
	// Subresource is one such as status. "-" means the resource itself, without its subresources.
	Subresource string
	// Namespace and Name are those of the object. For an object that is being created, and for events of watches, they are read
	// from the object.
	Namespace, Name string
	// User is who asks, such as system:serviceaccount:default:robot. A proxy does not know it.
	User string
	// UserAgent is what the agent that asks begins with; rest.Config has the field.
	UserAgent string
	// Type is that of an event: ADDED, MODIFIED, DELETED, BOOKMARK, or * for all of these. Empty means all but bookmarks, which
	// come at times that no test chooses. A rule with a type does not match requests.
	Type string
	// When, if set, is asked about each request or event that the fields above match, in the order of arrival, and says whether it
	// is meant. So a rule can count, or choose by what came before. It is called while the request or the watch waits, by many
	// goroutines at once: it must not block, nor call the Injector. A whole watch, for Expire and Cut(0), is asked about as its
	// request.
	When func(Held) bool

	// Skip is how many of those that match are left alone at first.
	Skip int
	// Times is how many are hit at most, after these; 0 is without a bound.
	Times int
}

var verbs = []string{"", "get", "list", verbWatch, "create", "update", "patch", "delete", "deletecollection"}

var types = []string{"", string(watch.Added), string(watch.Modified), string(watch.Deleted), typeBookmark, typeAll}

const (
	verbWatch    = "watch"
	coreGroup    = "core"
	noSub        = "-"
	typeBookmark = string(watch.Bookmark)
	typeAll      = "*"
)

// check returns why nothing can match the rule.
func (r *Rule) check(users bool) error {
	switch {
	case !slices.Contains(verbs, r.Verb):
		return fmt.Errorf("a rule with the verb %q matches nothing: the verbs are %s", r.Verb, strings.Join(verbs[1:], ", "))
	case !slices.Contains(types, r.Type), r.Type != "" && r.Verb != "" && r.Verb != verbWatch:
		return fmt.Errorf("a rule with the type %q and the verb %q matches nothing: events of watches have a type, which is one of %s",
			r.Type, r.Verb, strings.Join(types[1:], ", "))
	case strings.ContainsAny(r.Resource, "/ "):
		return fmt.Errorf("a rule with the resource %q matches nothing: the subresource is a field of its own", r.Resource)
	case r.Resource != strings.ToLower(r.Resource):
		return fmt.Errorf("a rule with the resource %q matches nothing: resources are in lower case and plural, such as pods", r.Resource)
	case r.Skip < 0 || r.Times < 0:
		return errors.New("a rule with negative numbers")
	case r.User != "" && !users:
		return errors.New("a rule with a user: a proxy does not know who asks, use UserAgent")
	}
	return nil
}

// Injector applies rules to the requests of one server: its Stop ends all rules. The zero value is not ready: New makes one.
type Injector struct {
	mu     sync.Mutex              // guards changes of rules
	rules  atomic.Pointer[[]*rule] // in the order in which they were made; never changed, replaced
	proxy  atomic.Bool             // some handler does not know users
	opens  sync.Mutex              // guards open and opened; none is taken with it
	open   map[*stream]struct{}    // the watches
	opened uint64                  // how many there have been
	buffer int                     // bytes that a Hold holds at most, and that wait in a watch
}

// heldBytes bounds what a Hold holds, and what waits in one watch.
const heldBytes = 64 << 20

// New returns an Injector without rules.
func New() *Injector { return &Injector{open: map[*stream]struct{}{}, buffer: heldBytes} }

// rule is a Rule with what happens, and its counts.
type rule struct {
	Rule
	action Action // nil for a Hold
	hold   *Hold  // nil for an Action

	mu      sync.Mutex // guards what follows; it is taken last
	matched int
	hits    int
	ended   bool
	changed chan struct{} // closed and replaced with each hit, and at the end
	over    chan struct{} // closed at the end
}

// Fault is an Action that is in force until it ends.
type Fault struct {
	injector *Injector
	rule     *rule
}

// Inject lets an action happen to what the rule matches, until Times of them were hit or End is called. If several rules match
// a request, the oldest one that is not used up applies alone. The error says what is wrong with the rule.
func (i *Injector) Inject(r Rule, action Action) (*Fault, error) {
	if action == nil {
		return nil, errors.New("inject a fault: there is no action")
	}
	if err := action.fits(&r); err != nil {
		return nil, fmt.Errorf("inject a fault: %w", err)
	}
	added, err := i.add(r, action, nil)
	if err != nil {
		return nil, fmt.Errorf("inject a fault: %w", err)
	}
	return &Fault{i, added}, nil
}

func (i *Injector) add(r Rule, action Action, hold *Hold) (*rule, error) {
	if err := r.check(!i.proxy.Load()); err != nil {
		return nil, err
	}
	added := &rule{Rule: r, action: action, hold: hold, changed: make(chan struct{}), over: make(chan struct{})}
	if hold != nil {
		hold.rule = added
	}
	i.mu.Lock()
	rules := append(slices.Clone(i.inForce()), added)
	i.rules.Store(&rules)
	i.mu.Unlock()
	if cut, ok := action.(streamAction); ok && cut.atOnce() {
		i.sweep(added)
	}
	return added, nil
}

// inForce returns the rules. The caller does not change them.
func (i *Injector) inForce() []*rule {
	if rules := i.rules.Load(); rules != nil {
		return *rules
	}
	return nil
}

// remove takes a rule out of force.
func (i *Injector) remove(r *rule) {
	i.mu.Lock()
	defer i.mu.Unlock()
	rules := slices.DeleteFunc(slices.Clone(i.inForce()), func(other *rule) bool { return other == r })
	i.rules.Store(&rules)
}

// End ends all rules: faults, and holds, which let go what they hold.
func (i *Injector) End() {
	for _, r := range i.inForce() {
		if r.hold != nil {
			r.hold.End()
		} else {
			(&Fault{i, r}).End()
		}
	}
}

// End ends the fault. A request that is delayed goes on.
func (f *Fault) End() {
	f.injector.remove(f.rule)
	f.rule.end()
}

// Hits returns how often it was hit.
func (f *Fault) Hits() int { return f.rule.count() }

// Wait returns when the fault was hit n times since it was injected. The error is that of the context, or that the fault has
// ended before, or that its rule allows fewer.
func (f *Fault) Wait(ctx context.Context, n int) error {
	return f.rule.wait(ctx, func() bool { return f.rule.hits >= n }, func() string {
		return fmt.Sprintf("the fault was hit %d times, not %d", f.rule.hits, n)
	})
}

func (r *rule) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.hits
}

// hit says whether a match of the rule is one that it applies to, and counts it.
func (r *rule) hit() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended || r.Times > 0 && r.hits >= r.Times {
		return false
	}
	if r.matched++; r.matched <= r.Skip {
		return false
	}
	r.hits++
	r.changedLocked()
	return true
}

func (r *rule) changedLocked() {
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *rule) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ended {
		r.ended = true
		r.changedLocked()
		close(r.over)
	}
}

// wait returns nil when done says so. The functions are called with mu held.
func (r *rule) wait(ctx context.Context, done func() bool, state func() string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for !done() {
		switch {
		case r.ended:
			return fmt.Errorf("%s, and has ended", state())
		case r.Times > 0 && r.hits >= r.Times:
			return fmt.Errorf("%s, and its rule allows no more", state())
		}
		changed := r.changed
		r.mu.Unlock()
		select {
		case <-changed:
			r.mu.Lock()
		case <-ctx.Done():
			r.mu.Lock()
			return fmt.Errorf("%s: %w", state(), context.Cause(ctx))
		}
	}
	return nil
}
