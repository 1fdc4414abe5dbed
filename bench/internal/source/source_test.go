// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package source_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/tarn-dev/tarn/bench/internal/source"
	"github.com/tarn-dev/tarn/bench/internal/synthetic"
)

const pods = 50

var cluster = synthetic.Cluster{Seed: 3}

// serve returns a client for each resource, and another for updates.
func serve(t *testing.T) (_ *source.Server, clients map[source.Resource]*rest.RESTClient, update func(source.Updates)) {
	t.Helper()
	both := []source.Resource{source.Pods, source.Workloads}
	catalog, err := source.NewCatalog(source.Contents{Cluster: cluster, Pods: pods, Resources: both, Lists: true})
	if err != nil {
		t.Fatal(err)
	}
	server, err := source.Serve(catalog)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	clients = map[source.Resource]*rest.RESTClient{
		source.Pods:      client(t, server, corev1.SchemeGroupVersion, runtime.ContentTypeProtobuf),
		source.Workloads: client(t, server, synthetic.WorkloadKind.GroupVersion(), runtime.ContentTypeJSON),
	}
	return server, clients, func(u source.Updates) {
		t.Helper()
		body, err := json.Marshal(u)
		if err != nil {
			t.Fatal(err)
		}
		if err := clients[source.Workloads].Post().AbsPath(source.UpdatesPath).Body(body).Do(t.Context()).Error(); err != nil {
			t.Fatal(err)
		}
	}
}

