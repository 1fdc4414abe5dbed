// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

type eventKind string

const (
	added   eventKind = "added"
	updated eventKind = "updated"
	deleted eventKind = "deleted"
)

// event is a call of the event handler.
type event struct {
	kind    eventKind
	name    string
	version string
	before  string // the version before an update
	at      time.Time
}

// events is an event handler that hands on what it is told.
type events struct {
	told   chan event
	closed context.Context
	close  context.CancelFunc // lets go of the handler: nobody waits any more
}

var _ toolscache.ResourceEventHandler = (*events)(nil)

func newEvents(ctx context.Context) *events {
	e := &events{told: make(chan event)}
	e.closed, e.close = context.WithCancel(ctx)
	return e
}

// OnAdd implements toolscache.ResourceEventHandler.
func (e *events) OnAdd(obj any, _ bool) { e.tell(added, obj, "") }

// OnUpdate implements toolscache.ResourceEventHandler.
func (e *events) OnUpdate(before, obj any) {
	e.tell(updated, obj, before.(client.Object).GetResourceVersion())
}

// OnDelete implements toolscache.ResourceEventHandler.
func (e *events) OnDelete(obj any) {
	if missed, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = missed.Obj // the watch was interrupted; this is the last known state
	}
	e.tell(deleted, obj, "")
}

func (e *events) tell(kind eventKind, raw any, before string) {
	obj := raw.(client.Object)
	told := event{kind: kind, name: obj.GetName(), version: obj.GetResourceVersion(), before: before, at: time.Now()}
	select {
	case e.told <- told:
	case <-e.closed.Done():
	}
}

// next waits for an event that matches; others are passed over.
func (e *events) next(ctx context.Context, matches func(event) bool) (event, error) {
	for {
		select {
		case told := <-e.told:
			if matches(told) {
				return told, nil
			}
		case <-ctx.Done():
			return event{}, fmt.Errorf("wait for an event: %w", context.Cause(ctx))
		}
	}
}

// adds waits for n objects, and returns them by name.
func (e *events) adds(ctx context.Context, n int) ([]event, error) {
	all := make([]event, 0, n)
	for len(all) < n {
		told, err := e.next(ctx, func(told event) bool { return told.kind == added })
		if err != nil {
			return nil, err
		}
		all = append(all, told)
	}
	slices.SortFunc(all, func(a, b event) int { return cmp.Compare(a.name, b.name) })
	return all, nil
}
