// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package informer

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	goruntime "runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	restwatch "k8s.io/client-go/rest/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/tarn-dev/tarn/internal/listwatch"
)

// BenchmarkEvents measures update events of Pods, from the bytes of a protobuf watch to
// the return of the last handler, of client-go's informer and ours:
//
//	go test -run - -bench Events -benchtime 100000x ./internal/informer
func BenchmarkEvents(b *testing.B) {
	stream := newPodStream(b, 20_000)
	for _, handlers := range []int{1, 20} {
		for name, o := range benchmarkedInformers() {
			b.Run(fmt.Sprintf("%s/%d", name, handlers), func(b *testing.B) {
				s := *stream
				benchmarkEvents(b, &s, handlers, s.informer(b, o))
			})
		}
	}
}

// BenchmarkSteadyEvents is BenchmarkEvents with 1,000 events a second, which come one by one. Most of
// the CPU time of such an event is spent on waking goroutines.
//
//	go test -run - -bench SteadyEvents -benchtime 3000x ./internal/informer
func BenchmarkSteadyEvents(b *testing.B) {
	stream := newPodStream(b, 1_000)
	stream.every = time.Millisecond
	for _, handlers := range []int{0, 1, 20} {
		for name, o := range benchmarkedInformers() {
			b.Run(fmt.Sprintf("%s/%d", name, handlers), func(b *testing.B) {
				s := *stream
				benchmarkEvents(b, &s, handlers, s.informer(b, o))
			})
		}
	}
}

// benchmarkedInformers returns the options of the informers that benchmarks compare; client-go's
// has none.
func benchmarkedInformers() map[string]*Options {
	return map[string]*Options{"client-go": nil, "flat": {}, "decoded": {Decoded: true}}
}

// informer returns an informer of the Pods: client-go's without options, and else ours.
func (s *podStream) informer(b *testing.B, o *Options) toolscache.SharedIndexInformer {
	if o == nil {
		client, err := apiutil.RESTClientForGVK(podKind, false, false, s.config(), serializer.NewCodecFactory(s.scheme), s.client())
		if err != nil {
			b.Fatal(err)
		}
		lw := toolscache.NewListWatchFromClient(client, "pods", "", fields.Everything())
		if s.initial == nil {
			return toolscache.NewSharedIndexInformer(toolscache.ToListWatcherWithWatchListSemantics(lw, noStreaming{}), &corev1.Pod{}, 0, toolscache.Indexers{})
		}
		return toolscache.NewSharedIndexInformer(lw, &corev1.Pod{}, 0, toolscache.Indexers{})
	}
	pods, err := listwatch.Structured(listwatch.Target{
		Config: s.config(), HTTPClient: s.client(), Scheme: s.scheme, Kind: podKind, Resource: corev1.SchemeGroupVersion.WithResource("pods"),
	})
	if err != nil {
		b.Fatal(err)
	}
	o.Example = pods.Example()
	informer, err := New(func(to Receiver) toolscache.ListerWatcher {
		return listwatch.New(pods, listwatch.Options{Message: to.Message, Each: to.Each, Bookmarks: s.initial != nil})
	}, *o)
	if err != nil {
		b.Fatal(err)
	}
	return informer
}

var podKind = corev1.SchemeGroupVersion.WithKind("Pod")

type noStreaming struct{}

func (noStreaming) IsWatchListSemanticsUnSupported() bool { return true }

func benchmarkEvents(b *testing.B, s *podStream, handlers int, informer toolscache.SharedIndexInformer) {
	s.events, s.begin = b.N, make(chan struct{})
	counts, synced := make([]podCount, handlers), []toolscache.DoneChecker{}
	for i := range counts {
		c := &counts[i]
		c.from, c.missing = s.version(max(0, b.N-len(s.frames))), min(b.N, len(s.frames))
		c.done = make(chan struct{})
		registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{UpdateFunc: c.update})
		if err != nil {
			b.Fatal(err)
		}
		synced = append(synced, registration.HasSyncedChecker())
	}
	ctx, cancel := context.WithCancel(logr.NewContext(context.Background(), logr.Discard()))
	var running sync.WaitGroup
	running.Go(func() { informer.RunWithContext(ctx) })
	for _, checker := range append(synced, informer.HasSyncedChecker()) {
		<-checker.Done()
	}
	goruntime.GC()
	b.ReportAllocs()
	b.ResetTimer()
	before, sleeps := cpuTime(b), threadSleeps(b)
	close(s.begin)
	calls := 0
	for i := range counts {
		<-counts[i].done
		calls += counts[i].calls
	}
	for last := strconv.Itoa(s.version(b.N)); informer.LastSyncResourceVersion() != last; { // without handlers
		time.Sleep(time.Millisecond)
	}
	b.StopTimer()
	b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
	b.ReportMetric(float64(threadSleeps(b)-sleeps)/float64(b.N), "sleeps/op")
	if handlers > 0 {
		b.ReportMetric(float64(calls)/float64(b.N*handlers), "calls/event")
	}
	cancel()
	running.Wait()
}

