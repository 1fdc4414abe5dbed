// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package cacher_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/etcd3"
	etcd3testing "k8s.io/apiserver/pkg/storage/etcd3/testing"
	"k8s.io/apiserver/pkg/storage/etcd3/testserver"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/tarn-dev/tarn/pkg/cacher"
)

// restartable is an etcd that can be stopped and started.
type restartable struct {
	config *embed.Config
	server *embed.Etcd
}

func newRestartable(t *testing.T) *restartable {
	config := testserver.NewTestConfig(t)
	config.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	config.TickMs, config.ElectionMs = 10, 100 // it is alone
	r := &restartable{config: config}
	r.start(t)
	t.Cleanup(r.stop)
	return r
}

func (r *restartable) start(t *testing.T) {
	t.Helper()
	config := *r.config
	var err error
	if r.server, err = embed.StartEtcd(&config); err != nil {
		t.Fatal(err)
	}
	<-r.server.Server.ReadyNotify()
}

func (r *restartable) stop() { r.server.Close() }

// store returns a storage on the etcd, which ends with the test.
func (r *restartable) store(t *testing.T) storage.Interface {
	client, err := kubernetes.New(clientv3.Config{
		Endpoints: endpoints(r.config.AdvertiseClientUrls), DialTimeout: 10 * time.Second, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1, MaxDelay: 10 * time.Millisecond}, MinConnectTimeout: time.Second,
		})},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	s, versioner := newSetup(), storage.APIObjectVersioner{}
	compactor := etcd3.NewCompactor(client.Client, 0, clock.RealClock{}, nil)
	t.Cleanup(compactor.Stop)
	store, err := etcd3.New(client, compactor, s.codec, newPod, newPodList, etcd3testing.PathPrefix(), podPrefix,
		pods, s.transformer, etcd3.NewDefaultLeaseManagerConfig(), etcd3.NewDefaultDecoder(s.codec, versioner), versioner)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	return store
}

func endpoints(urls []url.URL) (endpoints []string) {
	for _, u := range urls {
		endpoints = append(endpoints, u.Host)
	}
	return endpoints
}

// TestEtcdIsRestartedUnderLoad stops and starts etcd while there are writers and watchers. The
// events of the watchers are compared with the history in etcd.
func TestEtcdIsRestartedUnderLoad(t *testing.T) {
	etcd := newRestartable(t)
	store := etcd.store(t)
	c := startTarn(t, newSetup(indexed), store).(*cacher.Cacher)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	begin, err := store.GetCurrentResourceVersion(ctx)
	if err != nil {
		t.Fatal(err)
	}
	clients := make([]*client, 6)
	var watching, writing sync.WaitGroup
	for i := range clients {
		clients[i] = &client{begin: begin}
		watching.Go(func() { clients[i].run(ctx, c, i%2 == 0) })
	}
	load, endLoad := context.WithCancel(ctx)
	written := make(chan struct{}, 1_000_000)
	for n := range 3 {
		writing.Go(func() { write(load, c, rand.New(rand.NewPCG(uint64(n), 1)), written) })
	}
	await(ctx, written, 100)
	etcd.stop() // it waits 5 seconds for watches to end
	etcd.start(t)
	await(ctx, written, 100)
	endLoad()
	writing.Wait()
	pod := &example.Pod{}
	if err := c.Create(ctx, podKey("default", lastPod), numbered(lastPod, 0), pod, 0); err != nil {
		t.Fatal(err)
	}
	watching.Wait()
	if ctx.Err() != nil {
		t.Fatal("not all watchers have seen the last Pod")
	}
	model := historyOf(ctx, t, store, begin, revisionOf(pod))
	for i, client := range clients {
		for _, err := range client.failures {
			t.Errorf("client %d: %v", i, err)
		}
		for n, o := range client.observers {
			if err := o.check(model, n == len(client.observers)-1); err != nil {
				t.Errorf("client %d, watch %d of %d: %v", i, n, len(client.observers), err)
			}
		}
	}
	if err := c.CheckConsistency(ctx); err != nil {
		t.Error(err)
	}
	c.Stop()
	NewWithT(t).Eventually(goroutines).Should(BeEmpty(), "all goroutines have ended")
}

