// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informers

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/tarn-dev/tarn/pkg/index"
)

// structured is the source of the Go types in the scheme: a typed REST client,
// which speaks protobuf where the types do.
type structured struct {
	scheme     *runtime.Scheme
	gvk        schema.GroupVersionKind
	resource   string
	namespace  string
	lister     rest.Interface
	watcher    rest.Interface // of undecoded objects, where that can be
	paramCodec runtime.ParameterCodec
	object     runtime.Object
}

func newStructured(o *Options, gvk schema.GroupVersionKind, resource schema.GroupVersionResource, namespace string) (source, error) {
	for _, needed := range []schema.GroupVersionKind{gvk, listKind(gvk)} {
		if !o.Scheme.Recognizes(needed) {
			return nil, NotRegistered(o.Scheme, "of "+index.Describe(needed), "; an object and its list are registered together")
		}
	}
	object, err := o.Scheme.New(gvk)
	if err != nil {
		return nil, err
	}
	client := func(scheme *runtime.Scheme) (rest.Interface, error) {
		return apiutil.RESTClientForGVK(gvk, false, false, o.Config, serializer.NewCodecFactory(scheme), o.HTTPClient)
	}
	s := &structured{
		scheme:     o.Scheme,
		gvk:        gvk,
		resource:   resource.Resource,
		namespace:  namespace,
		paramCodec: runtime.NewParameterCodec(o.Scheme),
		object:     object,
	}
	if s.lister, err = client(o.Scheme); err != nil {
		return nil, err
	}
	s.watcher = s.lister
	if canLeaveUndecoded(o.Config, object) {
		s.watcher, err = client(undecodedScheme(gvk))
	}
	return s, err
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
	result := s.request(s.lister, &opts).Do(ctx)
	if err := result.Error(); err != nil {
		return nil, err
	}
	if err := result.Into(into); err != nil {
		return nil, &misfitError{s.nameMisfit(result, err)}
	}
	return into, nil
}

// nameMisfit says which object of a list does not fit the Go type, if it is in JSON: err is
// of the list, and an error of the decoder names nothing but the field.
func (s *structured) nameMisfit(result rest.Result, err error) error {
	var list struct{ Items []json.RawMessage }
	if body, bodyErr := result.Raw(); bodyErr != nil || json.Unmarshal(body, &list) != nil {
		return err
	}
	for _, item := range list.Items {
		object, named := s.object.DeepCopyObject(), metav1.PartialObjectMetadata{}
		misfit := (&undecoded{json: item}).decodeInto(object)
		if misfit != nil && json.Unmarshal(item, &named) == nil {
			return fmt.Errorf("%s does not fit %T: %w", client.ObjectKeyFromObject(&named), object, misfit)
		}
	}
	return err
}

func (s *structured) watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	return s.request(s.watcher, &opts).Watch(ctx)
}

// finish decodes the object of an event. What cannot be decoded becomes an error
// event, as it does in client-go.
func (s *structured) finish(event watch.Event) watch.Event {
	received, ok := event.Object.(*undecoded)
	if !ok {
		return event
	}
	object, err := s.scheme.New(s.gvk)
	if err == nil {
		err = received.decodeInto(object)
	}
	if err != nil {
		err = fmt.Errorf("unable to decode an event from the watch stream: %w", err)
		reporter := apierrors.NewClientErrorReporter(http.StatusInternalServerError, "GET", "ClientWatchDecoding")
		return watch.Event{Type: watch.Error, Object: reporter.AsObject(err)}
	}
	return watch.Event{Type: event.Type, Object: object}
}

func (s *structured) request(client rest.Interface, opts *metav1.ListOptions) *rest.Request {
	return client.Get().
		NamespaceIfScoped(s.namespace, s.namespace != "").
		Resource(s.resource).
		VersionedParams(opts, s.paramCodec)
}