func client(t *testing.T, server *source.Server, version schema.GroupVersion, mediaType string) *rest.RESTClient {
	t.Helper()
	client, err := rest.RESTClientFor(&rest.Config{
		Host: server.URL(), BearerToken: server.Token(),
		ContentConfig: rest.ContentConfig{GroupVersion: &version, NegotiatedSerializer: scheme.Codecs.WithoutConversion(), ContentType: mediaType},
	})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// expected returns all Pods by key, as they are before any update.
func expected() map[string]*corev1.Pod {
	all := map[string]*corev1.Pod{}
	for i := range pods {
		pod := cluster.Pod(i)
		all[pod.Namespace+"/"+pod.Name] = pod
	}
	return all
}

func TestFramesDecodeToTheirPods(t *testing.T) {
	server, clients, update := serve(t)
	for resource, client := range clients {
		stream := open(t, client, resource, metav1.ListOptions{SendInitialEvents: new(true), AllowWatchBookmarks: true,
			ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan})
		want, last := expected(), ""
		for range pods {
			pod := next(t, stream, watch.Added)
			key := pod.Namespace + "/" + pod.Name
			if !equality.Semantic.DeepEqual(pod, want[key]) {
				t.Fatalf("%s: object %s is not what was encoded", resource, key)
			}
			if key <= last {
				t.Fatalf("%s: object %s comes after %s", resource, key, last)
			}
			last = key
		}
		end := next(t, stream, watch.Bookmark)
		if end.Annotations[metav1.InitialEventsAnnotationKey] != "true" || end.ResourceVersion != version(0) {
			t.Fatalf("%s: the list ends with %v", resource, end.ObjectMeta)
		}
		checkUpdates(t, stream, update)
		stream.Stop()
	}
	if err := server.Check(); err == nil {
		t.Error("two watches were not complained of")
	}
}

func version(events int) string { return strconv.Itoa(synthetic.FirstVersion + pods + events) }

// checkUpdates asks for three laps, one of them at a rate: versions rise by one, each
// lap has every Pod, and each event is a change.
func checkUpdates(t *testing.T, stream watch.Interface, update func(source.Updates)) {
	t.Helper()
	state := expected()
	update(source.Updates{Count: 2 * pods})
	update(source.Updates{First: 2 * pods, Count: pods, Rate: 100_000})
	for lap := range 3 {
		seen := map[string]bool{}
		for n := range pods {
			pod := next(t, stream, watch.Modified)
			key := pod.Namespace + "/" + pod.Name
			before := state[key]
			if before == nil || seen[key] {
				t.Fatalf("Pod %s is unknown, or comes twice in lap %d", key, lap)
			}
			if want := version(lap*pods + n + 1); pod.ResourceVersion != want {
				t.Fatalf("event %d of lap %d has resourceVersion %s, want %s", n, lap, pod.ResourceVersion, want)
			}
			if equality.Semantic.DeepEqual(pod.Status, before.Status) || !equality.Semantic.DeepEqual(pod.Spec, before.Spec) {
				t.Fatalf("an update of Pod %s must change its status alone", key)
			}
			state[key], seen[key] = pod, true
		}
	}
}

func open(t *testing.T, client *rest.RESTClient, of source.Resource, opts metav1.ListOptions) watch.Interface {
	t.Helper()
	opts.Watch = true
	stream, err := client.Get().AbsPath(string(of)).VersionedParams(&opts, scheme.ParameterCodec).Watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

func next(t *testing.T, stream watch.Interface, kind watch.EventType) *corev1.Pod {
	t.Helper()
	event, ok := <-stream.ResultChan()
	if !ok || event.Type != kind {
		t.Fatalf("got event %q with a %T, want %q", event.Type, event.Object, kind)
	}
	return podOf(t, event.Object)
}

// podOf returns the Pod with the content of the object.
func podOf(t *testing.T, object runtime.Object) *corev1.Pod {
	t.Helper()
	switch object := object.(type) {
	case *corev1.Pod:
		return object
	case *synthetic.Workload:
		return &corev1.Pod{ObjectMeta: object.ObjectMeta, Spec: object.Spec, Status: object.Status}
	}
	t.Fatalf("a %T is not served", object)
	return nil
}

func TestListThenWatch(t *testing.T) {
	for _, resource := range []source.Resource{source.Pods, source.Workloads} {
		server, clients, update := serve(t)
		list, err := clients[resource].Get().AbsPath(string(resource)).Do(t.Context()).Get()
		if err != nil {
			t.Fatal(err)
		}
		objects, err := meta.ExtractList(list)
		if err != nil {
			t.Fatal(err)
		}
		want := expected()
		for _, object := range objects {
			pod := podOf(t, object)
			if !equality.Semantic.DeepEqual(pod, want[pod.Namespace+"/"+pod.Name]) {
				t.Fatalf("%s: object %s is not what was encoded", resource, pod.Name)
			}
			delete(want, pod.Namespace+"/"+pod.Name)
		}
		if len(want) != 0 {
			t.Fatalf("%s: the list lacks %d objects", resource, len(want))
		}
		stream := open(t, clients[resource], resource, metav1.ListOptions{ResourceVersion: version(0)})
		checkUpdates(t, stream, update)
		stream.Stop()
		if err := server.Check(); err != nil {
			t.Error(err)
		}
	}
}

func TestSkewedUpdates(t *testing.T) {
	_, clients, update := serve(t)
	stream := open(t, clients[source.Pods], source.Pods, metav1.ListOptions{ResourceVersion: version(0)})
	defer stream.Stop()
	asked := source.Updates{First: 7, Count: 10 * pods, Skewed: true}
	update(asked)
	newest := asked.Newest(pods)
	last, times, state := map[string]int{}, map[string]int{}, expected()
	for i := range asked.Count {
		pod := next(t, stream, watch.Modified)
		key := pod.Namespace + "/" + pod.Name
		if times[key] > 0 && equality.Semantic.DeepEqual(pod.Status, state[key].Status) {
			t.Fatalf("event %d does not change Pod %s", i, key)
		}
		if want := version(asked.First + i + 1); pod.ResourceVersion != want {
			t.Fatalf("event %d has resourceVersion %s, want %s", i, pod.ResourceVersion, want)
		}
		state[key], last[key] = pod, i
		times[key]++
	}
	often := 0
	for key, n := range times {
		if !newest[last[key]] {
			t.Errorf("event %d is the newest of Pod %s, and is not said to be", last[key], key)
		}
		if n > 10 {
			often += n
		}
	}
	if often != asked.Count*4/5 {
		t.Errorf("%d of %d events are of few Pods, want four fifths", often, asked.Count)
	}
	if said := len(slices.DeleteFunc(newest, func(is bool) bool { return !is })); said != len(last) {
		t.Errorf("%d events are said to be the newest of their Pods, and there are %d Pods", said, len(last))
	}
}

func TestRefusals(t *testing.T) {
	server, _, _ := serve(t)
	for path, want := range map[string]int{
		"/api/v1/pods?labelSelector=a":              http.StatusBadRequest,
		"/api/v1/pods?watch=true&resourceVersion=1": http.StatusGone,
		source.UpdatesPath:                          http.StatusBadRequest, // asks for nothing
		"/api/v1/secrets":                           http.StatusNotFound,
	} {
		method := http.MethodGet
		if path[1] == 'b' {
			method = http.MethodPost
		}
		if got := status(t.Context(), t, method, server.URL()+path, server.Token()); got != want {
			t.Errorf("%s %s gives %d, want %d", method, path, got, want)
		}
	}
	if got := status(t.Context(), t, http.MethodGet, server.URL()+"/api/v1/pods", "guessed"); got != http.StatusUnauthorized {
		t.Errorf("a wrong token gives %d", got)
	}
	if err := server.Check(); err == nil {
		t.Error("refusals were not complained of")
	}
}

func status(ctx context.Context, t *testing.T, method, url, token string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Accept", runtime.ContentTypeProtobuf)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	return response.StatusCode
}
