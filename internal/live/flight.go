// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// flight is a request that is under way. Its goroutine ends with the request, which ends at the
// latest when nobody waits for it any more.
type flight struct {
	cancel  context.CancelFunc
	waiters int           // guarded by Reader.mu
	done    chan struct{} // closed when obj or err is set, which do not change any more then
	obj     client.Object
	err     error
}

// await returns the answer to the request for a place. It joins a request that is under way, or
// begins one.
func (r *Reader) await(ctx context.Context, at place, what Request) (client.Object, error) {
	f := r.join(ctx, at, what)
	select {
	case <-f.done:
		return f.obj, f.err
	case <-ctx.Done():
		r.leave(at, f)
		return nil, context.Cause(ctx)
	}
}

func (r *Reader) join(ctx context.Context, at place, what Request) *flight {
	r.mu.Lock()
	defer r.mu.Unlock()
	f, ok := r.flights[at]
	if !ok {
		// The values of the first caller's context go along, but its end does not end the others.
		own, cancel := context.WithCancel(context.WithoutCancel(ctx))
		f = &flight{cancel: cancel, done: make(chan struct{})}
		r.flights[at] = f
		go r.fly(own, at, what, f)
	}
	f.waiters++
	return f
}

// fly makes the request and tells the waiting callers.
func (r *Reader) fly(ctx context.Context, at place, what Request, f *flight) {
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.flights[at] == f {
			delete(r.flights, at)
			if apierrors.IsNotFound(f.err) && !at.part { // and it has not been forgotten meanwhile
				r.absent.Add(at.object, f.err, RememberFor)
			}
		}
		f.cancel()
		close(f.done)
	}()
	f.err = errPanicked // unless the request returns
	defer func() {
		if p := recover(); p != nil { // of a transform; the panic must not end a process that would have gone on
			f.err = fmt.Errorf("%w: %v", errPanicked, p)
		}
	}()
	f.obj, f.err = r.request(ctx, at, what)
}

// leave says that a caller does not wait any more. The last one ends the request.
func (r *Reader) leave(at place, f *flight) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f.waiters--; f.waiters > 0 {
		return
	}
	f.cancel()
	if r.flights[at] == f {
		delete(r.flights, at) // a caller that comes now must not get the error of a request that was ended
	}
}
