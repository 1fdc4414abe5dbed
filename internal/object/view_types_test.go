// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package object_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	jsonserializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/intstr"
	kjson "sigs.k8s.io/json"

	"github.com/tarn-dev/tarn/internal/object"
)

// typed is an object with a spec of some Go type, and a field that nobody else sees.
type typed[S any] struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              S `json:"spec,omitempty"`
	//lint:ignore U1000 a conversion by reflection stumbles over it
	hidden *int
}

// DeepCopyObject implements runtime.Object.
func (t *typed[S]) DeepCopyObject() runtime.Object { out := *t; return &out }

type (
	hex      uint8 // UnmarshalText, also as the key of a map
	mood     struct{ text string }
	embedded struct {
		Depth int16 `json:"depth"`
		sealed
	}
	sealed       struct{ Open bool } // its type is not exported
	numberOrText struct {
		number *int64
		text   string
	}
)

func (h *hex) UnmarshalText(text []byte) error {
	n, err := fmt.Sscanf(string(text), "0x%x", h)
	if n == 0 || err != nil {
		return fmt.Errorf("%q is not hexadecimal", text)
	}
	return nil
}

func (m *mood) UnmarshalText(text []byte) error { m.text = strings.ToUpper(string(text)); return nil }

func (e *numberOrText) UnmarshalJSON(data []byte) error {
	if json.Unmarshal(data, &e.number) == nil {
		return nil
	}
	if json.Unmarshal(data, &e.text) != nil {
		return errors.New("neither a number nor a text")
	}
	return nil
}

// shape is a Go type, and what it is made of.
type shape struct {
	empty func() runtime.Object
	specs []string
}

func shaped[S any](specs ...string) shape {
	return shape{func() runtime.Object { return &typed[S]{} }, specs}
}

// numbers fit some types of numbers.
var numbers = []string{
	`0`, `-1`, `127`, `128`, `255`, `256`, `-129`, `32768`, `65536`, `2147483647`, `2147483648`, `3000000000`, `4294967296`,
	`9223372036854775807`, `9223372036854775808`, `18446744073709551615`, `1.5`, `1e3`, `1e40`, `1e300`, `-0`, `"1"`, `""`, `null`, `true`, `{}`, `[]`,
}

// shapes are Go types whose fields are odd, with what fits and what does not.
var shapes = map[string]shape{
	"int8": shaped[int8](numbers...), "int16": shaped[int16](numbers...), "int32": shaped[int32](numbers...),
	"int64": shaped[int64](numbers...), "int": shaped[int](numbers...), "uint8": shaped[uint8](numbers...),
	"uint32": shaped[uint32](numbers...), "uint64": shaped[uint64](numbers...), "float32": shaped[float32](numbers...),
	"float64": shaped[float64](numbers...), "json.Number": shaped[json.Number](numbers...), "any": shaped[any](numbers...),
	"pointer to a pointer": shaped[**int32](numbers...), "duration": shaped[time.Duration](numbers...),
	"string": shaped[struct {
		Count int32  `json:"count,string"`
		On    bool   `json:"on,string"`
		Text  string `json:"text,string"`
	}](`{"count":"7","on":"true","text":"\"x\""}`, `{"count":7}`, `{"count":"3000000000"}`, `{"count":"a"}`, `{"text":"x"}`, `{"on":null}`),
	"text":           shaped[mood](`"good"`, `""`, `5`, `{}`, `null`),
	"text as number": shaped[hex](`"0x1f"`, `"1f"`, `31`, `"0x1ff"`),
	"keys that are texts": shaped[map[hex]mood](
		`{"0x1":"good","0xff":"bad"}`, `{"one":"good"}`, `{"0x1":1}`, `null`, `{}`),
	"keys that are numbers": shaped[map[int8]string](`{"1":"a","-2":"b"}`, `{"300":"a"}`, `{"a":"b"}`, `{"1":2}`, `{}`),
	"keys of a big number":  shaped[map[uint64]bool](`{"18446744073709551615":true}`, `{"-1":true}`),
	"an array":              shaped[[3]int16](`[1,2,3]`, `[1]`, `[1,2,3,4]`, `[]`, `["a"]`, `[40000]`, `{}`, `null`),
	"bytes":                 shaped[[]byte](`"aGVsbG8="`, `"no base64!"`, `[1,2]`, `[300]`, `null`, `""`),
	"raw": shaped[struct {
		Raw json.RawMessage      `json:"raw"`
		Any runtime.RawExtension `json:"any"`
	}](`{"raw":{"b":1,"a":[1.5,"<&>"]},"any":{"kind":"K","apiVersion":"v1","z":null}}`, `{"raw":null,"any":null}`, `{"raw":3000000000,"any":"text"}`),
	"embedded": shaped[struct {
		embedded
		*sealed
	}](`{"depth":3}`, `{"depth":40000}`, `{"Open":true}`, `{"open":true}`),
	"what is not of JSON": shaped[struct {
		Channel chan int `json:"-"`
		Call    func()   `json:"-"`
		secret  any
		Named   int `json:"named"`
	}](`{"named":1,"secret":2,"Channel":3}`, `{"Named":1}`, `{"NAMED":1}`, `{}`),
	"a channel":    shaped[chan int](`1`, `null`),
	"an interface": shaped[fmt.Stringer](`1`, `null`, `{}`),
	"own decoder":  shaped[[]numberOrText](`[1,"a"]`, `[true]`, `[]`, `[null]`, `[3000000000]`),
	"of Kubernetes": shaped[struct {
		Quantity resource.Quantity     `json:"quantity"`
		Port     intstr.IntOrString    `json:"port"`
		Time     metav1.Time           `json:"time"`
		Micro    *metav1.MicroTime     `json:"micro"`
		For      metav1.Duration       `json:"for"`
		Selector *metav1.LabelSelector `json:"selector"`
	}](
		`{"quantity":"1500m","port":80,"time":"2026-01-02T03:04:05Z","micro":"2026-01-02T03:04:05.000006Z","for":"5s","selector":{"matchLabels":{"a":"b"}}}`,
		`{"quantity":7}`, `{"quantity":"x"}`, `{"port":"http"}`, `{"port":3000000000}`, `{"port":1.5}`, `{"time":null}`, `{"time":"then"}`, `{"for":5}`,
	),
	"nothing": shaped[struct{}](`{"a":1}`, `[]`, `1`, `null`),
	"deep": shaped[map[string][]*struct {
		Next map[string]int32 `json:"next"`
	}](`{"a":[{"next":{"b":1}},null]}`, `{"a":[{"next":{"b":3000000000}}]}`, `{"a":[[]]}`, `{"a":null}`),
}

