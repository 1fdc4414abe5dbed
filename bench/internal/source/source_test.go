// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package source_test

import (
	"context"
	"net/http"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tarn-dev/tarn/bench/internal/source"
	"github.com/tarn-dev/tarn/bench/internal/synthetic"
)

const pods = 50

var cluster = synthetic.Cluster{Seed: 3}

// serve returns a client for each encoding, and one that asks for updates.
func serve(t *testing.T) (_ *source.Server, clients map[source.Encoding]kubernetes.Interface, update func(count, rate int)) {
	t.Helper()
	both := []source.Encoding{source.Protobuf, source.JSON}
	catalog, err := source.NewCatalog(source.Contents{Cluster: cluster, Pods: pods, Encodings: both, Lists: true})
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
	clients = map[source.Encoding]kubernetes.Interface{}
	config := &rest.Config{Host: server.URL(), BearerToken: server.Token()}
	for _, encoding := range both {
		config.AcceptContentTypes, config.ContentType = string(encoding), string(encoding)
		clients[encoding] = kubernetes.NewForConfigOrDie(config)
	}
	return server, clients, func(count, rate int) {
		t.Helper()
		err := clients[source.JSON].CoreV1().RESTClient().Post().AbsPath(source.UpdatesPath).
			Param("count", strconv.Itoa(count)).Param("rate", strconv.Itoa(rate)).Do(t.Context()).Error()
		if err != nil {
			t.Fatal(err)
		}
	}
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
	for encoding, client := range clients {
		stream := open(t, client, metav1.ListOptions{SendInitialEvents: new(true), AllowWatchBookmarks: true,
			ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan})
		want, last := expected(), ""
		for range pods {
			pod := next(t, stream, watch.Added)
			key := pod.Namespace + "/" + pod.Name
			if !equality.Semantic.DeepEqual(pod, want[key]) {
				t.Fatalf("%s: Pod %s is not what was encoded", encoding, key)
			}
			if key <= last {
				t.Fatalf("%s: Pod %s comes after %s", encoding, key, last)
			}
			last = key
		}
		end := next(t, stream, watch.Bookmark)
		if end.Annotations[metav1.InitialEventsAnnotationKey] != "true" || end.ResourceVersion != version(0) {
			t.Fatalf("%s: the list ends with %v", encoding, end.ObjectMeta)
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
func checkUpdates(t *testing.T, stream watch.Interface, update func(count, rate int)) {
	t.Helper()
	state := expected()
	update(2*pods, 0)
	update(pods, 100_000)
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

func open(t *testing.T, client kubernetes.Interface, opts metav1.ListOptions) watch.Interface {
	t.Helper()
	stream, err := client.CoreV1().Pods("").Watch(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

func next(t *testing.T, stream watch.Interface, kind watch.EventType) *corev1.Pod {
	t.Helper()
	event, ok := <-stream.ResultChan()
	pod, isPod := event.Object.(*corev1.Pod)
	if !ok || !isPod || event.Type != kind {
		t.Fatalf("got event %q with a %T, want %q with a Pod", event.Type, event.Object, kind)
	}
	return pod
}

func TestListThenWatch(t *testing.T) {
	for _, encoding := range []source.Encoding{source.Protobuf, source.JSON} {
		server, clients, update := serve(t)
		list, err := clients[encoding].CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		want := expected()
		for _, pod := range list.Items {
			if !equality.Semantic.DeepEqual(&pod, want[pod.Namespace+"/"+pod.Name]) {
				t.Fatalf("%s: Pod %s is not what was encoded", encoding, pod.Name)
			}
			delete(want, pod.Namespace+"/"+pod.Name)
		}
		if len(want) != 0 {
			t.Fatalf("%s: the list lacks %d Pods", encoding, len(want))
		}
		stream := open(t, clients[encoding], metav1.ListOptions{ResourceVersion: list.ResourceVersion})
		checkUpdates(t, stream, update)
		stream.Stop()
		if err := server.Check(); err != nil {
			t.Error(err)
		}
	}
}

func TestRefusals(t *testing.T) {
	server, _, _ := serve(t)
	for path, want := range map[string]int{
		"/api/v1/pods?labelSelector=a":                http.StatusBadRequest,
		"/api/v1/pods?watch=true&resourceVersion=1":   http.StatusGone,
		source.UpdatesPath + "?count=0&rate=0":        http.StatusBadRequest,
		source.UpdatesPath + "?count=1&rate=sometime": http.StatusBadRequest,
		"/api/v1/secrets":                             http.StatusNotFound,
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
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	return response.StatusCode
}
