// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package flat_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand"
	randv2 "math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/tarn-dev/tarn/internal/flat/dictionary"
	"github.com/tarn-dev/tarn/internal/variable"
)

// mixed is a type with much in it that is no string.
type mixed struct {
	metav1.ObjectMeta
	Numbers []int64
	Words   []string
	Pointer *string
	Text    string
}

// large makes objects of about 100 KiB; those of two numbers have nothing in common but the
// keys. Any of them has strings of all lengths.
var large = map[string]func(n int) any{
	"one long value": func(n int) any {
		return &corev1.ConfigMap{ObjectMeta: largeMeta(n), Data: map[string]string{"small": fmt.Sprintf("v%07d", n), "large": text(n, 120<<10)}}
	},
	"many short values": func(n int) any {
		data := map[string]string{}
		for i := range 1500 {
			data[fmt.Sprint("key", i)] = text(n*1500+i, 60)
		}
		return &corev1.ConfigMap{ObjectMeta: largeMeta(n), Data: data}
	},
	"values of all lengths": func(n int) any { return &corev1.ConfigMap{ObjectMeta: largeMeta(n), Data: lengths(n)} },
	"bytes": func(n int) any {
		data := map[string][]byte{}
		for k, v := range lengths(n) {
			data[k] = []byte(v)
		}
		return &corev1.Secret{ObjectMeta: largeMeta(n), Data: data}
	},
	"content": func(n int) any {
		data := map[string]any{}
		for k, v := range lengths(n) {
			data[k] = v
		}
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "data": data, "number": json.Number(fmt.Sprint("1000", n)),
			"metadata": map[string]any{"namespace": fmt.Sprint("namespace", n), "name": fmt.Sprint("name", n)},
		}}
	},
	"numbers and a few strings": func(n int) any {
		m := &mixed{ObjectMeta: largeMeta(n), Numbers: make([]int64, 20_000), Words: []string{"", "w", fmt.Sprint(n % 100), text(n, 40)}, Text: "ab"}
		for i := range m.Numbers {
			m.Numbers[i] = int64(n+1)<<40 + int64(i)
		}
		word := fmt.Sprint("pointer", n)
		m.Pointer = &word
		return m
	},
}

func largeMeta(n int) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: fmt.Sprint("namespace", n), Name: fmt.Sprint("name", n), UID: "uid",
		Annotations: map[string]string{"long": text(-n, 5000), "again": fmt.Sprint("name", n), "zz": "1"},
	}
}

// lengths returns values of all lengths up to some KiB, the longer ones twice.
func lengths(n int) map[string]string {
	data := map[string]string{}
	for i := range 200 {
		data[fmt.Sprint("key", i)] = text(n*200+i, i)
	}
	for i := range 20 {
		data[fmt.Sprint("long", i)] = text(n*200+i, 300*i)
		data[fmt.Sprint("twice", i)] = data[fmt.Sprint("long", i)]
	}
	return data
}

// text returns a string of that length that no other n has, if it is long enough.
func text(n, length int) string {
	var b strings.Builder
	for r := randv2.New(randv2.NewPCG(uint64(n), 0)); b.Len() < length; {
		fmt.Fprintf(&b, "%x", r.Uint64())
	}
	return b.String()[:length]
}

// stringsOf returns the strings that can be reached from v, by where they stand.
func stringsOf(v reflect.Value, at string, found map[string]string) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			stringsOf(v.Elem(), at, found)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				stringsOf(v.Field(i), at+"."+v.Type().Field(i).Name, found)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			if v.Type().Elem().Kind() == reflect.Uint8 || v.Type().Elem().Kind() == reflect.Int64 {
				return
			}
			stringsOf(v.Index(i), fmt.Sprintf("%s[%d]", at, i), found)
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			stringsOf(k, fmt.Sprintf("%s key %v", at, k), found)
			stringsOf(v.MapIndex(k), fmt.Sprintf("%s[%v]", at, k), found)
		}
	case reflect.String:
		found[at] = v.String()
	}
}

