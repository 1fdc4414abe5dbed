// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package shard

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/watch"
)

// watch lists and watches the Leases of the ring until ctx ends.
func (r *Ring) watch(ctx context.Context) {
	for ctx.Err() == nil {
		if err := r.follow(ctx); err != nil && ctx.Err() == nil {
			r.logger.Error(err, "Cannot follow the Leases of the ring")
		}
		r.sleep(ctx, r.clock.now().Add(r.options.RetryPeriod/2), nil)
	}
}

// follow lists the Leases, with all that were written before it is called, and notes the events of a watch until the watch ends. A watch
// that does not even bring our own renewals is ended.
func (r *Ring) follow(ctx context.Context) error {
	selector := labels.SelectorFromSet(labels.Set{ringLabel: r.options.Ring}).String()
	listing, stop := r.within(ctx, r.options.RenewDeadline/2)
	list, err := r.leases.List(listing, metav1.ListOptions{LabelSelector: selector})
	if stop(); err != nil {
		return err
	}
	r.update(func(v *view, now time.Time) []*hold { v.sync(list.Items, now); return nil })
	watching, end := context.WithCancel(ctx)
	defer end()
	idle := time.AfterFunc(r.clock.span(r.options.RenewDeadline), end)
	defer idle.Stop()
	events, err := r.leases.Watch(watching, metav1.ListOptions{LabelSelector: selector, ResourceVersion: list.ResourceVersion})
	if err != nil {
		return err
	}
	defer events.Stop()
	for {
		select {
		case event, open := <-events.ResultChan():
			if !open {
				return nil
			}
			idle.Reset(r.clock.span(r.options.RenewDeadline))
			if err := r.take(event); err != nil {
				return err
			}
		case <-watching.Done():
			return nil
		}
	}
}

// take notes an event. The event of a deletion has the last state of the Lease.
func (r *Ring) take(event watch.Event) error {
	if event.Type == watch.Error {
		return apierrors.FromObject(event.Object)
	}
	l, is := event.Object.(*coordinationv1.Lease)
	if !is {
		return fmt.Errorf("unexpected %s of %T", event.Type, event.Object)
	}
	r.update(func(v *view, now time.Time) []*hold {
		if v.observe(l, now); event.Type == watch.Deleted {
			v.gone(l.Name, now)
		}
		return nil
	})
	return nil
}
