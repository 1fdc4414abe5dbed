// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
)

// callOf describes a call inside the server for a resource. The context says who asks, if somebody does.
func (i *Injector) callOf(ctx context.Context, verb string, resource schema.GroupResource) *request {
	q := &request{verb: verb, group: resource.Group, resource: resource.Resource}
	if q.group == "" {
		q.group = coreGroup
	}
	if who, ok := genericapirequest.UserFrom(ctx); ok {
		q.user, q.own = who.GetName(), who.GetName() == user.APIServerUser
	} else {
		q.server, q.own = true, i.isStarting()
	}
	return q
}

// now returns the call as it is to be judged now: a watch of the server's own lasts longer than its start.
func (i *Injector) now(q *request) *request {
	if !q.server {
		return q
	}
	one := *q
	one.own = i.isStarting()
	return &one
}

// call applies the oldest matching Respond or Delay. The call returns the error in place of its answer.
func (i *Injector) call(ctx context.Context, at Station, q *request) error {
	for _, r := range i.inForce(at) {
		if a, ok := r.action.(callAction); ok && r.takes(q) {
			return a.call(ctx, r.over)
		}
	}
	return nil
}

// takes says whether the rule means a call, which is hit then.
func (r *rule) takes(q *request) bool {
	return r.matches(q) && r.meansObject(q) && r.asks(q.held) && r.hit()
}
