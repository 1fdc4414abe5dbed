// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	restwatch "k8s.io/client-go/rest/watch"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/tarn-dev/tarn/internal/ordered"
)

// body is an API server that answers each request with the same watch.
type body struct {
	contentType string
	content     string
	read        func(io.Reader) io.Reader // how the bytes come in
}

func (b body) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {b.contentType}}, Request: r,
		Body: io.NopCloser(b.read(strings.NewReader(b.content))),
	}, nil
}

var podResource = corev1.SchemeGroupVersion.WithResource("pods")

func (b body) target(scheme *runtime.Scheme) Target {
	return Target{
		Config: &rest.Config{Host: "http://server.example.com"}, HTTPClient: &http.Client{Transport: b}, Scheme: scheme,
		Kind: podKind, Resource: podResource,
	}
}

// received collects the events of a watch. Messages of errors are cut, because they name what found
// the error.
func received(w watch.Interface, err error, finish func(watch.Event) watch.Event) []watch.Event {
	if err != nil {
		return []watch.Event{{Type: "refused"}}
	}
	var all []watch.Event
	for e := range w.ResultChan() {
		e = finish(e)
		if status, ok := e.Object.(*metav1.Status); ok && strings.Contains(status.Message, "unable to decode") {
			e.Object = &metav1.Status{Message: "unable to decode", Code: status.Code}
		}
		all = append(all, e)
	}
	w.Stop()
	return all
}

// passedOn collects the events of a watch that reads its stream itself, as informers do.
func passedOn(w watch.Interface, err error, finish func(watch.Event) watch.Event) []watch.Event {
	if err == nil {
		w = ordered.New(w, finish)
	}
	return received(w, err, asItIs)
}

func asItIs(e watch.Event) watch.Event { return e }

// same compares events, and prints little of a difference.
func same(t *testing.T, got, want []watch.Event) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) {
			t.Fatalf("got %d events, want %d: %.200v", len(got), len(want), append(got, want...)[i:])
		}
		if !reflect.DeepEqual(got[i], want[i]) {
			t.Errorf("event %d: got %.300v, want %.300v", i, fmt.Sprintf("%+v", got[i]), fmt.Sprintf("%+v", want[i]))
		}
	}
}

// watches returns contents of watches: what API servers send, and what they never send.
func watches(g Gomega, scheme *runtime.Scheme) map[string]body {
	pod := func(name string) *corev1.Pod {
		return &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{
			Name: name, ResourceVersion: "1", Annotations: map[string]string{"odd": "a \"}{[\\ \u2028 \n\t é", name: strings.Repeat("x", 3000)},
		}}
	}
	events := []watch.Event{
		{Type: watch.Added, Object: pod("a")}, {Type: watch.Modified, Object: pod("b")}, {Type: watch.Bookmark, Object: &corev1.Pod{}},
		{Type: watch.Deleted, Object: pod("c")}, {Type: watch.Error, Object: &metav1.Status{Code: 410, Reason: metav1.StatusReasonExpired}},
	}
	other := append(events[:2:2], watch.Event{Type: watch.Added, Object: &corev1.Service{}}, watch.Event{Type: watch.Added, Object: pod("d")})
	all := map[string]body{}
	codecs := serializer.WithoutConversionCodecFactory{CodecFactory: serializer.NewCodecFactory(scheme)}
	for name, sent := range map[string][]watch.Event{"events": events, "another kind": other, "an unknown type": {{Type: "ODD", Object: pod("a")}}} {
		for _, info := range codecs.SupportedMediaTypes()[:3] {
			if info.StreamSerializer == nil {
				continue
			}
			var b bytes.Buffer
			encoder := restwatch.NewEncoder(
				streaming.NewEncoder(info.StreamSerializer.NewFrameWriter(&b), codecs.EncoderForVersion(info.StreamSerializer, corev1.SchemeGroupVersion)),
				codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion))
			for _, e := range sent {
				g.Expect(encoder.Encode(&e)).To(Succeed())
			}
			all[name+" in "+info.MediaTypeSubType] = body{contentType: info.MediaType + ";stream=watch", content: b.String()}
			all[name+" cut short in "+info.MediaTypeSubType] = body{contentType: info.MediaType + ";stream=watch", content: b.String()[:b.Len()-20]}
		}
	}
	object, err := json.Marshal(pod("a"))
	g.Expect(err).NotTo(HaveOccurred())
	for name, content := range map[string]string{
		"nothing":              "",
		"spaces":               " \r\n\t\n",
		"no line between":      fmt.Sprintf(`{"type":"ADDED","object":%s}{"type":"MODIFIED","object":%s}`, object, object),
		"lines within":         fmt.Sprintf("{\n \"type\": \"ADDED\",\n \"object\": %s\n}\n", object),
		"the object first":     fmt.Sprintf(`{"object":%s,"type":"ADDED"}`, object),
		"one field more":       fmt.Sprintf(`{"type":"ADDED","object":%s,"more":{}}`, object),
		"an escaped type":      fmt.Sprintf(`{"type":"ADD\u0045D","object":%s}`, object),
		"no object":            `{"type":"ADDED"}`,
		"the kind last":        `{"type":"ADDED","object":{"metadata":{"name":"a"},"apiVersion":"v1","kind":"Pod"}}`,
		"no kind":              `{"type":"ADDED","object":{"metadata":{"name":"a"}}}`,
		"the kind alone":       `{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1"}}`,
		"an object that fails": `{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":7}}}` + "\n",
		"bad JSON":             `{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":tru}}}` + "\n",
		"no JSON":              "<html></html>",
		"an array":             "[1]",
		"braces that differ":   `{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1",]]`,
	} {
		all[name] = body{contentType: runtime.ContentTypeJSON, content: content}
	}
	all["another content type"] = body{contentType: "text/html", content: "<html></html>"}
	return all
}

