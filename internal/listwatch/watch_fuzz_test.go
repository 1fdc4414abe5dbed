// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"io"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// streamTypes are the content types of the streams that FuzzWatch damages.
var streamTypes = []string{runtime.ContentTypeJSON, runtime.ContentTypeJSON + ";stream=watch", runtime.ContentTypeProtobuf + ";stream=watch"}

// FuzzWatch damages the streams of watches. Up to the first error client-go reads the same events. In which words the error is
// told, or whether the watch just ends, is not compared: no API server writes such streams.
func FuzzWatch(f *testing.F) {
	scheme := runtime.NewScheme()
	NewWithT(f).Expect(corev1.AddToScheme(scheme)).To(Succeed())
	for _, b := range watches(NewWithT(f), scheme) {
		if i := slices.Index(streamTypes, b.contentType); i >= 0 {
			f.Add(uint8(i), b.content)
		}
	}
	const short = `{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"}}}` + "\n"
	f.Add(uint8(0), short+short)
	f.Fuzz(func(t *testing.T, i uint8, content string) {
		i %= uint8(len(streamTypes))
		target := body{contentType: streamTypes[i], content: content, read: func(r io.Reader) io.Reader { return r }}.target(scheme)
		same(t, untilError(tarns(t, Structured, target, received)), untilError(clientGoTyped(t, target)))
		if i == 0 { // the dynamic client asks for JSON
			same(t, untilError(tarns(t, Unstructured, target, received)), untilError(clientGoUntyped(t, target)))
		}
	})
}

// untilError returns the events before the first error.
func untilError(all []watch.Event) []watch.Event {
	end := slices.IndexFunc(all, func(e watch.Event) bool { return e.Type == watch.Error || e.Type == "refused" })
	if end < 0 {
		return all
	}
	return all[:end]
}
