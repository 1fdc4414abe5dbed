// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package flat_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/tarn-dev/tarn/internal/flat/dictionary"
)

// copyOf encodes obj and returns what is decoded.
func copyOf[T any](t *testing.T, obj *T, d *dictionary.Dictionary) *T {
	t.Helper()
	c := codecFor(t, reflect.TypeFor[T]())
	o := mustEncode(t, c, obj, d)
	if err := c.Verify(obj, o); err != nil {
		t.Fatal(err)
	}
	out := new(T)
	if err := c.Decode(o, out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestTimes(t *testing.T) {
	type times struct {
		T time.Time
		M metav1.Time
		U metav1.MicroTime
		P *metav1.Time
		L []metav1.Time
	}
	berlin := mustLoad("Europe/Berlin")
	for name, at := range map[string]time.Time{
		"zero":           {},
		"zero, local":    time.Time{}.Local(),
		"epoch":          time.Unix(0, 0),
		"before 1970":    time.Unix(-1, 999_999_999),
		"after 2106":     time.Unix(1<<32, 0).UTC(),
		"nanoseconds":    time.Unix(1_790_000_000, 123_456_789),
		"UTC":            time.Unix(1_790_000_000, 0).UTC(),
		"fixed zone":     time.Unix(1_790_000_000, 5).In(time.FixedZone("CEST", 7200)),
		"unnamed zone":   time.Unix(1_790_000_000, 5).In(time.FixedZone("", -12_345)),
		"named location": time.Unix(1_790_000_000, 5).In(berlin),
		"monotonic":      time.Now(),
		"monotonic, UTC": time.Now().UTC(),
		"far away":       time.Unix(math.MaxInt64, 0),
		"longer ago":     time.Unix(math.MinInt64, 0),
	} {
		in := &times{T: at, M: metav1.NewTime(at), U: metav1.NewMicroTime(at), P: &metav1.Time{Time: at}, L: []metav1.Time{{}, {Time: at}}}
		out := copyOf(t, in, dictionary.New(dictionary.Limits{}))
		if out.T.String() != at.String() || !out.T.Equal(at) || out.L[1].Location().String() != at.Location().String() {
			t.Errorf("%s: got %v, want %v", name, out.T, at)
		}
		if at.Location() == berlin && out.T.Location() != berlin {
			t.Errorf("%s: the location is not the same one", name)
		}
	}
}

func TestQuantities(t *testing.T) {
	type quantities struct {
		Q resource.Quantity
		P *resource.Quantity
		M map[string]resource.Quantity
	}
	huge := resource.MustParse("1")
	huge.AsDec().SetUnscaledBig(new(big.Int).Lsh(big.NewInt(-7), 300)).SetScale(-9)
	canonical := resource.MustParse("1024Mi")
	cached, _ := canonical.MarshalJSON()
	_ = json.Unmarshal(cached, &canonical)
	for name, q := range map[string]resource.Quantity{
		"nothing":       {},
		"no format":     *resource.NewQuantity(5, ""),
		"odd format":    *resource.NewQuantity(5, "odd"),
		"zero, decimal": resource.MustParse("0"),
		"binary":        resource.MustParse("1.5Gi"),
		"exponent":      resource.MustParse("12e6"),
		"milli":         resource.MustParse("-100m"),
		"largest":       *resource.NewQuantity(math.MaxInt64, resource.DecimalSI),
		"least":         *resource.NewQuantity(math.MinInt64, resource.BinarySI),
		"big number":    huge,
		"cached string": canonical,
	} {
		in := &quantities{Q: q, P: &q, M: map[string]resource.Quantity{"a": q, "": {}}}
		out := copyOf(t, in, dictionary.New(dictionary.Limits{}))
		if out.Q.String() != q.String() || out.Q.Format != q.Format || out.Q.Cmp(q) != 0 || out.P.Cmp(q) != 0 {
			t.Errorf("%s: got %v, want %v", name, out.Q, q)
		}
	}
}

type everything struct {
	Bool    bool
	Bools   []bool
	Numbers struct {
		I   int
		I8  int8
		I16 int16
		I32 int32
		I64 int64
		U   uint
		U8  uint8
		U16 uint16
		U32 uint32
		U64 uint64
		F32 float32
		F64 float64
	}
	Pointers struct {
		B *bool
		I *int64
		S *string
		P **string
		L *[]string
		M *map[string]string
		E *struct{}
	}
	Lists struct {
		S  []string
		B  []byte
		BB [][]byte
		I  []int32
		P  []*string
		PP []*everything
		A  [3]*int
		LL [][][]string
		M  []map[string]string
	}
	Maps struct {
		S map[string]string
		B map[string][]byte
		I map[int8]string
		T map[bool]uint64
		E map[string]struct{}
		P map[string]*everything
		M map[string]map[string]string
	}
	Raw       runtime.RawExtension
	Unknown   runtime.Unknown
	IntOrStr  intstr.IntOrString
	IntOrStrs []intstr.IntOrString
	Duration  metav1.Duration
	Fields    metav1.FieldsV1
	JSON      apiextensionsv1.JSON
	Any       any
	Content   map[string]any
	Contents  map[string]map[string]any
}

func TestNilAndEmptyStayApart(t *testing.T) {
	d := dictionary.New(dictionary.Limits{})
	copyOf(t, &everything{}, d)
	e, text := &everything{}, ""
	list, mapping, pointer := []string{}, map[string]string{}, &text
	e.Bools = []bool{}
	e.Pointers.B, e.Pointers.I, e.Pointers.S = new(bool), new(int64), new(string)
	e.Pointers.P, e.Pointers.L, e.Pointers.M, e.Pointers.E = &pointer, &list, &mapping, &struct{}{}
	e.Lists.S, e.Lists.B, e.Lists.BB, e.Lists.I = []string{}, []byte{}, [][]byte{nil, {}}, []int32{}
	e.Lists.P, e.Lists.PP, e.Lists.LL = []*string{nil, &text}, []*everything{nil, {}}, [][][]string{nil, {}, {nil, {}, {""}}}
	e.Lists.M = []map[string]string{nil, {}, {"": ""}}
	e.Maps.S, e.Maps.B, e.Maps.I = map[string]string{}, map[string][]byte{"nil": nil, "empty": {}}, map[int8]string{}
	e.Maps.T, e.Maps.E = map[bool]uint64{false: 0, true: 1}, map[string]struct{}{"": {}}
	e.Maps.P, e.Maps.M = map[string]*everything{"nil": nil, "empty": {}}, map[string]map[string]string{"nil": nil, "empty": {}}
	e.Raw.Raw, e.Unknown.Raw, e.JSON.Raw = []byte{}, []byte{}, []byte{}
	e.Fields.SetRawBytes([]byte{})
	e.Any, e.Content = []any(nil), map[string]any{}
	e.Contents = map[string]map[string]any{"nil": nil, "empty": {}, "typed": {"nil": map[string]any(nil), "none": nil}}
	out := copyOf(t, e, d)
	if out.Lists.S == nil || out.Pointers.B == nil || out.Maps.S == nil || out.Lists.BB[0] != nil || out.Lists.BB[1] == nil {
		t.Errorf("nil and empty were confused: %+v", out)
	}
	var other *string
	e.Pointers.P = &other
	copyOf(t, e, d)
}

func TestExtremeNumbers(t *testing.T) {
	e := &everything{}
	n := &e.Numbers
	n.I, n.I8, n.I16, n.I32, n.I64 = math.MinInt, math.MinInt8, math.MinInt16, math.MinInt32, math.MinInt64
	n.U, n.U8, n.U16, n.U32, n.U64 = math.MaxUint, math.MaxUint8, math.MaxUint16, math.MaxUint32, math.MaxUint64
	n.F32, n.F64 = float32(math.Copysign(0, -1)), math.Copysign(0, -1)
	e.Any = []any{int64(math.MinInt64), int64(math.MaxInt64), math.Copysign(0, -1), math.Inf(-1), json.Number("1e999")}
	out := copyOf(t, e, nil)
	if !math.Signbit(float64(out.Numbers.F32)) || !math.Signbit(out.Numbers.F64) || !math.Signbit(out.Any.([]any)[2].(float64)) {
		t.Error("a negative zero lost its sign")
	}
	n.F32, n.F64 = float32(math.NaN()), math.NaN()
	c := codecFor(t, reflect.TypeFor[everything]())
	var nan everything
	if err := c.Decode(mustEncode(t, c, e, nil), &nan); err != nil || !math.IsNaN(nan.Numbers.F64) || !math.IsNaN(float64(nan.Numbers.F32)) {
		t.Errorf("NaN: %v, %v", nan.Numbers, err)
	}
}

func TestEverythingRoundTripsAndSharesNothing(t *testing.T) {
	fill, d := newFiller(newSeed(t)), dictionary.New(dictionary.Limits{})
	fill.MaxDepth(9)
	c := codecFor(t, reflect.TypeFor[everything]())
	for range 300 {
		e := &everything{}
		fill.Fill(e)
		o := mustEncode(t, c, e, d)
		var first everything
		if err := c.Decode(o, &first); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(e, &first) {
			t.Fatal(c.Verify(e, o))
		}
		mutate(reflect.ValueOf(&first).Elem())
		if err := c.Verify(e, o); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLargeByteSlices(t *testing.T) {
	d := dictionary.New(dictionary.Limits{})
	for _, n := range []int{0, 1, 127, 128, 4096, 4097, 100_000} {
		for _, fillWith := range []string{"x", `"k:{`, `"k:{}":`, `{"k:{\"a\":\"b\"}":{}}`} {
			raw := make([]byte, 0, n)
			for len(raw) < n {
				raw = append(raw, fillWith...)
			}
			for i := range 3 {
				m := &metav1.PartialObjectMetadata{}
				m.Name = string(rune('a' + i))
				m.ManagedFields = []metav1.ManagedFieldsEntry{{FieldsV1: metav1.NewFieldsV1(string(raw[:n]))}}
				copyOf(t, m, d)
			}
		}
	}
}

func TestLargeObjectsOfFewBytes(t *testing.T) {
	type item struct {
		Name   string
		Values [4]string
		Data   []byte
		Next   *item
	}
	type list struct{ Items [][]item }
	d := dictionary.New(dictionary.Limits{})
	one := item{Name: "name", Values: [4]string{"one", "two", "three", "four"}, Data: make([]byte, 3000), Next: &item{Name: "next"}}
	in := &list{}
	for range 200 {
		in.Items = append(in.Items, []item{one, one, one, one, one, one, one, one, one, one})
	}
	copyOf(t, in, nil)
	copyOf(t, in, d)
	type holder struct {
		metav1.ObjectMeta
		list
	}
	// The values of each level enter when two objects have brought them, unless the dictionary has
	// forgotten by then that the first did, which depends on the hashes.
	c, size := codecFor(t, reflect.TypeFor[holder]()), 0
	for n := range 50 {
		copyOf(t, &holder{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("name", n)}, list: *in}, d)
		if size = mustEncode(t, c, &holder{list: *in}, d).Size(); size <= 100 {
			return
		}
	}
	t.Errorf("what recurs as a whole takes %d bytes", size)
}

type (
	word   string
	tables struct {
		metav1.ObjectMeta
		Strings map[word]word
		Content map[word]any
		More    map[string]word
	}
)

// TestMapsWithNamedTypes: the check of such maps lets the real ones through, and they survive.
func TestMapsWithNamedTypes(t *testing.T) {
	in := &tables{Strings: map[word]word{}, Content: map[word]any{"a": []any{int64(1)}}, More: map[string]word{"a": "b"}}
	for _, s := range []word{"", "a", "bc", "def"} {
		for i := range 10 {
			in.Strings[s+word(rune('0'+i))] = s
		}
	}
	out := copyOf(t, in, nil)
	if out.Strings["def7"] != "def" || len(out.Strings) != 40 {
		t.Errorf("got %v", out.Strings)
	}
}