// clientGoTyped collects the events of a watch by client-go's typed client.
func clientGoTyped(t *testing.T, target Target) []watch.Event {
	client, err := apiutil.RESTClientForGVK(podKind, false, false, target.Config, serializer.NewCodecFactory(target.Scheme), target.HTTPClient)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	w, err := client.Get().Resource("pods").Watch(t.Context())
	return received(w, err, asItIs)
}

// clientGoUntyped collects the events of a watch by client-go's dynamic client.
func clientGoUntyped(t *testing.T, target Target) []watch.Event {
	client, err := dynamic.NewForConfigAndClient(target.Config, target.HTTPClient)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	w, err := client.Resource(podResource).Watch(t.Context(), metav1.ListOptions{})
	return received(w, err, asItIs)
}

// collect is received or passedOn.
type collect func(watch.Interface, error, func(watch.Event) watch.Event) []watch.Event

// tarns collects the events of a watch of a source.
func tarns(t *testing.T, sourceOf func(Target) (Source, error), target Target, events collect) []watch.Event {
	s, err := sourceOf(target)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	w, err := s.Watch(t.Context(), metav1.ListOptions{Watch: true})
	return events(w, err, s.Finish)
}

// A watch sends the same as with client-go's serializers, in whatever pieces it comes.
func TestWatchesAreReadAsByClientGo(t *testing.T) {
	scheme := runtime.NewScheme()
	NewWithT(t).Expect(corev1.AddToScheme(scheme)).To(Succeed())
	for name, b := range watches(NewWithT(t), scheme) {
		for pieces, read := range map[string]func(io.Reader) io.Reader{
			"at once": func(r io.Reader) io.Reader { return r }, "byte by byte": iotest.OneByteReader, "with its end": iotest.DataErrReader,
		} {
			b.read = read
			target := b.target(scheme)
			t.Run(name+" typed, "+pieces, func(t *testing.T) {
				want := clientGoTyped(t, target)
				same(t, tarns(t, Structured, target, received), want)
				same(t, tarns(t, Structured, target, passedOn), want)
			})
			if b.contentType != runtime.ContentTypeJSON {
				continue
			}
			t.Run(name+" unstructured, "+pieces, func(t *testing.T) {
				want := clientGoUntyped(t, target)
				same(t, tarns(t, Unstructured, target, received), want)
				same(t, tarns(t, Unstructured, target, passedOn), want)
			})
		}
	}
}

var errNotSent = errors.New("a request to look at was not sent")

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A watch asks for what client-go's asks for.
func TestWatchesAskAsClientGoDoes(t *testing.T) {
	for name, kind := range map[string]schema.GroupVersionKind{"built in": podKind, "of a user": {Group: "example.com", Version: "v1", Kind: "Widget"}, "of a user, in client-go's scheme": {Group: "example.com", Version: "v1", Kind: "Gadget"}, "of a user, with messages": {Group: "example.com", Version: "v1", Kind: "Message"}} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			scheme := runtime.NewScheme()
			g.Expect(corev1.AddToScheme(scheme)).To(Succeed())
			if kind != podKind {
				example := runtime.Object(&plainPod{})
				if kind.Kind == "Message" {
					example = &corev1.Pod{}
					g.Expect(apiutil.AddToProtobufScheme(func(s *runtime.Scheme) error { s.AddKnownTypeWithName(kind, example); return nil })).To(Succeed())
				}
				if kind.Kind == "Gadget" {
					clientgoscheme.Scheme.AddKnownTypeWithName(kind, example)
				}
				scheme.AddKnownTypeWithName(kind, example)
				metav1.AddToGroupVersion(scheme, kind.GroupVersion())
			}
			var asked []*http.Request
			target := body{}.target(scheme)
			target.Kind, target.Namespace = kind, "ns"
			target.Resource = kind.GroupVersion().WithResource("things")
			target.HTTPClient = &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
				asked = append(asked, r)
				return nil, errNotSent
			})}
			opts := metav1.ListOptions{Watch: true, ResourceVersion: "5", LabelSelector: "a=b", AllowWatchBookmarks: true}
			client, err := apiutil.RESTClientForGVK(kind, false, false, target.Config, serializer.NewCodecFactory(scheme), target.HTTPClient)
			g.Expect(err).NotTo(HaveOccurred())
			_, _ = client.Get().Namespace("ns").Resource("things").VersionedParams(&opts, runtime.NewParameterCodec(scheme)).Watch(t.Context())
			typed, err := Structured(target)
			g.Expect(err).NotTo(HaveOccurred())
			_, _ = typed.Watch(t.Context(), opts)
			dynamicClient, err := dynamic.NewForConfigAndClient(target.Config, target.HTTPClient)
			g.Expect(err).NotTo(HaveOccurred())
			_, _ = dynamicClient.Resource(target.Resource).Namespace("ns").Watch(t.Context(), opts)
			untyped, err := Unstructured(target)
			g.Expect(err).NotTo(HaveOccurred())
			_, _ = untyped.Watch(t.Context(), opts)
			g.Expect(asked).To(HaveLen(4))
			for i := 0; i < len(asked); i += 2 {
				g.Expect(asked[i+1].URL.String()).To(Equal(asked[i].URL.String()))
				g.Expect(asked[i+1].Header).To(Equal(asked[i].Header))
			}
		})
	}
}
