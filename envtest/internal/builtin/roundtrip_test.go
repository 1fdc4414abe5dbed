// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

import (
	"bytes"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/randfill"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

// mediaTypes are the encodings that clients and storage use.
var mediaTypes = [...]string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf}

// codecFor returns a codec that reads and writes one version in one encoding.
func codecFor(t *testing.T, mediaType string, gv schema.GroupVersion) runtime.Codec {
	t.Helper()
	codecs := Codecs()
	info, ok := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), mediaType)
	if !ok {
		t.Fatalf("no serializer for %s", mediaType)
	}
	internal := schema.GroupVersion{Group: gv.Group, Version: runtime.APIVersionInternal}
	return codecs.CodecForVersions(info.Serializer, info.Serializer, gv, internal)
}

// served are the kinds under their own name and under their second one.
func served() []schema.GroupVersionKind {
	var all []schema.GroupVersionKind
	for _, k := range kinds() {
		all = append(all, k.GVK)
		if !k.Alias.Empty() {
			all = append(all, k.Alias)
		}
	}
	return all
}

func TestEveryKindRoundTrips(t *testing.T) {
	for _, gvk := range served() {
		for _, mediaType := range mediaTypes {
			codec := codecFor(t, mediaType, gvk.GroupVersion())
			obj := kind.NewFunc(Scheme(), gvk)()
			m, err := meta.Accessor(obj)
			if err != nil {
				t.Fatal(err)
			}
			m.SetName("one")
			first := encode(t, codec, obj)
			decoded, got, err := codec.Decode(first, nil, nil)
			if err != nil {
				t.Errorf("%s in %s: %v", gvk, mediaType, err)
				continue
			}
			if *got != gvk {
				t.Errorf("%s in %s comes back as %s", gvk, mediaType, got)
			}
			// Defaults are filled by the first decoding; the second one must find nothing to do.
			second := encode(t, codec, decoded)
			again, _, err := codec.Decode(second, nil, nil)
			if err != nil {
				t.Fatalf("%s in %s: %v", gvk, mediaType, err)
			}
			if !apiequality.Semantic.DeepEqual(decoded, again) {
				t.Errorf("%s in %s: defaults are not stable:\n%v\n%v", gvk, mediaType, decoded, again)
			}
		}
	}
}

func TestEventsRoundTripBetweenGroups(t *testing.T) {
	filler := randfill.NewWithSeed(1).NilChance(.3).NumElements(1, 2).Funcs(metafuzzer.Funcs(Codecs())[1:]...)
	for _, k := range kinds() {
		if k.GVK.Kind != "Event" {
			continue
		}
		for i := range 50 {
			event := &corev1.Event{}
			filler.Fill(event)
			event.TypeMeta = metav1.TypeMeta{}
			other, err := Scheme().ConvertToVersion(event, k.Alias.GroupVersion())
			if err != nil {
				t.Fatal(err)
			}
			back, err := Scheme().ConvertToVersion(other, schema.GroupVersion{Group: k.Alias.Group, Version: runtime.APIVersionInternal})
			if err != nil {
				t.Fatal(err)
			}
			back.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
			if !apiequality.Semantic.DeepEqual(event, back) {
				t.Fatalf("event %d does not survive:\n%#v\n%#v", i, event, back)
			}
		}
	}
}

func TestDefaultsSurviveAnyContent(t *testing.T) {
	const seed = 42
	filler := randfill.NewWithSeed(seed).NilChance(.5).NumElements(0, 2).MaxDepth(12).
		Funcs(append(metafuzzer.Funcs(Codecs())[1:], func(s *intstr.IntOrString, c randfill.Continue) { *s = intstr.FromInt32(c.Int31n(100)) })...)
	for _, k := range kinds() {
		for range 20 {
			obj := kind.NewFunc(Scheme(), k.GVK)()
			filler.Fill(obj)
			Scheme().Default(obj)
			once := obj.DeepCopyObject()
			Scheme().Default(obj)
			if !apiequality.Semantic.DeepEqual(once, obj) {
				t.Errorf("%s: defaults are not stable (seed %d)", k.GVK, seed)
			}
			if _, _, err := k.Attributes(obj); err != nil {
				t.Errorf("%s: %v", k.GVK, err)
			}
		}
	}
}

func TestCodecsStoreProtobuf(t *testing.T) {
	pod := &corev1.Pod{}
	pod.Name = "one"
	data := encode(t, codecFor(t, runtime.ContentTypeProtobuf, corev1.SchemeGroupVersion), pod)
	if !bytes.HasPrefix(data, []byte("k8s\x00")) {
		t.Errorf("not the envelope of stored objects: %q", data)
	}
}

func encode(t *testing.T, codec runtime.Codec, obj runtime.Object) []byte {
	t.Helper()
	data, err := runtime.Encode(codec, obj)
	if err != nil {
		t.Fatalf("encode %T: %v", obj, err)
	}
	return data
}
