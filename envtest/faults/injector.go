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

	"github.com/tarn-dev/tarn/internal/signal"
)

// Rule says which requests are meant. An empty field means all. A Rule for another Station than HTTP says which calls are meant:
// there, a field that the fault point does not know is an error, see Station. There are more than twelve fields because each says one
// thing of a request.
type Rule struct {
	// Station is where the fault happens; the zero value is HTTP, the requests of clients.
	Station Station

	// Verb is the request's, as authorization knows it: get, list, watch, create, update, patch, delete or
	// deletecollection. Storage and Etcd have verbs of their own.
	Verb string
	// Group and Resource are in the path, such as apps and deployments; the group of Pods is "core" here, since the
	// empty one means all.
	Group, Resource string
	// Subresource is one such as status. "-" means the resource itself, without its subresources.
	Subresource string
	// Namespace and Name name the object. For an object that is being created, and for events of watches, they are read
	// from the object.
	Namespace, Name string
	// User is the name of a user, such as system:serviceaccount:default:robot. A proxy does not know it.
	User string
	// UserAgent is a prefix of the client's user agent, see rest.Config.
	UserAgent string
	// Type is the type of an event: ADDED, MODIFIED, DELETED, BOOKMARK, or * for all of these. Empty means all but bookmarks, which
	// come at times that no test chooses. A rule with a type does not match requests.
	Type string
	// Path is the path of a webhook's URL, such as /validate. Only the fault point Webhook knows it.
	Path string
	// When, if set, is asked about each request or event that the fields above match, in the order of arrival, and says whether it
	// is meant. So a rule can count, or choose by what came before. It is called while the request or the watch waits, by many
	// goroutines at once: it must not block, nor call the Injector. A whole watch, for Expire and Cut(0), is asked about as its
	// request.
	When func(Held) bool

	// Skip is how many matches are left alone at first.
	Skip int
	// Times is how many are hit at most, after these; 0 is without a bound.
	Times int
}

var verbs = []string{"", verbGet, verbList, verbWatch, verbCreate, verbUpdate, "patch", verbDelete, "deletecollection"}

var types = []string{"", string(watch.Added), string(watch.Modified), string(watch.Deleted), typeBookmark, typeAll}

const (
	verbGet      = "get"
	verbList     = "list"
	verbWatch    = "watch"
	verbCreate   = "create"
	verbUpdate   = "update"
	verbDelete   = "delete"
	coreGroup    = "core"
	noSub        = "-"
	typeBookmark = string(watch.Bookmark)
	typeAll      = "*"
)

// checkHTTP returns why nothing can match a rule for requests.
func (r *Rule) checkHTTP(users bool) error {
	switch {
	case !slices.Contains(verbs, r.Verb):
		return fmt.Errorf("a rule with the verb %q matches nothing: the verbs are %s", r.Verb, strings.Join(verbs[1:], ", "))
	case !slices.Contains(types, r.Type), r.Type != "" && r.Verb != "" && r.Verb != verbWatch:
		return fmt.Errorf("a rule with the type %q and the verb %q matches nothing: events of watches have a type, which is one of %s",
			r.Type, r.Verb, strings.Join(types[1:], ", "))
	case r.User != "" && !users:
		return errors.New("a rule with a user: a proxy does not know who asks, use UserAgent")
	}
	return nil
}

// Injector applies rules to the requests of a server, or of several. Stop of one of them ends all rules. When all have stopped, no
// rule can be added, until another server begins to use the Injector. The zero value is not ready: New makes one.
type Injector struct {
	mu     sync.Mutex              // guards changes of rules, and life
	rules  atomic.Pointer[ruleSet] // never changed, replaced
	proxy  atomic.Bool             // some handler does not know users, nor any fault point but HTTP
	life   life
	opens  sync.Mutex           // guards open, stored and opened; none is taken with it
	open   map[*stream]struct{} // the watches of clients
	stored map[*storedWatch]struct{}
	opened uint64 // how many watches there have been
	buffer int    // bytes that a Hold holds at most, and that wait in a watch
}

