// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	clientmetadata "k8s.io/client-go/metadata"
)

// partial is the source of objects reduced to their metadata. The server sends
// them as PartialObjectMetadata of meta.k8s.io; they get the kind that they are
// the metadata of, before anything sees them.
type partial struct {
	gvk       schema.GroupVersionKind
	resources clientmetadata.ResourceInterface
}

func newMetadata(o *Options, gvk schema.GroupVersionKind, resource schema.GroupVersionResource, namespace string) (source, error) {
	client, err := clientmetadata.NewForConfigAndClient(withoutSerializer(o.Config), o.HTTPClient)
	if err != nil {
		return nil, err
	}
	s := &partial{gvk: gvk, resources: client.Resource(resource)}
	if namespace != "" {
		s.resources = client.Resource(resource).Namespace(namespace)
	}
	return s, nil
}

func (s *partial) example() runtime.Object {
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(s.gvk)
	return m
}

func (s *partial) list(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	list, err := s.resources.List(ctx, opts)
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		list.Items[i].SetGroupVersionKind(s.gvk)
	}
	return list, nil
}

func (s *partial) watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	return s.resources.Watch(ctx, opts)
}

// finish gives the object of an event its kind; that of an error event is a Status
// and stays one.
func (s *partial) finish(event watch.Event) watch.Event {
	if m, ok := event.Object.(*metav1.PartialObjectMetadata); ok {
		m.SetGroupVersionKind(s.gvk)
	}
	return event
}
