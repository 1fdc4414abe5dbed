// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/kubernetes"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tarn-dev/tarn/envtest/internal/etcd"
	"github.com/tarn-dev/tarn/envtest/internal/storagekey"
	"github.com/tarn-dev/tarn/pkg/cache"
)

// pipelinePatience bounds the way of an object, which takes milliseconds.
const pipelinePatience = 20 * time.Second

// travellerName is the object that is followed.
var travellerName = client.ObjectKey{Namespace: "default", Name: "traveller"}

func newTraveller() *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: travellerName.Namespace, Name: travellerName.Name}}
}

// TestPipeline follows an object from etcd to a reader of the cache, and compares its resource version at each place:
// in what passes by there, and in what is read there afterwards. With -v it prints them.
func TestPipeline(t *testing.T) {
	for _, name := range []string{tarnWatchCache, upstreamWatchCache, noWatchCache} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), pipelinePatience)
			t.Cleanup(cancel)
			decorate, err := DecoratorNamed(name)
			fatal(t, err)
			taps := &taps{decorate: decorate}
			env := StartWith(t, Options{StorageDecorator: taps.tap})
			maps := kubernetes.NewForConfigOrDie(env.Config()).CoreV1().ConfigMaps(travellerName.Namespace)
			places := pipeline(ctx, t, env, taps)

			made, err := maps.Create(ctx, newTraveller(), metav1.CreateOptions{})
			fatal(t, err)
			arrive(ctx, t, places, passage{watch.Added, made.ResourceVersion}, made.ResourceVersion)
			made.Data = map[string]string{"key": "value"}
			made, err = maps.Update(ctx, made, metav1.UpdateOptions{})
			fatal(t, err)
			arrive(ctx, t, places, passage{watch.Modified, made.ResourceVersion}, made.ResourceVersion)
			fatal(t, maps.Delete(ctx, made.Name, metav1.DeleteOptions{}))
			// The answer does not say at which version that was; etcd does.
			deleted := arrive(ctx, t, places, passage{change: watch.Deleted}, absent)
			if deleted.version == made.ResourceVersion {
				t.Errorf("the deletion has version %s, as the object before", deleted.version)
			}
		})
	}
}

// absent is the version that is read of an object that is not there.
const absent = "absent"

// passage is a change of the object that passes a place.
type passage struct {
	change  watch.EventType
	version string
}

// place is one place on the way. next waits for the next change there, read returns the version that is there now.
type place struct {
	name string
	next func(context.Context) (passage, error)
	read func(context.Context) (string, error)
}

// arrive waits at each place, from the source on, until the change has come there, and returns it. A version that is
// empty is the one at the source. left is what has to be read there then.
func arrive(ctx context.Context, t *testing.T, places []place, want passage, left string) passage {
	t.Helper()
	var line strings.Builder
	for _, s := range places {
		passed, err := s.next(ctx)
		fatal(t, err)
		if want.version == "" {
			want.version = passed.version
		}
		if passed != want {
			t.Errorf("%s: %s at version %s passed, want %s at %s", s.name, passed.change, passed.version, want.change, want.version)
		}
		read, err := s.read(ctx)
		fatal(t, err)
		if read != left {
			t.Errorf("%s: version %s is there, want %s", s.name, read, left)
		}
		fmt.Fprintf(&line, "   %s: %s, then %s", s.name, passed.version, read)
	}
	t.Logf("%-8s%s", want.change, line.String())
	return want
}