// mostKept is the number of bytes that a kept string may keep in memory in addition to its own.
const mostKept = 4 << 10

// TestAKeptStringKeepsLittle keeps a string of each of some large objects that are gone then.
func TestAKeptStringKeepsLittle(t *testing.T) {
	variable.SkipUnderDetector(t, "it takes more of the heap")
	const versions = 60
	r := rand.New(rand.NewSource(newSeed(t)))
	for _, name := range slices.Sorted(maps.Keys(large)) {
		for _, withDictionary := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", dictionary ", withDictionary), func(t *testing.T) {
				kept, length, before := make([]string, 0, versions), 0, heap()
				var d *dictionary.Dictionary
				if withDictionary {
					d = dictionary.New(dictionary.Limits{})
				}
				for n := range versions {
					obj := large[name](n)
					c := codecFor(t, reflect.TypeOf(obj))
					o := mustEncode(t, c, obj, d)
					got := reflect.New(c.Type())
					if err := c.Decode(o, got.Interface()); err != nil || !reflect.DeepEqual(got.Interface(), obj) {
						t.Fatal(err, c.Verify(obj, o))
					}
					found := map[string]string{}
					stringsOf(got, "", found)
					places := slices.Sorted(maps.Keys(found))
					for _, s := range []string{found[places[r.Intn(len(places))]], o.Name()} {
						kept = append(kept, s)
						length += len(s)
					}
				}
				limit := length*5/4 + versions*2*mostKept + 1<<20
				if grown := heap() - before; grown > limit {
					t.Errorf("%d strings of %d bytes keep %d KiB, want at most %d", len(kept), length, grown>>10, limit>>10)
				}
				if !slices.Contains(kept, "name1") {
					t.Error("the names are gone")
				}
			})
		}
	}
}

// TestAKeptStringOfADictionaryKeepsLittle keeps a few of the strings of a dictionary that is gone.
func TestAKeptStringOfADictionaryKeepsLittle(t *testing.T) {
	c, d := codecFor(t, reflect.TypeFor[corev1.ConfigMap]()), dictionary.New(dictionary.Limits{})
	var kept []string
	before := heap()
	for n := range 40 {
		data := map[string]string{}
		for i := range 1000 {
			data[fmt.Sprint("key", i)] = text(n*1000+i, 200)
		}
		for twin := range 2 {
			o := mustEncode(t, c, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(n, twin)}, Data: data}, d)
			var got corev1.ConfigMap
			if err := c.Decode(o, &got); err != nil {
				t.Fatal(err)
			}
			kept = append(kept, got.Data["key0"], got.Data["key500"])
		}
	}
	if s := d.Stats(); s.Bytes < 6<<20 {
		t.Fatalf("only %d KiB are in the dictionary", s.Bytes>>10)
	}
	d = nil
	if grown, limit := heap()-before, len(kept)*(mostKept+200)+1<<20; grown > limit {
		t.Errorf("%d strings of 200 bytes keep %d KiB, want at most %d", len(kept), grown>>10, limit>>10)
	}
	if kept[0] != text(0, 200) {
		t.Error("the strings have changed")
	}
}

// TestKeptBytesKeepLittle: of a byte slice and of a number behind a pointer, too, more is kept
// than they take, as small ones share an allocation.
func TestKeptBytesKeepLittle(t *testing.T) {
	const versions = 100
	c := codecFor(t, reflect.TypeFor[corev1.Secret]())
	var kept [][]byte
	before := heap()
	for n := range versions {
		data := map[string][]byte{}
		for i := range 75 {
			data[fmt.Sprint("key", i)] = []byte(text(n*75+i, 2000))
		}
		data["small"] = []byte(text(n, 8))
		var got corev1.Secret
		if err := c.Decode(mustEncode(t, c, &corev1.Secret{Data: data}, nil), &got); err != nil {
			t.Fatal(err)
		}
		kept = append(kept, got.Data["small"])
	}
	if grown, limit := heap()-before, versions*3*mostKept+1<<20; grown > limit {
		t.Errorf("%d slices of 8 bytes keep %d KiB, want at most %d", versions, grown>>10, limit>>10)
	}
	if string(kept[1]) != text(1, 8) {
		t.Error("the bytes have changed")
	}
}

