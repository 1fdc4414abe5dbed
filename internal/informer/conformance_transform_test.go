// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informer

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
)

// stamp marks an object each time that it is transformed.
func stamp(obj any) (any, error) {
	cm := obj.(*corev1.ConfigMap)
	cm.Data["value"] += "*"
	return cm, nil
}

// listStamp is what a list leaves in each object: client-go transforms what it
// received by a streaming list twice.
func (r *rig) listStamp() string {
	if r.server.streaming && !r.impl.ours {
		return "**"
	}
	return "*"
}

func TestInformerTransformsWhatItReceivesOnce(t *testing.T) {
	eachInformer(t, setting{resync: time.Minute}, func(r *rig) {
		listed := r.listStamp()
		r.Expect(r.informer.SetTransform(stamp)).To(Succeed())
		h := &recording{}
		r.handleEvery(0, h)
		r.server.put(configMap("ns/a", "1"), configMap("ns/b", "1"))
		r.start()
		r.Expect(h.take()).To(ConsistOf("initial ns/a=1"+listed, "initial ns/b=1"+listed))

		r.server.put(configMap("ns/a", "2"), configMap("ns/c", "1"))
		r.server.remove("ns/a")
		r.settle()
		r.Expect(h.take()).To(Equal([]string{
			"update ns/a=1" + listed + ">2*", "add ns/c=1*", "delete ns/a=2*",
		}))

		r.elapse(90 * time.Second) // a resync receives nothing
		r.relist(func() {
			r.server.put(configMap("ns/c", "2"), configMap("ns/d", "1"))
			r.server.remove("ns/b")
		})
		r.Expect(h.take()).To(ConsistOf(
			"missed delete ns/b=1"+listed, "update ns/c=1*>2"+listed, "add ns/d=1"+listed,
		))
		r.Expect(describeAll(r.informer.GetStore().List())).To(Equal([]string{"ns/c=2" + listed, "ns/d=1" + listed}))
	})
}

func TestInformerKeepsWhatATransformReturns(t *testing.T) {
	eachInformer(t, setting{indexers: toolscache.Indexers{"value": byValue}}, func(r *rig) {
		r.Expect(r.informer.SetTransform(func(obj any) (any, error) {
			original := obj.(*corev1.ConfigMap)
			other := configMap(keyOf(original), "other")
			other.ResourceVersion = original.ResourceVersion
			return other, nil
		})).To(Succeed())
		h := &recording{}
		r.handle(h)
		r.server.put(configMap("ns/a", "1"))
		r.start()
		r.Expect(h.take()).To(Equal([]string{"initial ns/a=other"}))
		r.Expect(r.informer.GetIndexer().IndexKeys("value", "other")).To(Equal([]string{"ns/a"}))
		r.Expect(r.informer.GetIndexer().IndexKeys("value", "1")).To(BeEmpty())
	})
}

func TestInformerDoesNotTransformAgainForALateHandler(t *testing.T) {
	eachInformer(t, setting{}, func(r *rig) {
		r.Expect(r.informer.SetTransform(stamp)).To(Succeed())
		r.start()
		r.server.put(configMap("ns/a", "1"))
		r.settle()
		for range 2 {
			h := &recording{}
			r.handle(h)
			r.settle()
			r.Expect(h.take()).To(Equal([]string{"initial ns/a=1*"}))
		}
	})
}
