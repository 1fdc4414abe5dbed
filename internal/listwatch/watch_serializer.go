// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	jsonserializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"

	"github.com/tarn-dev/tarn/internal/projection"
)

// client-go cuts the stream of a watch into events with the serializers of the REST client.
// apimachinery's serializers read and copy each object several times before it is decoded: JSON to
// find the end of the event, the object in the event, the kind of the object. The serializers here
// look at a byte of JSON twice, for the ends of the event and of the object, and copy it once. They
// leave an object of the expected kind undecoded. Everything else that a server sends, and every
// event that is not as API servers write it, is read by apimachinery's.

// watchSerializer is the serializer of a REST client that watches one kind.
type watchSerializer struct{ types []runtime.SerializerInfo }

var _ runtime.NegotiatedSerializer = (*watchSerializer)(nil)

// newWatchSerializer returns a serializer for watches of a kind. Other decodes objects of other
// kinds, among which is the Status of an error, and messages that keep, if it is set, reports as unusual.
func newWatchSerializer(kind schema.GroupVersionKind, other runtime.Decoder, keep projection.MessageFunc) *watchSerializer {
	version := kind.GroupVersion().String()
	return &watchSerializer{types: []runtime.SerializerInfo{
		{
			MediaType: runtime.ContentTypeJSON, MediaTypeType: "application", MediaTypeSubType: "json", EncodesAsText: true,
			Serializer: &objectDecoder{kind: kind, version: version, other: other, find: jsonObject},
			StreamSerializer: &runtime.StreamSerializerInfo{
				EncodesAsText: true, Framer: jsonFramer{jsonserializer.Framer},
				Serializer: &eventDecoder{find: jsonEvent, other: jsonserializer.NewSerializerWithOptions(jsonserializer.DefaultMetaFactory, events, events, jsonserializer.SerializerOptions{})},
			},
		},
		{
			MediaType: runtime.ContentTypeProtobuf, MediaTypeType: "application", MediaTypeSubType: "vnd.kubernetes.protobuf",
			Serializer: &objectDecoder{kind: kind, version: version, other: other, find: func(apiVersion, kind string, data []byte) (*undecoded, bool) {
				raw, ok := protobufMessage(apiVersion, kind, data)
				if !ok {
					return nil, false
				}
				return undecodedMessage(raw, keep)
			}},
			StreamSerializer: &runtime.StreamSerializerInfo{
				Framer:     protobuf.LengthDelimitedFramer,
				Serializer: &eventDecoder{find: protobufEvent, other: protobuf.NewRawSerializer(events, events)},
			},
		},
	}}
}

// events is a scheme of watch events alone.
var events = func() *runtime.Scheme {
	s := runtime.NewScheme()
	metav1.AddToGroupVersion(s, schema.GroupVersion{Version: "v1"})
	return s
}()

// SupportedMediaTypes implements runtime.NegotiatedSerializer.
func (s *watchSerializer) SupportedMediaTypes() []runtime.SerializerInfo { return s.types }

// EncoderForVersion implements runtime.NegotiatedSerializer.
func (s *watchSerializer) EncoderForVersion(e runtime.Encoder, _ runtime.GroupVersioner) runtime.Encoder {
	return e
}

// DecoderToVersion implements runtime.NegotiatedSerializer.
func (s *watchSerializer) DecoderToVersion(d runtime.Decoder, _ runtime.GroupVersioner) runtime.Decoder {
	return d
}

// noEncoder makes a serializer of a decoder: a watch sends nothing.
type noEncoder struct{}

func (noEncoder) Encode(obj runtime.Object, _ io.Writer) error {
	return fmt.Errorf("a watch does not send a %T", obj)
}

func (noEncoder) Identifier() runtime.Identifier { return "listwatch" }

// eventDecoder decodes events. The object of an event refers to the data, which the next event
// overwrites.
type eventDecoder struct {
	noEncoder
	find  func(data []byte) (eventType, object []byte, ok bool)
	other runtime.Decoder
}

// Decode implements runtime.Decoder.
func (d *eventDecoder) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	if event, ok := into.(*metav1.WatchEvent); ok {
		if eventType, object, ok := d.find(data); ok {
			event.Type, event.Object.Raw = string(eventType), object
			return event, nil, nil
		}
	}
	return d.other.Decode(data, defaults, into)
}

// objectDecoder decodes objects.
type objectDecoder struct {
	noEncoder
	kind    schema.GroupVersionKind
	version string // of the kind, as it stands in objects
	find    func(apiVersion, kind string, data []byte) (object *undecoded, ok bool)
	other   runtime.Decoder
}

// Decode implements runtime.Decoder.
func (d *objectDecoder) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	if into == nil {
		if object, ok := d.find(d.version, d.kind.Kind, data); ok {
			return object, &d.kind, nil
		}
	}
	return d.other.Decode(data, defaults, into)
}

// The messages of a watch, as API servers write them: fields with a length, in the order of their
// numbers.
const (
	typeTag     = 1<<3 | 2 // WatchEvent.type, RawExtension.raw, Unknown.typeMeta, TypeMeta.apiVersion
	objectTag   = 2<<3 | 2 // WatchEvent.object, Unknown.raw, TypeMeta.kind
	encodingTag = 3<<3 | 2 // Unknown.contentEncoding
	mediaTag    = 4<<3 | 2 // Unknown.contentType
)

// protobufEvent returns the type and the object of a WatchEvent.
func protobufEvent(data []byte) (eventType, object []byte, ok bool) {
	eventType, data, first := cutField(data, typeTag)
	object, data, second := cutField(data, objectTag)
	object, rest, raw := cutField(object, typeTag)
	return eventType, object, first && second && raw && len(data) == 0 && len(rest) == 0
}

// protobufMessage returns the object of an envelope if it is of that kind.
func protobufMessage(apiVersion, kind string, data []byte) (message []byte, ok bool) {
	data, enveloped := bytes.CutPrefix(data, []byte("k8s\x00"))
	meta, data, first := cutField(data, typeTag)
	raw, data, second := cutField(data, objectTag)
	version, meta, versioned := cutField(meta, typeTag)
	name, meta, named := cutField(meta, objectTag)
	if !enveloped || !first || !second || !versioned || !named || len(meta) > 0 ||
		string(version) != apiVersion || string(name) != kind {
		return nil, false
	}
	for _, tag := range []byte{encodingTag, mediaTag} { // written, and empty
		value, rest, ok := cutField(data, tag)
		if ok && len(value) > 0 {
			return nil, false
		}
		data = rest
	}
	if len(data) > 0 {
		return nil, false
	}
	return raw, true
}

// cutField returns the value of the first field of a message, if it has that tag, and what follows
// it.
func cutField(message []byte, tag byte) (value, rest []byte, ok bool) {
	if len(message) == 0 || message[0] != tag {
		return nil, message, false
	}
	n, size := binary.Uvarint(message[1:])
	if size <= 0 || n > uint64(len(message)-1-size) {
		return nil, message, false
	}
	start := 1 + size
	return message[start : start+int(n)], message[start+int(n):], true
}
