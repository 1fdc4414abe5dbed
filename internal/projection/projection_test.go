// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/randfill"
)

func TestNewRefuses(t *testing.T) {
	for fields, want := range map[string]string{
		"":                                "is no path",
		".spec":                           "is no path",
		"spec.":                           "is no path",
		"spec..nodeName":                  "is no path",
		"spec.containers[*].image":        "is no path",
		"{.spec}":                         "is no path",
		"spec nodeName":                   "is no path",
		`spec\`:                           "is no path",
		"spec,spec":                       "is there twice",
		"spec,spec.nodeName":              "is a part of another field",
		"spec.nodeName,spec":              "is a part of another field",
		"metadata,metadata.annotations":   "is a part of another field",
		"status.phase,spec,status.phase":  "is there twice",
		`metadata.annotations.a\.b/c,a\.`: "",
	} {
		_, err := New(strings.Split(fields, ","))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", fields, err, want)
		}
	}
	if _, err := New([]string{}); err == nil || !strings.Contains(err.Error(), "no field is named") {
		t.Errorf("no fields: %v", err)
	}
}

// odd is a type with what the API has not.
type odd struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Any               any                  `json:"any,omitempty"`
	Raw               runtime.RawExtension `json:"raw,omitempty"`
	Matrix            [][]point            `json:"matrix,omitempty"`
	Named             map[string]*point    `json:"named,omitempty"`
	Bytes             []byte               `json:"bytes,omitempty"`
	hidden            int
}

type point struct {
	X int `json:"x,omitempty"`
	Y int `json:"y,omitempty"`
}

func (o *odd) DeepCopyObject() runtime.Object { c := *o; return &c }

func TestCheck(t *testing.T) {
	pod, of := reflect.TypeFor[*corev1.Pod](), reflect.TypeFor[*odd]()
	for _, c := range []struct {
		typ         reflect.Type
		field, want string
	}{
		{pod, "spec.nodeName", ""},
		{pod, "spec.containers.image", ""},
		{pod, "spec.volumes.secret.secretName", ""}, // inlined
		{pod, "spec.nodeSelector.zone", ""},
		{pod, `metadata.annotations.example\.com/a`, ""},
		{pod, "kind", ""},
		{pod, "spec.nodename", `v1.PodSpec has no field "nodename"`},
		{pod, "Spec", `v1.Pod has no field "Spec"`},
		{pod, "spec.nodeName.first", "spec.nodeName is a string, which is kept or cut as a whole"},
		{pod, "metadata.creationTimestamp.seconds", "is a v1.Time, which is kept or cut as a whole"},
		{pod, "spec.containers.ports.containerPort.x", "is a int32"},
		{of, "any.what.ever", ""},
		{of, "matrix.x", ""},
		{of, "named.a.y", ""},
		{of, "named.a.z", `has no field "z"`},
		{of, "raw.x", "is a runtime.RawExtension, which is kept or cut as a whole"},
		{of, "bytes.x", "bytes is a []uint8"},
		{of, "hidden", `has no field "hidden"`},
		{nil, "spec.what.ever", ""},
		{nil, "metadata.nothing", `v1.ObjectMeta has no field "nothing"`},
		{nil, "kind.x", "is a string"},
	} {
		p, err := New([]string{c.field})
		if err != nil {
			t.Fatal(err)
		}
		err = p.Check(c.typ)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v %s: %v, want %q", c.typ, c.field, err, c.want)
		}
	}
}

func TestCheckIndex(t *testing.T) {
	p, pod := Of([]string{"spec.nodeName", "status.conditions.type"}), reflect.TypeFor[*corev1.Pod]()
	for name, refused := range map[string]bool{
		"spec.nodeName": false, ".spec.nodeName": false, "metadata.labels.app": false, "status.conditions.type": false,
		"a name of its own": false, "owner": false, "spec.unknown": false,
		"spec.hostNetwork": true, ".status.phase": true, "metadata.annotations": true, "status.conditions": true,
	} {
		if err := p.CheckIndex(name, pod); (err != nil) != refused {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := (*Projection)(nil).CheckIndex("status.phase", pod); err != nil {
		t.Error(err)
	}
	if err := p.CheckIndex("status.phase", nil); err != nil {
		t.Error(err)
	}
}

func TestMarkOf(t *testing.T) {
	pod := &corev1.Pod{}
	if p := MarkOf(pod); p != nil {
		t.Errorf("a whole object has the mark %s", p)
	}
	if pod.SetSelfLink("/api/v1/namespaces/a/pods/b"); MarkOf(pod) != nil {
		t.Error("an old server's link is a mark")
	}
	Of([]string{"spec.nodeName", "metadata"}).Cut(pod)
	if pod.GetSelfLink() != "?fields=spec.nodeName,metadata" {
		t.Errorf("the mark is %q", pod.GetSelfLink())
	}
	if p := MarkOf(pod.DeepCopy()); p == nil || p.String() != "spec.nodeName, metadata" || !p.Keeps([]string{"metadata", "annotations"}) || p.Keeps([]string{"spec"}) {
		t.Errorf("the mark is read as %v", p)
	}
}

// reference says what is kept, with one path after another. It is written from the package comment, and shares nothing with the
// package but how a path is split.
func reference(object map[string]any, fields []string) map[string]any {
	var paths [][]string
	for _, f := range fields {
		paths = append(paths, split(f))
	}
	inMetadata := []string{"name", "generateName", "namespace", "selfLink", "uid", "resourceVersion", "generation", "creationTimestamp",
		"deletionTimestamp", "deletionGracePeriodSeconds", "labels", "ownerReferences", "finalizers"}
	for _, name := range inMetadata {
		paths = append(paths, []string{"metadata", name})
	}
	paths = append(paths, []string{"apiVersion"}, []string{"kind"}, []string{"metadata", "annotations", "k8s.io/initial-events-end"})
	kept := keptOf(object, nil, paths).(map[string]any)
	if m, ok := kept["metadata"].(map[string]any); ok {
		m["selfLink"] = "?fields=" + strings.Join(fields, ",")
		if a, ok := m["annotations"].(map[string]any); ok && len(a) == 0 {
			delete(m, "annotations")
		}
	}
	return kept
}

// cutAway is what keptOf returns of a value that is cut.
var cutAway = &struct{ int }{}

func keptOf(value any, at []string, paths [][]string) any {
	through := false
	for _, p := range paths {
		if len(p) <= len(at) && slices.Equal(p, at[:len(p)]) {
			return value
		}
		through = through || len(p) > len(at) && slices.Equal(p[:len(at)], at)
	}
	v := reflect.ValueOf(value)
	switch {
	case through && value == nil:
		return nil
	case through && v.Kind() == reflect.Map:
		kept := map[string]any{}
		for name, value := range value.(map[string]any) {
			if k := keptOf(value, append(slices.Clone(at), name), paths); !isCut(k) {
				kept[name] = k
			}
		}
		return kept
	case through && v.Kind() == reflect.Slice:
		kept := []any{}
		for _, value := range value.([]any) {
			if k := keptOf(value, at, paths); !isCut(k) {
				kept = append(kept, k)
			}
		}
		return kept
	}
	return cutAway
}

func isCut(value any) bool { p, ok := value.(*struct{ int }); return ok && p == cutAway }

// filled returns an object of random values that is equal to what its JSON is read as.
func filled(t *testing.T, seed int64, into runtime.Object) {
	t.Helper()
	randfill.NewWithSeed(seed).NilChance(0.3).NumElements(0, 3).MaxDepth(12).Funcs(
		func(s *string, c randfill.Continue) { *s = []string{"", "a", "b/c", "zone", c.String(9)}[c.Intn(5)] },
		func(m *map[string]string, c randfill.Continue) {
			for range c.Intn(4) {
				if *m == nil {
					*m = map[string]string{}
				}
				(*m)[[]string{"a", "b.c/d", "zone", metav1.InitialEventsAnnotationKey}[c.Intn(4)]] = c.String(5)
			}
		},
		func(at *metav1.Time, c randfill.Continue) { *at = metav1.Unix(int64(c.Uint32()), 0) },
		func(at *metav1.MicroTime, c randfill.Continue) {
			*at = metav1.NewMicroTime(time.Unix(int64(c.Uint32()), 0))
		},
		func(q *resource.Quantity, c randfill.Continue) {
			*q = *resource.NewQuantity(c.Int63n(1000), resource.DecimalSI)
		},
		func(v *intstr.IntOrString, c randfill.Continue) {
			*v = []intstr.IntOrString{intstr.FromInt32(int32(c.Intn(99))), intstr.FromString("http")}[c.Intn(2)]
		},
		func(f *metav1.FieldsV1, _ randfill.Continue) { f.SetRawBytes([]byte(`{"f:a":{}}`)) },
	).Fill(into)
	encoded, err := json.Marshal(into)
	if err != nil {
		t.Fatal(err)
	}
	reflect.ValueOf(into).Elem().SetZero()
	if err := kjson.UnmarshalCaseSensitivePreserveInts(encoded, into); err != nil {
		t.Fatal(err)
	}
}

// contentOf returns the JSON of an object.
func contentOf(t *testing.T, obj any) (content map[string]any) {
	t.Helper()
	encoded, err := json.Marshal(obj)
	if err == nil {
		err = kjson.UnmarshalCaseSensitivePreserveInts(encoded, &content)
	}
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// pathsOf returns paths through content, at random.
func pathsOf(r *rand.Rand, content any, at string) (paths []string) {
	switch v := content.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			path := strings.TrimPrefix(at+"."+strings.ReplaceAll(name, ".", `\.`), ".")
			switch r.IntN(3) {
			case 0:
				paths = append(paths, path)
			case 1:
				paths = append(paths, pathsOf(r, v[name], path)...)
			}
		}
	case []any:
		if len(v) > 0 {
			return pathsOf(r, v[r.IntN(len(v))], at)
		}
	}
	return paths
}

// TestCutIsAsTheReference compares what is kept of random objects, unstructured, of Go types and in messages, with a reference
// that cuts the JSON.
func TestCutIsAsTheReference(t *testing.T) {
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(uint64(seed), 0))
	examples := []runtime.Object{&corev1.Pod{}, &corev1.Node{}, &corev1.ConfigMap{}, &corev1.PersistentVolume{}, &appsv1.Deployment{},
		&discoveryv1.EndpointSlice{}, &networkingv1.Ingress{}, &metav1.PartialObjectMetadata{}}
	cuts := 0
	for round := range 400 {
		obj := examples[round%len(examples)].DeepCopyObject()
		filled(t, r.Int64(), obj)
		content, typ := contentOf(t, obj), reflect.TypeOf(obj)
		var fields []string
		for _, field := range pathsOf(r, content, "") {
			if p, err := New(append(slices.Clone(fields), field)); err == nil && p.Check(typ) == nil && len(fields) < 8 {
				fields = append(fields, field)
			}
		}
		if len(fields) == 0 {
			continue
		}
		cuts++
		p := Of(fields)
		want := reference(contentOf(t, obj), fields)
		if u := (&unstructured.Unstructured{Object: content}); true {
			p.Cut(u)
			if !reflect.DeepEqual(u.Object, want) {
				t.Fatalf("%v of %T: unstructured\n%v\nwant\n%v", fields, obj, u.Object, want)
			}
		}
		asType, received := reflect.New(typ.Elem()).Interface(), obj.DeepCopyObject()
		encoded, _ := json.Marshal(want)
		if err := kjson.UnmarshalCaseSensitivePreserveInts(encoded, asType); err != nil {
			t.Fatal(err)
		}
		p.Cut(obj)
		if got, want := contentOf(t, obj), contentOf(t, asType); !reflect.DeepEqual(got, want) {
			t.Fatalf("%v of %T:\n%v\nwant\n%v", fields, obj, got, want)
		}
		compareMessages(t, p, received)
		p.Cut(obj)
		if got := contentOf(t, obj); !reflect.DeepEqual(got, contentOf(t, asType)) {
			t.Fatalf("%v of %T: a second cut changes it", fields, obj)
		}
	}
	if cuts < 200 {
		t.Errorf("only %d objects were cut", cuts)
	}
}

type wired interface {
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

// compareMessages cuts the message of an object, and compares what is read of it with what is cut of the object.
func compareMessages(t *testing.T, p *Projection, obj runtime.Object) {
	t.Helper()
	written, err := obj.(wired).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	read := func(message []byte) runtime.Object {
		into := reflect.New(reflect.TypeOf(obj).Elem()).Interface().(runtime.Object)
		if err := into.(wired).Unmarshal(message); err != nil {
			t.Fatalf("%s of %T: %v", p, obj, err)
		}
		return into
	}
	kept, ok := p.Messages(reflect.TypeOf(obj))([]byte("before"), written)
	if !ok {
		t.Fatalf("%s of %T: the message is unusual", p, obj)
	}
	got, want := read(kept[len("before"):]), read(written)
	p.Cut(want)
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%s of %T: of the message\n%v\nwant\n%v", p, obj, contentOf(t, got), contentOf(t, want))
	}
	for range 20 { // nothing that is sent may end the process
		broken := slices.Clone(written[:rand.IntN(len(written)+1)])
		if len(broken) > 0 {
			broken[rand.IntN(len(broken))] ^= byte(1 << rand.IntN(8))
		}
		_, _ = p.Messages(reflect.TypeOf(obj))(nil, broken)
	}
}

// TestCutOfOddContent has the shapes that only unstructured objects have.
func TestCutOfOddContent(t *testing.T) {
	for _, c := range []struct{ fields, content, want string }{
		{"spec.a", `{"spec":null}`, `{"spec":null}`},
		{"spec.a", `{"spec":{}}`, `{"spec":{}}`},
		{"spec.a", `{"spec":{"b":1}}`, `{"spec":{}}`},
		{"spec.a", `{"status":{"a":1}}`, `{}`},
		{"spec.a", `{"spec":7}`, `{}`},
		{"spec.a", `{"spec":[{"a":1,"b":2},null,3,[{"a":{"x":1}}],{}]}`, `{"spec":[{"a":1},null,[{"a":{"x":1}}],{}]}`},
		{"spec.port", `{"spec":{"port":"http"}}`, `{"spec":{"port":"http"}}`},
		{"spec.port", `{"spec":{"port":80,"more":{"x":[]}}}`, `{"spec":{"port":80}}`},
		{"spec.port.x", `{"spec":{"port":"http"}}`, `{"spec":{}}`},
		{"spec.a,spec.b.c", `{"spec":{"a":null,"b":{"c":{},"d":1}}}`, `{"spec":{"a":null,"b":{"c":{}}}}`},
		{"metadata", `{"metadata":{"name":"n","annotations":{},"odd":1}}`, `{"metadata":{"name":"n","annotations":{},"odd":1,"selfLink":"?fields=metadata"}}`},
		{"spec.a", `{"metadata":{"name":"n","annotations":{"x":"y"},"odd":1}}`, `{"metadata":{"name":"n","selfLink":"?fields=spec.a"}}`},
		{`metadata.annotations.x\.y`, `{"metadata":{"annotations":{"x.y":"z","x":"w"}}}`, `{"metadata":{"annotations":{"x.y":"z"},"selfLink":"?fields=metadata.annotations.x\\.y"}}`},
		{"spec.a", `{"metadata":3}`, `{}`},
	} {
		u, want := &unstructured.Unstructured{}, map[string]any{}
		if kjson.UnmarshalCaseSensitivePreserveInts([]byte(c.content), &u.Object) != nil || kjson.UnmarshalCaseSensitivePreserveInts([]byte(c.want), &want) != nil {
			t.Fatal(c)
		}
		Of(strings.Split(c.fields, ",")).Cut(u)
		if !reflect.DeepEqual(u.Object, want) {
			t.Errorf("%s of %s: %v, want %v", c.fields, c.content, u.Object, want)
		}
	}
}

func TestCutOfOddTypes(t *testing.T) {
	obj := &odd{
		Any: map[string]any{"a": int64(1), "b": "x"}, Raw: runtime.RawExtension{Raw: []byte("{}")}, Matrix: [][]point{{{1, 2}}, nil, {}},
		Named: map[string]*point{"a": {1, 2}, "b": nil, "c": {3, 4}}, Bytes: []byte("x"), hidden: 7,
	}
	Of([]string{"any.a", "raw.x", "matrix.y", "named.a.x", "named.b.x"}).Cut(obj)
	want := &odd{
		Any: map[string]any{"a": int64(1)}, Matrix: [][]point{{{0, 2}}, nil, {}}, Named: map[string]*point{"a": {1, 0}, "b": nil}, hidden: 7,
	}
	want.SetSelfLink(obj.GetSelfLink())
	if !reflect.DeepEqual(obj, want) {
		t.Errorf("%+v, want %+v", obj, want)
	}
}
