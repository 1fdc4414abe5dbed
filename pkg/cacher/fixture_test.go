// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cacher_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	examplev1 "k8s.io/apiserver/pkg/apis/example/v1"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/storage"
	upstream "k8s.io/apiserver/pkg/storage/cacher"
	"k8s.io/apiserver/pkg/storage/etcd3"
	etcd3testing "k8s.io/apiserver/pkg/storage/etcd3/testing"
	"k8s.io/apiserver/pkg/storage/etcd3/testserver"
	storagetesting "k8s.io/apiserver/pkg/storage/testing"
	"k8s.io/apiserver/pkg/storage/value"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/tarn-dev/tarn/pkg/cacher"
)

const podPrefix = "/pods/"

var pods = schema.GroupResource{Resource: "pods"}

var (
	exampleScheme = sync.OnceValue(func() *runtime.Scheme {
		scheme := runtime.NewScheme()
		metav1.AddToGroupVersion(scheme, metav1.SchemeGroupVersion)
		utilruntime.Must(example.AddToScheme(scheme))
		utilruntime.Must(examplev1.AddToScheme(scheme))
		return scheme
	})
	exampleCodec = sync.OnceValue(func() runtime.Codec {
		scheme := exampleScheme()
		pb := protobuf.NewSerializer(scheme, scheme)
		return serializer.NewCodecFactory(scheme).CodecForVersions(pb, pb, schema.GroupVersions{examplev1.SchemeGroupVersion}, nil)
	})
)

func newPod() runtime.Object     { return &example.Pod{} }
func newPodList() runtime.Object { return &example.PodList{} }

func podAttributes(obj runtime.Object) (labels.Set, fields.Set, error) {
	pod, ok := obj.(*example.Pod)
	if !ok {
		return nil, nil, fmt.Errorf("%T is not a pod", obj)
	}
	return pod.Labels, fields.Set{
		"metadata.name":      pod.Name,
		"metadata.namespace": pod.Namespace,
		"spec.nodeName":      pod.Spec.NodeName,
		"spec.restartPolicy": string(pod.Spec.RestartPolicy),
		"status.phase":       string(pod.Status.Phase),
	}, nil
}

// implementation is one of the storages that promise the same.
type implementation struct {
	name string
	// start puts the implementation in front of etcd3.
	start func(t testing.TB, s *setup, below storage.Interface) storage.Interface
	// cached reports that it answers out of memory.
	cached bool
}

// implementations are ours and the ones that it is compared with.
func implementations() []implementation {
	return []implementation{
		{name: "tarn", start: startTarn, cached: true},
		{name: "upstream", start: startUpstream, cached: true},
		{name: "etcd3", start: func(_ testing.TB, _ *setup, below storage.Interface) storage.Interface { return below }},
	}
}

// setup is what upstream's tests set up differently from one another.
type setup struct {
	codec       runtime.Codec
	transformer value.Transformer
	keyFunc     func(runtime.Object) (string, error)
	triggers    storage.IndexerFuncs
	indexers    toolscache.Indexers
	options     cacher.Options
	foreignKeys bool // objects are written at keys that are not theirs: a cache cannot hold them
}

type option func(*setup)

func newSetup(options ...option) *setup {
	s := &setup{
		codec:       exampleCodec(),
		transformer: identity.NewEncryptCheckTransformer(),
		keyFunc:     func(obj runtime.Object) (string, error) { return storage.NamespaceKeyFunc(podPrefix, obj) },
	}
	for _, o := range options {
		o(s)
	}
	return s
}

func clusterScoped(s *setup) {
	s.keyFunc = func(obj runtime.Object) (string, error) { return storage.NoNamespaceKeyFunc(podPrefix, obj) }
}

// indexed has the indexes that kube-apiserver has for Pods.
func indexed(s *setup) {
	s.triggers = storage.IndexerFuncs{"spec.nodeName": func(obj runtime.Object) string { return obj.(*example.Pod).Spec.NodeName }}
	s.indexers = toolscache.Indexers{
		storage.FieldIndex("spec.nodeName"): func(obj any) ([]string, error) {
			return []string{obj.(*example.Pod).Spec.NodeName}, nil
		},
		storage.FieldIndex("metadata.namespace"): func(obj any) ([]string, error) {
			return []string{obj.(*example.Pod).Namespace}, nil
		},
	}
}

func foreignKeys(s *setup) { s.foreignKeys = true }

func withCodec(c runtime.Codec) option { return func(s *setup) { s.codec = c } }

func withTransformer(v value.Transformer) option { return func(s *setup) { s.transformer = v } }

// fixture is a running implementation.
type fixture struct {
	storage.Interface
	implementation implementation
	etcd           *kubernetes.Client
	below          *faultyStorage
}

// starting is held from when the ports of an etcd are chosen until it listens on them: another one could choose the same.
var starting sync.Mutex

