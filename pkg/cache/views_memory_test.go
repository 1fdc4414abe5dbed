// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/pkg/cache"
)

// viewsOverOne is how much memory three representations may take in proportion to one.
const viewsOverOne = 1.15

// BenchmarkThreeViews reports how much memory the Go type, the content and the metadata of 20,000 custom
// resources take, each with a handler, in proportion to the content alone. It is to be run by itself:
// what specs leave to the garbage collector would count.
func BenchmarkThreeViews(b *testing.B) {
	var three, one int
	for b.Loop() {
		three, one = viewsHeap(b, 20_000)
	}
	if float64(three) > viewsOverOne*float64(one) {
		b.Errorf("three views take %d bytes, and one takes %d", three, one)
	}
	b.ReportMetric(float64(three)/float64(one), "views/one")
	b.ReportMetric(float64(one)/(1<<20), "one-MiB")
}

// viewsHeap returns the memory of a cache with three views of a kind, and of one with one informer.
func viewsHeap(t testing.TB, objects int) (three, one int) {
	server := gadgetServer(objects)
	content, metadata := &unstructured.Unstructured{}, &metav1.PartialObjectMetadata{}
	content.SetGroupVersionKind(gadgetKind)
	metadata.SetGroupVersionKind(gadgetKind)
	one = cacheHeap(t, server, cache.Tuning{}, content)
	shared := cache.Tuning{TuningByObject: cache.TuningByObject{Storage: cache.OneWatch}}
	return cacheHeap(t, server, shared, &gadget{}, content, metadata), one
}

// cacheHeap returns how much memory a cache with informers takes when it has synced.
func cacheHeap(t testing.TB, server http.RoundTripper, tuning cache.Tuning, of ...client.Object) int {
	g := NewWithT(t)
	scheme := apiruntime.NewScheme()
	scheme.AddKnownTypeWithName(gadgetKind, &gadget{})
	scheme.AddKnownTypeWithName(gadgetKind.GroupVersion().WithKind("GadgetList"), &gadgetList{})
	metav1.AddToGroupVersion(scheme, gadgetKind.GroupVersion())
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(gadgetKind, meta.RESTScopeNamespace)

	before := heapInUse()
	c, err := cache.With(tuning)(&rest.Config{}, cache.Options{
		Scheme: scheme, Mapper: mapper, HTTPClient: &http.Client{Transport: server}, DefaultEnableWatchBookmarks: ptr.To(false),
	})
	g.Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	for _, obj := range of {
		informer, err := c.GetInformer(ctx, obj)
		g.Expect(err).NotTo(HaveOccurred())
		handler, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{})
		g.Expect(err).NotTo(HaveOccurred())
		<-handler.HasSyncedChecker().Done()
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(gadgetKind.GroupVersion().WithKind("GadgetList"))
	if len(of) > 1 { // otherwise the read would make another informer
		g.Expect(c.List(ctx, list)).To(Succeed())
		g.Expect(list.Items).NotTo(BeEmpty())
		list = nil
	}
	took := heapInUse() - before
	runtime.KeepAlive(c)
	cancel()
	g.Expect(<-ended).To(Succeed())
	return took
}

// heapInUse returns the number of bytes of the heap that are in use.
func heapInUse() int {
	runtime.GC()
	runtime.GC() // what has a finalizer goes with the second
	stats := runtime.MemStats{}
	runtime.ReadMemStats(&stats)
	return int(stats.HeapAlloc)
}

// gadgetServer answers a list with so many gadgets, and a watch with nothing.
type gadgetServer int

// RoundTrip implements http.RoundTripper.
func (s gadgetServer) RoundTrip(r *http.Request) (*http.Response, error) {
	body, w := io.Pipe()
	if r.URL.Query().Get("watch") == "" {
		go func() { w.CloseWithError(s.list(w)) }()
	} else {
		context.AfterFunc(r.Context(), func() { w.CloseWithError(r.Context().Err()) })
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: body, Request: r}, nil
}

func (s gadgetServer) list(w io.Writer) error {
	out := &bytes.Buffer{}
	fmt.Fprintf(out, `{"apiVersion":%q,"kind":"GadgetList","metadata":{"resourceVersion":"100000"},"items":[`, gadgetKind.GroupVersion())
	for n := range int(s) {
		if n > 0 {
			out.WriteByte(',')
		}
		fmt.Fprintf(out, `{"apiVersion":%q,"kind":"Gadget","metadata":{"namespace":"namespace-%d","name":"gadget-%05d","uid":"%032x","resourceVersion":"%d",`+
			`"creationTimestamp":"2026-01-01T00:00:00Z","labels":{"app":"app-%d","tier":"backend"},"annotations":{"example.com/note":"this is note %d"}},`+
			`"spec":{"size":%d,"unknown":["a","b","c"],"template":{"image":"registry.example.com/gadgets/%d:v1","args":["--one","--two=%d"],"env":[{"name":"A","value":"%d"}]}},`+
			`"status":{"conditions":[{"type":"Ready","status":"True","reason":"AllIsWell","message":"gadget %d is ready","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`,
			gadgetKind.GroupVersion(), n%50, n, n+1, n+1, n%100, n, n%10, n%20, n, n, n)
		if out.Len() > 1<<16 {
			if _, err := out.WriteTo(w); err != nil {
				return err
			}
		}
	}
	out.WriteString(`]}`)
	_, err := out.WriteTo(w)
	return err
}
