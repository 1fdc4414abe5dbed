// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"context"
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/tarn-dev/tarn/internal/relist"
)

// maxQueued bounds the bytes that are queued for a member, about. A member that falls further behind goes on by itself.
const maxQueued = 4 << 20

// member is the Source of one namespace. It joins the wide watch, or makes requests of its own, until a watch of its own ends and it may
// join. There is one for a namespace at a time: if another joins, it goes on by itself.
type member struct {
	wide      *wideWatch
	namespace string
	client    *http.Client  // of requests of the namespace alone
	filled    chan struct{} // has an element if a watch has to look

	// wideWatch.mu guards what follows.
	run     *wideRun // which it has joined; nil if none
	life    *life    // nil before the first attempt to join, and after the end of its context
	watched bool     // it has had a watch of its own since Join was last called
	behind  bool     // it was too far behind, or another member took its place: the next Join does not join
	queue   []queued // what has come, and was not taken
	queued  int      // the bytes of the queue
}

// life says that a namespace is counted in alive. Stop is nil while Join runs; later it keeps the end of the context from ending this life.
type life struct{ stop func() bool }

// queued is an event with the version that a watch has reached with it. The object of a bookmark is nil.
type queued struct {
	watch.Event
	version string
}

// size returns the bytes that an event takes in the queue, about.
func (q *queued) size() int {
	if u, ok := q.Object.(*undecoded); ok {
		return 200 + cap(u.protobuf) + cap(u.json)
	}
	return 1 << 10
}

// in returns the source of a namespace. Its own requests are made with client, whose Failures are told of those for all namespaces as well.
func (w *wideWatch) in(namespace string, client *http.Client) Source {
	return &member{wide: w, namespace: namespace, client: client, filled: make(chan struct{}, 1)}
}

// own returns a source of the namespace alone. It is made for each request, because its codecs take more than the rest of the member.
func (m *member) own() (Source, error) { return m.wide.Part(m.namespace, m.client) }

// tell calls a function of the Failures that watch the client, if there are any.
func (m *member) tell(of func(*Failures)) {
	if observed, ok := m.client.Transport.(*observedTransport); ok {
		of(observed.failures)
	}
}

// Example implements Source.
func (m *member) Example() runtime.Object { return m.wide.Source.Example() }

// Finish implements Source.
func (m *member) Finish(event watch.Event) watch.Event { return m.wide.Source.Finish(event) }

// List implements Source, with a request of the namespace alone.
func (m *member) List(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	source, err := m.own()
	if err != nil {
		return nil, err
	}
	return source.List(ctx, opts)
}

// Watch implements Source, with a request of the namespace alone. The second one after Join is an error if the member may join: then Join is to
// be called.
func (m *member) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	w := m.wide
	w.mu.Lock()
	joins := m.watched && (w.run != nil || w.dueLocked())
	m.watched = true
	w.mu.Unlock()
	if joins {
		return nil, relist.Now()
	}
	source, err := m.own()
	if err != nil {
		return nil, err
	}
	return source.Watch(ctx, opts)
}

// Join implements Joiner. It begins a wide watch if that is due.
func (m *member) Join(ctx context.Context, opts metav1.ListOptions, to Joined) (joined bool, err error) {
	of, run := m.begin(opts)
	defer m.endLifeWith(ctx, of)
	if run == nil {
		return false, nil
	}
	position, list, err := m.enter(ctx, opts, run)
	if position == "" || err != nil {
		return false, err
	}
	defer m.leave()
	if list == nil {
		if list, err = m.listJoined(ctx, opts, run, position); err != nil {
			return true, err
		}
	}
	l, err := meta.ListAccessor(list)
	if err != nil {
		return true, err
	}
	if err = to.List(list); err != nil {
		return true, err
	}
	return true, m.pass(ctx, l.GetResourceVersion(), to.Event)
}

// listJoined makes a request for a list that is as new as what the wide watch has reached. If the server does not have that
// version, it asks at once for the newest list.
func (m *member) listJoined(ctx context.Context, opts metav1.ListOptions, run *wideRun, position string) (runtime.Object, error) {
	if opts.ResourceVersion != "" && !reaches(opts.ResourceVersion, position) {
		opts.ResourceVersion, opts.ResourceVersionMatch = position, metav1.ResourceVersionMatchNotOlderThan
	}
	list, err := m.List(ctx, opts)
	if isExpired(err) || apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) {
		opts.ResourceVersion, opts.ResourceVersionMatch = "", ""
		list, err = m.List(ctx, opts)
	}
	if err == nil {
		m.compare(run, position, list)
	}
	return list, err
}

// pass passes on the events after a version, until no event will come, or ctx ends.
func (m *member) pass(ctx context.Context, from string, on func(watch.Event) error) error {
	for {
		event, ok, over := m.next()
		switch {
		case over && ctx.Err() == nil:
			return m.over(on)
		case over || ctx.Err() != nil:
			return nil
		case ok && event.Type == watch.Bookmark && reaches(event.version, from):
			event.Object = m.wide.bookmark(event.version)
		case ok && reaches(from, event.version): // the list has it
			continue
		}
		if ok {
			if err := on(event.Event); err != nil {
				return err
			}
			continue
		}
		select {
		case <-m.filled:
		case <-ctx.Done():
		}
	}
}

