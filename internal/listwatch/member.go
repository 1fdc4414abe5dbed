// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"context"
	"io"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/klog/v2"

	"github.com/tarn-dev/tarn/internal/relist"
)

// maxQueued bounds the bytes that are queued for a member, about. A member that falls further behind goes on by itself.
const maxQueued = 4 << 20

// member is the Source of one namespace. It joins the wide watch, or makes requests of its own. There is one for a namespace at a time: one
// that comes later takes its place.
type member struct {
	wide      *wideWatch
	namespace string
	own       func() (Source, error) // of the namespace
	asked     func()
	filled    chan struct{} // has an element if a watch has to look

	// wideWatch.mu guards what follows.
	run    *wideRun // the last that it has joined
	life   *life    // nil before the first list, and after the end of its context
	alone  bool     // it has had a watch of its own since its list
	queue  []queued // what has come, and was not taken
	queued int      // the bytes of the queue
}

// life of a member lasts from a list until the end of its context, or until the next list.
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

// in returns the source of a namespace. Own makes a source of the namespace alone. It is called for each request of that, because its
// codecs take more than the rest of the member. Asked is called when a request for all namespaces is as good as one for this one.
func (w *wideWatch) in(namespace string, own func() (Source, error), asked func()) Source {
	return &member{wide: w, namespace: namespace, own: own, asked: asked, filled: make(chan struct{}, 1)}
}

// Example implements Source.
func (m *member) Example() runtime.Object { return m.wide.Source.Example() }

// Finish implements Source.
func (m *member) Finish(event watch.Event) watch.Event { return m.wide.Source.Finish(event) }

// List implements Source. While there is a wide watch, or one may begin, the member joins it.
func (m *member) List(ctx context.Context, opts metav1.ListOptions) (list runtime.Object, err error) {
	run, position := (*wideRun)(nil), ""
	if opts.Continue == "" {
		if run, position, list, err = m.join(ctx, opts); list != nil || err != nil {
			return list, err
		}
	}
	if position != "" && opts.ResourceVersion != "" && !reaches(opts.ResourceVersion, position) {
		opts.ResourceVersion, opts.ResourceVersionMatch, opts.Limit = position, metav1.ResourceVersionMatchNotOlderThan, 0
	}
	source, err := m.own()
	if err != nil {
		return nil, err
	}
	if list, err = source.List(ctx, opts); err == nil && position != "" {
		m.compare(run, position, list)
	}
	return list, err
}

// join joins the wide watch, if there is one, and returns the version that it has reached. It returns the member's list if the wide watch
// has it.
func (m *member) join(ctx context.Context, opts metav1.ListOptions) (run *wideRun, position string, list runtime.Object, err error) {
	of, run := m.begin(ctx, opts)
	if run == nil {
		return nil, "", nil, nil
	}
	select {
	case <-run.opened:
	case <-ctx.Done():
		return nil, "", nil, context.Cause(ctx)
	}
	w := m.wide
	patience, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	err = run.covered.Until(patience, func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.run != run || m.life != of || run.coversLocked(m.namespace) {
			return true
		}
		run.wantLocked()
		return false
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return nil, "", nil, context.Cause(ctx)
	case err != nil, w.run != run, m.life != of:
		return nil, "", nil, nil
	}
	if before := run.members[m.namespace]; before != nil && before != m {
		before.leaveLocked()
	}
	m.run, run.members[m.namespace] = run, m
	m.asked()
	list, err = run.takeLocked(m.namespace, opts.ResourceVersion)
	return run, run.position, list, err
}

// begin begins a life, and returns the wide watch that there is then.
func (m *member) begin(ctx context.Context, opts metav1.ListOptions) (*life, *wideRun) {
	w := m.wide
	w.mu.Lock()
	defer w.mu.Unlock()
	m.leaveLocked()
	m.alone = false
	if m.life == nil || !m.life.stop() { // otherwise it is counted
		w.alive[m.namespace]++
	}
	of := &life{}
	of.stop = context.AfterFunc(ctx, func() { m.end(of) })
	m.life = of
	return of, w.runLocked(opts)
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

// leaveLocked ends the membership.
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

// Watch implements Source. When a watch of its own has ended, a member that may join is told to list again.
func (m *member) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	w := m.wide
	w.mu.Lock()
	joined := m.isMemberLocked()
	expired := w.from != anyVersion
	joins := !joined && (m.alone || expired) && (w.run != nil || w.dueLocked())
	if !joined {
		m.leaveLocked() // what was queued comes by a watch of its own
		m.alone = true
	}
	w.mu.Unlock()
	switch {
	case joined:
		from := &queueDecoder{member: m, from: opts.ResourceVersion, closed: make(chan struct{})}
		return &stream{logger: klog.FromContext(ctx), decoder: from, body: &watchBody{}}, nil
	case joins && expired:
		return nil, apierrors.NewResourceExpired("the watch of all namespaces has expired: listing again")
	case joins:
		return nil, relist.Now()
	}
	source, err := m.own()
	if err != nil {
		return nil, err
	}
	return source.Watch(ctx, opts)
}

// pushLocked queues an event. A member that is too far behind ends its membership.
func (m *member) pushLocked(event queued) {
	if m.queued += event.size(); m.queued > maxQueued {
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

// queueDecoder reads the events of a member.
type queueDecoder struct {
	member *member
	from   string // the version at which the watch begins
	closed chan struct{}
	once   sync.Once
}

// isRouted reports whether a watch is one of a member. The wide watch looks whether it is silent.
func isRouted(w watch.Interface) bool {
	s, ok := w.(*stream)
	if !ok {
		return false
	}
	_, ok = s.decoder.(*queueDecoder)
	return ok
}

// Decode implements watch.Decoder.
func (d *queueDecoder) Decode() (watch.EventType, runtime.Object, error) {
	for {
		event, ok, over := d.member.next()
		switch {
		case ok && event.Type == watch.Bookmark && reaches(event.version, d.from):
			return event.Type, d.member.wide.bookmark(event.version), nil
		case ok && reaches(d.from, event.version): // the list has it
			continue
		case ok:
			return event.Type, event.Object, nil
		case over:
			return "", nil, io.EOF
		}
		select {
		case <-d.member.filled:
		case <-d.closed:
			return "", nil, io.EOF
		}
	}
}

// Close implements watch.Decoder. It ends the membership, because what was read and not passed on is lost.
func (d *queueDecoder) Close() {
	d.once.Do(func() {
		close(d.closed)
		d.member.wide.mu.Lock()
		defer d.member.wide.mu.Unlock()
		d.member.leaveLocked()
	})
}
