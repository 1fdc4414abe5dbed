// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package informer

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// largeVersion is a version of a ConfigMap of about 100 KiB.
func largeVersion(version int) map[string]string {
	return map[string]string{"small": fmt.Sprintf("version %d", version), "large": strings.Repeat("large ", 1<<14) + fmt.Sprint(version)}
}

// A part of an object that a handler keeps must not keep the object: here the key of a queue and a
// string of each of many versions.
func TestInformerKeptStringsKeepLittle(t *testing.T) {
	const versions = 100
	typed := func(version int) client.Object {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}, Data: largeVersion(version)}
	}
	content := func(version int) client.Object {
		data := map[string]any{}
		for k, v := range largeVersion(version) {
			data[k] = v
		}
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": "ns", "name": "a"}, "data": data,
		}}
	}
	small := func(obj any) string {
		if typed, ok := obj.(*corev1.ConfigMap); ok {
			return typed.Data["small"]
		}
		s, _, _ := unstructured.NestedString(obj.(*unstructured.Unstructured).Object, "data", "small")
		return s
	}
	type keptKey struct {
		types.NamespacedName
		small string
	}
	for name, of := range map[string]func(int) client.Object{"typed": typed, "unstructured": content} {
		t.Run(name, func(t *testing.T) {
			example := of(0).DeepCopyObject()
			if u, ok := example.(*unstructured.Unstructured); ok {
				delete(u.Object, "data")
			}
			for _, impl := range fewEvents() {
				t.Run(impl.name, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						r := newRig(t, impl, setting{example: example}, true)
						var kept []keptKey
						r.handle(toolscache.ResourceEventHandlerFuncs{UpdateFunc: func(old, _ any) {
							kept = append(kept, keptKey{client.ObjectKeyFromObject(old.(client.Object)), small(old)})
						}})
						r.start()
						r.server.put(of(0))
						r.settle()
						before := heap()
						for version := range versions {
							r.server.put(of(version + 1))
							r.server.forget()
							r.settle()
						}
						r.Expect(heap()-before).To(BeNumerically("<", 4<<20), "ten of %d versions take 1 MiB", versions)
						r.Expect(kept).To(HaveLen(versions))
						r.Expect(kept[7]).To(Equal(keptKey{types.NamespacedName{Namespace: "ns", Name: "a"}, "version 7"}))
					})
				})
			}
		})
	}
}

// fewEvents returns client-go's informer, and ours with a window that hardly keeps any object.
func fewEvents() []implementation {
	short := func(how delivered) func(*server, setting) toolscache.SharedIndexInformer {
		return func(s *server, want setting) toolscache.SharedIndexInformer {
			i, err := New(sourceOf(s, how), Options{Example: want.example, Verify: true, Window: 4})
			if err != nil {
				panic(err)
			}
			return i
		}
	}
	return []implementation{
		{name: "client-go", new: newClientGoInformer}, {name: "flat", new: short(asReceived)},
		{name: "decoded events", new: short(asDecodedEvents)}, {name: "messages", new: short(asMessages)},
	}
}
