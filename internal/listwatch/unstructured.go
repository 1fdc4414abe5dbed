// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// untyped is the source of unstructured objects. It uses the dynamic client.
type untyped struct {
	gvk       schema.GroupVersionKind
	resources dynamic.ResourceInterface
}

// Unstructured returns a source of unstructured objects.
func Unstructured(t Target) (Source, error) {
	client, err := dynamic.NewForConfigAndClient(withoutSerializer(t.Config), t.HTTPClient)
	if err != nil {
		return nil, err
	}
	s := &untyped{gvk: t.Kind, resources: client.Resource(t.Resource)}
	if t.Namespace != "" {
		s.resources = client.Resource(t.Resource).Namespace(t.Namespace)
	}
	return s, nil
}

// withoutSerializer returns a copy of cfg without the serializer of the user. The dynamic and the
// metadata client set the serializer that they need.
func withoutSerializer(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.NegotiatedSerializer = nil
	return cfg
}

func (s *untyped) Example() runtime.Object {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(s.gvk)
	return u
}

func (s *untyped) List(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	return s.resources.List(ctx, opts)
}

func (s *untyped) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	return s.resources.Watch(ctx, opts)
}

func (s *untyped) Finish(event watch.Event) watch.Event { return event }