func fatal(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// pipeline opens a watch at each place. The first is etcd, the last what a user's code reads.
func pipeline(ctx context.Context, t *testing.T, env *Environment, taps *taps) []place {
	t.Helper()
	kube := kubernetes.NewForConfigOrDie(env.Config())
	empty, err := kube.CoreV1().ConfigMaps(travellerName.Namespace).List(ctx, metav1.ListOptions{})
	fatal(t, err)
	return []place{
		etcdPlace(ctx, t, env, taps),
		storagePlace(ctx, t, "etcd3 store", taps.below, taps.key(t), empty.ResourceVersion),
		storagePlace(ctx, t, "Cacher", taps.above, taps.key(t), empty.ResourceVersion),
		httpPlace(ctx, t, kube, empty.ResourceVersion),
		informerPlace(ctx, t, env),
	}
}

// taps are the storages of ConfigMaps, below a decorator and above it.
type taps struct {
	decorate StorageDecorator

	mu           sync.Mutex
	below, above storage.Interface                    // guarded by mu until the environment runs
	keyFunc      func(runtime.Object) (string, error) // as well
}

// tap is a StorageDecorator.
func (p *taps) tap(resource schema.GroupResource, store generic.StorageDecorator) generic.StorageDecorator {
	if (resource != schema.GroupResource{Resource: "configmaps"}) {
		return p.decorate(resource, store)
	}
	note := func(below bool, next generic.StorageDecorator) generic.StorageDecorator {
		return func(
			config *storagebackend.ConfigForResource, prefix string, keyFunc func(runtime.Object) (string, error),
			newFunc, newListFunc func() runtime.Object, attributes storage.AttrFunc, triggers storage.IndexerFuncs,
			indexers *toolscache.Indexers,
		) (storage.Interface, factory.DestroyFunc, error) {
			made, destroy, err := next(config, prefix, keyFunc, newFunc, newListFunc, attributes, triggers, indexers)
			p.mu.Lock()
			defer p.mu.Unlock()
			p.keyFunc = keyFunc
			if below {
				p.below = made
			} else {
				p.above = made
			}
			return made, destroy, err
		}
	}
	return note(false, p.decorate(resource, note(true, store)))
}

// key is the traveller's, without the prefix that etcd3 adds.
func (p *taps) key(t *testing.T) string {
	t.Helper()
	key, err := p.keyFunc(newTraveller())
	fatal(t, err)
	return key
}

// etcdPlace asks etcd itself, by function calls as the stores do.
func etcdPlace(ctx context.Context, t *testing.T, env *Environment, taps *taps) place {
	t.Helper()
	client := env.running.etcd.Client()
	t.Cleanup(func() { etcd.CloseClient(client) })
	key := storagekey.DefaultRoot + taps.key(t)
	changes := client.Watch(ctx, key)
	return place{
		name: "etcd",
		next: func(ctx context.Context) (passage, error) {
			response, err := receive(ctx, changes)
			if err != nil || len(response.Events) != 1 {
				return passage{}, errors.Join(fmt.Errorf("etcd sent %d events of %s", len(response.Events), key), err, response.Err())
			}
			event := response.Events[0]
			change := watch.Modified
			switch {
			case event.Type == clientv3.EventTypeDelete:
				change = watch.Deleted
			case event.IsCreate():
				change = watch.Added
			}
			return passage{change, strconv.FormatInt(event.Kv.ModRevision, 10)}, nil
		},
		read: func(ctx context.Context) (string, error) {
			response, err := client.KV.Get(ctx, key)
			if err != nil || len(response.Kvs) == 0 {
				return absent, err
			}
			return strconv.FormatInt(response.Kvs[0].ModRevision, 10), nil
		},
	}
}

// storagePlace is a storage.Interface. What it has now is read at version "0", which is a Cacher's own state.
func storagePlace(ctx context.Context, t *testing.T, name string, s storage.Interface, key, since string) place {
	t.Helper()
	w, err := s.Watch(ctx, key, storage.ListOptions{ResourceVersion: since, Predicate: storage.Everything})
	fatal(t, err)
	t.Cleanup(w.Stop)
	return place{
		name: name,
		next: nextOf(w),
		read: func(ctx context.Context) (string, error) {
			found := &corev1.ConfigMap{}
			err := s.Get(ctx, key, storage.GetOptions{ResourceVersion: "0"}, found)
			if storage.IsNotFound(err) {
				return absent, nil
			}
			return found.ResourceVersion, err
		},
	}
}

// httpPlace is the API. What it has now is in a list at version "0".
func httpPlace(ctx context.Context, t *testing.T, kube kubernetes.Interface, since string) place {
	t.Helper()
	maps := kube.CoreV1().ConfigMaps(travellerName.Namespace)
	selector := fields.OneTermEqualSelector("metadata.name", travellerName.Name).String()
	w, err := maps.Watch(ctx, metav1.ListOptions{ResourceVersion: since, FieldSelector: selector})
	fatal(t, err)
	t.Cleanup(w.Stop)
	return place{
		name: "HTTP",
		next: nextOf(w),
		read: func(ctx context.Context) (string, error) {
			list, err := maps.List(ctx, metav1.ListOptions{ResourceVersion: "0", FieldSelector: selector})
			if err != nil || len(list.Items) == 0 {
				return absent, err
			}
			return list.Items[0].ResourceVersion, nil
		},
	}
}

// nextOf reads the events of a watch.
func nextOf(w watch.Interface) func(context.Context) (passage, error) {
	return func(ctx context.Context) (passage, error) {
		event, err := receive(ctx, w.ResultChan())
		for err == nil && event.Type == watch.Bookmark { // etcd tells all watches how far it is when one asks
			event, err = receive(ctx, w.ResultChan())
		}
		if err != nil {
			return passage{}, err
		}
		obj, ok := event.Object.(metav1.Object)
		if cached, is := event.Object.(runtime.CacheableObject); is {
			obj, ok = cached.GetObject().(metav1.Object)
		}
		if !ok {
			return passage{}, fmt.Errorf("the watch gave %s %#v", event.Type, event.Object)
		}
		return passage{event.Type, obj.GetResourceVersion()}, nil
	}
}

// informerPlace is a cache of a client: its event handlers and its reader. Reflector and informer are below.
func informerPlace(ctx context.Context, t *testing.T, env *Environment) place {
	t.Helper()
	c, err := cache.New(env.Config(), cache.Options{})
	fatal(t, err)
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- c.Start(running) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	informer, err := c.GetInformer(ctx, &corev1.ConfigMap{}) // is synced
	fatal(t, err)
	passages := make(chan passage, 10)
	note := func(change watch.EventType, raw any) {
		if obj, ok := raw.(client.Object); ok && client.ObjectKeyFromObject(obj) == travellerName {
			passages <- passage{change, obj.GetResourceVersion()}
		}
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { note(watch.Added, obj) },
		UpdateFunc: func(_, obj any) { note(watch.Modified, obj) },
		DeleteFunc: func(obj any) { note(watch.Deleted, obj) },
	})
	fatal(t, err)
	return place{
		name: "informer",
		next: func(ctx context.Context) (passage, error) { return receive(ctx, passages) },
		read: func(ctx context.Context) (string, error) {
			found := &corev1.ConfigMap{}
			err := c.Get(ctx, travellerName, found)
			if apierrors.IsNotFound(err) {
				return absent, nil
			}
			return found.ResourceVersion, err
		},
	}
}

// receive returns the next value of a channel.
func receive[T any](ctx context.Context, from <-chan T) (value T, err error) {
	select {
	case value, ok := <-from:
		if !ok {
			err = errors.New("the channel is closed")
		}
		return value, err
	case <-ctx.Done():
		return value, context.Cause(ctx)
	}
}
