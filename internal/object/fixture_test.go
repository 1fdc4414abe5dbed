// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package object_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/internal/object"
)

// newRandom returns a source of random numbers, and prints its seed.
func newRandom(t testing.TB) *rand.Rand {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// form is a form under test, with objects of its type.
type form struct {
	*object.Form
	name   string
	flat   bool
	random func(*rand.Rand) client.Object
}

// forms are the ways in which objects are kept, each with fresh state.
func forms() []form {
	of := func(name string, example client.Object, decoded bool, random func(*rand.Rand) client.Object) form {
		return form{name: name, flat: !decoded, random: random, Form: object.NewForm(object.Options{
			Type: reflect.TypeOf(example), Decoded: decoded, Verify: true,
		})}
	}
	return []form{
		of("flat Pods", &corev1.Pod{}, false, randomPod),
		of("decoded Pods", &corev1.Pod{}, true, randomPod),
		of("flat content", &unstructured.Unstructured{}, false, randomContent),
		of("decoded content", &unstructured.Unstructured{}, true, randomContent),
		of("flat metadata", &metav1.PartialObjectMetadata{}, false, randomMetadata),
		of("decoded metadata", &metav1.PartialObjectMetadata{}, true, randomMetadata),
	}
}

// empty returns an object of the form's type to copy into, with something in it that
// must be overwritten.
func (f form) empty() client.Object {
	into := reflect.New(reflect.TypeOf(f.random(rand.New(rand.NewPCG(1, 1)))).Elem()).Interface().(client.Object)
	if u, ok := into.(*unstructured.Unstructured); ok {
		u.Object = map[string]any{"left": "over"}
	}
	into.SetLabels(map[string]string{"left": "over"})
	into.SetFinalizers([]string{"left", "over"})
	return into
}

// some returns a string out of so many, or none.
func some(random *rand.Rand, of string, n int) string {
	if random.IntN(4) == 0 {
		return ""
	}
	return fmt.Sprint(of, random.IntN(n))
}

func someMap(random *rand.Rand, of string) map[string]string {
	switch random.IntN(5) {
	case 0:
		return nil
	case 1:
		return map[string]string{}
	}
	m := map[string]string{}
	for range random.IntN(5) {
		m[fmt.Sprint(of, random.IntN(8))] = some(random, "value", 6)
	}
	return m
}

func randomMeta(random *rand.Rand) metav1.ObjectMeta {
	m := metav1.ObjectMeta{
		Namespace: some(random, "namespace", 3), Name: fmt.Sprint("name", random.IntN(1000)),
		ResourceVersion: fmt.Sprint(random.IntN(1 << 30)), UID: "uid", Generation: random.Int64N(9),
		Labels: someMap(random, "label"), Annotations: someMap(random, "annotation"),
		CreationTimestamp: metav1.Unix(random.Int64N(1<<32), 0),
	}
	if random.IntN(2) == 0 {
		m.Finalizers = []string{some(random, "finalizer", 3), "last"}
		m.OwnerReferences = []metav1.OwnerReference{{Name: some(random, "owner", 5), Controller: new(bool)}}
		m.ManagedFields = []metav1.ManagedFieldsEntry{{
			Manager: "kubelet", FieldsV1: metav1.NewFieldsV1(`{"f:status":{}}`), Time: &metav1.Time{Time: time.Unix(1e9, 0)},
		}}
	}
	return m
}

func randomPod(random *rand.Rand) client.Object {
	pod := &corev1.Pod{ObjectMeta: randomMeta(random)}
	pod.Spec.NodeName = some(random, "node", 5)
	pod.Spec.NodeSelector = someMap(random, "zone")
	for range random.IntN(3) {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{
			Name: some(random, "container", 3), Args: []string{some(random, "arg", 9)},
			Env:       []corev1.EnvVar{{Name: "A", Value: some(random, "a", 9)}},
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("100m")}},
		})
	}
	return pod
}

func randomMetadata(random *rand.Rand) client.Object {
	return &metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}, ObjectMeta: randomMeta(random),
	}
}

// randomContent is a Pod as the dynamic client would decode it.
func randomContent(random *rand.Rand) client.Object {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(randomPod(random))
	if err != nil {
		panic(err)
	}
	content["status"] = map[string]any{"count": random.Int64N(5), "list": []any{"a", nil, true, 1.5, map[string]any{}}}
	return &unstructured.Unstructured{Object: content}
}

// spoil overwrites everything that can be reached from v and returns how many places
// it wrote to.
func spoil(v reflect.Value) (places int) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			places = spoil(v.Elem())
		}
	case reflect.Interface:
		if !v.IsNil() {
			inner := reflect.New(v.Elem().Type()).Elem()
			inner.Set(v.Elem())
			places = spoil(inner)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				places += spoil(v.Field(i))
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			places += spoil(v.Index(i))
		}
		if whole := v.Slice(0, v.Cap()); v.CanSet() && whole.Len() > 0 {
			whole.Index(whole.Len() - 1).SetZero()
			places++
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			value := reflect.New(v.Type().Elem()).Elem()
			value.Set(v.MapIndex(key))
			spoil(value)
			v.SetMapIndex(key, reflect.Zero(v.Type().Elem()))
			places++
		}
	case reflect.String:
		if v.CanSet() {
			v.SetString("spoilt")
			places++
		}
	}
	return places
}