// ruleSet are the rules of each fault point, in the order in which they were made.
type ruleSet [faultPoints][]*rule

// heldBytes bounds the events and answers of a Hold, and the events that wait in one watch.
const heldBytes = 64 << 20

// New returns an Injector without rules.
func New() *Injector {
	return &Injector{open: map[*stream]struct{}{}, stored: map[*storedWatch]struct{}{}, buffer: heldBytes}
}

// rule is a Rule with what happens, and its counts.
type rule struct {
	Rule
	action Action // nil for a Hold
	hold   *Hold  // nil for an Action

	mu      sync.Mutex // guards what follows; it is taken last
	matched int
	hits    int
	coming  int // hits of a Hold that it does not hold yet
	ended   bool
	changed signal.Broadcast // of hits, coming and ended
	over    chan struct{}    // closed at the end
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
	added, err := i.add(r, action, nil)
	if err != nil {
		return nil, fmt.Errorf("inject a fault: %w", err)
	}
	return &Fault{i, added}, nil
}

func (i *Injector) add(r Rule, action Action, hold *Hold) (*rule, error) {
	if err := r.check(i.proxy.Load()); err != nil {
		return nil, err
	}
	if action != nil { // which a Hold has not
		if err := r.fits(action); err != nil {
			return nil, err
		}
	}
	added := &rule{Rule: r, action: action, hold: hold, over: make(chan struct{})}
	if hold != nil {
		hold.rule = added
	}
	if err := i.put(added); err != nil {
		return nil, err
	}
	if at, ok := action.(streamAction); ok && at.atOnce() {
		i.sweep(added)
	}
	return added, nil
}

// put brings a rule into force, unless the server has stopped.
func (i *Injector) put(added *rule) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.life.stopped {
		return errStopped
	}
	rules := i.all()
	rules[added.Station] = append(slices.Clone(rules[added.Station]), added)
	i.rules.Store(&rules)
	return nil
}

// all returns the rules of all fault points. The slices are shared.
func (i *Injector) all() ruleSet {
	if rules := i.rules.Load(); rules != nil {
		return *rules
	}
	return ruleSet{}
}

// inForce returns the rules of a fault point. The caller does not change them.
func (i *Injector) inForce(s Station) []*rule {
	if rules := i.rules.Load(); rules != nil {
		return rules[s]
	}
	return nil
}

// remove takes a rule out of force.
func (i *Injector) remove(r *rule) {
	i.mu.Lock()
	defer i.mu.Unlock()
	rules := i.all()
	rules[r.Station] = slices.DeleteFunc(slices.Clone(rules[r.Station]), func(other *rule) bool { return other == r })
	i.rules.Store(&rules)
}

// End ends all rules: faults, and holds, which let go what they hold.
func (i *Injector) End() {
	for _, rules := range i.all() {
		for _, r := range rules {
			if r.hold != nil {
				r.hold.End()
			} else {
				(&Fault{i, r}).End()
			}
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

// Wait returns when the fault was hit n times since it was injected. The error is that of the context. It is another one if
// the fault has ended before, or if its rule allows fewer hits.
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

// hit counts a match of the rule, and says whether the rule applies to it.
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
	if r.hold != nil {
		r.coming++
	}
	r.changed.Notify()
	return true
}

func (r *rule) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ended {
		r.ended = true
		r.changed.Notify()
		close(r.over)
	}
}

// wait returns nil when done says so. The functions are called with mu held.
func (r *rule) wait(ctx context.Context, done func() bool, state func() string) error {
	var over error
	err := r.changed.Until(ctx, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		switch {
		case done():
			return true
		case r.ended:
			over = fmt.Errorf("%s, and has ended", state())
		case r.Times > 0 && r.hits >= r.Times && r.coming == 0:
			over = fmt.Errorf("%s, and its rule allows no more", state())
		}
		return over != nil
	})
	if err == nil {
		return over
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return fmt.Errorf("%s: %w", state(), err)
}
