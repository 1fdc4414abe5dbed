// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"bytes"
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
)

// structured is the source of objects of the Go types in the scheme. It has a typed REST client,
// which asks for protobuf if the types support it.
type structured struct {
	scheme     *runtime.Scheme
	gvk        schema.GroupVersionKind
	resource   string
	namespace  string
	lister     rest.Interface
	watcher    *watchClient // leaves objects undecoded; nil if that is not possible
	paramCodec runtime.ParameterCodec
	object     runtime.Object
}

// Structured returns a source of objects of the Go type that the scheme has for a kind. It is an
// error if the scheme does not have the type.
func Structured(t Target) (Source, error) {
	object, err := t.Scheme.New(t.Kind)
	if err != nil {
		return nil, err
	}
	s := &structured{
		scheme:     t.Scheme,
		gvk:        t.Kind,
		resource:   t.Resource.Resource,
		namespace:  t.Namespace,
		paramCodec: runtime.NewParameterCodec(t.Scheme),
		object:     object,
	}
	codecs := serializer.NewCodecFactory(t.Scheme)
	if s.lister, err = apiutil.RESTClientForGVK(t.Kind, false, false, t.Config, codecs, t.HTTPClient); err != nil {
		return nil, err
	}
	if mediaType, known := watchMediaType(t, object); known && canLeaveUndecoded(t.Config, object) {
		config := watchConfig(t)
		config.ContentType = mediaType
		others := serializer.WithoutConversionCodecFactory{CodecFactory: codecs}.DecoderToVersion(codecs.UniversalDeserializer(), nil)
		s.watcher, err = newWatchClient(config, t.HTTPClient, t.Kind, others, t.keep(object))
	}
	return s, err
}

func listKind(gvk schema.GroupVersionKind) schema.GroupVersionKind {
	return gvk.GroupVersion().WithKind(gvk.Kind + "List")
}

func (s *structured) Example() runtime.Object { return s.object }

func (s *structured) List(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	into, err := s.scheme.New(listKind(s.gvk))
	if err != nil {
		return nil, err
	}
	result := s.request(s.lister, &opts).Do(ctx)
	if err := result.Error(); err != nil {
		return nil, err
	}
	if err := result.Into(into); err != nil {
		return nil, s.decodeError(result, err)
	}
	return into, nil
}

// decodeError returns a DecodeError in place of err if the answer is a list of the kind with an object
// that does not fit the Go type. If the list is in JSON, the error names the object, because the
// error of the decoder names only the field. For any other answer, such as a page of a proxy, it is
// unknown whether the objects fit, and err is returned.
func (s *structured) decodeError(result rest.Result, err error) error {
	body, bodyErr := result.Raw()
	if bodyErr != nil {
		return err
	}
	if s.isProtobufList(body) {
		return &DecodeError{err: err}
	}
	var list struct {
		metav1.TypeMeta
		Items []json.RawMessage
	}
	if json.Unmarshal(body, &list) != nil || list.GroupVersionKind() != listKind(s.gvk) {
		return err
	}
	for _, item := range list.Items {
		object, named := s.object.DeepCopyObject(), metav1.PartialObjectMetadata{}
		decodeError := (&undecoded{json: item}).decodeInto(object)
		if decodeError != nil && json.Unmarshal(item, &named) == nil {
			key := client.ObjectKeyFromObject(&named)
			return &DecodeError{Object: key, err: fmt.Errorf("%s does not fit %T: %w", key, object, decodeError)}
		}
	}
	return err
}

// isProtobufList reports whether body is a list of the kind in the protobuf encoding of API
// servers, whose envelope contains the kind.
func (s *structured) isProtobufList(body []byte) bool {
	envelope, ok := bytes.CutPrefix(body, []byte("k8s\x00"))
	unknown := runtime.Unknown{}
	return ok && unknown.Unmarshal(envelope) == nil && unknown.GroupVersionKind() == listKind(s.gvk)
}

func (s *structured) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	if s.watcher == nil {
		return s.request(s.lister, &opts).Watch(ctx)
	}
	return s.watcher.watch(ctx, func(client rest.Interface) *rest.Request { return s.request(client, &opts) })
}

// Finish decodes the object of an event. If decoding fails, the event becomes an error event, as in
// client-go.
func (s *structured) Finish(event watch.Event) watch.Event {
	received, ok := event.Object.(*undecoded)
	if !ok {
		return event
	}
	object, err := s.scheme.New(s.gvk)
	if err == nil {
		err = received.decodeInto(object)
	}
	if err != nil {
		return undecodable(err)
	}
	return watch.Event{Type: event.Type, Object: object}
}

// undecodable returns the error event that client-go makes of an event that it cannot decode.
func undecodable(err error) watch.Event {
	err = fmt.Errorf("unable to decode an event from the watch stream: %w", err)
	return watch.Event{Type: watch.Error, Object: reporter.AsObject(err)}
}

// reporter makes the Status of an error as client-go's watches do.
var reporter = apierrors.NewClientErrorReporter(http.StatusInternalServerError, "GET", "ClientWatchDecoding")

func (s *structured) request(client rest.Interface, opts *metav1.ListOptions) *rest.Request {
	return client.Get().
		NamespaceIfScoped(s.namespace, s.namespace != "").
		Resource(s.resource).
		VersionedParams(opts, s.paramCodec)
}
