// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package flat_test

import (
	"errors"
	"fmt"
	"math/rand"
	"reflect"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/tarn-dev/tarn/internal/flat"
	"github.com/tarn-dev/tarn/internal/flat/dictionary"
)

// corpus returns codecs and an Object of each, with dictionaries in use.
func corpus(t testing.TB) ([]*flat.Codec, []flat.Object) {
	d, cl := dictionary.New(dictionary.Limits{}), newCluster(1)
	codecs := []*flat.Codec{podCodec(t), codecFor(t, reflect.TypeFor[unstructured.Unstructured]()), codecFor(t, reflect.TypeFor[everything]())}
	objects := make([]flat.Object, len(codecs))
	fill := newFiller(1)
	fill.MaxDepth(8)
	for range 20 {
		pod, e := cl.pod(1), &everything{}
		fill.Fill(e)
		for i, obj := range []any{pod, content(pod), e} {
			objects[i] = mustEncode(t, codecs[i], obj, d)
		}
	}
	return codecs, objects
}

// readAll reads everything that can be read of a damaged Object and uses it; nothing of this may
// panic or take unbounded memory.
func readAll(t testing.TB, c *flat.Codec, o, good flat.Object, like any) {
	for _, pair := range [][2]flat.Object{{o, good}, {good, o}, {o, o}} {
		beside := reflect.New(c.Type()).Interface()
		err := c.DecodeReusing(pair[0], beside, pair[1], like)
		if err != nil && !errors.Is(err, flat.ErrCorrupt) && !errors.Is(err, flat.ErrWrongType) {
			t.Fatal(err)
		}
		_, _ = c.Encode(beside, nil) // reads all of it
		if err != nil && pair[0] == good {
			t.Fatalf("an object cannot be read beside a damaged one: %v", err)
		}
	}
	into := reflect.New(c.Type())
	if err := c.Decode(o, into.Interface()); err != nil && !errors.Is(err, flat.ErrCorrupt) && !errors.Is(err, flat.ErrWrongType) {
		t.Fatal(err)
	}
	mutate(into.Elem())
	var m metav1.ObjectMeta
	_ = o.DecodeMetadata(&m)
	mutate(reflect.ValueOf(&m).Elem())
	_, _, _, _ = o.Name(), o.Namespace(), o.ResourceVersion(), o.UID()
	n := 0
	for k, v := range o.Labels() {
		n += len(k) + len(v)
	}
	_, _ = o.Annotation("absent")
}

// decoded returns what o holds.
func decoded(t testing.TB, c *flat.Codec, o flat.Object) any {
	into := reflect.New(c.Type()).Interface()
	if err := c.Decode(o, into); err != nil {
		t.Fatal(err)
	}
	return into
}

func FuzzDecode(f *testing.F) {
	codecs, objects := corpus(f)
	for i, o := range objects {
		f.Add(i, flat.Bytes(o))
	}
	f.Fuzz(func(t *testing.T, i int, data []byte) {
		i = int(uint(i) % uint(len(codecs)))
		if len(data) >= 2 {
			// Of the right type, or nothing but the refusal is tested.
			data = append(flat.Bytes(objects[i])[:2], data[2:]...)
		}
		readAll(t, codecs[i], flat.FromBytes(data, objects[i].Dictionary(), flat.Parts(objects[i])...), objects[i], decoded(t, codecs[i], objects[i]))
	})
}

func TestDamagedObjects(t *testing.T) {
	codecs, objects := corpus(t)
	for i, o := range objects {
		data, like := flat.Bytes(o), decoded(t, codecs[i], o)
		for n := 0; n < len(data); n += stride() {
			cut := flat.FromBytes(data[:n], o.Dictionary(), flat.Parts(o)...)
			readAll(t, codecs[i], cut, o, like)
			if err := codecs[i].Decode(cut, reflect.New(codecs[i].Type()).Interface()); err == nil {
				t.Fatalf("%v: the first %d of %d bytes were accepted", codecs[i].Type(), n, len(data))
			}
			for _, with := range []byte{0xff, data[n] ^ 1} {
				bad := append([]byte(nil), data...)
				bad[n] = with
				readAll(t, codecs[i], flat.FromBytes(bad, o.Dictionary(), flat.Parts(o)...), o, like)
			}
		}
		readAll(t, codecs[i], flat.FromBytes(data, nil, flat.Parts(o)...), o, like)
		readAll(t, codecs[i], flat.FromBytes(append(data, 0), o.Dictionary(), flat.Parts(o)...), o, like)
	}
}