var shapeKind = schema.GroupVersionKind{Group: "shapes.example.com", Version: "v1", Kind: "Shape"}

// wireOf returns the JSON of an object with a spec as an API server writes it, which keeps unstructured objects.
func wireOf(g *WithT, spec string) []byte {
	u := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{
		"name": "a", "namespace": "ns", "resourceVersion": "5", "generation": int64(3), "creationTimestamp": "2026-01-02T03:04:05Z",
		"labels": map[string]any{"l": "v"}, "annotations": map[string]any{},
	}}}
	u.SetGroupVersionKind(shapeKind)
	var value any
	g.Expect(kjson.UnmarshalCaseSensitivePreserveInts([]byte(spec), &value)).To(Succeed())
	u.Object["spec"] = value
	wire, err := runtime.Encode(unstructured.UnstructuredJSONScheme, u)
	g.Expect(err).NotTo(HaveOccurred())
	return wire
}

// decoded is what client-go's decoder makes of what was received.
func decoded(wire []byte, empty runtime.Object) (runtime.Object, error) {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(shapeKind, empty)
	made, _, err := jsonserializer.NewSerializerWithOptions(jsonserializer.DefaultMetaFactory, scheme, scheme, jsonserializer.SerializerOptions{}).Decode(wire, nil, nil)
	return made, err
}

// seesWhatIsDecoded compares what a view makes of what was received with what client-go's decoder makes of it. It reports
// whether the object fits.
func seesWhatIsDecoded(g *WithT, form *object.Form, wire []byte, empty func() runtime.Object) bool {
	received, _, err := unstructured.UnstructuredJSONScheme.Decode(wire, nil, nil)
	g.Expect(err).NotTo(HaveOccurred())
	kept := form.Keep(received)
	want, decodeError := decoded(wire, empty())
	view, err := form.As(reflect.TypeOf(empty()))
	g.Expect(err).NotTo(HaveOccurred())

	into := empty()
	into.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{Kind: "left over"})
	made := map[string]func() (any, error){
		"Of":          func() (any, error) { return view.Of(received) },
		"Materialize": func() (any, error) { return view.Materialize(kept) },
		"Copy":        func() (any, error) { return view.Copy(kept) },
		"CopyInto":    func() (any, error) { return into, view.CopyInto(kept, into) },
	}
	for name, f := range made {
		got, err := f()
		if decodeError != nil {
			g.Expect(err).To(MatchError(And(ContainSubstring("Shape ns/a does not fit %T", empty()), ContainSubstring(decodeError.Error()))), "%s of %s", name, wire)
			continue
		}
		g.Expect(err).NotTo(HaveOccurred(), "%s of %s", name, wire)
		g.Expect(got).To(Equal(want), "%s of %s", name, wire)
	}
	if decodeError != nil {
		g.Expect(into).To(Equal(empty()), "nothing is half made")
	}
	return decodeError == nil
}

// TestAViewIsWhatTheDecoderMakes of what was received, or an error where that is one.
func TestAViewIsWhatTheDecoderMakes(t *testing.T) {
	for _, keep := range []bool{false, true} {
		form := object.NewForm(object.Options{Type: reflect.TypeFor[*unstructured.Unstructured](), Decoded: keep, Verify: true})
		for name, s := range shapes {
			t.Run(fmt.Sprintf("%s, decoded=%t", name, keep), func(t *testing.T) {
				g := NewWithT(t)
				for _, spec := range s.specs {
					seesWhatIsDecoded(g, form, wireOf(g, spec), s.empty)
				}
			})
		}
	}
}

