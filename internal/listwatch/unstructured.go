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
	clientfeatures "k8s.io/client-go/features"
	"k8s.io/client-go/rest"
)

// untyped is the source of unstructured objects. It lists with the dynamic client, and watches as
// that does, but leaves the objects undecoded if they come as JSON.
type untyped struct {
	gvk       schema.GroupVersionKind
	resource  string
	namespace string
	resources dynamic.ResourceInterface
	watcher   *watchClient // nil if the dynamic client watches
}

// Unstructured returns a source of unstructured objects.
func Unstructured(t Target) (Source, error) {
	client, err := dynamic.NewForConfigAndClient(withoutSerializer(t.Config), t.HTTPClient)
	if err != nil {
		return nil, err
	}
	s := &untyped{gvk: t.Kind, resource: t.Resource.Resource, namespace: t.Namespace, resources: client.Resource(t.Resource)}
	if t.Namespace != "" {
		s.resources = client.Resource(t.Resource).Namespace(t.Namespace)
	}
	if clientfeatures.FeatureGates().Enabled(clientfeatures.ClientsAllowCBOR) {
		return s, nil
	}
	config := dynamic.ConfigFor(watchConfig(t))
	others := config.NegotiatedSerializer.SupportedMediaTypes()[0].Serializer
	s.watcher, err = newWatchClient(config, t.HTTPClient, t.Kind, others, nil)
	return s, err
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
	if s.watcher == nil {
		return s.resources.Watch(ctx, opts)
	}
	opts.Watch = true
	return s.watcher.watch(ctx, func(client rest.Interface) *rest.Request {
		return client.Get().
			NamespaceIfScoped(s.namespace, s.namespace != "").
			Resource(s.resource).
			SpecificallyVersionedParams(&opts, eventParameters, schema.GroupVersion{Version: "v1"})
	})
}

// eventParameters writes the options of a watch into its URL.
var eventParameters = runtime.NewParameterCodec(events)

// Finish decodes the object of an event.
func (s *untyped) Finish(event watch.Event) watch.Event {
	received, ok := event.Object.(*undecoded)
	if !ok {
		return event
	}
	object, _, err := unstructured.UnstructuredJSONScheme.Decode(received.json, nil, nil)
	if err != nil {
		return undecodable(err)
	}
	return watch.Event{Type: event.Type, Object: object}
}
