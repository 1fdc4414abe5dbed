// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"fmt"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientfeatures "k8s.io/client-go/features"
	"k8s.io/client-go/rest"
	kjson "sigs.k8s.io/json"
)

// undecoded is an object of a watch in the received bytes. client-go decodes the objects of a watch
// in the one goroutine that receives them, and decoding is most of the cost of an event. In the
// scheme of our client the kind has the type undecoded. So that goroutine only cuts the stream into
// objects, and Finish decodes them in other goroutines.
type undecoded struct {
	protobuf, json []byte // one of them is set
}

var _ runtime.Object = (*undecoded)(nil)

// GetObjectKind implements runtime.Object.
func (*undecoded) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject implements runtime.Object. The bytes are shared, because they never change.
func (u *undecoded) DeepCopyObject() runtime.Object { c := *u; return &c }

// Reset is called by the protobuf serializer before Unmarshal.
func (u *undecoded) Reset() { *u = undecoded{} }

// Unmarshal is called by the protobuf serializer. It keeps data, which the serializer allocates for
// each event.
func (u *undecoded) Unmarshal(data []byte) error {
	u.protobuf = data
	return nil
}

// UnmarshalJSON is called by the JSON serializer.
func (u *undecoded) UnmarshalJSON(data []byte) error {
	u.json = data
	return nil
}

// decodeInto decodes the bytes into an object of the kind.
func (u *undecoded) decodeInto(into runtime.Object) error {
	if u.json != nil {
		err := kjson.UnmarshalCaseSensitivePreserveInts(u.json, into)
		into.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{}) // as typed clients do
		return err
	}
	message, ok := into.(interface{ Unmarshal([]byte) error })
	if !ok { // the server answers in protobuf whatever the scheme has for the kind
		return fmt.Errorf("%T cannot be decoded from protobuf; set the ContentType of the rest config to JSON", into)
	}
	return message.Unmarshal(u.protobuf)
}

// undecodedScheme returns a scheme in which the type of gvk is undecoded. The Status of an error
// event is decoded as usual.
func undecodedScheme(gvk schema.GroupVersionKind) *runtime.Scheme {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(gvk, &undecoded{})
	metav1.AddToGroupVersion(scheme, gvk.GroupVersion())
	return scheme
}

// canLeaveUndecoded reports whether objects arrive in an encoding that undecoded supports, and
// decodeInto makes the same objects as client-go's decoder.
func canLeaveUndecoded(cfg *rest.Config, example runtime.Object) bool {
	_, protobuf := example.(interface{ Unmarshal([]byte) error })
	_, json := example.(interface{ UnmarshalJSON([]byte) error })
	return (protobuf || !strings.Contains(cfg.ContentType, "protobuf")) && !json &&
		!strings.Contains(cfg.ContentType+cfg.AcceptContentTypes, "cbor") &&
		!clientfeatures.FeatureGates().Enabled(clientfeatures.ClientsPreferCBOR) &&
		reflect.TypeOf(example).Elem().Kind() == reflect.Struct
}
