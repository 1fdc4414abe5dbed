// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"context"
	"reflect"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/tarn-dev/tarn/internal/projection"
)

// projected is a source of objects that are cut.
type projected struct {
	Source
	to *projection.Projection
}

// Projected returns source, whose objects are cut down to t.Projection, if that is set. A watch cuts protobuf messages of built-in
// kinds before it copies them; everything else is cut when it is decoded.
func (t *Target) Projected(source Source) Source {
	if t.Projection == nil {
		return source
	}
	return &projected{source, t.Projection}
}

// keep returns what a watch keeps of messages; nil for all. The messages of a type from elsewhere need not be as its tags say.
func (t *Target) keep(example runtime.Object) projection.MessageFunc {
	switch {
	case t.Projection == nil:
		return nil
	case isBuiltIn(t.Kind):
		return t.Projection.Messages(reflect.TypeOf(example))
	}
	return func(into, _ []byte) ([]byte, bool) { return into, false }
}

// List implements Source.
func (s *projected) List(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	list, err := s.Source.List(ctx, opts)
	if err != nil {
		return nil, err
	}
	return list, meta.EachListItem(list, func(obj runtime.Object) error {
		s.to.Cut(obj)
		return nil
	})
}

// Finish implements Source.
func (s *projected) Finish(event watch.Event) watch.Event {
	event = s.Source.Finish(event)
	s.to.Cut(event.Object)
	return event
}
