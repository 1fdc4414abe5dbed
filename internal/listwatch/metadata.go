// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	clientmetadata "k8s.io/client-go/metadata"
)

// partial is the source of metadata. The API server sends the objects as PartialObjectMetadata of
// meta.k8s.io. The source replaces this kind by the kind of the whole objects.
type partial struct {
	gvk       schema.GroupVersionKind
	resources clientmetadata.ResourceInterface
}

// Metadata returns a source of metadata: its objects are PartialObjectMetadata.
func Metadata(t Target) (Source, error) {
	client, err := clientmetadata.NewForConfigAndClient(withoutSerializer(t.Config), t.HTTPClient)
	if err != nil {
		return nil, err
	}
	s := &partial{gvk: t.Kind, resources: client.Resource(t.Resource)}
	if t.Namespace != "" {
		s.resources = client.Resource(t.Resource).Namespace(t.Namespace)
	}
	return s, nil
}

func (s *partial) Example() runtime.Object {
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(s.gvk)
	return m
}

func (s *partial) List(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	list, err := s.resources.List(ctx, opts)
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		list.Items[i].SetGroupVersionKind(s.gvk)
	}
	return list, nil
}

func (s *partial) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	return s.resources.Watch(ctx, opts)
}

// Finish sets the kind of the object of an event. The object of an error event is a Status, and
// stays as it is.
func (s *partial) Finish(event watch.Event) watch.Event {
	if m, ok := event.Object.(*metav1.PartialObjectMetadata); ok {
		m.SetGroupVersionKind(s.gvk)
	}
	return event
}
