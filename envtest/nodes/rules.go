// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tarn-dev/tarn/internal/signal"
)

// Rule says which Pods a failure is for. An empty field means all. The Pods of a Deployment have names that no test knows, and
// labels that it does.
type Rule struct {
	Namespace, Name string
	Labels          map[string]string
	// Container is the name of one container, init containers included. Evict does not know it.
	Container string
	// Times is how often it happens at most; 0 is without a bound.
	Times int
}

// matches says whether a Pod is meant, or a container of it.
func (r *Rule) matches(pod *corev1.Pod, container string) bool {
	if r.Namespace != "" && r.Namespace != pod.Namespace || r.Name != "" && r.Name != pod.Name ||
		r.Container != "" && r.Container != container {
		return false
	}
	for key, value := range r.Labels {
		if have, ok := pod.Labels[key]; !ok || have != value {
			return false
		}
	}
	return true
}

// Failure is what happens to Pods, see the functions that return one.
type Failure struct {
	kind failureKind
	code int32
	by   time.Duration
}

type failureKind int

const (
	failsPull failureKind = iota + 1
	crashes
	delays
	staysUnready
	evicts
)

// FailPull lets the image of a container not be pulled: it waits with ErrImagePull and then ImagePullBackOff, and tries again
// after a pause. Each attempt counts.
func FailPull() Failure { return Failure{kind: failsPull} }

// Crash lets a container end with an exit code, which must not be 0, as soon as it runs. Each time counts.
func Crash(exitCode int32) Failure { return Failure{kind: crashes, code: exitCode} }

// Delay lets a container wait so long before it starts, or until the fault ends. Each start counts, when the wait begins.
func Delay(d time.Duration) Failure { return Failure{kind: delays, by: d} }

// StayUnready lets a container run without becoming ready, or stop being ready, until the failure ends. Each container counts
// once; with Rule.Times, so many containers are not ready. An init container is not meant, unless it is a sidecar: nothing waits
// for it to be ready.
func StayUnready() Failure { return Failure{kind: staysUnready} }

// Evict lets a Pod fail with the reason Evicted, as a node under pressure does. Each Pod counts.
func Evict() Failure { return Failure{kind: evicts} }

// check says what is wrong with a failure, or with its rule.
func (f Failure) check(r Rule) error {
	switch {
	case f.kind == 0:
		return errors.New("nodes.Inject: the failure is none: write nodes.Crash(1) or another one")
	case f.kind == crashes && f.code == 0:
		return errors.New("nodes.Crash: the exit code 0 is no crash")
	case f.kind == delays && f.by <= 0:
		return fmt.Errorf("nodes.Delay: %v is no delay", f.by)
	case f.kind == evicts && r.Container != "":
		return errors.New("nodes.Evict: a Pod is evicted, not a container: Rule.Container must be empty")
	case r.Times < 0:
		return fmt.Errorf("nodes.Rule.Times: %d is negative", r.Times)
	}
	return nil
}

// Fault is a failure that was injected. All methods are safe for concurrent use.
type Fault struct {
	nodes   *Nodes
	rule    Rule
	failure Failure

	mu      sync.Mutex
	hits    int
	ended   bool
	held    map[string]bool  // the containers that stay unready, by the UID of their Pod and their name; gone with the Pod
	changed signal.Broadcast // of hits and ended
}

// Inject lets a failure happen to the Pods of a rule, from now on, until the Fault ends. The labels of the rule are copied. If
// several faults match, the oldest happens.
func (n *Nodes) Inject(r Rule, f Failure) (*Fault, error) {
	if err := f.check(r); err != nil {
		return nil, err
	}
	r.Labels = maps.Clone(r.Labels)
	fault := &Fault{nodes: n, rule: r, failure: f, held: map[string]bool{}}
	n.rules.add(fault)
	tell(n.changed)
	return fault, nil
}

// Hits returns how often it happened. It counts when the API server has what happened. A write under way when the fault ends
// still counts.
func (f *Fault) Hits() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hits
}

// Wait waits until it has happened n times. The error says how often it has, if ctx or the fault ends before, or that the rule allows
// less.
func (f *Fault) Wait(ctx context.Context, n int) error {
	if most := f.rule.Times; most > 0 && n > most {
		return fmt.Errorf("nodes: the fault happens %d times at most, by Rule.Times, and not %d times", most, n)
	}
	var hits int
	err := f.changed.Until(ctx, func() bool {
		ended := f.over() // first: afterwards hits is final
		hits = f.Hits()
		return ended || hits >= n
	})
	switch {
	case err != nil:
		return fmt.Errorf("nodes: the fault has happened %d of %d times: %w", hits, n, err)
	case hits < n:
		return fmt.Errorf("nodes: the fault has ended after %d of %d times", hits, n)
	}
	return nil
}

// End ends the fault: containers that crashed or whose image was not pulled go on after their pause, delayed ones start, and
// unready ones become ready.
func (f *Fault) End() {
	f.nodes.rules.remove(f)
	f.mu.Lock()
	f.ended = true
	clear(f.held)
	f.mu.Unlock()
	f.changed.Notify()
	tell(f.nodes.changed)
}

// hit counts that it happened. Held is the container that stays unready, or empty.
func (f *Fault) hit(held string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if held != "" && !f.ended {
		f.held[held] = true
	}
	f.hits++
	f.changed.Notify()
}

// open says whether it may happen once more, when it happens so often already in a step that is not yet written.
func (f *Fault) open(unwritten int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.ended && (f.rule.Times == 0 || f.hits+unwritten < f.rule.Times)
}

// over says whether it has ended.
func (f *Fault) over() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ended
}

// holds says whether a container stays unready by it.
func (f *Fault) holds(container string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.held[container]
}

// drop forgets what it holds of a Pod that is gone.
func (f *Fault) drop(held func(container string) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	maps.DeleteFunc(f.held, func(container string, _ bool) bool { return held(container) })
}

// rules are the faults that have not ended, the oldest first. The user ends them.
type rules struct {
	mu  sync.Mutex
	all []*Fault // replaced, never changed
}

func (r *rules) add(f *Fault) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all[:len(r.all):len(r.all)], f)
}

func (r *rules) remove(f *Fault) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var rest []*Fault
	for _, one := range r.all {
		if one != f {
			rest = append(rest, one)
		}
	}
	r.all = rest
}

// list returns the faults, which the caller must not change.
func (r *rules) list() []*Fault {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all
}

// find returns the oldest fault of a kind that may happen to a container, or to the Pod if container is empty.
func (l *life) find(k failureKind, pod *corev1.Pod, container string) *Fault {
	for _, f := range l.nodes.rules.list() {
		if f.failure.kind != k || !f.rule.matches(pod, container) {
			continue
		}
		unwritten := 0
		for _, h := range l.hits {
			if h.fault == f {
				unwritten++
			}
		}
		if f.open(unwritten) {
			return f
		}
	}
	return nil
}

// unready returns the fault that keeps a container from being ready. uncounted says that no hit was counted for the container yet.
func (l *life) unready(container string) (fault *Fault, uncounted bool) {
	for _, f := range l.nodes.rules.list() {
		if f.failure.kind == staysUnready && f.holds(heldName(l.pod, container)) {
			return f, false
		}
	}
	return l.find(staysUnready, l.pod, container), true
}

// heldName is the name of a container that stays unready.
func heldName(pod *corev1.Pod, container string) string { return string(pod.UID) + "/" + container }
