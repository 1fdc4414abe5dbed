// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

import (
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

// requestCodecs decode what clients send, and then let the row read it.
type requestCodecs struct{ runtime.NegotiatedSerializer }

// DecoderToVersion returns a decoder that refuses what the row refuses.
func (c requestCodecs) DecoderToVersion(decoder runtime.Decoder, version runtime.GroupVersioner) runtime.Decoder {
	return requestDecoder{c.NegotiatedSerializer.DecoderToVersion(decoder, version)}
}

type requestDecoder struct{ runtime.Decoder }

func (d requestDecoder) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	obj, gvk, err := d.Decoder.Decode(data, defaults, into)
	if read := readHooks()[reflect.TypeOf(obj)]; read != nil && (err == nil || runtime.IsStrictDecodingError(err)) {
		if wrong := read(obj); wrong != nil {
			return nil, gvk, wrong
		}
	}
	return obj, gvk, err
}

// readHooks are the rows' hooks, by the Go type of their kind.
var readHooks = sync.OnceValue(func() map[reflect.Type]func(runtime.Object) error {
	hooks := map[reflect.Type]func(runtime.Object) error{}
	for _, k := range kinds() {
		if k.Hooks.Read != nil {
			hooks[reflect.TypeOf(kind.NewFunc(Scheme(), k.GVK)())] = k.Hooks.Read
		}
	}
	return hooks
})