// lastPod is the Pod that is written last.
const lastPod = "the-last-one"

func await(ctx context.Context, written <-chan struct{}, n int) {
	for range n {
		select {
		case <-written:
		case <-ctx.Done():
		}
	}
}

// write writes until ctx ends. Most writes fail while there is no etcd.
func write(ctx context.Context, c storage.Interface, r *rand.Rand, written chan<- struct{}) {
	for ctx.Err() == nil {
		pod := randomPod(r)
		key, own := podKey(pod.Namespace, pod.Name), ctx
		own, cancel := context.WithTimeout(own, 500*time.Millisecond)
		var err error
		if r.IntN(4) == 0 {
			err = c.Delete(own, key, &example.Pod{}, nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{})
		} else {
			err = c.GuaranteedUpdate(own, key, &example.Pod{}, true, nil,
				storage.SimpleUpdate(func(apiruntime.Object) (apiruntime.Object, error) { return pod, nil }), nil)
		}
		cancel()
		if err == nil {
			written <- struct{}{}
		}
	}
}

// client watches, and goes on from where it was when its watch ends.
type client struct {
	begin     uint64
	observers []*observer
	failures  []error
}

// run returns when it has seen the last Pod.
func (c *client) run(ctx context.Context, store storage.Interface, bookmarks bool) {
	opts := everything(fmt.Sprint(c.begin))
	for ctx.Err() == nil {
		opts.Predicate.AllowWatchBookmarks = bookmarks || opts.SendInitialEvents != nil
		opts.Recursive = true
		o := &observer{key: podPrefix, opts: opts, called: c.begin}
		w, err := store.Watch(ctx, podPrefix, opts)
		if err != nil {
			if !tellsWhatToDo(err) {
				c.failures = append(c.failures, err)
			}
			continue
		}
		c.observers = append(c.observers, o)
		for event := range w.ResultChan() {
			o.events = append(o.events, event)
			if event.Type == watch.Error {
				continue
			}
			if podOf(event.Object).Name == lastPod {
				w.Stop()
				return
			}
		}
		opts = everything("")
		if version, ok := o.last(); ok {
			opts.ResourceVersion = version
		} else {
			opts.SendInitialEvents = ptr.To(true)
		}
	}
}

// historyOf reads the history of a storage between two revisions.
func historyOf(ctx context.Context, t *testing.T, store storage.Interface, from, to uint64) *memoryStorage {
	t.Helper()
	model := newMemoryStorage()
	opts := everything(fmt.Sprint(from))
	opts.Recursive = true
	w, err := store.Watch(ctx, podPrefix, opts)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		if event.Type == watch.Error {
			t.Fatal(apierrors.FromObject(event.Object))
		}
		pod := podOf(event.Object)
		key := podKey(pod.Namespace, pod.Name)
		c := change{revision: revisionOf(pod), key: key, before: model.pods[key], after: pod}
		if event.Type == watch.Deleted {
			c.after = nil
			delete(model.pods, key)
		} else {
			model.pods[key] = pod
		}
		model.log, model.revision = append(model.log, c), c.revision
		if c.revision == to {
			return model
		}
	}
	t.Fatal(errors.Join(errors.New("the history ended"), ctx.Err()))
	return nil
}

// goroutines returns the stacks of goroutines that are in the package.
func goroutines() (stacks []string) {
	buffer := make([]byte, 1<<22)
	for stack := range strings.SplitSeq(string(buffer[:runtime.Stack(buffer, true)]), "\n\n") {
		if strings.Contains(stack, "tarn/pkg/cacher.") {
			stacks = append(stacks, stack)
		}
	}
	return stacks
}