// cpuTime is what the process has computed so far, the garbage collector included: on a
// machine that does other things too it tells more than the time that passed.
func cpuTime(b *testing.B) int64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return usage.Utime.Nano() + usage.Stime.Nano()
}

// threadSleeps is how often threads of the process have gone to sleep for lack of work so far, and
// so how often one of them was woken.
func threadSleeps(b *testing.B) int64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return int64(usage.Nvcsw) // an int32 where words have 32 bits
}

// podCount waits for the newest event of every Pod.
type podCount struct {
	from           int // newest are those behind this version
	missing, calls int
	done           chan struct{}
}

func (c *podCount) update(_, newObj any) {
	c.calls++
	if n, _ := strconv.Atoi(newObj.(*corev1.Pod).ResourceVersion); n > c.from {
		if c.missing--; c.missing == 0 {
			close(c.done)
		}
	}
}

// podStream is an API server of Pods, and of a watch in which they are updated in turn. It
// keeps bytes alone, which cost the garbage collector nothing.
type podStream struct {
	scheme  *runtime.Scheme
	frames  [][]byte // with the version at
	offsets []int
	list    func() []byte // encodedList, once
	initial []byte        // the events of a streaming list; nil if there are none
	every   time.Duration // between two events; zero is as fast as they are read
	events  int
	begin   chan struct{}
}

const firstVersion = 100_000_000 // so that all have as many digits

func (s *podStream) version(events int) int { return firstVersion + len(s.frames) + events }

func newPodStream(b *testing.B, pods int) *podStream {
	s := &podStream{scheme: runtime.NewScheme()}
	if err := corev1.AddToScheme(s.scheme); err != nil {
		b.Fatal(err)
	}
	for i := range pods {
		pod := benchmarkPod(i)
		frame := s.frame(b, watch.Modified, pod)
		s.frames = append(s.frames, frame)
		s.offsets = append(s.offsets, bytes.Index(frame, []byte(pod.ResourceVersion)))
	}
	s.list = sync.OnceValue(s.encodedList)
	b.Logf("an event is %d bytes", len(s.frames[0]))
	return s
}

// frame returns an event as a watch sends it.
func (s *podStream) frame(b *testing.B, t watch.EventType, pod *corev1.Pod) []byte {
	codecs := serializer.WithoutConversionCodecFactory{CodecFactory: serializer.NewCodecFactory(s.scheme)}
	info, _ := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	var buffer bytes.Buffer
	encode := restwatch.NewEncoder(
		streaming.NewEncoder(info.StreamSerializer.NewFrameWriter(&buffer), codecs.EncoderForVersion(info.StreamSerializer, corev1.SchemeGroupVersion)),
		codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion))
	if err := encode.Encode(&watch.Event{Type: t, Object: pod}); err != nil {
		b.Fatal(err)
	}
	return buffer.Bytes()
}

// stream lets the informers of s list by streaming.
func (s *podStream) stream(b *testing.B) {
	for i := range s.frames {
		s.initial = append(s.initial, s.frame(b, watch.Added, benchmarkPod(i))...)
	}
	end := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		ResourceVersion: strconv.Itoa(s.version(0)), Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
	}}
	s.initial = append(s.initial, s.frame(b, watch.Bookmark, end)...)
}

func (s *podStream) config() *rest.Config { return &rest.Config{Host: "http://pods.example.com"} }

func (s *podStream) client() *http.Client { return &http.Client{Transport: s} }

// RoundTrip answers as the API server of the Pods.
func (s *podStream) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {runtime.ContentTypeProtobuf}}, Request: r}
	if r.URL.Query().Get("watch") != "" {
		answer.Header.Set("Content-Type", runtime.ContentTypeProtobuf+";stream=watch")
		answer.Body = &podReader{podStream: s, rest: s.initial, closed: make(chan struct{})}
		return answer, nil
	}
	answer.Body = io.NopCloser(bytes.NewReader(s.list()))
	return answer, nil
}

// encodedList returns the list of the Pods in protobuf.
func (s *podStream) encodedList() []byte {
	list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(s.version(0))}}
	for i := range s.frames {
		list.Items = append(list.Items, *benchmarkPod(i))
	}
	codecs := serializer.NewCodecFactory(s.scheme)
	info, _ := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	body, err := runtime.Encode(codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion), list)
	if err != nil {
		panic(err)
	}
	return body
}

