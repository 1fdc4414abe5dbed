// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"bytes"
	"encoding/binary"
	"mime"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/yaml"
)

// framing takes the bytes of a watch apart into events, of one media type.
type framing interface {
	// split returns the events that are complete with b. They are valid until the next call.
	split(b []byte) [][]byte
	// left returns what is not the whole of an event.
	left() []byte
	// describe reads the type of an event, and of its object what stands in the metadata.
	describe(event []byte) Held
	// failure makes the event of an error.
	failure(metav1.Status) ([]byte, error)
}

// framingOf returns the framing of a Content-Type, or nil if it is not known: such a watch passes untouched.
func framingOf(contentType string) framing {
	switch mediaType(contentType) {
	case runtime.ContentTypeProtobuf:
		return &lengths{}
	case runtime.ContentTypeJSON:
		return &lines{}
	}
	return nil
}

func mediaType(contentType string) string {
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return ""
	}
	return media
}

// named is what an object says of itself at the place where all kinds do. A Table has objects in its rows, here one.
type named struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Rows     []struct {
		Object struct {
			Metadata metav1.ObjectMeta `json:"metadata"`
		} `json:"object"`
	} `json:"rows"`
}

func (n *named) metadata() *metav1.ObjectMeta {
	if len(n.Rows) == 1 {
		return &n.Rows[0].Object.Metadata
	}
	return &n.Metadata
}

// event is an event whose object is not a message of its own.
type event struct {
	Type   string `json:"type"`
	Object named  `json:"object"`
}

func (e *event) held() Held { return heldOf(e.Type, e.Object.metadata()) }

func heldOf(typ string, m *metav1.ObjectMeta) Held {
	return Held{Type: typ, Namespace: m.Namespace, Name: m.Name, GenerateName: m.GenerateName, ResourceVersion: m.ResourceVersion}
}

// metadataIn returns the metadata of the object that a body of some type is.
func metadataIn(contentType string, body []byte) metav1.ObjectMeta {
	if mediaType(contentType) == runtime.ContentTypeProtobuf {
		return metadataOfMessage(body)
	}
	var n named
	_ = yaml.Unmarshal(body, &n) // the server says what is wrong with it
	return n.Metadata
}

// lines is the framing of JSON: each event ends with the end of a line.
type lines struct{ rest []byte }

func (l *lines) split(b []byte) (events [][]byte) {
	whole := b
	if len(l.rest) > 0 {
		whole = append(l.rest, b...)
	}
	l.rest = nil
	for len(whole) > 0 {
		end := bytes.IndexByte(whole, '\n') + 1
		if end == 0 {
			l.rest = bytes.Clone(whole)
			break
		}
		events = append(events, whole[:end])
		whole = whole[end:]
	}
	return events
}

func (l *lines) left() []byte { return l.rest }

func (*lines) describe(frame []byte) Held {
	var e event
	_ = json.Unmarshal(frame, &e)
	return e.held()
}

func (*lines) failure(status metav1.Status) ([]byte, error) {
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	frame, err := json.Marshal(map[string]any{"type": watch.Error, "object": status})
	return append(frame, '\n'), err
}

// lengths is the framing of protobuf: each event follows its length, four bytes.
type lengths struct{ rest []byte }

const lengthSize = 4

func (l *lengths) split(b []byte) (events [][]byte) {
	whole := b
	if len(l.rest) > 0 {
		whole = append(l.rest, b...)
	}
	l.rest = nil
	for len(whole) >= lengthSize {
		end := lengthSize + int(binary.BigEndian.Uint32(whole))
		if end > len(whole) {
			break
		}
		events = append(events, whole[:end])
		whole = whole[end:]
	}
	l.rest = bytes.Clone(whole)
	return events
}

func (l *lengths) left() []byte { return l.rest }

func (*lengths) describe(frame []byte) Held {
	var e metav1.WatchEvent
	if e.Unmarshal(frame[lengthSize:]) != nil {
		return Held{}
	}
	m := metadataOfMessage(e.Object.Raw)
	return heldOf(e.Type, &m)
}

// metadataOfMessage reads the metadata, which is the first field of all kinds, from a message in its envelope.
func metadataOfMessage(message []byte) metav1.ObjectMeta {
	var envelope runtime.Unknown
	var object metav1.PartialObjectMetadata
	if raw, ok := bytes.CutPrefix(message, []byte("k8s\x00")); !ok || envelope.Unmarshal(raw) != nil || object.Unmarshal(envelope.Raw) != nil {
		return metav1.ObjectMeta{}
	}
	return object.ObjectMeta
}

var errorScheme = func() *runtime.Scheme {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, metav1.SchemeGroupVersion)
	return scheme
}()

func (*lengths) failure(status metav1.Status) ([]byte, error) {
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	object, err := runtime.Encode(protobuf.NewSerializer(errorScheme, errorScheme), &status)
	if err != nil {
		return nil, err
	}
	e := metav1.WatchEvent{Type: string(watch.Error), Object: runtime.RawExtension{Raw: object}}
	message, err := e.Marshal()
	if err != nil {
		return nil, err
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(message))), message...), nil
}
