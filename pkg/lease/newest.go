// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"cmp"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/tarn-dev/tarn/internal/inspected"
)

const (
	// maxNewest is how many requests of a controller are kept: the newest.
	maxNewest = 50
	// lookFor is how long they are kept after a look.
	lookFor = time.Minute
)

// newestRequests are the newest requests of a controller. There are none unless somebody looks.
type newestRequests[R comparable] struct {
	looked time.Time
	all    []reconciled[R] // the oldest first
}

// reconciled is a request whose reconcile has begun.
type reconciled[R comparable] struct {
	request R
	at      time.Time
	wakeUps []WakeUp
}

// noteNewestLocked notes a reconcile that begins.
func (r *References[R]) noteNewestLocked(request R, why []wakeUp[R]) {
	if r.newest == nil {
		return
	}
	now := time.Now()
	if now.Sub(r.newest.looked) > lookFor {
		r.newest = nil
		return
	}
	if len(r.newest.all) == maxNewest {
		r.newest.all = slices.Delete(r.newest.all, 0, 1)
	}
	r.newest.all = append(r.newest.all, reconciled[R]{request, now, told(why)})
}

// look implements controller.
func (r *References[R]) look() inspected.Controller {
	now := time.Now()
	r.mu.Lock()
	if r.newest == nil || now.Sub(r.newest.looked) > lookFor {
		r.newest = &newestRequests[R]{}
	}
	r.newest.looked = now
	all := slices.Clone(r.newest.all)
	c := inspected.Controller{Reconciler: r.name, Requests: make([]inspected.Request, 0, len(all))}
	r.mu.Unlock()
	for _, one := range slices.Backward(all) { // without the lock, since String of a request is the user's
		of := inspected.Request{Request: fmt.Sprint(one.request), At: one.at, WakeUps: []inspected.WakeUp{}}
		for _, w := range one.wakeUps {
			of.WakeUps = append(of.WakeUps, inspected.WakeUp{
				At: w.At, Group: w.Kind.Group, Version: w.Kind.Version, Kind: w.Kind.Kind, Namespace: w.Object.Namespace, Name: w.Object.Name,
				Change: w.Change, Scope: w.read(), Handler: w.Handler,
			})
		}
		c.Requests = append(c.Requests, of)
	}
	return c
}

// nameOf returns the type of a reconciler, or the name of its function.
func nameOf[R comparable](of reconcile.TypedReconciler[R]) string {
	if v := reflect.ValueOf(of); v.Kind() == reflect.Func && !v.IsNil() {
		return runtime.FuncForPC(v.Pointer()).Name()
	}
	return fmt.Sprintf("%T", of)
}

// controller is a controller with references, whatever its requests are.
type controller interface {
	// look returns the newest requests, the newest first. They are kept from the first look on, until a while after the last.
	look() inspected.Controller
}

// Controllers implements scoped.Leases.
func (r *registry) Controllers() []inspected.Controller {
	r.mu.Lock()
	controllers := slices.Clone(r.controllers)
	r.mu.Unlock()
	all := make([]inspected.Controller, len(controllers))
	for i, c := range controllers { // without the lock, which comes after that of references
		all[i] = c.look()
	}
	slices.SortStableFunc(all, func(a, b inspected.Controller) int { return cmp.Compare(a.Reconciler, b.Reconciler) })
	return all
}

// add adds a controller that begins, and remove removes it when it ends.
func (r *registry) add(c controller) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.controllers = append(r.controllers, c)
}

func (r *registry) remove(c controller) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.controllers = slices.DeleteFunc(r.controllers, func(other controller) bool { return other == c })
}