// podReader reads the events of a podStream, and then nothing until it is closed.
type podReader struct {
	*podStream
	sent   int
	next   time.Time // of the next event
	rest   []byte
	once   sync.Once // closes closed
	closed chan struct{}
}

func (r *podReader) Read(into []byte) (int, error) {
	if len(r.rest) == 0 {
		select {
		case <-r.begin:
		case <-r.closed:
			return 0, io.EOF
		}
		if r.sent == r.events {
			<-r.closed
			return 0, io.EOF
		}
		if r.every > 0 {
			r.next = r.next.Add(r.every)
			if now := time.Now(); r.next.Before(now.Add(-time.Second)) {
				r.next = now // the first event
			}
			time.Sleep(time.Until(r.next))
		}
		n := r.sent % len(r.frames)
		r.sent++
		r.rest = r.frames[n]
		strconv.AppendInt(r.rest[:r.offsets[n]], int64(r.version(r.sent)), 10)
	}
	n := copy(into, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

func (r *podReader) Close() error {
	r.once.Do(func() { close(r.closed) })
	return nil
}

// benchmarkPod returns a Pod of the size of a real one.
func benchmarkPod(i int) *corev1.Pod {
	app, at := fmt.Sprintf("service-%03d", i%1000), metav1.Unix(1_790_000_000+int64(i), 0)
	hash := fmt.Sprintf("%010x", (i%1000)*7919)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: fmt.Sprintf("%s-%s-%05d", app, hash, i), GenerateName: app + "-" + hash + "-", Namespace: fmt.Sprintf("team-%02d", i%100),
		UID: types.UID(fmt.Sprintf("%08x-0000-4000-8000-%012x", i, i)), ResourceVersion: strconv.Itoa(firstVersion + i), CreationTimestamp: at,
		Labels:          map[string]string{"app.kubernetes.io/name": app, "app.kubernetes.io/instance": app + "-production", "app.kubernetes.io/component": "server", "app.kubernetes.io/version": "v1.2.3", "tier": "gold", "pod-template-hash": hash},
		Annotations:     map[string]string{"prometheus.io/scrape": "true", "prometheus.io/port": "8080", "checksum/config": strings.Repeat(hash, 6)},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: app + "-" + hash, UID: types.UID(hash)}},
	}}
	for _, manager := range []string{"kube-controller-manager", "kube-scheduler", "kubelet"} {
		fields := `{"f:spec":{"f:containers":{` + strings.Repeat(`"k:{\"name\":\"`+app+`\"}":{".":{},"f:image":{},"f:env":{".":{},"k:{\"name\":\"LOG_LEVEL\"}":{".":{},"f:name":{}}}},`, 6) + `"f:dnsPolicy":{}}}}`
		pod.ManagedFields = append(pod.ManagedFields, metav1.ManagedFieldsEntry{Manager: manager, Operation: "Update", APIVersion: "v1", Time: &at, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields)})
	}
	for _, name := range []string{app, "proxy"} {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{
			Name: name, Image: "registry.example.com/" + name + ":v1.2.3", Args: []string{"--listen=:8080", "--config=/etc/config/config.yaml"},
			Env:       []corev1.EnvVar{{Name: "LOG_LEVEL", Value: "info"}, {Name: "POD_NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.name"}}}},
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("128Mi")}, Limits: corev1.ResourceList{"memory": resource.MustParse("256Mi")}},
			Ports:     []corev1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: "TCP"}}, VolumeMounts: []corev1.VolumeMount{{Name: "config", MountPath: "/etc/config"}},
		})
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: name, Ready: true, Image: "registry.example.com/" + name + ":v1.2.3", ImageID: "sha256:" + strings.Repeat(hash, 6), ContainerID: fmt.Sprintf("containerd://%064x", i),
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at}},
		})
	}
	pod.Spec.NodeName, pod.Spec.ServiceAccountName, pod.Spec.DNSPolicy = fmt.Sprintf("node-%04d", i%2000), app, "ClusterFirst"
	pod.Spec.Volumes = []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: app}}}}}
	pod.Status.Phase, pod.Status.PodIP, pod.Status.HostIP, pod.Status.StartTime = "Running", fmt.Sprintf("10.1.%d.%d", i/250, i%250), "10.0.0.1", &at
	for _, condition := range []corev1.PodConditionType{"Initialized", "Ready", "ContainersReady", "PodScheduled"} {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: condition, Status: "True", LastTransitionTime: at})
	}
	return pod
}
