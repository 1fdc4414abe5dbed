// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"bytes"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	restwatch "k8s.io/client-go/rest/watch"
)

// encoder makes what an API server would send. It is not safe for concurrent use.
type encoder struct {
	Resource
	objects runtime.Encoder
	events  *restwatch.Encoder
	buffer  *bytes.Buffer
}

func newEncoder(of Resource) (*encoder, error) {
	codecs := serializer.NewCodecFactory(scheme.Scheme)
	info, ok := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), of.mediaType())
	if !ok || info.StreamSerializer == nil {
		return nil, fmt.Errorf("encode Pods: client-go has no serializer of streams for %q", of.mediaType())
	}
	version := of.version()
	e := &encoder{Resource: of, objects: codecs.EncoderForVersion(info.Serializer, version), buffer: &bytes.Buffer{}}
	stream := streaming.NewEncoder(info.StreamSerializer.NewFrameWriter(e.buffer),
		codecs.EncoderForVersion(info.StreamSerializer.Serializer, version))
	e.events = restwatch.NewEncoder(stream, e.objects)
	return e, nil
}

// event returns one frame of a watch. The next call overwrites it.
func (e *encoder) event(kind watch.EventType, pod *corev1.Pod) ([]byte, error) {
	e.buffer.Reset()
	if err := e.events.Encode(&watch.Event{Type: kind, Object: e.object(pod)}); err != nil {
		return nil, fmt.Errorf("encode the event %s of Pod %s/%s: %w", kind, pod.Namespace, pod.Name, err)
	}
	return e.buffer.Bytes(), nil
}

// endOfList returns the frame that says that the list before it is complete.
func (e *encoder) endOfList(version string) ([]byte, error) {
	return e.event(watch.Bookmark, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		ResourceVersion: version,
		Annotations:     map[string]string{metav1.InitialEventsAnnotationKey: "true"},
	}})
}
