// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// structured is the source of the Go types in the scheme: a typed REST client,
// which speaks protobuf where the types do.
type structured struct {
	scheme     *runtime.Scheme
	gvk        schema.GroupVersionKind
	resource   string
	namespace  string
	client     rest.Interface
	paramCodec runtime.ParameterCodec
	object     runtime.Object
}

func newStructured(o *Options, gvk schema.GroupVersionKind, resource schema.GroupVersionResource, namespace string) (source, error) {
	object, err := o.Scheme.New(gvk)
	if err != nil {
		return nil, err
	}
	if _, err := o.Scheme.New(listKind(gvk)); err != nil {
		return nil, err
	}
	client, err := apiutil.RESTClientForGVK(gvk, false, false, o.Config, serializer.NewCodecFactory(o.Scheme), o.HTTPClient)
	if err != nil {
		return nil, err
	}
	return &structured{
		scheme:     o.Scheme,
		gvk:        gvk,
		resource:   resource.Resource,
		namespace:  namespace,
		client:     client,
		paramCodec: runtime.NewParameterCodec(o.Scheme),
		object:     object,
	}, nil
}

func listKind(gvk schema.GroupVersionKind) schema.GroupVersionKind {
	return gvk.GroupVersion().WithKind(gvk.Kind + "List")
}

func (s *structured) example() runtime.Object { return s.object }

func (s *structured) list(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	into, err := s.scheme.New(listKind(s.gvk))
	if err != nil {
		return nil, err
	}
	return into, s.request(&opts).Do(ctx).Into(into)
}

func (s *structured) watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	return s.request(&opts).Watch(ctx)
}

func (s *structured) request(opts *metav1.ListOptions) *rest.Request {
	return s.client.Get().
		NamespaceIfScoped(s.namespace, s.namespace != "").
		Resource(s.resource).
		VersionedParams(opts, s.paramCodec)
}