// startEtcd starts an etcd, and returns a client of it that records requests. Both end with the test. Upstream's function starts one after
// the other, and each takes a second to elect itself.
func startEtcd(t testing.TB) *kubernetes.Client {
	t.Helper()
	starting.Lock()
	server, err := embed.StartEtcd(testserver.NewTestConfig(t))
	starting.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	select {
	case <-server.Server.ReadyNotify():
	case err = <-server.Err():
		t.Fatal(err)
	case <-time.After(wait.ForeverTestTimeout):
		t.Fatal("etcd is not ready")
	}
	client, err := kubernetes.New(clientv3.Config{Endpoints: server.Server.Cluster().ClientURLs(), Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	recorder := storagetesting.NewKubernetesRecorder(client.Kubernetes)
	client.KV, client.Kubernetes = storagetesting.NewKVRecorder(client.KV, recorder), recorder
	return client
}

// run starts an implementation, which ends with the test.
func run(t testing.TB, i implementation, options ...option) *fixture {
	t.Helper()
	s := newSetup(options...)
	etcd := startEtcd(t)
	etcd.Watcher = wholeEvents{etcd.Watcher, etcd.KV}
	versioner := storage.APIObjectVersioner{}
	compactor := etcd3.NewCompactor(etcd.Client, 0, clock.RealClock{}, nil)
	t.Cleanup(compactor.Stop)
	store, err := etcd3.New(etcd, compactor, s.codec, newPod, newPodList, etcd3testing.PathPrefix(), podPrefix,
		pods, s.transformer, etcd3.NewDefaultLeaseManagerConfig(), etcd3.NewDefaultDecoder(s.codec, versioner), versioner)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	below := &faultyStorage{Interface: store}
	return &fixture{Interface: i.start(t, s, below), implementation: i, etcd: etcd, below: below}
}

// wholeEvents gives the events of etcd the value of before. etcd v3.7.3 leaves it out of an event that comes just when the watch
// begins: it notes after the beginning that the client wants it (serverWatchStream.recvLoop, where prevKV is set). The storage
// then ends the watch with an error.
type wholeEvents struct {
	clientv3.Watcher
	kv clientv3.KV
}

func (w wholeEvents) Watch(ctx context.Context, key string, opts ...clientv3.OpOption) clientv3.WatchChan {
	from, to := w.Watcher.Watch(ctx, key, opts...), make(chan clientv3.WatchResponse)
	go func() {
		defer close(to)
		for response := range from {
			for _, e := range response.Events {
				w.complete(ctx, e)
			}
			select {
			case to <- response:
			case <-ctx.Done(): // nobody reads any more
			}
		}
	}()
	return to
}

// complete reads what was under the key of an event before, unless that is there, or the key is new.
func (w wholeEvents) complete(ctx context.Context, e *clientv3.Event) {
	if e.PrevKv != nil || e.IsCreate() {
		return
	}
	if before, err := w.kv.Get(ctx, string(e.Kv.Key), clientv3.WithRev(e.Kv.ModRevision-1)); err == nil && len(before.Kvs) > 0 {
		e.PrevKv = before.Kvs[0]
	}
}

func startTarn(t testing.TB, s *setup, below storage.Interface) storage.Interface {
	c, err := cacher.New(cacher.Config{
		Storage: below, GroupResource: pods, ResourcePrefix: podPrefix, KeyFunc: s.keyFunc, GetAttrsFunc: podAttributes,
		IndexerFuncs: s.triggers, Indexers: &s.indexers, NewFunc: newPod, NewListFunc: newPodList, Codec: s.codec,
		Options: s.options,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	if !s.foreignKeys {
		t.Cleanup(func() { checkConsistent(t, c) })
	}
	if err := c.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

// checkConsistent fails the test if the cache does not hold what the storage does. Some tests
// leave it so that this cannot be said.
func checkConsistent(t testing.TB, c *cacher.Cacher) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	switch err := c.CheckConsistency(ctx); {
	case errors.Is(err, cacher.ErrInconsistent):
		t.Error(err)
	case err != nil:
		t.Log("the cache cannot be compared with the storage:", err)
	}
}

func startUpstream(t testing.TB, s *setup, below storage.Interface) storage.Interface {
	c, err := upstream.NewCacherFromConfig(upstream.Config{
		Storage: below, Versioner: storage.APIObjectVersioner{}, GroupResource: pods, ResourcePrefix: podPrefix,
		KeyFunc: s.keyFunc, GetAttrsFunc: podAttributes, IndexerFuncs: s.triggers, Indexers: &s.indexers,
		NewFunc: newPod, NewListFunc: newPodList, Codec: s.codec, Clock: compactionClock{},
		EventsHistoryWindow: upstream.DefaultEventFreshDuration,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	if err := c.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	d := upstream.NewCacheDelegator(c, below)
	t.Cleanup(d.Stop)
	return d
}

// compactionClock lets upstream's Cacher look for compactions often: it does so every 15
// seconds, for which its own tests reach into it.
type compactionClock struct{ clock.RealClock }

func (c compactionClock) NewTimer(d time.Duration) clock.Timer {
	return &compactionTimer{c.RealClock.NewTimer(quick(d))}
}

type compactionTimer struct{ clock.Timer }

func (t *compactionTimer) Reset(d time.Duration) bool { return t.Timer.Reset(quick(d)) }

func quick(d time.Duration) time.Duration {
	if d == 15*time.Second {
		return 20 * time.Millisecond
	}
	return d
}

// compact compacts etcd, and waits until the storage knows.
func (f *fixture) compact(ctx context.Context, t *testing.T, resourceVersion string) {
	t.Helper()
	revision, err := f.Versioner().ParseResourceVersion(resourceVersion)
	if err != nil {
		t.Fatal(err)
	}
	var version int64
	for range 2 { // the first one learns the version of the record of compactions
		if version, _, _, err = etcd3.Compact(ctx, f.etcd.Client, version, int64(revision)); err == nil {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	if utilfeature.DefaultFeatureGate.Enabled(features.ListFromCacheSnapshot) { // else nobody looks for it
		NewWithT(t).Eventually(f.CompactRevision).WithTimeout(10 * time.Second).Should(BeEquivalentTo(revision))
	}
}

// restart is a compaction after which nobody has the events before: it breaks the watch of
// the cache as well, which begins anew then.
func (f *fixture) restart(ctx context.Context, t *testing.T, resourceVersion string) {
	t.Helper()
	f.compact(ctx, t, resourceVersion)
	if !f.implementation.cached {
		return
	}
	f.below.breakWatches()
	NewWithT(t).Eventually(f.ReadinessCheck).WithTimeout(10*time.Second).WithPolling(time.Millisecond).ShouldNot(Succeed(), "the cache begins anew")
	NewWithT(t).Eventually(f.ReadinessCheck).WithTimeout(10 * time.Second).Should(Succeed())
}

// increase raises the revision of etcd without a write to the resource.
func (f *fixture) increase(ctx context.Context, t *testing.T) int64 {
	t.Helper()
	response, err := f.etcd.KV.Put(ctx, "increaseRV", "ok")
	if err != nil {
		t.Fatal(err)
	}
	return response.Header.Revision
}

func (f *fixture) recorder() *storagetesting.KubernetesRecorder {
	return f.etcd.Kubernetes.(*storagetesting.KubernetesRecorder)
}

// keys lists the keys of all objects.
func (f *fixture) keys(ctx context.Context) (keys []string, err error) {
	list := &example.PodList{}
	if err := f.GetList(ctx, podPrefix, storage.ListOptions{Predicate: storage.Everything, Recursive: true}, list); err != nil {
		return nil, err
	}
	for i := range list.Items {
		key, err := storage.NamespaceKeyFunc(podPrefix, &list.Items[i])
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// faultyStorage is a storage whose watches can be broken and whose lists can be failed.
type faultyStorage struct {
	storage.Interface
	failLists atomic.Int32 // how many more fail

	mu      sync.Mutex
	watches []*brokenWatch
}

var errInjected = errors.New("injected error")

func (s *faultyStorage) GetList(ctx context.Context, key string, opts storage.ListOptions, list runtime.Object) error {
	if s.failLists.Load() > 0 && s.failLists.Add(-1) >= 0 {
		return errInjected
	}
	return s.Interface.GetList(ctx, key, opts, list)
}

func (s *faultyStorage) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	w, err := s.Interface.Watch(ctx, key, opts)
	if err != nil {
		return nil, err
	}
	broken := &brokenWatch{Interface: w, result: make(chan watch.Event), breaks: make(chan struct{})}
	go broken.forward(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watches = append(s.watches, broken)
	return broken, nil
}

// breakWatches ends all watches with a 410.
func (s *faultyStorage) breakWatches() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.watches {
		close(w.breaks)
	}
	s.watches = nil
}

// brokenWatch is a watch until it breaks.
type brokenWatch struct {
	watch.Interface
	result chan watch.Event
	breaks chan struct{}
}

func (w *brokenWatch) ResultChan() <-chan watch.Event { return w.result }

func (w *brokenWatch) forward(ctx context.Context) {
	defer close(w.result)
	defer w.Stop()
	for {
		var event watch.Event
		var open bool
		select {
		case event, open = <-w.Interface.ResultChan():
		case <-w.breaks:
			status := apierrors.NewResourceExpired("injected").Status()
			event, open = watch.Event{Type: watch.Error, Object: &status}, true
		case <-ctx.Done():
		}
		if !open {
			return
		}
		select {
		case w.result <- event:
		case <-ctx.Done():
			return
		}
	}
}