// TestAKeptContentStringKeepsLittle keeps strings as unstructured content holds them: boxed.
func TestAKeptContentStringKeepsLittle(t *testing.T) {
	const versions = 100
	c := codecFor(t, reflect.TypeFor[unstructured.Unstructured]())
	var kept []any
	before := heap()
	for n := range versions {
		obj := large["content"](n).(*unstructured.Unstructured)
		var got unstructured.Unstructured
		if err := c.Decode(mustEncode(t, c, obj, nil), &got); err != nil {
			t.Fatal(err)
		}
		value, _, _ := unstructured.NestedFieldNoCopy(got.Object, "data", "key8")
		kept = append(kept, value)
	}
	if grown, limit := heap()-before, versions*6*mostKept+1<<20; grown > limit {
		t.Errorf("%d strings of 8 bytes keep %d KiB, want at most %d", versions, grown>>10, limit>>10)
	}
	if kept[1] != text(1*200+8, 8) {
		t.Error("the strings have changed")
	}
}

// TestLargeObjectsAnswerAndCompare asks large objects for their metadata, and decodes them with
// reuse of objects of all sizes.
func TestLargeObjectsAnswerAndCompare(t *testing.T) {
	r := rand.New(rand.NewSource(newSeed(t)))
	for _, name := range slices.Sorted(maps.Keys(large)) {
		t.Run(name, func(t *testing.T) {
			d := dictionary.New(dictionary.Limits{})
			var cases reusingCases
			for n := range 4 {
				obj := large[name](n)
				c := codecFor(t, reflect.TypeOf(obj))
				o := mustEncode(t, c, obj, d)
				if err := c.Verify(obj, o); err != nil {
					t.Fatal(err)
				}
				if o.Size() < 50<<10 {
					t.Errorf("it has %d bytes", o.Size())
				}
				equal := reflect.New(c.Type()).Interface()
				if err := c.Decode(o, equal); err != nil {
					t.Fatal(err)
				}
				changed := reflect.New(c.Type()).Interface()
				_ = c.Decode(o, changed)
				changeOne(reflect.ValueOf(changed).Elem(), r)
				small := reflect.New(c.Type()).Interface()
				for what, like := range map[string]any{"its equal": equal, "a changed one": changed, "another": large[name](n + 1), "a small one": small} {
					cases.check(t, c, o, like, d, what)
				}
				cases.check(t, c, mustEncode(t, c, small, d), obj, d, "a large one")
				if moved, err := c.Reencode(o, nil); err != nil || c.Verify(obj, moved) != nil {
					t.Error("moving it:", err)
				}
			}
			cases.expectMost(t)
		})
	}
}

// BenchmarkLarge is BenchmarkPod for objects of about 100 KiB.
func BenchmarkLarge(b *testing.B) {
	for _, name := range slices.Sorted(maps.Keys(large)) {
		obj := large[name](1)
		c, d := codecFor(b, reflect.TypeOf(obj)), dictionary.New(dictionary.Limits{})
		mustEncode(b, c, large[name](0), d)
		o := mustEncode(b, c, obj, d)
		name = strings.ReplaceAll(name, " ", "_")
		b.Run(name+"/DeepCopy", func(b *testing.B) {
			if obj, ok := obj.(kruntime.Object); ok {
				timed(b, func(int) { obj.DeepCopyObject() })
			}
		})
		b.Run(name+"/Encode", func(b *testing.B) { timed(b, func(int) { mustEncode(b, c, obj, d) }) })
		b.Run(name+"/Decode", func(b *testing.B) {
			timed(b, func(int) {
				if err := c.Decode(o, reflect.New(c.Type()).Interface()); err != nil {
					b.Fatal(err)
				}
			})
		})
	}
}
