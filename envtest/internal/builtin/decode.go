// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

import (
	"fmt"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// requestCodecs decode what clients send. An object with a number in an annotation that cannot be read is no object of its kind: a
// kube-apiserver reads the number into a field.
type requestCodecs struct{ runtime.NegotiatedSerializer }

// DecoderToVersion returns a decoder that refuses such objects.
func (c requestCodecs) DecoderToVersion(decoder runtime.Decoder, version runtime.GroupVersioner) runtime.Decoder {
	return requestDecoder{c.NegotiatedSerializer.DecoderToVersion(decoder, version)}
}

type requestDecoder struct{ runtime.Decoder }

func (d requestDecoder) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	obj, gvk, err := d.Decoder.Decode(data, defaults, into)
	if obj != nil && (err == nil || runtime.IsStrictDecodingError(err)) {
		if wrong := readNumbers(obj); wrong != nil {
			return nil, gvk, wrong
		}
	}
	return obj, gvk, err
}

// readNumbers reads the annotations that are numbers, and writes them in their usual form.
func readNumbers(obj runtime.Object) error {
	switch o := obj.(type) {
	case *appsv1.DaemonSet:
		return readNumber(o.Annotations, appsv1.DeprecatedTemplateGeneration)
	case *appsv1.Deployment:
		if o.Annotations[appsv1.DeprecatedRollbackTo] == "" { // it has nothing to say
			delete(o.Annotations, appsv1.DeprecatedRollbackTo)
		}
		return readNumber(o.Annotations, appsv1.DeprecatedRollbackTo)
	}
	return nil
}

func readNumber(annotations map[string]string, key string) error {
	text, ok := annotations[key]
	if !ok {
		return nil
	}
	number, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return fmt.Errorf("failed to parse annotation[%s]=%s as int64: %w", key, text, err)
	}
	annotations[key] = strconv.FormatInt(number, 10)
	return nil
}