// TestAZoneWithoutItsDictionary: a location that the dictionary keeps is looked for in none.
func TestAZoneWithoutItsDictionary(t *testing.T) {
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Skip("there are no time zones here:", err)
	}
	obj := &struct{ Time time.Time }{time.Unix(1e9, 0).In(zone)}
	c, d := codecFor(t, reflect.TypeOf(obj)), dictionary.New(dictionary.Limits{})
	o := mustEncode(t, c, obj, d)
	if err := c.Verify(obj, o); err != nil {
		t.Fatal(err)
	}
	if err := c.Decode(flat.FromBytes(flat.Bytes(o), nil), &struct{ Time time.Time }{}); !errors.Is(err, flat.ErrCorrupt) {
		t.Errorf("got %v, want ErrCorrupt", err)
	}
}

// TestDamagedParts cuts the parts of a large object at random places, damages them, and leaves
// some out.
func TestDamagedParts(t *testing.T) {
	r := rand.New(rand.NewSource(newSeed(t)))
	data := map[string]any{"long": text(0, 5000), "twice": text(0, 5000)}
	for i := range 200 {
		data[fmt.Sprint("key", i)] = text(i, 30)
	}
	c := codecFor(t, reflect.TypeFor[unstructured.Unstructured]())
	o := mustEncode(t, c, &unstructured.Unstructured{Object: map[string]any{"metadata": data, "also": data}}, nil)
	like, parts := decoded(t, c, o), flat.Parts(o)
	if len(parts) < 4 {
		t.Fatalf("it has %d parts", len(parts))
	}
	for range 1000 / stride() {
		bytes, bad := flat.Bytes(o), slices.Clone(parts)
		switch i := r.Intn(len(bad)); r.Intn(5) {
		case 0:
			bad = bad[:i]
		case 1:
			bad[i] = bad[i][:r.Intn(len(bad[i]))]
		case 2:
			bytes[2+r.Intn(len(bytes)-2)] = byte(r.Intn(256))
		default:
			part := []byte(bad[i])
			part[r.Intn(min(200, len(part)))] = byte(r.Intn(256))
			bad[i] = string(part)
		}
		readAll(t, c, flat.FromBytes(bytes, nil, bad...), o, like)
	}
}

func FuzzRoundTrip(f *testing.F) {
	for _, s := range []string{
		`{}`, `null`, `{"metadata":{"name":"n","labels":{"a":"b"}},"x":[1,2.5,-1e99,true,null,"text",{"a":{}}]}`,
		`{"a":[[],[[]],{}],"b":{"c":{"d":{"e":"text"}}},"f":"text"}`, `{"metadata":[],"n":9223372036854775807}`,
	} {
		f.Add([]byte(s))
	}
	c := codecFor(f, reflect.TypeFor[unstructured.Unstructured]())
	d := dictionary.New(dictionary.Limits{})
	f.Fuzz(func(t *testing.T, data []byte) {
		var u unstructured.Unstructured
		if json.Unmarshal(data, &u.Object) != nil {
			return
		}
		for _, d := range []*dictionary.Dictionary{nil, d} {
			o, err := c.Encode(&u, d)
			var value *flat.ValueError
			if errors.As(err, &value) {
				continue // nested too deep
			}
			var got unstructured.Unstructured
			if err := c.Decode(o, &got); err != nil || !reflect.DeepEqual(got, u) {
				t.Fatalf("%v became %v, %v", u, got, err)
			}
		}
	})
}
