// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Resolver asks a RESTMapper, which knows no context, for callers that have one. The zero value is ready to use; it
// is safe for concurrent use.
//
// There is one question for a kind at a time. Callers that come meanwhile share the one that follows, because an answer
// may say what was true before they came, for instance before a CRD was there. The questions of a kind are asked in a
// goroutine, which ends when the mapper has returned and nobody waits for another answer. No caller waits for it longer
// than they want, and neither does the end of a map. The mapper that package cache makes gives up each request after 32
// seconds. One that never returns keeps the goroutine: the mapper of a manager asks with the manager's HTTP client,
// which has no time-out unless rest.Config.Timeout is set. One that panics, or ends its goroutine, is an error of who asks: it does not end the process.
type Resolver struct {
	mu sync.Mutex // guards what follows
	// following has an element for each kind that is asked for: the question that follows, or nil if nobody waits for one.
	following map[schema.GroupVersionKind]*question
}

// question is one call of a RESTMapper.
type question struct {
	callers int             // that wait for the answer; guarded by Resolver.mu
	mapper  meta.RESTMapper // of the last of them that came before it began; guarded by Resolver.mu until then
	done    chan struct{}   // closed when the answer is there

	mapping *meta.RESTMapping // set before done is closed, as err is
	err     error
}

// Mapping returns what mapper says of a kind, asked after the call of Mapping began. Others may have asked the same: it is
// shared. The error is the mapper's, or a *NotSyncedError with the cause Timeout if ctx ends first; namespace is for its text.
func (r *Resolver) Mapping(ctx context.Context, mapper meta.RESTMapper, key Key, namespace string) (*meta.RESTMapping, error) {
	begun, q := time.Now(), r.join(mapper, key)
	defer r.leave(q)
	select {
	case <-q.done:
		return q.mapping, q.err
	case <-ctx.Done():
		return nil, &NotSyncedError{
			Key: key, Namespace: namespace, Cause: Timeout, Since: begun, Attempts: 1,
			Err: fmt.Errorf("cannot find the resource of %s: the API server has not answered discovery yet: %w", key, context.Cause(ctx)),
		}
	}
}

// join returns the next question for a kind that begins. If there is none under way, it begins at once.
func (r *Resolver) join(mapper meta.RESTMapper, key Key) *question {
	r.mu.Lock()
	defer r.mu.Unlock()
	gvk := key.GroupVersionKind
	q, busy := r.following[gvk]
	if q == nil {
		q = &question{done: make(chan struct{})}
	}
	q.callers++
	q.mapper = mapper
	if busy {
		r.following[gvk] = q
		return q
	}
	if r.following == nil {
		r.following = map[schema.GroupVersionKind]*question{}
	}
	r.following[gvk] = nil
	go r.ask(gvk, q)
	return q
}

// leave notes that a caller waits no longer.
func (r *Resolver) leave(q *question) {
	r.mu.Lock()
	defer r.mu.Unlock()
	q.callers--
}

// ask asks a question, and those that follow.
func (r *Resolver) ask(gvk schema.GroupVersionKind, q *question) {
	for q != nil {
		q.err = contained(fmt.Sprintf("the RESTMapper, asked for %s,", gvk), func() (err error) {
			q.mapping, err = q.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
			return err
		})
		close(q.done)
		q = r.next(gvk)
	}
}

// next returns the question that is to be asked now, or nil if nobody waits for one.
func (r *Resolver) next(gvk schema.GroupVersionKind) *question {
	r.mu.Lock()
	defer r.mu.Unlock()
	q := r.following[gvk]
	if q == nil || q.callers == 0 {
		delete(r.following, gvk)
		return nil
	}
	r.following[gvk] = nil
	return q
}
