// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cacher_test

import (
	"bytes"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"github.com/tarn-dev/tarn/pkg/cacher"
)

// TestSerializedOnce shows that an event is encoded once for all watchers, whether they get it
// from the dispatcher or come to it by themselves because they were slow.
func TestSerializedOnce(t *testing.T) {
	const watchers, updates = 10, 40 // more than a channel holds
	for name, o := range map[string]cacher.Options{"decoded": {}, "flat": {Decoded: ptr.To(false)}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memoryStorage, c *cacher.Cacher) {
				g := NewWithT(t)
				var watches []watch.Interface
				for range watchers {
					watches = append(watches, watchAll(t, c, everything("1")))
				}
				for n := range updates {
					s.put(numbered("one", n))
				}
				s.remove(podKey("default", "one"))
				synctest.Wait()
				var encoded atomic.Int32
				encode := func(obj runtime.Object, w io.Writer) error {
					encoded.Add(1)
					return exampleCodec().Encode(obj, w)
				}
				for range updates + 1 { // all read at the same speed
					var first []byte
					for _, w := range watches {
						event := <-w.ResultChan()
						var buffer bytes.Buffer
						g.Expect(event.Object.(runtime.CacheableObject).CacheEncode("protobuf", encode, &buffer)).To(Succeed())
						if first == nil {
							first = buffer.Bytes()
						}
						g.Expect(buffer.Bytes()).To(Equal(first))
					}
					synctest.Wait()
				}
				g.Expect(encoded.Load()).To(BeEquivalentTo(updates + 1))
			}, withOptions(o))
		})
	}
}
