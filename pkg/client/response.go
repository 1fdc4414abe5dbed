// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// response is the body with which a server has answered a write.
type response struct {
	body     []byte
	protobuf []byte // the message in the body, nil if that is JSON
	gvk      schema.GroupVersionKind
}

// protobufPrefix begins each body in the protobuf encoding of API servers.
var protobufPrefix = []byte("k8s\x00")

func readResponse(body []byte) (*response, error) {
	envelope, ok := bytes.CutPrefix(body, protobufPrefix)
	if !ok {
		var kind metav1.TypeMeta
		if err := json.Unmarshal(body, &kind); err != nil {
			return nil, err
		}
		return &response{body: body, gvk: kind.GroupVersionKind()}, nil
	}
	var unknown runtime.Unknown
	if err := unknown.Unmarshal(envelope); err != nil {
		return nil, err
	}
	return &response{body: body, protobuf: unknown.Raw, gvk: unknown.GroupVersionKind()}, nil
}

// message is what both encodings can be read into.
type message interface{ Unmarshal([]byte) error }

// into reads the response; into may have a part of its fields.
func (r *response) into(into message) error {
	if r.protobuf != nil {
		return into.Unmarshal(r.protobuf)
	}
	return json.Unmarshal(r.body, into)
}

// partial reports whether the response has the metadata of an object alone.
func (r *response) partial() bool {
	return r.gvk.Group == metav1.GroupName && r.gvk.Kind == "PartialObjectMetadata"
}

// object returns the object of the response, of kind gvk, in the Go type of example, as a watch of
// that type would bring it. It is an error if the response does not hold as much.
func (r *response) object(gvk schema.GroupVersionKind, example runtime.Object, decoder runtime.Decoder) (client.Object, error) {
	if _, ok := example.(*metav1.PartialObjectMetadata); ok {
		m := &metav1.PartialObjectMetadata{}
		err := r.into(m)
		m.SetGroupVersionKind(gvk)
		return m, err
	}
	if r.partial() {
		return nil, fmt.Errorf("the response has the metadata of the %s alone", gvk.Kind)
	}
	if _, ok := example.(*unstructured.Unstructured); ok {
		return r.content(decoder)
	}
	return r.typed(reflect.TypeOf(example), decoder)
}

// typed returns the object as the Go type of the scheme.
func (r *response) typed(want reflect.Type, decoder runtime.Decoder) (client.Object, error) {
	decoded, _, err := decoder.Decode(r.body, nil, nil)
	if err != nil {
		return nil, err
	}
	obj, ok := decoded.(client.Object)
	if !ok || want != nil && want != reflect.TypeOf(decoded) {
		return nil, fmt.Errorf("the response is a %T, and the cache holds %v", decoded, want)
	}
	obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{}) // as typed clients do
	return obj, nil
}

// content returns the object as unstructured content. A message may have fields that the Go type
// does not know; then it is an error.
func (r *response) content(decoder runtime.Decoder) (client.Object, error) {
	body := r.body
	if r.protobuf != nil {
		typed, err := r.typed(nil, decoder)
		if err != nil {
			return nil, err
		}
		if again, ok := typed.(interface{ Marshal() ([]byte, error) }); !ok {
			return nil, fmt.Errorf("%T has no protobuf encoding", typed)
		} else if written, err := again.Marshal(); err != nil || !bytes.Equal(written, r.protobuf) {
			return nil, fmt.Errorf("the response has fields that %T does not know (%v)", typed, err)
		}
		typed.GetObjectKind().SetGroupVersionKind(r.gvk)
		if body, err = json.Marshal(typed); err != nil { // as the server does for a watch in JSON
			return nil, err
		}
	}
	decoded, _, err := unstructured.UnstructuredJSONScheme.Decode(body, nil, nil)
	if err != nil {
		return nil, err
	}
	obj, ok := decoded.(client.Object)
	if !ok {
		return nil, fmt.Errorf("the response is a %T", decoded)
	}
	return obj, nil
}