// enter joins a wide watch, and returns the version that it has reached; none if it was given up meanwhile. It returns the member's list if
// the wide watch has it.
func (m *member) enter(ctx context.Context, opts metav1.ListOptions, run *wideRun) (position string, list runtime.Object, err error) {
	select {
	case <-run.opened:
	case <-ctx.Done():
		return "", nil, context.Cause(ctx)
	}
	w := m.wide
	covered := func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.run != run || run.coversLocked(m.namespace) {
			return true
		}
		run.wantLocked()
		return false
	}
	if !covered() { // mostly it is, and a context of its own would take memory for each member
		patience, cancel := context.WithTimeout(ctx, openTimeout)
		defer cancel()
		err = run.covered.Until(patience, covered)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return "", nil, context.Cause(ctx)
	case err != nil, w.run != run:
		return "", nil, nil
	}
	if before := run.members[m.namespace]; before != nil && before != m {
		before.behind = true // otherwise the two take turns
		before.leaveLocked()
	}
	m.run, run.members[m.namespace] = run, m
	m.tell((*Failures).begin)
	if list, err = run.takeLocked(m.namespace, opts.ResourceVersion); err != nil {
		m.leaveLocked()
	}
	return run.position, list, err
}

// over tells that the wide watch has expired, if that is why no event will come.
func (m *member) over(on func(watch.Event) error) error {
	m.wide.mu.Lock()
	why := m.run.why
	m.wide.mu.Unlock()
	if status := apierrors.APIStatus(nil); isExpired(why) && errors.As(why, &status) {
		said := status.Status()
		return on(watch.Event{Type: watch.Error, Object: &said})
	}
	return nil
}

// begin begins a life, and returns the wide watch that there is then to join.
func (m *member) begin(opts metav1.ListOptions) (*life, *wideRun) {
	w := m.wide
	w.mu.Lock()
	defer w.mu.Unlock()
	m.leaveLocked()
	behind := m.behind
	m.watched, m.behind = false, false
	if m.life == nil || !m.life.stop() { // otherwise it is counted
		w.alive[m.namespace]++
	}
	m.life = &life{}
	if behind {
		return m.life, nil
	}
	return m.life, w.runLocked(opts)
}

// endLifeWith lets a life go on until the end of its context, or until the next one begins. While it joins, or has joined, nothing waits for
// that: it would take memory for each member.
func (m *member) endLifeWith(ctx context.Context, of *life) {
	m.wide.mu.Lock()
	defer m.wide.mu.Unlock()
	of.stop = context.AfterFunc(ctx, func() { m.end(of) })
}

// end ends a life.
func (m *member) end(of *life) {
	w := m.wide
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.alive[m.namespace]--; w.alive[m.namespace] == 0 {
		delete(w.alive, m.namespace)
	}
	if w.run != nil && len(w.alive) < fewestNamespaces/2 {
		w.giveUpLocked(w.run, errFew)
	}
	if m.life == of {
		m.life = nil
		m.leaveLocked()
	}
}

// leave ends the membership: what was queued is lost. A run that is over has to be garbage, with its list.
func (m *member) leave() {
	m.wide.mu.Lock()
	defer m.wide.mu.Unlock()
	m.leaveLocked()
	m.run = nil
}

func (m *member) leaveLocked() {
	m.queue, m.queued = nil, 0
	if m.isMemberLocked() {
		delete(m.run.members, m.namespace)
	}
	m.wake()
}

func (m *member) isMemberLocked() bool { return m.run != nil && m.run.members[m.namespace] == m }

// compare ends the wide watch if the list of a member is older than what the wide watch has reached: the server was restored.
func (m *member) compare(run *wideRun, position string, list runtime.Object) {
	l, err := meta.ListAccessor(list)
	if err != nil || reaches(l.GetResourceVersion(), position) {
		return
	}
	m.wide.mu.Lock()
	defer m.wide.mu.Unlock()
	m.leaveLocked()
	m.wide.giveUpLocked(run, errWentBack)
}

// reaches reports whether a version is known to be at least as new as another one, which may be any.
func reaches(version, other string) bool {
	order, err := resourceversion.CompareResourceVersion(version, other)
	return other == anyVersion || err == nil && order >= 0
}

// pushLocked queues an event. A member that is too far behind ends its membership.
func (m *member) pushLocked(event queued) {
	if m.queued += event.size(); m.queued > maxQueued {
		m.behind = true
		m.leaveLocked()
		return
	}
	m.queue = append(m.queue, event)
	m.wake()
}

// wake lets a watch look.
func (m *member) wake() {
	select {
	case m.filled <- struct{}{}:
	default:
	}
}

// next returns the first event of the queue. It is not ok if the queue is empty, and over if no event will come.
func (m *member) next() (event queued, ok, over bool) {
	m.wide.mu.Lock()
	defer m.wide.mu.Unlock()
	if len(m.queue) == 0 {
		m.queue, m.queued = nil, 0 // the array of a burst
		return queued{}, false, !m.isMemberLocked()
	}
	event, m.queue[0] = m.queue[0], queued{}
	m.queue = m.queue[1:]
	m.queued -= event.size()
	return event, true, false
}
