// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package custom

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"
)

// makeStore makes a store that counts how often it is destroyed.
func makeStore(c *Stores, resource schema.GroupResource, destroyed *int) (func(), error) {
	_, destroy, err := c.Track(resource, func(
		*storagebackend.ConfigForResource, string, func(runtime.Object) (string, error), func() runtime.Object,
		func() runtime.Object, storage.AttrFunc, storage.IndexerFuncs, *cache.Indexers,
	) (storage.Interface, factory.DestroyFunc, error) {
		return nil, func() { *destroyed++ }, nil
	})(nil, "", nil, nil, nil, nil, nil, nil)
	return destroy, err
}

func TestCustomStores(t *testing.T) {
	widgets := schema.GroupResource{Group: "example.com", Resource: "widgets"}
	for name, c := range map[string]struct {
		after time.Duration // until the owner destroys the store
		want  time.Duration // that close takes
	}{
		"destroyed before":      {0, 0},
		"destroyed soon":        {time.Second, time.Second},
		"of an owner that left": {time.Hour, ReleasePatience},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var stores Stores
				destroyed := 0
				destroy, err := makeStore(&stores, widgets, &destroyed)
				if err != nil || stores.Count(widgets) != 1 {
					t.Fatalf("made %d stores: %v", stores.Count(widgets), err)
				}
				time.AfterFunc(c.after, destroy)
				synctest.Wait()
				stores.Refuse()
				if _, err := makeStore(&stores, widgets, &destroyed); !errors.Is(err, context.Canceled) {
					t.Errorf("a store could be made: %v", err)
				}
				began := time.Now()
				stores.Close(ReleasePatience)
				if took := time.Since(began); took != c.want {
					t.Errorf("close took %s, want %s", took, c.want)
				}
				destroy()
				if destroyed != 1 {
					t.Errorf("the store was destroyed %d times", destroyed)
				}
			})
		})
	}
}

// blockingStore answers reads when it is told to.
type blockingStore struct {
	storage.Interface
	answer chan struct{}
}

func (s blockingStore) Get(context.Context, string, storage.GetOptions, runtime.Object) error {
	<-s.answer
	return nil
}

func (s blockingStore) GetList(context.Context, string, storage.ListOptions, runtime.Object) error {
	<-s.answer
	return nil
}

func TestCustomStoreOutlivesItsReads(t *testing.T) {
	for name, read := range map[string]func(storage.Interface) error{
		"Get":     func(s storage.Interface) error { return s.Get(t.Context(), "one", storage.GetOptions{}, nil) },
		"GetList": func(s storage.Interface) error { return s.GetList(t.Context(), "", storage.ListOptions{}, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				answer, destroyed := make(chan struct{}), false
				store := newCustomStore(blockingStore{answer: answer}, func() { destroyed = true })
				var got error
				go func() { got = read(store) }()
				synctest.Wait()
				go store.destroy()
				synctest.Wait()
				if destroyed {
					t.Error("the store was destroyed under a read")
				}
				if err := read(store); !apierrors.IsTooManyRequests(err) {
					t.Errorf("a read could begin: %v", err)
				}
				close(answer)
				synctest.Wait()
				if got != nil || !destroyed {
					t.Errorf("the read gave %v; destroyed: %t", got, destroyed)
				}
			})
		})
	}
}
