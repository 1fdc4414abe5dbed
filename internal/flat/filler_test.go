// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package flat_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"math/rand"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/randfill"
)

// newSeed returns a seed and prints it, so that a failure can be repeated with it.
func newSeed(t testing.TB) int64 {
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	return seed
}

// filler fills objects with random values, the awkward ones of special types among them.
type filler struct {
	*randfill.Filler
	schemas int // depth of nested schemas, which would grow without bound
}

func newFiller(seed int64) *filler {
	f := &filler{}
	f.Filler = randfill.NewWithSeed(seed).NilChance(0.4).NumElements(0, 3).MaxDepth(40).Funcs(
		fillString, fillTime, fillTimeOfMeta, fillTimeOfMicro, fillQuantity, fillFloat,
		func(v *any, c randfill.Continue) { *v = randomContent(c.Rand, 3) },
		func(r *runtime.RawExtension, c randfill.Continue) { c.Fill(&r.Raw) },
		func(s *apiextensionsv1.JSONSchemaProps, c randfill.Continue) { f.schema(s, c) },
		func(s *apiextensionsv1beta1.JSONSchemaProps, c randfill.Continue) { f.schema(s, c) },
	)
	return f
}

// schema fills a schema; deeper down it stays empty.
func (f *filler) schema(s any, c randfill.Continue) {
	if f.schemas > 1 || c.Intn(3) == 0 {
		return
	}
	f.schemas++
	c.FillNoCustom(s)
	f.schemas--
}

// fillString draws from few values often, so that the dictionary and references come into play.
func fillString(s *string, c randfill.Continue) {
	switch c.Intn(4) {
	case 0:
		*s = ""
	case 1:
		*s = fmt.Sprintf("recurring-%d", c.Intn(50))
	default:
		*s = c.String(20)
	}
}

var zones = []*time.Location{time.UTC, time.Local, time.FixedZone("", 3600), time.FixedZone("ODD", -4321), mustLoad("Europe/Berlin"), mustLoad("America/New_York")}

func mustLoad(name string) *time.Location {
	l, err := time.LoadLocation(name)
	if err != nil {
		return time.FixedZone(name, 0)
	}
	return l
}

func randomTime(r *rand.Rand) time.Time {
	switch r.Intn(6) {
	case 0:
		return time.Time{}
	case 1:
		return time.Now()
	case 2:
		return time.Unix(r.Int63n(1<<33)-1<<32, r.Int63n(1e9)).In(zones[r.Intn(len(zones))])
	case 3:
		return time.Unix(r.Int63n(1<<40)-1<<39, 0).UTC()
	default:
		return time.Unix(r.Int63n(1<<32), 0)
	}
}

func fillTime(t *time.Time, c randfill.Continue)               { *t = randomTime(c.Rand) }
func fillTimeOfMeta(t *metav1.Time, c randfill.Continue)       { t.Time = randomTime(c.Rand) }
func fillTimeOfMicro(t *metav1.MicroTime, c randfill.Continue) { t.Time = randomTime(c.Rand) }

func fillFloat(f *float64, c randfill.Continue) {
	*f = []float64{0, math.Copysign(0, -1), 1.5, math.Inf(1), c.NormFloat64()}[c.Intn(5)]
}

var quantities = []string{"0", "1", "100m", "1.5Gi", "12e6", "3n", "-5", "9223372036854775807", "0.000001", "1E", "12345678901234567890123", "1e-9"}

func fillQuantity(q *resource.Quantity, c randfill.Continue) {
	switch c.Intn(8) {
	case 0:
		*q = resource.Quantity{}
	case 1: // a decimal of any size
		*q = resource.MustParse("1")
		q.AsDec().SetUnscaledBig(new(big.Int).Lsh(big.NewInt(c.Int63()), uint(c.Intn(200)))).SetScale(-3)
	case 2: // with its string cached
		*q = *resource.NewQuantity(c.Int63(), resource.BinarySI)
		b, _ := q.MarshalJSON()
		_ = q.UnmarshalJSON(b)
	case 3:
		*q = *resource.NewScaledQuantity(c.Int63n(1000), resource.Scale(c.Intn(10)-5))
		q.Format = "unheard of"
	default:
		*q = resource.MustParse(quantities[c.Intn(len(quantities))])
	}
}

// randomContent returns a JSON-like value that is nested at most depth deep.
func randomContent(r *rand.Rand, depth int) any {
	kinds := 10
	if depth == 0 {
		kinds = 7
	}
	switch r.Intn(kinds) {
	case 0:
		return nil
	case 1:
		return r.Intn(2) == 0
	case 2:
		return r.Int63() - r.Int63()
	case 3:
		return int64(r.Intn(300) - 20)
	case 4:
		return []float64{0, math.Copysign(0, -1), 1e300, r.Float64()}[r.Intn(4)]
	case 5:
		return json.Number(fmt.Sprint(r.Float64()))
	case 6:
		return []string{"", "a", "recurring", fmt.Sprintf("value-%d", r.Intn(100)), fmt.Sprint(r.Int63())}[r.Intn(5)]
	case 7:
		l := make([]any, r.Intn(4))
		for i := range l {
			l[i] = randomContent(r, depth-1)
		}
		return l
	default:
		return randomMap(r, depth-1)
	}
}

// randomMap returns a map of JSON-like values, now and then a nil one.
func randomMap(r *rand.Rand, depth int) map[string]any {
	if r.Intn(20) == 0 {
		return nil
	}
	m := map[string]any{}
	for range r.Intn(12) {
		m[fmt.Sprintf("key%d", r.Intn(40))] = randomContent(r, depth)
	}
	return m
}