// dynamic decodes into a random Go type.
type dynamic struct{ value any }

// dynamicType is the Go type that a dynamic decodes into.
var dynamicType reflect.Type

func (d *dynamic) UnmarshalJSON(data []byte) error {
	into := reflect.New(dynamicType)
	err := kjson.UnmarshalCaseSensitivePreserveInts(data, into.Interface())
	d.value = into.Interface()
	return err
}

// leaves are the types that random ones are made of.
var leaves = []reflect.Type{
	reflect.TypeFor[int8](), reflect.TypeFor[int32](), reflect.TypeFor[int64](), reflect.TypeFor[uint16](), reflect.TypeFor[uint64](),
	reflect.TypeFor[float32](), reflect.TypeFor[float64](), reflect.TypeFor[bool](), reflect.TypeFor[string](), reflect.TypeFor[[]byte](),
	reflect.TypeFor[any](), reflect.TypeFor[json.RawMessage](), reflect.TypeFor[json.Number](), reflect.TypeFor[hex](), reflect.TypeFor[mood](),
	reflect.TypeFor[metav1.Time](), reflect.TypeFor[resource.Quantity](), reflect.TypeFor[intstr.IntOrString](), reflect.TypeFor[numberOrText](),
}

// randomType returns a random Go type.
func randomType(random *rand.Rand, depth int) reflect.Type {
	if depth == 0 {
		return leaves[random.IntN(len(leaves))]
	}
	inner := randomType(random, random.IntN(depth))
	switch random.IntN(6) {
	case 0:
		return reflect.SliceOf(inner)
	case 1:
		return reflect.ArrayOf(random.IntN(4), inner)
	case 2:
		keys := []reflect.Type{reflect.TypeFor[string](), reflect.TypeFor[int8](), reflect.TypeFor[uint](), reflect.TypeFor[hex]()}
		return reflect.MapOf(keys[random.IntN(len(keys))], inner)
	case 3:
		return reflect.PointerTo(inner)
	}
	var fields []reflect.StructField
	for n := range random.IntN(5) {
		tags := []string{fmt.Sprintf(`json:"f%d"`, n), fmt.Sprintf(`json:"f%d,omitempty"`, n), fmt.Sprintf(`json:"f%d,string"`, n), `json:"-"`, ""}
		fields = append(fields, reflect.StructField{
			Name: fmt.Sprintf("F%d", n), Type: randomType(random, random.IntN(depth)), Tag: reflect.StructTag(tags[random.IntN(len(tags))]),
		})
	}
	return reflect.StructOf(fields)
}

// randomValue returns a random value of JSON, which often fits a type.
func randomValue(random *rand.Rand, t reflect.Type) any {
	if random.IntN(25) == 0 {
		var value any
		_ = json.Unmarshal([]byte(numbers[random.IntN(len(numbers))]), &value)
		return value
	}
	switch t.Kind() {
	case reflect.Pointer:
		return randomValue(random, t.Elem())
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return []any{"aGVsbG8=", "", "&<>"}[random.IntN(3)]
		}
		values := []any{}
		for range random.IntN(4) {
			values = append(values, randomValue(random, t.Elem()))
		}
		return values
	case reflect.Map:
		values := map[string]any{}
		for range random.IntN(3) {
			values[[]string{"1", "0x2", "-3", "key"}[random.IntN(4)]] = randomValue(random, t.Elem())
		}
		return values
	case reflect.Struct:
		if leaf := []any{"2026-01-02T03:04:05Z", "1500m", "text", int64(random.IntN(500))}; t.NumField() > 0 && t.Field(0).Name != "F0" {
			return leaf[random.IntN(len(leaf))]
		}
		values := map[string]any{}
		for n := range t.NumField() {
			values[fmt.Sprint([]string{"f", "F"}[random.IntN(2)], n)] = randomValue(random, t.Field(n).Type)
		}
		return values
	case reflect.String:
		return []any{"text", "", `"quoted" \ <b> é 世`, "5"}[random.IntN(4)]
	case reflect.Bool:
		return random.IntN(2) == 0
	}
	return []any{int64(random.IntN(300)), int64(random.Uint32()), random.Float64(), int64(random.Uint64())}[random.IntN(4)]
}

// TestAViewIsWhatTheDecoderMakesOfRandomTypes compares random objects of random Go types.
func TestAViewIsWhatTheDecoderMakesOfRandomTypes(t *testing.T) {
	random := newRandom(t)
	g := NewWithT(t)
	form := object.NewForm(object.Options{Type: reflect.TypeFor[*unstructured.Unstructured](), Verify: true})
	fit, unfit := 0, 0
	for range 400 {
		dynamicType = randomType(random, 3)
		for range 5 {
			spec, err := json.Marshal(randomValue(random, dynamicType))
			g.Expect(err).NotTo(HaveOccurred())
			if seesWhatIsDecoded(g, form, wireOf(g, string(spec)), func() runtime.Object { return &typed[dynamic]{} }) {
				fit++
			} else {
				unfit++
			}
		}
	}
	g.Expect(min(fit, unfit)).To(BeNumerically(">", 100), "%d fit and %d do not", fit, unfit)
}
