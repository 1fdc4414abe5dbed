// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"context"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/tarn-dev/tarn/internal/projection"
)

// projected is a source of what a rule keeps.
type projected struct {
	Source
	rule     *projection.Rule
	expected kind
}

// Projected returns source with what t.Rule keeps of its objects. A watch cuts protobuf messages of built-in
// kinds before it copies them; everything else is cut when it is decoded.
func (t *Target) Projected(source Source) Source {
	if t.Rule == nil {
		return source
	}
	return &projected{source, t.Rule, kindOf(source.Example())}
}

// keep returns what a watch keeps of messages; nil for all. The messages of a type from elsewhere need not be as its tags say.
func (t *Target) keep(example runtime.Object) projection.MessageFunc {
	switch {
	case t.Rule == nil:
		return nil
	case isGenerated(example):
		return t.Rule.Messages(reflect.TypeOf(example))
	}
	return func(into, _ []byte) ([]byte, bool, bool) { return into, true, false }
}

// List implements Source.
func (s *projected) List(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	list, err := s.Source.List(ctx, opts)
	if err != nil {
		return nil, err
	}
	all := true
	if err := meta.EachListItem(list, func(obj runtime.Object) error {
		all = s.rule.Apply(obj) && all
		return nil
	}); err != nil || all {
		return list, err
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		return nil, err
	}
	kept := slices.DeleteFunc(items, func(obj runtime.Object) bool { return !s.rule.Apply(obj) })
	return list, meta.SetList(list, kept)
}

// Finish implements Source. An object that is not kept leaves, whether or not it was there, and is not decoded.
func (s *projected) Finish(event watch.Event) watch.Event {
	if event.Type != watch.Added && event.Type != watch.Modified && event.Type != watch.Deleted {
		return s.Source.Finish(event)
	}
	if received, ok := event.Object.(*undecoded); ok {
		if left, ok := received.leave(s.rule); ok {
			return watch.Event{Type: watch.Deleted, Object: left}
		}
	}
	event = s.Source.Finish(event)
	if !s.expected.is(event.Object) || s.rule.Apply(event.Object) {
		return event
	}
	m, err := meta.Accessor(event.Object)
	if err != nil {
		return undecodable(err)
	}
	return watch.Event{Type: watch.Deleted, Object: projection.Leave(m)}
}
