// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cacher

import (
	"encoding/json"
	"fmt"
	goruntime "runtime"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/utils/ptr"

	"github.com/tarn-dev/tarn/internal/object"
	"github.com/tarn-dev/tarn/internal/variable"
)

// heap returns the bytes that are reachable.
func heap() int {
	for range 3 { // finalizers, and pools that live for two collections
		goruntime.GC()
	}
	var m goruntime.MemStats
	goruntime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

func text(n, length int) string { return strings.Repeat(fmt.Sprintf("%08d", n), length/8) }

// Each of these makes the n-th version of an object, about all of whose memory is its own.

func internalPod(n int) runtime.Object {
	return &example.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "a", Name: "one", Annotations: map[string]string{"text": text(n, 1<<18)},
	}}
}

func configMap(n int) runtime.Object {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "one"},
		Data:       map[string]string{"text": text(n, 1<<17)},
		BinaryData: map[string][]byte{"bytes": []byte(text(n, 1<<17))},
	}
}

func customObject(n int) runtime.Object {
	content := map[string]any{"number": int64(n) + 1000, "real": 1.5, "flag": true, "nothing": nil}
	var list []any
	for i := range 1000 {
		list = append(list, map[string]any{"name": text(n, 16), "key": text(i, 32), "port": int64(8080)})
	}
	content["list"] = list
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Thing", "metadata": map[string]any{"namespace": "a", "name": "one"}, "spec": content,
	}}
}

// pod has memory of its own for each of its values, as a decoder makes it.
func pod(n int) runtime.Object {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "a", Name: "one", Labels: map[string]string{"app": text(n, 16)}, CreationTimestamp: metav1.Now(),
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubelet", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(text(n, 512))}},
	}}
	for i := range 5 {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{
			Name: fmt.Sprint("container-", i), Image: text(n, 64), Args: []string{text(n, 32), text(i, 32)},
			Env: []corev1.EnvVar{{Name: text(n, 16), ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: text(i, 16)}}}},
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("128Mi")},
			},
		})
	}
	encoded, err := p.Marshal()
	if err == nil {
		p = &corev1.Pod{}
		err = p.Unmarshal(encoded)
	}
	if err != nil {
		panic(err)
	}
	return p
}

// definition is of a type that refers to itself.
func definition(n int) runtime.Object {
	schema := apiextensions.JSONSchemaProps{Description: text(n, 1024)}
	for i := range 8 {
		schema = apiextensions.JSONSchemaProps{
			Properties: map[string]apiextensions.JSONSchemaProps{fmt.Sprint("a", i): schema, fmt.Sprint("b", i): {Description: text(n, 256)}},
		}
	}
	made := &apiextensions.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "one"}}
	made.Spec.Versions = []apiextensions.CustomResourceDefinitionVersion{{Schema: &apiextensions.CustomResourceValidation{OpenAPIV3Schema: &schema}}}
	encoded, err := json.Marshal(made)
	if err == nil {
		made = &apiextensions.CustomResourceDefinition{}
		err = json.Unmarshal(encoded, made)
	}
	if err != nil {
		panic(err)
	}
	return made
}

// TestMemoryOfObjects compares what is said of objects with what the heap says.
func TestMemoryOfObjects(t *testing.T) {
	variable.SkipUnderDetector(t, "one goroutine writes")
	for name, create := range map[string]func(int) runtime.Object{
		"internal type": internalPod, "ConfigMap": configMap, "unstructured": customObject, "Pod": pod, "recursive type": definition,
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			object.MemoryOf(create(0))
			kept := make([]runtime.Object, 200)
			before, said := heap(), 0
			for n := range kept {
				kept[n] = create(n)
			}
			held := heap() - before
			for _, obj := range kept {
				said += object.MemoryOf(obj)
			}
			t.Logf("%d bytes each, the heap says %d", said/len(kept), held/len(kept))
			g.Expect(float64(said) / float64(held)).To(BeNumerically("~", 1, 0.3))
			goruntime.KeepAlive(kept)
		})
	}
}

// TestHistoryBytes writes versions of one object whose memory is many times what the history
// may hold: it holds about that much, whatever the type and the form of the objects, and though
// these are few.
func TestHistoryBytes(t *testing.T) {
	variable.SkipUnderDetector(t, "one goroutine writes")
	const bound = 16 << 20
	for name, test := range map[string]struct {
		create func(int) runtime.Object
		flat   bool
		writes int
	}{
		"internal type":       {internalPod, false, 300},
		"internal type, flat": {internalPod, true, 300},
		"ConfigMap":           {configMap, false, 300},
		"Pod":                 {pod, false, 5000},
		"Pod, flat":           {pod, true, 40_000},
		"unstructured":        {customObject, false, 300},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			c := idle(t, func(config *Config) {
				config.NewFunc = func() runtime.Object { return test.create(0).DeepCopyObject() }
				config.Decoded, config.HistoryBytes = ptr.To(!test.flat), bound
			})
			in := c.reflectorStore
			before := heap()
			for n := range test.writes {
				obj := test.create(n)
				obj.(metav1.Object).SetResourceVersion(fmt.Sprint(101 + n))
				g.Expect(in.Update(obj)).To(Succeed())
			}
			held := heap() - before
			t.Logf("%d versions are kept in %.1f MiB", 100+test.writes-int(c.engine.Oldest()), float64(held)/(1<<20))
			g.Expect(held).To(BeNumerically("<", bound*3/2), "the bound is for what events hold, their places come on top")
			g.Expect(held).To(BeNumerically(">", bound/2))
			goruntime.KeepAlive(c)
		})
	}
}

// TestHistoryBudget writes large objects into Cachers that share a budget, and stops them one after the other.
func TestHistoryBudget(t *testing.T) {
	g := NewWithT(t)
	const bound = 16 << 20
	budget := NewHistoryBudget(bound)
	var cachers []*Cacher
	before := heap()
	for range 4 {
		c := idle(t, func(config *Config) {
			config.NewFunc = func() runtime.Object { return configMap(0).DeepCopyObject() }
			config.HistoryBudget = budget
		})
		cachers = append(cachers, c)
		for n := range 300 {
			obj := configMap(n)
			obj.(metav1.Object).SetResourceVersion(fmt.Sprint(101 + n))
			g.Expect(c.reflectorStore.Update(obj)).To(Succeed())
		}
		g.Expect(budget.Held()).To(And(BeNumerically(">", bound/4), BeNumerically("<=", bound)))
		_, kept := c.engine.Position(101 + 300 - 5)
		g.Expect(kept).To(BeTrue(), "there is room for who comes last")
	}
	g.Expect(heap() - before).To(BeNumerically("<", bound*3/2))
	for _, c := range cachers {
		c.lifetime.stop = func() {} // nothing runs
		c.Stop()
	}
	g.Expect(budget.Held()).To(BeZero())
}

// BenchmarkMemoryOf measures what it takes to say how large an object is.
func BenchmarkMemoryOf(b *testing.B) {
	for name, obj := range map[string]runtime.Object{"Pod": pod(1), "unstructured": customObject(1), "ConfigMap": configMap(1)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				object.MemoryOf(obj)
			}
		})
	}
	b.Run("Pod by protobuf", func(b *testing.B) {
		obj := pod(1).(*corev1.Pod)
		for range b.N {
			obj.Size()
		}
	})
}
